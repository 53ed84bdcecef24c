//! The verbs of `steady gains` that talk to a drone.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use steady_common::GainTable;
use steady_common::gain_table::PAGES_PER_SECTOR;
use steady_radio::Error;
use steady_radio::client::Client;
use steady_radio::tables::{self, Area, MIN_BATTERY_V, PageContent, Survey};

use super::drone::{Address, Consent, Progress};
use super::gains::diff;
use crate::interrupt::InBootloader;
use crate::{files, gains_file};

/// How a table is written.
#[derive(Debug, Args)]
pub(super) struct Writing {
    #[command(flatten)]
    address: Address,
    #[command(flatten)]
    consent: Consent,
    /// Folder for the tables that were on the drone before, as files.
    #[arg(long, value_name = "FOLDER", default_value = "tables")]
    backup: PathBuf,
    /// Refuse below this battery voltage.
    #[arg(long, value_name = "V", default_value_t = MIN_BATTERY_V)]
    min_battery: f32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Writes a table that is in a file.
pub(super) fn flash(name: &str, writing: &Writing) -> Result<()> {
    // The file is checked before the drone is touched.
    let table = gains_file::load(name)?;
    let mut client = writing.address.connect()?;
    client.platform()?;
    let survey = look(&mut client, writing)?;
    write(&mut client, &survey, &table, name, writing)
}

/// Writes a table again that is on the drone: the one before the active one, or one by its number.
pub(super) fn revert(to: Option<u32>, writing: &Writing) -> Result<()> {
    let mut client = writing.address.connect()?;
    client.platform()?;
    let survey = look(&mut client, writing)?;
    let tables = survey.area.tables();
    let found = match to {
        Some(sequence) => tables.iter().find(|(_, t)| t.sequence == sequence),
        None => tables.len().checked_sub(2).and_then(|n| tables.get(n)),
    };
    let Some((_, table)) = found else {
        let numbers: Vec<String> = tables.iter().map(|(_, t)| t.sequence.to_string()).collect();
        bail!("the drone has no such table to go back to; it has: {}", numbers.join(", "));
    };
    write(&mut client, &survey, table, &format!("table {}", table.sequence), writing)
}

/// Reads the drone's tables, and refuses a drone in a wrong state.
fn look(client: &mut Client, writing: &Writing) -> Result<Survey> {
    let survey = {
        let mut progress = Progress::new();
        Survey::take(client, &mut |step| progress.step(step))?
    };
    survey.check(writing.min_battery)?;
    Ok(survey)
}

fn write(
    client: &mut Client,
    survey: &Survey,
    table: &GainTable,
    name: &str,
    writing: &Writing,
) -> Result<()> {
    let scan = survey.area.scan();
    let sequence = scan.next_sequence();
    let present = survey.area.tables().last().map_or_else(GainTable::built_in, |(_, t)| *t);
    if !writing.json {
        println!("{name} becomes table {sequence}; against {}:", shown(present.sequence));
        diff(&present, table);
    }
    let erases = if scan.next.erases { " (its sector is erased first)" } else { "" };
    eprintln!("it goes to page {}{erases}; battery {:.2} V", scan.next.index, survey.battery_v);
    if !writing.consent.ask(&format!("Write it to {}?", writing.address.uri))? {
        return Ok(());
    }
    let kept = keep(&survey.area, &writing.backup)?;
    let written = {
        let _waits = InBootloader::begin();
        let mut progress = Progress::new();
        tables::write(client, survey, table, &mut |step| progress.step(step))?
    };
    if writing.json {
        println!(
            "{}",
            json!({
                "sequence": written.sequence,
                "page": written.page,
                "is_erased": written.erased,
                "bad_pages": written.bad_pages,
                "seconds": written.seconds,
                "packets_sent": written.packets.0,
                "packets_received": written.packets.1,
                "backup": kept.iter().map(|p| p.display().to_string()).collect::<Vec<_>>(),
            })
        );
    } else {
        println!(
            "table {} is on page {}, was read back, and flies; {:.2} s in all, {} packets sent, {} received",
            written.sequence, written.page, written.seconds, written.packets.0, written.packets.1
        );
        if written.bad_pages > 0 {
            println!("{} pages failed to hold it and were skipped", written.bad_pages);
        }
    }
    Ok(())
}

fn shown(sequence: u32) -> String {
    if sequence == 0 { "the built-in gains".to_owned() } else { format!("table {sequence}") }
}

/// Saves a drone's tables as files; existing files stay.
fn keep(area: &Area, folder: &Path) -> Result<Vec<PathBuf>> {
    let tables = area.tables();
    if !tables.is_empty() {
        files::make_folder(folder)?;
    }
    let mut kept = Vec::new();
    for (_, table) in tables {
        let page = table.encode();
        let crc = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC).checksum(&page);
        let path = folder.join(format!("table-{:06}-{crc:08x}.bin", table.sequence));
        if !path.exists() {
            files::write(&path, &page)?;
        }
        kept.push(path);
    }
    Ok(kept)
}

/// Prints the table a drone flies, or another one it has, or writes it to a file.
pub(super) fn read(address: &Address, sequence: Option<u32>, output: &super::Output) -> Result<()> {
    let mut client = address.connect()?;
    client.platform()?;
    let active = client.active_table()?;
    let area = read_area(&mut client)?;
    let wanted = sequence.unwrap_or(active.sequence);
    let table = match area.tables().into_iter().find(|(_, t)| t.sequence == wanted) {
        Some((_, table)) => table,
        None if wanted == 0 => GainTable { sequence: 1, ..GainTable::built_in() },
        None => bail!("the drone has no table {wanted}; `steady gains history` shows what it has"),
    };
    if wanted == 0 {
        eprintln!("the drone has no table: these are the built-in gains");
    }
    match &output.output {
        Some(path) if path.extension().is_some_and(|e| e == "bin") => {
            files::write_new(path, &table.encode(), output.force)
        }
        _ => output.write(&gains_file::to_toml(&table)),
    }
}

fn read_area(client: &mut Client) -> Result<Area, Error> {
    let mut progress = Progress::new();
    tables::read(client, &mut |step| progress.step(step))
}

/// Prints all tables of a drone.
pub(super) fn history(address: &Address, as_json: bool) -> Result<()> {
    let mut client = address.connect()?;
    client.platform()?;
    let active = client.active_table()?;
    let area = read_area(&mut client)?;
    for (page, t) in area.tables() {
        let is_active = t.sequence == active.sequence;
        if as_json {
            println!(
                "{}",
                json!({
                    "sequence": t.sequence,
                    "page": page,
                    "source": format!("{:#018x}", t.source),
                    "mass_kg": t.vehicle.mass,
                    "is_active": is_active,
                    "is_proven": is_active.then_some(active.is_proven),
                })
            );
        } else {
            let state = match (is_active, active.is_proven) {
                (true, true) => "  flies, proven",
                (true, false) => "  flies, not yet proven",
                _ => "",
            };
            println!("table {:>6}  page {page:>3}  source {:#018x}{state}", t.sequence, t.source);
        }
    }
    let scan = area.scan();
    if !as_json {
        if active.sequence == 0 {
            println!("flies the built-in gains");
        }
        for page in 0..2 * PAGES_PER_SECTOR {
            if let PageContent::Damaged(error) = area.page(page) {
                println!("page {page:>3}  damaged: {error}");
            }
        }
        let left = PAGES_PER_SECTOR - scan.next.index % PAGES_PER_SECTOR;
        println!("the next table goes to page {}; {left} pages are left in its sector", scan.next.index);
    }
    Ok(())
}

/// Flies a table's gains from memory, or ends that.
pub(super) fn try_out(table: Option<&str>, address: &Address) -> Result<()> {
    let table = table.map(gains_file::load).transpose()?;
    let mut client = address.connect()?;
    client.platform()?;
    let Some(table) = table else {
        tables::end_try_out(&mut client)?;
        println!("the drone flies {} again", shown(client.active_table()?.sequence));
        return Ok(());
    };
    let area = read_area(&mut client)?;
    let present = area.tables().last().map_or_else(GainTable::built_in, |(_, t)| *t);
    diff(&present, &table);
    if present.vehicle != table.vehicle {
        eprintln!(
            "note: mass and integral limits stay the active table's; only `steady gains flash` changes them"
        );
    }
    tables::try_out(&mut client, &table)?;
    println!("the drone flies these gains until it restarts, its guard trips, or `steady gains try --off`");
    Ok(())
}
