//! Printing, when the reader may have gone.
//!
//! `steady log export … | head` closes the pipe while we still write. The standard library's macros panic
//! then; those of this crate, which hide them, end the command quietly instead. What must not be cut short
//! is not: a training saves first, and a drone in its bootloader gets its firmware back.

use std::any::Any;
use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

use crate::cmd;

/// What a shell says of a program that a closed pipe has ended: 128 and the number of SIGPIPE.
const CLOSED_PIPE_STATUS: u8 = 141;

macro_rules! print {
    ($($arg:tt)*) => { $crate::out::print(format_args!($($arg)*)) };
}

macro_rules! println {
    () => { $crate::out::print(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::out::print(format_args!("{}\n", format_args!($($arg)*))) };
}

macro_rules! eprint {
    ($($arg:tt)*) => { $crate::out::complain(format_args!($($arg)*)) };
}

macro_rules! eprintln {
    ($($arg:tt)*) => { $crate::out::complain(format_args!("{}\n", format_args!($($arg)*))) };
}

/// How a command that cannot print unwinds; [`guarded`] knows it.
struct Ended(u8);

/// Prints on standard output.
pub fn print(text: Arguments<'_>) {
    judge(stdout().lock().write_fmt(text));
}

/// Hands on what is printed but not yet written.
pub fn flush() {
    judge(stdout().lock().flush());
}

/// Prints on standard error; when nobody reads that, there is nobody to tell.
pub fn complain(text: Arguments<'_>) {
    let _ = stderr().lock().write_fmt(text);
}

fn judge(written: std::io::Result<()>) {
    let Err(error) = written else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        if !must_go_on() {
            resume_unwind(Box::new(Ended(CLOSED_PIPE_STATUS)));
        }
    } else {
        eprintln!("error: standard output cannot be written: {error}");
        resume_unwind(Box::new(Ended(1)));
    }
}

/// True when something has to come to an end first, as after Ctrl-C.
fn must_go_on() -> bool {
    #[cfg(feature = "train")]
    {
        use crate::train::run::interrupt;
        if interrupt::can_wait() {
            interrupt::ask();
            return true;
        }
    }
    cmd::drone::in_bootloader()
}

/// Runs a command; one that could not print has its exit status for that.
///
/// Unwinding, not leaving: half-written files go and programs that were started end, as after an error.
pub fn guarded(command: impl FnOnce() -> ExitCode) -> ExitCode {
    let ended = |payload: &(dyn Any + Send)| payload.downcast_ref::<Ended>().map(|Ended(status)| *status);
    match catch_unwind(AssertUnwindSafe(command)) {
        Ok(code) => code,
        Err(payload) => match ended(payload.as_ref()) {
            Some(status) => ExitCode::from(status),
            None => resume_unwind(payload),
        },
    }
}
