//! Gain tables as files: TOML for people, the drone's page (`.bin`) for the drone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use steady_common::gain_table::{GainTable, TableError};
use steady_common::gains::{Axes, BOUNDS_ID, GAIN_COUNT, GAINS, Gains};
use steady_common::law::{LAW_VERSION, Vehicle};
use steady_sim::suggest::did_you_mean;

use crate::error::usage;

/// The loops in table order, with the unit of their integrals.
const LOOPS: [(&str, &str); 4] =
    [("position", "m s"), ("velocity", "m"), ("attitude", "rad s"), ("rate", "rad")];

/// Reads a gain table: `nominal`, a `.bin` page, or a TOML file. Everything the drone would refuse is an
/// error that names the file and the field.
pub fn load(name: &str) -> Result<GainTable> {
    if name == "nominal" {
        return Ok(GainTable { sequence: 1, ..GainTable::built_in() });
    }
    let bytes = std::fs::read(name)
        .with_context(|| format!("{name}: cannot be read{}", did_you_mean(name, ["nominal"])))?;
    if Path::new(name).extension().is_some_and(|e| e == "toml") {
        from_toml(&String::from_utf8(bytes).with_context(|| format!("{name}: is not text"))?, name)
    } else {
        GainTable::decode(&bytes).map_err(|error| anyhow::anyhow!("{name}: {error}"))
    }
}

/// Reads a gain table from TOML text; `file` names it in errors.
pub fn from_toml(text: &str, file: &str) -> Result<GainTable> {
    let document: toml::Table =
        toml::from_str(text).map_err(|e| anyhow::anyhow!("{file}: {}", e.to_string().trim_end()))?;
    let mut values = BTreeMap::new();
    flatten("", &document, &mut values);
    if let Some(key) = values.keys().find(|key| !keys().contains(key)) {
        return Err(usage(format!("{file}: unknown key `{key}`{}", did_you_mean(key, keys()))));
    }
    let number = |key: &str, default: Option<f64>| match (values.get(key), default) {
        (Some(toml::Value::Float(x)), _) => Ok(*x),
        (Some(toml::Value::Integer(n)), _) => Ok(*n as f64),
        (Some(_), _) => bail!("{file}: `{key}` must be a number"),
        (None, Some(x)) => Ok(x),
        (None, None) => bail!("{file}: `{key}` is missing"),
    };
    let law = number("law_version", Some(f64::from(LAW_VERSION)))?;
    let sequence = number("sequence", Some(1.0))?;
    let mass = number("mass_kg", None)? as f32;
    let mut gains = [0.0; GAIN_COUNT];
    for (gain, info) in gains.iter_mut().zip(&GAINS) {
        *gain = number(&format!("gains.{}", info.name), None)? as f32;
    }
    let mut integral_limits = [Axes::default(); 4];
    for (limit, (name, _)) in integral_limits.iter_mut().zip(LOOPS) {
        limit.xy = number(&format!("integral_limits.{name}.xy"), None)? as f32;
        limit.z = number(&format!("integral_limits.{name}.z"), None)? as f32;
    }
    let source = match values.get("source") {
        Some(value) => value
            .as_str()
            .and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok())
            .with_context(|| format!("{file}: `source` must be a hexadecimal number in quotes"))?,
        None => 0,
    };
    let refused = |error: TableError| anyhow::anyhow!("{file}: {error}");
    if law != f64::from(LAW_VERSION) {
        return Err(refused(TableError::Law(law as u16)));
    }
    if !(1.0..f64::from(u32::MAX)).contains(&sequence) {
        return Err(refused(TableError::Sequence(sequence as u32)));
    }
    let table = GainTable {
        sequence: sequence as u32,
        bounds_id: BOUNDS_ID,
        source,
        vehicle: Vehicle { mass, integral_limits },
        gains: Gains::from_array(gains),
    };
    table.check().map_err(refused)?;
    Ok(table)
}

/// The table as TOML, with units and bounds as comments.
pub fn to_toml(table: &GainTable) -> String {
    let mut text = String::from(
        "# Gains of the differentiable Mellinger law. `steady gains pack` makes a page for the drone.\n",
    );
    // Writing to a string cannot fail.
    let _ = writeln!(text, "law_version = {LAW_VERSION}");
    let _ = writeln!(text, "sequence = {}", table.sequence);
    let _ = writeln!(text, "source = \"{:#018x}\" # hash of the run that made it", table.source);
    let _ = writeln!(text, "mass_kg = {}", table.vehicle.mass);
    text.push_str("\n[gains]\n");
    for (value, info) in table.gains.to_array().into_iter().zip(&GAINS) {
        let _ = writeln!(text, "{} = {value} # {}, {} to {}", info.name, info.unit, info.min, info.max);
    }
    text.push_str("\n[integral_limits]\n");
    for (limit, (name, unit)) in table.vehicle.integral_limits.iter().zip(LOOPS) {
        let _ = writeln!(text, "{name}.xy = {} # {unit}", limit.xy);
        let _ = writeln!(text, "{name}.z = {} # {unit}", limit.z);
    }
    text
}

/// Values by their dotted path.
fn flatten(path: &str, table: &toml::Table, into: &mut BTreeMap<String, toml::Value>) {
    for (key, value) in table {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten(&path, inner, into),
            _ => {
                into.insert(path, value.clone());
            }
        }
    }
}

/// Every key a file may have.
fn keys() -> Vec<String> {
    let limits = LOOPS.iter().flat_map(|(l, _)| ["xy", "z"].map(|a| format!("integral_limits.{l}.{a}")));
    let plain = ["law_version", "sequence", "source", "mass_kg"].map(str::to_owned);
    GAINS.iter().map(|g| format!("gains.{}", g.name)).chain(limits).chain(plain).collect()
}
