//! The compiler that figures were measured with.

use steady_test_support::RUSTC;

use crate::setup::say;

/// The compiler of every budget (`cargo xtask size`), benchmark target and bit-exactness claim in the docs.
/// Another one may be as good; it has not been measured.
pub(crate) const MEASURED_WITH: &str = "rustc 1.95.0 (59807616e 2026-04-14)";

/// Says when another compiler is in use.
pub(crate) fn note() {
    if RUSTC != MEASURED_WITH {
        say("compiler", note_for(RUSTC));
    }
}

fn note_for(compiler: &str) -> String {
    format!(
        "note: this is {compiler}; budgets, benchmark targets and bit-exact results were measured with {MEASURED_WITH}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_names_both() {
        let note = note_for("rustc 9.9.9");
        assert!(note.contains("rustc 9.9.9") && note.contains(MEASURED_WITH));
        assert!(RUSTC.starts_with("rustc "), "{RUSTC}");
    }
}
