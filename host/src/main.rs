//! The `steady` command; all of it is in the library.

fn main() -> std::process::ExitCode {
    steady::run()
}
