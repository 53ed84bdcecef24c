//! `config.txt` on the card, in the official firmware's form.
//!
//! One value per line, `#` begins a comment, spaces do not count: version (1), buffer size
//! (ignored), file name, start at boot (0 or 1), then blocks `on:EVENT` with log variables
//! `group.name`. `on:fixedFrequency` has two lines before its variables, a frequency in Hz and a mode
//! (0 is off). The other events are the official firmware's as far as this one has them: see [`Trigger`].
//! `on:estimatorInputs`, without variables, logs what the estimator is given ([`steady_common::inputs_record`]).
//! Transitions are logged whatever it says.

use heapless::{String, Vec};
use steady_common::usdlog::{FIXED_FREQUENCY_ID, Type};

use crate::toc::{self, log_id};

/// Most variables of an event.
pub const MAX_VARIABLES: usize = 20;
/// Most variables of all events together.
const MAX_TOTAL: usize = 64;
/// Most bytes of `config.txt` that are read.
pub const MAX_BYTES: usize = 2048;
/// Letters of a file name before its two digits.
const MAX_BASE: usize = 6;
/// The line that asks for the estimator's inputs.
const INPUTS: &[u8] = b"on:estimatorInputs";
/// Characters of a line that count.
const MAX_LINE: usize = 48;

/// What makes a record of an extra event. Events of sensors that this firmware has no use for (distances,
/// flow, sweeps) are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trigger {
    /// Time.
    #[default]
    FixedFrequency,
    /// Motion capture gave a position.
    Position,
    /// Motion capture gave a position and an attitude.
    Pose,
    /// A sample of the gyroscope.
    Gyroscope,
    /// A sample of the accelerometer.
    Acceleration,
    /// A reading of the barometer.
    Barometer,
}

impl Trigger {
    /// All of them; an event's place is its id in the file, but for the first.
    const ALL: [Self; 6] = [
        Self::FixedFrequency,
        Self::Position,
        Self::Pose,
        Self::Gyroscope,
        Self::Acceleration,
        Self::Barometer,
    ];

    /// The official name of the event.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FixedFrequency => "fixedFrequency",
            Self::Position => "estPosition",
            Self::Pose => "estPose",
            Self::Gyroscope => "estGyroscope",
            Self::Acceleration => "estAcceleration",
            Self::Barometer => "estBarometer",
        }
    }

    /// The event's id in the file.
    #[must_use]
    pub const fn id(self) -> u16 {
        match self {
            Self::FixedFrequency => FIXED_FREQUENCY_ID,
            other => other as u16,
        }
    }

    /// The variable the event itself brings along, before those that were asked for. A position's
    /// source is always 0, the localization service.
    #[must_use]
    pub const fn payload(self) -> Option<(&'static str, Type)> {
        match self {
            Self::Position => Some(("source", Type::U8)),
            _ => None,
        }
    }

    fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|trigger| trigger.name().as_bytes() == name)
    }
}

/// An extra event: what makes its records, and where its variables are in the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Event {
    trigger: Trigger,
    first: u8,
    count: u8,
}

/// The extra events and their variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPlan {
    /// Milliseconds between samples of the event with a fixed frequency; 0 is off.
    pub period_ms: u16,
    /// What the estimator is given is logged.
    pub inputs: bool,
    events: [Event; Trigger::ALL.len()],
    event_count: u8,
    variables: [u16; MAX_TOTAL],
    count: u8,
}

impl Default for LogPlan {
    fn default() -> Self {
        Self {
            period_ms: 0,
            inputs: false,
            events: [Event::default(); Trigger::ALL.len()],
            event_count: 0,
            variables: [0; MAX_TOTAL],
            count: 0,
        }
    }
}

impl LogPlan {
    /// The events with the numbers of their variables. One without variables is left out, and so is
    /// the fixed frequency when it is off.
    pub fn events(&self) -> impl Iterator<Item = (Trigger, &[u16])> {
        let events = self.events.get(..usize::from(self.event_count)).unwrap_or(&[]);
        events.iter().filter_map(|event| {
            let rest = self.variables.get(usize::from(event.first)..)?;
            let variables = rest.get(..usize::from(event.count)).filter(|v| !v.is_empty())?;
            let off = event.trigger == Trigger::FixedFrequency && self.period_ms == 0;
            (!off).then_some((event.trigger, variables))
        })
    }

    /// True when there is nothing to sample.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.events().next().is_none()
    }

    /// Begins an event; false when it was there already.
    fn begin(&mut self, trigger: Trigger) -> bool {
        let used = self.events.get(..usize::from(self.event_count)).unwrap_or(&[]);
        if used.iter().any(|event| event.trigger == trigger) {
            return false;
        }
        let first = self.count;
        match self.events.get_mut(usize::from(self.event_count)) {
            Some(room) => {
                *room = Event { trigger, first, count: 0 };
                self.event_count += 1;
                true
            }
            None => false,
        }
    }

    /// Gives the last event another variable; false when there is no room.
    fn push(&mut self, id: u16) -> bool {
        let last = usize::from(self.event_count).checked_sub(1).and_then(|last| self.events.get_mut(last));
        let (Some(event), Some(room)) = (last, self.variables.get_mut(usize::from(self.count))) else {
            return false;
        };
        if usize::from(event.count) >= MAX_VARIABLES {
            return false;
        }
        *room = id;
        (event.count, self.count) = (event.count + 1, self.count + 1);
        true
    }
}

/// What the card asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// File name without its digits.
    pub base: String<MAX_BASE>,
    /// Start logging at boot.
    pub autostart: bool,
    /// The extra events.
    pub plan: LogPlan,
    /// Lines that made no sense: unknown events and variables, too many of them.
    pub skipped: u8,
}

impl Default for Config {
    fn default() -> Self {
        let mut base = String::new();
        let _ = base.push_str("log");
        Self { base, autostart: false, plan: LogPlan::default(), skipped: 0 }
    }
}

/// Why a `config.txt` is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// It ends before its fourth line.
    Short,
    /// The first line is not 1.
    Version,
    /// The second or fourth line is not a number.
    Number,
    /// The third line is not a file name.
    Name,
}

impl ConfigError {
    /// For people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Short => "it ends before its fourth line",
            Self::Version => "its first line, the version, is not 1",
            Self::Number => "its second line (buffer size) or fourth (start at boot) is not a number",
            Self::Name => "its third line is no file name: use letters, digits, _ and -",
        }
    }
}

/// Lines without comments, spaces, carriage returns and emptiness.
struct Lines<'a> {
    rest: &'a [u8],
}

impl Lines<'_> {
    fn next(&mut self) -> Option<Vec<u8, MAX_LINE>> {
        while !self.rest.is_empty() {
            let end = self.rest.iter().position(|b| *b == b'\n').unwrap_or(self.rest.len());
            let (line, rest) = self.rest.split_at_checked(end)?;
            self.rest = rest.split_first().map_or(&[], |(_, rest)| rest);
            let mut kept = Vec::new();
            for byte in line.iter().take_while(|b| **b != b'#').filter(|b| !b.is_ascii_whitespace()) {
                if kept.push(*byte).is_err() {
                    break;
                }
            }
            if !kept.is_empty() {
                return Some(kept);
            }
        }
        None
    }
}

fn number(line: &[u8]) -> Option<u32> {
    core::str::from_utf8(line).ok()?.parse().ok()
}

impl Config {
    /// Reads the file's bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, ConfigError> {
        let mut lines = Lines { rest: bytes };
        let mut config = Self::default();
        if number(&lines.next().ok_or(ConfigError::Short)?) != Some(1) {
            return Err(ConfigError::Version);
        }
        number(&lines.next().ok_or(ConfigError::Short)?).ok_or(ConfigError::Number)?;
        config.base = base(&lines.next().ok_or(ConfigError::Short)?).ok_or(ConfigError::Name)?;
        let autostart = number(&lines.next().ok_or(ConfigError::Short)?).ok_or(ConfigError::Number)?;
        config.autostart = autostart != 0;
        config.events(&mut lines);
        Ok(config)
    }

    fn events(&mut self, lines: &mut Lines<'_>) {
        let mut ours = false;
        while let Some(line) = lines.next() {
            let taken = if line == INPUTS {
                (ours, self.plan.inputs) = (false, true);
                true
            } else if let Some(event) = line.strip_prefix(b"on:") {
                let trigger = Trigger::named(event);
                ours = trigger.is_some_and(|trigger| self.plan.begin(trigger));
                if trigger == Some(Trigger::FixedFrequency) {
                    let frequency = lines.next().and_then(|l| number(&l)).unwrap_or(0);
                    let mode = lines.next().and_then(|l| number(&l)).unwrap_or(0);
                    // As the official firmware divides its 1 kHz steps.
                    let period = 1000_u32.checked_div(frequency).map_or(0, |p| p.max(1));
                    if ours && mode != 0 {
                        self.plan.period_ms = u16::try_from(period).unwrap_or(0);
                    }
                }
                ours
            } else {
                ours && variable(&line).is_some_and(|id| self.plan.push(id))
            };
            self.skipped = self.skipped.saturating_add(u8::from(!taken));
        }
    }
}

/// Letters, digits, `_` and `-`: names every file system takes.
fn base(line: &[u8]) -> Option<String<MAX_BASE>> {
    let mut base = String::new();
    for byte in line.iter().take(MAX_BASE) {
        let allowed = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !allowed || base.push(char::from(byte.to_ascii_lowercase())).is_err() {
            return None;
        }
    }
    Some(base)
}

fn variable(line: &[u8]) -> Option<u16> {
    let (group, name) = core::str::from_utf8(line).ok()?.split_once('.')?;
    log_id(group, name).filter(|id| toc::log(*id).is_some())
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_papers_config_is_understood() {
        let text = b"1     # version\r\n512   # buffer size in bytes\nlog   # file name\n0     # enable on startup\n\
            # comment only\non:fixedFrequency\n240   # frequency\n1     # mode\nstabilizer.roll\nctrlMel.pos_error_x\n\
            nobody.knows\nmotor.m1req\non:estFlow\nmotor.m2";
        let config = Config::parse(text).unwrap();
        assert_eq!((config.base.as_str(), config.autostart, config.plan.period_ms), ("log", false, 4));
        assert_eq!(names(&config), [("fixedFrequency", std::vec!["roll", "pos_error_x", "m1req"])]);
        assert_eq!(config.skipped, 3, "an unknown variable, an unknown event and its line");
    }

    fn names(config: &Config) -> std::vec::Vec<(&'static str, std::vec::Vec<&'static str>)> {
        let name = |id: &u16| toc::log(*id).unwrap().name;
        config.plan.events().map(|(trigger, ids)| (trigger.name(), ids.iter().map(name).collect())).collect()
    }

    #[test]
    fn the_estimators_inputs_are_asked_for_by_a_line() {
        let config = Config::parse(b"1\n512\nlog\n0\non:estimatorInputs # 43 kB/s\ngyro.x\n").unwrap();
        assert!(config.plan.inputs && config.plan.is_off(), "no other event");
        assert_eq!(config.skipped, 1, "they take no variables");
        assert!(!Config::parse(b"1\n512\nlog\n0\n").unwrap().plan.inputs);
    }

    #[test]
    fn every_event_of_the_official_firmware_that_happens_here_is_known() {
        let text = b"1\n512\nlog\n0\non:estPosition\nlocSrv.x\nlocSrv.y\non:estPose\nlocSrv.qw\n\
            on:fixedFrequency\n100\n0\npm.vbat\non:estGyroscope\ngyro.x\non:estAcceleration\nacc.z\n\
            on:estBarometer\nbaro.asl\non:estGyroscope\ngyro.y\n";
        let config = Config::parse(text).unwrap();
        let wanted: [(&str, &[&str]); 5] = [
            ("estPosition", &["x", "y"]),
            ("estPose", &["qw"]),
            ("estGyroscope", &["x"]),
            ("estAcceleration", &["z"]),
            ("estBarometer", &["asl"]),
        ];
        let found = names(&config);
        assert_eq!(found.len(), wanted.len(), "the fixed frequency is off: {found:?}");
        for ((event, variables), wanted) in found.iter().zip(wanted) {
            assert_eq!((*event, variables.as_slice()), wanted);
        }
        assert_eq!(config.skipped, 2, "an event that was there, and its variable");
        let ids: std::vec::Vec<u16> = Trigger::ALL.iter().map(|t| t.id()).collect();
        assert!(ids.iter().enumerate().all(|(n, id)| !ids[..n].contains(id)), "{ids:?}");
    }

    #[test]
    fn variables_beyond_the_room_are_left_out_and_counted() {
        let mut text = std::string::String::from("1\n512\nlog\n0\n");
        for event in ["estPosition", "estPose", "estGyroscope", "estAcceleration"] {
            text += &std::format!("on:{event}\n");
            text += &"pm.vbat\n".repeat(25);
        }
        let config = Config::parse(text.as_bytes()).unwrap();
        let counts: std::vec::Vec<usize> = config.plan.events().map(|(_, ids)| ids.len()).collect();
        assert_eq!(counts, [20, 20, 20, 4]);
        assert_eq!(config.skipped, 36);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &[u8]| Config::parse(text).unwrap_err();
        assert_eq!(error(b""), ConfigError::Short);
        assert_eq!(error(b"2\n512\nlog\n0\n"), ConfigError::Version);
        assert_eq!(error(b"1\n512\n"), ConfigError::Short);
        assert_eq!(error(b"1\nlots\nlog\n0\n"), ConfigError::Number);
        assert_eq!(error(b"1\n512\nlo/g\n0\n"), ConfigError::Name);
        let long = Config::parse(b"1\n512\nLongFileName\n1\non:fixedFrequency\n5000\n1\npm.vbat").unwrap();
        assert_eq!((long.base.as_str(), long.autostart, long.plan.period_ms), ("longfi", true, 1));
    }

    proptest! {
        #[test]
        fn anything_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            let _ = Config::parse(&bytes);
        }

        #[test]
        fn any_lines_are_survived(lines in prop::collection::vec("[0-9a-zA-Z.:# ]{0,60}", 0..60)) {
            let text = lines.join("\n");
            if let Ok(config) = Config::parse(text.as_bytes()) {
                prop_assert!(config.plan.events().all(|(_, ids)| ids.len() <= MAX_VARIABLES));
            }
        }
    }
}
