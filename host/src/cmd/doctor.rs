//! `steady doctor`: is everything here that the other verbs and the builds need?

use anyhow::{Result, bail};
use clap::Args;
use steady_doctor::{Caller, examine, report};

use crate::fly;

/// Check this machine: what trains, builds, flies, and talks to a drone.
///
/// Exits with status 1 when something required is missing; every finding comes with its fix.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        let findings = examine(Caller {
            libtorch: libtorch(),
            virtual_crazyflie: fly::find_program().ok(),
            image: fly::find_image(None).ok(),
        });
        if self.json {
            println!("{}", serde_json::to_string_pretty(&findings)?);
        } else {
            print!("{}", report(&findings));
        }
        let missing: Vec<&str> = findings.iter().filter(|f| f.required && !f.ok).map(|f| f.name).collect();
        if !missing.is_empty() {
            bail!("required, but missing: {}", missing.join(", "));
        }
        Ok(())
    }
}

#[cfg(feature = "train")]
fn libtorch() -> Option<Result<String>> {
    use crate::torch;
    Some(torch::self_check().map(|()| torch::libtorch_version().to_owned()))
}

#[cfg(not(feature = "train"))]
fn libtorch() -> Option<Result<String>> {
    None
}
