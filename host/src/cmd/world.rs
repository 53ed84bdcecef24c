//! `steady world`: the worlds a drone may be simulated in.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use steady_sim::World;

use crate::files;

/// List, print, check and sample simulated worlds.
///
/// A WORLD is the name of a shipped one or the path of a TOML file, which states only what differs
/// from its `base`.
#[derive(Debug, Args)]
pub struct Cmd {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the shipped worlds.
    List,
    /// Print a world in full, as TOML.
    Show {
        /// The world.
        world: String,
    },
    /// Check world files; exit status 1 if one is not valid.
    Check {
        /// The worlds.
        #[arg(required = true)]
        worlds: Vec<String>,
    },
    /// Draw a random gap between simulator and reality.
    Sample {
        /// Same seed, same world.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Where the TOML goes; default standard output.
        #[arg(short, long)]
        output: Option<PathBuf>,
        /// Replace an existing file.
        #[arg(long)]
        force: bool,
    },
}

impl Cmd {
    /// Does it.
    ///
    /// # Errors
    /// If a world cannot be read or is not valid, or a file cannot be written.
    pub fn run(self) -> Result<()> {
        match self.verb {
            Verb::List => {
                for name in World::names() {
                    println!("{name:<16} {}", World::named(name)?.summary);
                }
            }
            Verb::Show { world } => print!("{}", World::load(&world)?.to_toml()),
            Verb::Check { worlds } => return check(&worlds),
            Verb::Sample { seed, output, force } => {
                let text = World::sample(seed).to_toml();
                match output {
                    Some(path) => files::write_new(&path, text.as_bytes(), force)?,
                    None => print!("{text}"),
                }
            }
        }
        Ok(())
    }
}

fn check(worlds: &[String]) -> Result<()> {
    let mut refused = 0;
    for name in worlds {
        match World::load(name) {
            Ok(world) => println!("{name}: ok, {}", world.name),
            Err(error) => {
                refused += 1;
                eprintln!("{error}");
            }
        }
    }
    if refused > 0 {
        bail!("{refused} of {} worlds refused", worlds.len());
    }
    Ok(())
}
