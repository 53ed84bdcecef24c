//! A parameter that the ground sets before the flight.

use std::str::FromStr;

use anyhow::{Context, Error, Result, ensure};
use steady_common::crtp::Packet;
use steady_common::crtp::param::{Raw, Request, type_code};
use steady_common::value::{Type, Value};

/// `GROUP.NAME=VALUE`.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    group: String,
    name: String,
    value: f64,
}

/// The types a parameter may have. The drone refuses a value of another type, so they are tried in turn.
const TYPES: [Type; 7] = [Type::U8, Type::U16, Type::U32, Type::F32, Type::I8, Type::I16, Type::I32];

impl FromStr for Setting {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || format!("`{text}` is not GROUP.NAME=VALUE, such as steady.explore=1");
        let (place, value) = text.split_once('=').with_context(wrong)?;
        let (group, name) = place.split_once('.').with_context(wrong)?;
        let value: f64 = value.trim().parse().with_context(wrong)?;
        ensure!(value.is_finite() && !group.is_empty() && !name.is_empty(), wrong());
        Ok(Self { group: group.to_owned(), name: name.to_owned(), value })
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}={}", self.group, self.name, self.value)
    }
}

impl Setting {
    /// The packet that sets it, tried as the `attempt`-th type that can hold the value; nothing when all
    /// were tried.
    pub(crate) fn packet(&self, attempt: usize) -> Option<Packet> {
        let kind = *TYPES.iter().filter(|t| self.fits(**t)).nth(attempt)?;
        let raw = Raw::from(integer(self.value, kind).unwrap_or(Value::F32(self.value as f32)));
        let (group, name) = (self.group.as_str(), self.name.as_str());
        Request::SetByName { group, name, kind: type_code(kind), value: raw }.encode().ok()
    }

    /// True when an answer is about this parameter.
    pub(crate) fn is(&self, group: &str, name: &str) -> bool {
        self.group == group && self.name == name
    }

    fn fits(&self, kind: Type) -> bool {
        kind == Type::F32 || integer(self.value, kind).is_some()
    }
}

/// The value as an integer type, if it is one.
fn integer(value: f64, kind: Type) -> Option<Value> {
    let whole = (value.fract() == 0.0).then_some(value as i64)?;
    match kind {
        Type::U8 => u8::try_from(whole).ok().map(Value::U8),
        Type::I8 => i8::try_from(whole).ok().map(Value::I8),
        Type::U16 => u16::try_from(whole).ok().map(Value::U16),
        Type::I16 => i16::try_from(whole).ok().map(Value::I16),
        Type::U32 => u32::try_from(whole).ok().map(Value::U32),
        Type::I32 => i32::try_from(whole).ok().map(Value::I32),
        Type::F32 | Type::F16 => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_tried_as_every_type_that_holds_them() {
        let kinds = |text: &str| {
            let setting: Setting = text.parse().unwrap();
            let kind = |attempt| {
                let packet = setting.packet(attempt)?;
                let Ok(Request::SetByName { group, name, kind, .. }) = Request::decode(&packet) else {
                    panic!("{packet:?}")
                };
                assert!(setting.is(group, name));
                Some(kind)
            };
            (0..).map_while(kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds("steady.explore=1").len(), 7);
        assert_eq!(kinds("steady.noiseRoll=0.01"), [type_code(Type::F32)]);
        assert_eq!(kinds("steady.noiseSeed=4000000000"), [type_code(Type::U32), type_code(Type::F32)]);
        for bad in ["explore=1", "steady.explore", "steady.explore=on", "steady.x=nan", ".x=1"] {
            assert!(bad.parse::<Setting>().is_err(), "{bad}");
        }
    }
}
