//! Printing, also when nobody reads any more.
//!
//! `steady log export … | head` closes the pipe while we still write. The standard library's macros panic
//! then; those of this crate, which hide them, end the command quietly instead. Work that must not be cut
//! short goes on: a training saves first, and a drone in its bootloader gets its firmware back.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

pub use steady_data::table::Table;

use crate::interrupt;

/// Exit status of a program that a closed pipe has ended: 128 and the number of SIGPIPE.
const CLOSED_PIPE_STATUS: u8 = 141;

macro_rules! print {
    ($($arg:tt)*) => { $crate::out::print(format_args!($($arg)*)) };
}

macro_rules! println {
    () => { $crate::out::print(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::out::print(format_args!("{}\n", format_args!($($arg)*))) };
}

macro_rules! eprint {
    ($($arg:tt)*) => { $crate::out::print_error(format_args!($($arg)*)) };
}

macro_rules! eprintln {
    ($($arg:tt)*) => { $crate::out::print_error(format_args!("{}\n", format_args!($($arg)*))) };
}

/// The panic payload of a command that cannot print; [`guarded`] catches it.
struct CannotPrint(u8);

pub(crate) fn print(text: Arguments<'_>) {
    check(stdout().lock().write_fmt(text));
}

pub(crate) fn flush() {
    check(stdout().lock().flush());
}

/// Prints on standard error; when nobody reads that, there is nobody to tell.
pub(crate) fn print_error(text: Arguments<'_>) {
    let _ = stderr().lock().write_fmt(text);
}

fn check(written: std::io::Result<()>) {
    let Err(error) = written else { return };
    if error.kind() != ErrorKind::BrokenPipe {
        eprintln!("error: standard output cannot be written: {error}");
        resume_unwind(Box::new(CannotPrint(1)));
    }
    if !interrupt::on_closed_pipe() {
        resume_unwind(Box::new(CannotPrint(CLOSED_PIPE_STATUS)));
    }
}

/// Runs a command; one that could not print has its exit status for that.
///
/// It unwinds instead of exiting, so that half-written files are removed and child processes end, as after an
/// error.
pub(crate) fn guarded(command: impl FnOnce() -> ExitCode) -> ExitCode {
    match catch_unwind(AssertUnwindSafe(command)) {
        Ok(code) => code,
        Err(payload) => match payload.downcast_ref::<CannotPrint>() {
            Some(CannotPrint(status)) => ExitCode::from(*status),
            None => resume_unwind(payload),
        },
    }
}
