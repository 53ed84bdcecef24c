//! `cargo xtask demo`: set-up, then `steady demo` as an optimised build.

use anyhow::{Result, bail};
use clap::Args;

use crate::{setup, sh};

/// Set up what is missing, build, and run the demo.
///
/// All arguments go to `steady demo`; `cargo xtask demo -- --help` shows them.
#[derive(Args)]
pub(crate) struct Cmd {
    /// Arguments of `steady demo`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARG")]
    args: Vec<String>,
}

impl Cmd {
    /// Runs it; the demo's own exit status decides.
    pub(crate) fn run(self) -> Result<()> {
        // The demo flies no real firmware: only libtorch stands in its way.
        if !setup::run()?.libtorch {
            bail!("the demo cannot be built without libtorch (above)");
        }
        let mut cargo = sh::cargo();
        cargo.args(["run", "--release", "--locked", "--package", "steady", "--", "demo"]).args(self.args);
        sh::run(&mut cargo)
    }
}
