//! Parameters: their table, values and persistent storage.

use steady_common::crtp::param::{self, Raw};
use steady_common::crtp::{Packet, Port};
use steady_common::value::{Type, Value};

use super::text::show;
use super::{ASK, ASK_SLOW, Client};
use crate::error::{Error, Result};
use crate::toc::Entry;

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Param {
    /// Its number.
    pub id: u16,
    /// Its type.
    pub kind: Type,
    /// Read-only.
    pub is_read_only: bool,
    /// Can be stored persistently.
    pub may_be_kept: bool,
}

impl Client {
    /// All parameters.
    ///
    /// # Errors
    /// If the drone does not answer.
    pub fn params(&mut self) -> Result<&[Entry]> {
        if self.params.is_none() {
            self.params = Some(self.table(Port::Param, "the table of parameters")?);
        }
        Ok(self.params.as_deref().unwrap_or_default())
    }

    /// A parameter by its full name.
    ///
    /// # Errors
    /// If the drone does not answer, or there is no such parameter; the text names similar ones.
    pub fn param(&mut self, full_name: &str) -> Result<Param> {
        let entries = self.params()?;
        let Some(entry) = entries.iter().find(|e| e.full_name() == full_name) else {
            let group = full_name.split('.').next().unwrap_or_default();
            let near: Vec<String> = entries
                .iter()
                .filter(|e| e.group == group)
                .take(40)
                .map(|e| crate::printable(&e.full_name()))
                .collect();
            let advice = if near.is_empty() {
                "; `steady param list` shows all".to_owned()
            } else {
                format!("; its group has {}", near.join(", "))
            };
            return Err(Error::NoParameter { name: full_name.to_owned(), advice });
        };
        describe(entry)
    }

    /// Reads parameters.
    ///
    /// # Errors
    /// If the drone does not answer, or an answer has another type than the table says.
    pub fn values(&mut self, params: &[Param], progress: &mut dyn FnMut(usize)) -> Result<Vec<Value>> {
        let request = |n: usize| {
            let id = params.get(n).map_or(0, |p| p.id);
            param::Request::Read(id).encode().unwrap_or(Packet::NULL)
        };
        let accept = |p: &Packet| match param::Reply::decode(p) {
            Ok(param::Reply::Read(id, answer)) => {
                let index = params.iter().position(|p| p.id == id)?;
                Some((index, answer))
            }
            _ => None,
        };
        let answers = self.ask_many("parameters", params.len(), request, accept, progress)?;
        params
            .iter()
            .zip(answers)
            .map(|(param, answer)| {
                let what = || format!("parameter {}", param.id);
                let raw = answer.map_err(|code| Error::invalid_reply(what(), format!("error {code}")))?;
                raw.value(param.kind).ok_or_else(|| Error::invalid_reply(what(), "a value of another type"))
            })
            .collect()
    }

    /// The value of a parameter.
    ///
    /// # Errors
    /// As [`Self::values`].
    pub fn get(&mut self, param: Param) -> Result<Value> {
        let values = self.values(&[param], &mut |_| {})?;
        values.into_iter().next().ok_or_else(|| Error::invalid_reply("a parameter", "nothing"))
    }

    /// Sets a parameter and verifies it.
    ///
    /// # Errors
    /// If the drone does not answer, or the drone keeps another value.
    pub fn set(&mut self, name: &str, param: Param, value: Value) -> Result<()> {
        if param.is_read_only {
            return Err(Error::Refused(format!("`{name}` can only be read")));
        }
        let raw = Raw::from(value);
        let request = param::Request::Write(param.id, raw)
            .encode()
            .map_err(|e| Error::invalid_reply(format!("setting {name}"), e.to_string()))?;
        let told =
            self.ask(&format!("setting {name}"), &request, ASK, |p| match param::Reply::decode(p) {
                Ok(param::Reply::Write(id, raw)) if id == param.id => Some(raw),
                _ => None,
            })?;
        // The reply may be a late one to an earlier request, so the value is read back.
        if told != raw {
            let now = self.get(param)?;
            if Raw::from(now) != raw {
                return Err(Error::Refused(format!(
                    "the drone refuses {name} = {}: it is out of range, or cannot change now; it stays {}",
                    show(value),
                    show(now)
                )));
            }
        }
        Ok(())
    }

    /// Stores a parameter's current value persistently.
    ///
    /// # Errors
    /// If the drone does not answer, or the drone does not store it.
    pub fn store(&mut self, name: &str, param: Param) -> Result<()> {
        if !param.may_be_kept {
            return Err(Error::Refused(format!("`{name}` is not one of the parameters the drone keeps")));
        }
        let request = param::Request::Store(param.id)
            .encode()
            .map_err(|e| Error::invalid_reply(format!("storing {name}"), e.to_string()))?;
        let error =
            self.ask(&format!("storing {name}"), &request, ASK_SLOW, |p| match param::Reply::decode(p) {
                Ok(param::Reply::Store(id, error)) if id == param.id => Some(error),
                _ => None,
            })?;
        if error != 0 {
            return Err(Error::Refused(format!(
                "the drone cannot keep {name} (error {error}): its memory fails or is full"
            )));
        }
        Ok(())
    }
}

/// Interprets an entry of the table.
///
/// # Errors
/// If its type is unknown.
pub fn describe(entry: &Entry) -> Result<Param> {
    let kind = param::type_of(entry.kind).ok_or_else(|| {
        Error::invalid_reply(
            format!("parameter {}", crate::printable(&entry.full_name())),
            format!("type {:#04x}", entry.kind),
        )
    })?;
    Ok(Param {
        id: entry.id,
        kind,
        is_read_only: entry.kind & param::READ_ONLY != 0,
        may_be_kept: entry.kind & param::EXTENDED != 0,
    })
}
