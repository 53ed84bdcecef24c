//! `steady gains`: look at gain tables, compare, check and convert them; put them on a drone.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;
use steady_common::GainTable;
use steady_common::gains::GAINS;

use super::drone::Address;
use super::tables::{self, Writing};
use super::{Output, check_each};
use crate::{files, gains_file};

/// Look at gain tables, compare, check and convert them; put them on a drone.
///
/// A TABLE is a TOML file, a page for the drone (.bin), or the word `nominal`.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print a table: values, units, nominal values and bounds.
    Show {
        /// The table.
        table: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print what differs between two tables.
    Diff {
        /// The first table.
        a: String,
        /// The second table.
        b: String,
    },
    /// Check tables as the drone does; exit status 1 if one is refused.
    Check {
        /// The tables.
        #[arg(required = true)]
        tables: Vec<String>,
    },
    /// Make a page for the drone (.bin) from a table.
    Pack {
        /// The table.
        table: String,
        /// Where the page goes.
        #[arg(short, long)]
        output: PathBuf,
        /// Sequence number; the drone flies the highest. Default: the table's own.
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..i64::from(u32::MAX)))]
        sequence: Option<u32>,
        /// Replace an existing file.
        #[arg(long)]
        force: bool,
    },
    /// Write a table as TOML, to a file or to standard output.
    Unpack {
        /// The table.
        table: String,
        #[command(flatten)]
        output: Output,
    },
    /// Write a table to a drone, read it back, and make sure that it flies it.
    ///
    /// The file is checked first; then the drone's tables are read and kept as files, the difference
    /// is shown, and the drone restarted into its bootloader and back.
    Flash {
        /// The table.
        table: String,
        #[command(flatten)]
        writing: Writing,
    },
    /// Go back to an older table of a drone: it is written again with a new number.
    Revert {
        /// Its number; default: the one before the newest.
        #[arg(long)]
        to: Option<u32>,
        #[command(flatten)]
        writing: Writing,
    },
    /// Read the table a drone flies, as TOML or, for a file that ends in .bin, as a page.
    Read {
        /// Another table, by its number.
        #[arg(long)]
        sequence: Option<u32>,
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        address: Address,
    },
    /// Print all tables a drone has.
    History {
        /// Print JSON, one object per line.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        address: Address,
    },
    /// Fly a table's gains without flashing them, until the next restart.
    ///
    /// The drone takes them over when it is disarmed or hovers, and its guard watches them.
    Try {
        /// The table.
        #[arg(required_unless_present = "off", conflicts_with = "off")]
        table: Option<String>,
        /// Go back to the table in the flash.
        #[arg(long)]
        off: bool,
        #[command(flatten)]
        address: Address,
    },
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        match self.verb {
            Verb::Show { table, json } => show(&gains_file::load(&table)?, json),
            Verb::Diff { a, b } => diff(&gains_file::load(&a)?, &gains_file::load(&b)?),
            Verb::Check { tables } => {
                return check_each("tables", &tables, |name| {
                    Ok(format!("sequence {}", gains_file::load(name)?.sequence))
                });
            }
            Verb::Pack { table, output, sequence, force } => {
                let mut table = gains_file::load(&table)?;
                table.sequence = sequence.unwrap_or(table.sequence);
                files::write_new(&output, &table.encode(), force)?;
                println!("{}: sequence {}, source {:#018x}", output.display(), table.sequence, table.source);
            }
            Verb::Unpack { table, output } => {
                output.write(&gains_file::to_toml(&gains_file::load(&table)?))?;
            }
            Verb::Flash { table, writing } => tables::flash(&table, &writing)?,
            Verb::Revert { to, writing } => tables::revert(to, &writing)?,
            Verb::Read { sequence, output, address } => tables::read(&address, sequence, &output)?,
            Verb::History { json, address } => tables::history(&address, json)?,
            Verb::Try { table, off: _, address } => tables::try_out(table.as_deref(), &address)?,
        }
        Ok(())
    }
}

fn show(table: &GainTable, as_json: bool) {
    let rows = GAINS.iter().zip(table.gains.to_array());
    if as_json {
        let gains: serde_json::Map<_, _> = rows.map(|(g, v)| (g.name.to_owned(), json!(v))).collect();
        println!(
            "{}",
            json!({
                "sequence": table.sequence,
                "source": format!("{:#018x}", table.source),
                "mass_kg": table.vehicle.mass,
                "gains": gains,
            })
        );
        return;
    }
    println!("sequence {}, source {:#018x}, mass {} kg", table.sequence, table.source, table.vehicle.mass);
    println!("{:<15} {:>10} {:<10} {:>10} {:>6}   bounds", "gain", "value", "unit", "nominal", "ratio");
    for (g, value) in rows {
        println!(
            "{:<15} {value:>10.5} {:<10} {:>10.5} {:>6.2}   {:.5} to {:.5}",
            g.name,
            g.unit,
            g.nominal,
            value / g.nominal,
            g.min,
            g.max
        );
    }
}

pub(super) fn diff(a: &GainTable, b: &GainTable) {
    let mut same = true;
    for ((g, a), b) in GAINS.iter().zip(a.gains.to_array()).zip(b.gains.to_array()) {
        if a.to_bits() != b.to_bits() {
            same = false;
            println!("{:<15} {a:>10.5} -> {b:>10.5} {:<10} x {:.3}", g.name, g.unit, b / a);
        }
    }
    if a.vehicle != b.vehicle {
        same = false;
        println!(
            "{:<15} {:>10.5} -> {:>10.5} kg, or integral limits",
            "vehicle", a.vehicle.mass, b.vehicle.mass
        );
    }
    if same {
        println!("no difference");
    }
}
