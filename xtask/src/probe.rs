//! `cargo xtask probe`: runs an image on a drone on a debug probe, with probe-rs. It is cargo's runner for the
//! firmware, so that `cargo run` without a probe says what to do instead.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{firmware, sh};

/// The processor, as probe-rs calls it.
const CHIP: &str = "STM32F405RG";
/// What one can do without a probe.
const WITHOUT: &str = "without a probe, over the radio: `cargo xtask firmware`, then `steady flash \
     target/firmware/steady.zip`; without a drone: `steady fly --task takeoff-land --out flight`";

/// Flash an image to a drone on a debug probe and print its log (cargo's runner for the firmware).
#[derive(Args)]
pub(crate) struct Cmd {
    /// The image, an ELF file.
    image: PathBuf,
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        let image = std::path::absolute(&self.image)
            .with_context(|| format!("cannot find {}", self.image.display()))?;
        if sh::find("probe-rs").is_none() {
            bail!("{}", missing_program());
        }
        let listed =
            sh::capture(sh::command("probe-rs").arg("list")).unwrap_or_else(|error| format!("{error:#}"));
        if !has_probe(&listed) {
            bail!("{}", missing_probe(&listed));
        }
        let image = if is_for_the_drone(&image) {
            image
        } else {
            println!(
                "other profiles break the budgets of flash and stack: the drone gets the image of `cargo xtask firmware`"
            );
            firmware::build()?.elf
        };
        let mut run = sh::command("probe-rs");
        run.args(["run", "--chip", CHIP]).arg(image);
        sh::run(&mut run).context(
            "the probe sees no drone, or lost it: is the drone on, the debug adapter the right way round, \
             and no other program on the probe?",
        )
    }
}

/// Whether an image was built with the profile `firmware`, the one whose budgets are checked.
fn is_for_the_drone(image: &Path) -> bool {
    image.parent().and_then(Path::file_name).is_some_and(|profile| profile == "firmware")
}

/// Whether `probe-rs list` names a probe: they are numbered in brackets.
fn has_probe(listed: &str) -> bool {
    listed.lines().any(|line| line.trim_start().starts_with('['))
}

fn missing_program() -> String {
    format!("probe-rs is not installed: `cargo install probe-rs-tools --locked`; {WITHOUT}")
}

fn missing_probe(listed: &str) -> String {
    let listed = listed.trim();
    format!(
        "no debug probe ({listed}): plug in an ST-Link, J-Link or CMSIS-DAP probe with the debug adapter and, \
         on Linux, allow it (https://probe.rs/docs/getting-started/probe-setup); {WITHOUT}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_probe_cargo_run_ends_in_what_to_do() {
        let config = std::fs::read_to_string(sh::root().join(".cargo/config.toml")).unwrap();
        assert!(config.contains("runner = \"cargo xtask probe\""), "cargo's runner for the firmware");
        for text in [missing_program(), missing_probe("No debug probes were found.")] {
            assert!(text.ends_with(WITHOUT) && WITHOUT.contains("steady flash"), "{text}");
        }
    }

    #[test]
    fn only_the_checked_profile_goes_on_a_drone() {
        assert!(is_for_the_drone(Path::new("target/thumbv7em-none-eabihf/firmware/steady-firmware")));
        for profile in ["release", "debug"] {
            assert!(!is_for_the_drone(
                &Path::new("target/thumbv7em-none-eabihf").join(profile).join("steady-firmware")
            ));
        }
    }

    #[test]
    fn probes_are_told_from_none() {
        assert!(!has_probe("No debug probes were found.") && !has_probe(""));
        assert!(has_probe(
            "The following debug probes were found:\n[0]: ST-Link V2 -- 0483:3748:1 (ST-LINK)"
        ));
    }
}
