//! `steady info`: a drone's versions, state and gain table.

use anyhow::Result;
use clap::Args;
use serde_json::json;
use steady_common::value::Value;
use steady_radio::tables;

use super::drone::{Address, Progress};

/// What the values of `steady.propeller` mean.
const PROPELLERS: [&str; 3] =
    ["those of the 2.1+", "the original ones of the 2.1, 5 % less thrust", "the thrust upgrade kit"];

/// Show a drone: versions, battery, supervisor, active gain table and where it came from, link.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    #[command(flatten)]
    address: Address,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        let mut client = self.address.connect()?;
        let platform = client.platform()?;
        let battery_v = client.battery_v()?;
        let flags = client.flags()?;
        let is_steady = client.find_log("steady.table")?.is_some();
        let propellers = match client.param("steady.propeller").and_then(|param| client.get(param)) {
            Ok(Value::U8(kind)) if is_steady => PROPELLERS.get(usize::from(kind)).copied(),
            _ => None,
        };
        let (active, blockers, area, revision) = if is_steady {
            let mut progress = Progress::new();
            let area = tables::read(&mut client, &mut |step| progress.step(step))?;
            let revision = client.param("firmware.revision0")?;
            let revision = match client.get(revision)? {
                Value::U32(hash) => Some(format!("{hash:08x}")),
                _ => None,
            };
            (Some(client.active_table()?), client.blockers()?, Some(area), revision)
        } else {
            (None, String::new(), None, None)
        };
        let table = active.zip(area.as_ref()).and_then(|(active, area)| {
            area.tables().into_iter().find(|(_, t)| t.sequence == active.sequence)
        });
        let (back, latency_s) = client.echo(50)?;
        let traffic = client.traffic();
        if self.json {
            println!(
                "{}",
                json!({
                    "uri": self.address.uri,
                    "device": platform.device,
                    "firmware": platform.firmware,
                    "revision": revision,
                    "protocol": platform.protocol,
                    "propellers": propellers,
                    "battery_v": battery_v,
                    "supervisor": flags.words(),
                    "blockers": blockers,
                    "table": active.map(|a| json!({
                        "sequence": a.sequence,
                        "is_proven": a.is_proven,
                        "is_try_out": a.is_try_out,
                        "page": table.map(|(page, _)| page),
                        "source": table.map(|(_, t)| format!("{:#018x}", t.source)),
                    })),
                    "tables": area.as_ref().map(|a| a.scan().valid),
                    "damaged_pages": area.as_ref().map(|a| a.scan().damaged),
                    "echoes": { "sent": 50, "back": back, "latency_s": latency_s },
                    "link_quality": traffic.quality(),
                    "rssi_dbm": traffic.rssi_dbm,
                })
            );
            return Ok(());
        }
        let line = |name: &str, value: String| println!("{name:<14} {value}");
        line("drone", format!("{} at {}", platform.device, self.address.uri));
        let revision = revision.map(|hash| format!(", commit {hash}")).unwrap_or_default();
        line("firmware", format!("{}{revision}, protocol {}", platform.firmware, platform.protocol));
        if let Err(error) = platform.check_board() {
            line("", error.to_string());
        }
        if let Some(propellers) = propellers {
            line(
                "propellers",
                format!("{propellers} (`steady param set --store steady.propeller=N` if they are not)"),
            );
        }
        line("battery", format!("{battery_v:.2} V"));
        let words = flags.words();
        line("supervisor", if words.is_empty() { "not ready".to_owned() } else { words.join(", ") });
        if is_steady && !flags.is_armed() {
            line("against arming", blockers);
        }
        match (active, table, area) {
            (Some(active), Some((page, t)), Some(area)) => {
                let proven = if active.is_proven { "proven in flight" } else { "not yet flown" };
                let tried = if active.is_try_out { "; gains are being tried in its place" } else { "" };
                line(
                    "gain table",
                    format!("{} on page {page}, source {:#018x}, {proven}{tried}", t.sequence, t.source),
                );
                let scan = area.scan();
                line("", format!("{} tables in the flash, {} damaged pages", scan.valid, scan.damaged));
            }
            (Some(active), None, _) if active.sequence == 0 => {
                line("gain table", "none: flies the built-in gains".to_owned());
            }
            (Some(active), ..) => {
                line("gain table", format!("{}, which is not in the flash", active.sequence))
            }
            (None, ..) => line("gain table", "not Steady's firmware".to_owned()),
        }
        let quality =
            traffic.quality().map(|q| format!(", {:.0} % acknowledged", 100.0 * q)).unwrap_or_default();
        let rssi = traffic.rssi_dbm.map(|r| format!(", {r:.0} dBm")).unwrap_or_default();
        line("link", format!("{back} of 50 echoes, {:.1} ms each{quality}{rssi}", 1000.0 * latency_s));
        Ok(())
    }
}
