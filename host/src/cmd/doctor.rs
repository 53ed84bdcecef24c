//! `steady doctor`: is everything here that the other verbs and the builds need?

use anyhow::{Result, bail};
use clap::Args;

use crate::doctor::{examine, report};

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
        let findings = examine();
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
