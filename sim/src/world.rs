//! A world: everything that decides how a drone flies and what it is told, as one TOML document.
//!
//! A file states only what differs from its `base`, which is the nominal world if it names none.
//! Unknown keys and values out of range are errors that name the field.

mod check;
mod error;
mod sections;

use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::params::{CONTROL_HZ, STEPS_PER_CONTROL};
use crate::suggest::did_you_mean;

pub use error::{Problem, WorldError};
pub use sections::{
    Aero, Battery, BatteryModel, Body, Imu, Integrator, Jet, Mocap, Motors, Physics, Radio, RotorDrag, Wind,
};

/// The worlds that come with the simulator, by name.
const SHIPPED: [(&str, &str); 14] = [
    ("nominal", include_str!("../worlds/nominal.toml")),
    ("deck", include_str!("../worlds/deck.toml")),
    ("defective-motor", include_str!("../worlds/defective-motor.toml")),
    ("paper", include_str!("../worlds/paper.toml")),
    ("real", include_str!("../worlds/real.toml")),
    ("gym", include_str!("../worlds/gym.toml")),
    ("wind", include_str!("../worlds/wind.toml")),
    ("gusts", include_str!("../worlds/gusts.toml")),
    ("jets", include_str!("../worlds/jets.toml")),
    ("delay", include_str!("../worlds/delay.toml")),
    ("fading-motor", include_str!("../worlds/fading-motor.toml")),
    ("low-battery", include_str!("../worlds/low-battery.toml")),
    ("payload", include_str!("../worlds/payload.toml")),
    ("thrust-curve", include_str!("../worlds/thrust-curve.toml")),
];

/// A section that world files had until flights used the firmware's own estimator.
const REMOVED_SECTION: &str = "perception";

/// A world. See the sections for the meaning and the unit of every field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct World {
    /// Short name, for tables and file names.
    pub name: String,
    /// One line on what is special here.
    pub summary: String,
    /// Where its values are from: `assumed`, or `measured` and on what.
    pub provenance: String,
    /// Name of the shipped world that the file's values are differences to.
    pub base: String,
    /// The rigid body.
    pub body: Body,
    /// Motors and propellers.
    pub motors: Motors,
    /// What the air does beyond thrust.
    pub aero: Aero,
    /// How the air itself moves.
    pub wind: Wind,
    /// The battery.
    pub battery: Battery,
    /// Gravity, time step, integrator, damping and the floor.
    pub physics: Physics,
    /// Accelerometer and gyroscope.
    pub imu: Imu,
    /// Motion capture.
    pub mocap: Mocap,
    /// The way of mocap frames to the drone.
    pub radio: Radio,
}

impl Default for World {
    fn default() -> Self {
        Self {
            name: "nominal".to_owned(),
            summary: String::new(),
            provenance: "assumed".to_owned(),
            base: "nominal".to_owned(),
            body: Body::default(),
            motors: Motors::default(),
            aero: Aero::default(),
            wind: Wind::default(),
            battery: Battery::default(),
            physics: Physics::default(),
            imu: Imu::default(),
            mocap: Mocap::default(),
            radio: Radio::default(),
        }
    }
}

impl World {
    /// Names of the shipped worlds.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// A shipped world.
    ///
    /// # Errors
    /// If there is none of that name; the error suggests the nearest.
    pub fn named(name: &str) -> Result<Self, WorldError> {
        match SHIPPED.iter().find(|(known, _)| *known == name) {
            Some((known, text)) => Self::from_toml(text, known),
            None => Err(WorldError::UnknownName {
                name: name.to_owned(),
                hint: did_you_mean(name, Self::names()),
                known: Self::names().collect::<Vec<_>>().join(", "),
            }),
        }
    }

    /// A shipped world by its name, or any other by the path of its file.
    ///
    /// # Errors
    /// If there is no such world or file, or it is not valid.
    pub fn load(name_or_path: &str) -> Result<Self, WorldError> {
        let seed = |prefix: &str| name_or_path.strip_prefix(prefix).and_then(|n| n.parse().ok());
        if let Some(seed) = seed("sample-") {
            return Ok(Self::sample(seed));
        }
        if let Some(seed) = seed("measured-") {
            return Ok(Self::sample_measured(seed));
        }
        if let Some(seed) = seed("outside-") {
            return Ok(Self::sample_outside(seed));
        }
        let path = Path::new(name_or_path);
        let is_path = name_or_path.contains(['/', '\\']) || path.extension().is_some_and(|e| e == "toml");
        if !is_path && (Self::names().any(|name| name == name_or_path) || !path.is_file()) {
            return Self::named(name_or_path);
        }
        let text = std::fs::read_to_string(path)
            .map_err(|source| WorldError::Read { origin: name_or_path.to_owned(), source })?;
        Self::from_toml(&text, name_or_path)
    }

    /// A world from TOML text; `origin` names it in errors (a path, usually).
    ///
    /// # Errors
    /// If the text is not TOML, has unknown keys, or values out of their range.
    pub fn from_toml(text: &str, origin: &str) -> Result<Self, WorldError> {
        // First by itself, so that errors know their line.
        let mut world: Self = toml::from_str(text).map_err(|e| explain(&e, text, origin))?;
        if world.base != "nominal" {
            let mut merged = to_table(&Self::named(&world.base)?);
            overlay(&mut merged, toml::from_str(text).map_err(|e| explain(&e, text, origin))?);
            world = merged.try_into().map_err(|e| explain(&e, text, origin))?;
        }
        check::check(&world, origin)?;
        Ok(world)
    }

    /// The whole world as TOML, nothing left to a base.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let complete = Self { base: "nominal".to_owned(), ..self.clone() };
        toml::to_string(&complete).unwrap_or_default()
    }

    /// Whether every value is in its range.
    ///
    /// # Errors
    /// With the fields that are not.
    pub fn check(&self) -> Result<(), WorldError> {
        check::check(self, &self.name)
    }

    /// The constants of a step in this world, without sensors.
    ///
    /// # Errors
    /// If a value is out of its range.
    pub fn compile(&self) -> Result<crate::Params, WorldError> {
        self.check()?;
        Ok(crate::Params::of_checked(self))
    }

    /// The same with inertial sensors and motion capture.
    ///
    /// # Errors
    /// If a value is out of its range.
    pub fn compile_with_sensors(&self) -> Result<crate::Params, WorldError> {
        Ok(self.compile()?.with_sensors(self))
    }

    /// The same without sensors and with [`STEPS_PER_CONTROL`] physics
    /// steps per control step.
    ///
    /// # Errors
    /// If a value is out of its range.
    pub fn compile_for_control(&self) -> Result<crate::Params, WorldError> {
        let mut world = self.clone();
        world.physics.rate_hz = CONTROL_HZ * STEPS_PER_CONTROL as f32;
        world.compile()
    }
}

fn to_table(world: &World) -> Table {
    Table::try_from(world).unwrap_or_default()
}

/// Puts the values of `over` into `base`, section by section.
fn overlay(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => overlay(inner, value),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Turns the parser's error into one that names the place and the key.
fn explain(error: &toml::de::Error, text: &str, origin: &str) -> WorldError {
    let offset = error.span().map_or(0, |span| span.start).min(text.len());
    let before = text.get(..offset).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    let source_line = text.lines().nth(line - 1).unwrap_or_default().trim();
    let section = section_above(before, source_line);
    let origin = origin.to_owned();
    let message = error.message();
    if let Some(key) = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next()) {
        return unknown_key(key, section, line, origin);
    }
    let snippet = match section {
        Some(section) if !source_line.starts_with('[') => format!("[{section}] {source_line}"),
        _ => source_line.to_owned(),
    };
    WorldError::Syntax { origin, line, column, message: message.trim().replace('\n', ", "), snippet }
}

/// The section that a line belongs to, from the headers above it or a dotted key on it.
fn section_above<'a>(before: &'a str, line: &'a str) -> Option<&'a str> {
    if let Some((first, _)) = line.split('=').next().and_then(|key| key.split_once('.')) {
        return Some(first.trim());
    }
    before
        .lines()
        .rev()
        .find_map(|l| l.trim().strip_prefix('[')?.split(']').next())
        .map(|section| section.trim_start_matches('[').trim())
}

fn unknown_key(key: &str, section: Option<&str>, line: usize, origin: String) -> WorldError {
    let mut world = World::default();
    world.wind.jets.push(Jet::default());
    let schema = to_table(&world);
    let inside = section.and_then(|s| Some((s, table_at(&schema, s)?)));
    let (field, mut hint) = match inside {
        Some((section, table)) if section != key => {
            let keys = table.keys().map(|k| format!("{section}.{k}"));
            let field = format!("{section}.{key}");
            let hint = did_you_mean(&field, keys.filter(|k| is_near(k, &field)));
            (field, hint)
        }
        _ => (key.to_owned(), did_you_mean(key, schema.keys())),
    };
    if section == Some(REMOVED_SECTION) || key == REMOVED_SECTION {
        hint = ": flights use the firmware's own estimator now; delete the section".to_owned();
    }
    // The right key in the wrong place is worth more than a lookalike.
    let elsewhere = schema.iter().find(|(_, value)| value.as_table().is_some_and(|t| t.contains_key(key)));
    if let Some((section, _)) = elsewhere {
        hint = format!(" (did you mean `{section}.{key}`?)");
    }
    WorldError::UnknownKey { origin, line, field, hint }
}

/// The table at a dotted path; of a list of tables, the first.
fn table_at<'a>(whole: &'a Table, path: &str) -> Option<&'a Table> {
    path.split('.').try_fold(whole, |table, key| match table.get(key)? {
        Value::Array(list) => list.first()?.as_table(),
        value => value.as_table(),
    })
}

/// Whether the last parts of two dotted paths resemble each other (the common section does not count).
fn is_near(a: &str, b: &str) -> bool {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    strsim::jaro_winkler(&last(a), &last(b)) > 0.7
}
