//! Printing, also when nobody reads any more, and tables.
//!
//! `steady log export … | head` closes the pipe while we still write. The standard library's macros panic
//! then; those of this crate, which hide them, end the command quietly instead. Work that must not be cut
//! short goes on: a training saves first, and a drone in its bootloader gets its firmware back.

use std::fmt::{self, Arguments};
use std::io::{ErrorKind, Write, stderr, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

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

/// A table in Markdown; columns of numbers are aligned right.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows yet.
    pub fn new(headings: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut table = Self { rows: Vec::new() };
        table.row(headings);
        table
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_number =
            |cell: &str| cell.trim_start_matches(['-', '+']).starts_with(|c: char| c.is_ascii_digit());
        let columns: Vec<(usize, bool)> = (0..self.rows.first().map_or(0, Vec::len))
            .map(|column| {
                let cells = || self.rows.iter().filter_map(|row| row.get(column));
                let width = cells().map(|cell| cell.chars().count()).max().unwrap_or(0).max(3);
                let has_values = cells().skip(1).any(|cell| is_number(cell));
                (width, has_values && cells().skip(1).all(|c| c.is_empty() || c == "–" || is_number(c)))
            })
            .collect();
        for (number, row) in self.rows.iter().enumerate() {
            for (cell, (width, is_right)) in row.iter().zip(&columns) {
                if *is_right {
                    write!(f, "| {cell:>width$} ")?
                } else {
                    write!(f, "| {cell:<width$} ")?
                };
            }
            writeln!(f, "|")?;
            if number == 0 {
                for (width, is_right) in &columns {
                    write!(f, "|{:-<1$}{2}", "", width + 1, if *is_right { ':' } else { '-' })?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_aligned_right() {
        let mut table = Table::new(["world", "error", "note"]);
        table.row(["paper", "-1.25 ± 0.5", "3 flights"]);
        table.row(["nominal".to_owned(), "–".to_owned(), "none".to_owned()]);
        assert_eq!(
            table.to_string(),
            "| world   |       error | note      |\n\
             |---------|------------:|-----------|\n\
             | paper   | -1.25 ± 0.5 | 3 flights |\n\
             | nominal |           – | none      |\n"
        );
    }
}
