//! `config.txt` on the card, in the official firmware's form.
//!
//! One value per line, `#` begins a comment, spaces do not count: version (1), buffer size
//! (ignored), file name, start at boot (0 or 1), then blocks `on:fixedFrequency` with a frequency in
//! Hz, a mode (0 is off) and log variables `group.name`. Transitions are logged whatever it says.

use heapless::{String, Vec};

use crate::toc::{self, log_id};

/// Most variables of the extra event.
pub const MAX_VARIABLES: usize = 20;
/// Most bytes of `config.txt` that are read.
pub const MAX_BYTES: usize = 2048;
/// Letters of a file name before its two digits.
const MAX_BASE: usize = 6;
/// Characters of a line that count.
const MAX_LINE: usize = 48;

/// The extra event: which log variables, how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Milliseconds between samples; 0 is off.
    pub period_ms: u16,
    variables: [u16; MAX_VARIABLES],
    count: u8,
}

impl Plan {
    /// Numbers of the variables.
    #[must_use]
    pub fn variables(&self) -> &[u16] {
        self.variables.get(..usize::from(self.count)).unwrap_or(&[])
    }

    /// True when there is nothing to sample.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.period_ms == 0 || self.count == 0
    }

    fn push(&mut self, id: u16) -> bool {
        match self.variables.get_mut(usize::from(self.count)) {
            Some(room) => {
                *room = id;
                self.count += 1;
                true
            }
            None => false,
        }
    }
}

/// What the card asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// File name without its digits.
    pub base: String<MAX_BASE>,
    /// Start logging at boot.
    pub autostart: bool,
    /// The extra event.
    pub plan: Plan,
    /// Lines that made no sense: unknown events and variables, too many of them.
    pub skipped: u8,
}

impl Default for Config {
    fn default() -> Self {
        let mut base = String::new();
        let _ = base.push_str("log");
        Self { base, autostart: false, plan: Plan::default(), skipped: 0 }
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
    /// The third line is no name.
    Name,
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
            let taken = if let Some(event) = line.strip_prefix(b"on:") {
                ours = event == b"fixedFrequency";
                if ours {
                    let frequency = lines.next().and_then(|l| number(&l)).unwrap_or(0);
                    let mode = lines.next().and_then(|l| number(&l)).unwrap_or(0);
                    // As the official firmware divides its 1 kHz steps.
                    let period = 1000_u32.checked_div(frequency).map_or(0, |p| p.max(1));
                    self.plan.period_ms = if mode == 0 { 0 } else { u16::try_from(period).unwrap_or(0) };
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
            nobody.knows\nmotor.m1req\non:estPosition\nwhatever";
        let config = Config::parse(text).unwrap();
        assert_eq!((config.base.as_str(), config.autostart, config.plan.period_ms), ("log", false, 4));
        let names: std::vec::Vec<_> =
            config.plan.variables().iter().map(|id| toc::log(*id).unwrap().name).collect();
        assert_eq!(names, ["roll", "pos_error_x", "m1req"]);
        assert_eq!(config.skipped, 3, "an unknown variable, an unknown event and its line");
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
                prop_assert!(config.plan.variables().len() <= MAX_VARIABLES);
            }
        }
    }
}
