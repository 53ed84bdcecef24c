//! `steady world`: the worlds a drone may be simulated in.

use anyhow::Result;
use clap::{Args, Subcommand};
use steady_sim::World;

use super::{Output, check_each};

/// List, print, check and sample simulated worlds.
///
/// A WORLD is the name of a shipped one or the path of a TOML file, which states only what differs
/// from its `base`.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
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
        #[command(flatten)]
        output: Output,
    },
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        match self.verb {
            Verb::List => {
                for name in World::names() {
                    println!("{name:<16} {}", World::named(name)?.summary);
                }
            }
            Verb::Show { world } => print!("{}", World::load(&world)?.to_toml()),
            Verb::Check { worlds } => {
                return check_each("worlds", &worlds, |name| Ok(World::load(name)?.name));
            }
            Verb::Sample { seed, output } => output.write(&World::sample(seed).to_toml())?,
        }
        Ok(())
    }
}
