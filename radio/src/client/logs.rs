//! Log variables: their table, and single readings.

use std::time::Duration;

use steady_common::crtp::log::{self, Variable, Variables};
use steady_common::crtp::{Port, errno};
use steady_common::value::{Type, Value};

use super::{ASK, Client};
use crate::error::{Error, Result};
use crate::toc::Entry;

/// Period of a log block that is read once: the data is sent again in case it is lost.
const LOG_PERIOD_MS: u16 = 20;
/// How long the flight loop may take to begin after a start: sensors wake up and the gyroscope is
/// calibrated.
const STARTING: Duration = Duration::from_secs(6);
/// Attempts for one reading.
const LOG_ATTEMPTS: usize = 4;

/// Which gains the firmware flies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Active {
    /// Sequence number of the table; 0 for the built-in gains.
    pub sequence: u32,
    /// It has completed a flight.
    pub is_proven: bool,
    /// Try-out gains replace the table's.
    pub is_try_out: bool,
}

impl Client {
    /// All log variables.
    ///
    /// # Errors
    /// If the drone does not answer.
    pub fn logs(&mut self) -> Result<&[Entry]> {
        if self.logs.is_none() {
            self.logs = Some(self.table(Port::Log, "the table of log variables")?);
        }
        Ok(self.logs.as_deref().unwrap_or_default())
    }

    /// A log variable by its full name; `None` if the drone does not have it.
    ///
    /// # Errors
    /// If the drone does not answer.
    pub fn find_log(&mut self, full_name: &str) -> Result<Option<(u16, Type)>> {
        let found = self.logs()?.iter().find(|e| e.full_name() == full_name);
        Ok(found.and_then(|e| Some((e.id, log::type_of(e.kind)?))))
    }

    /// Current values of log variables, at most 26 bytes in total.
    ///
    /// # Errors
    /// If the drone does not answer, or a variable does not exist.
    pub fn log_once(&mut self, names: &[&str]) -> Result<Vec<Value>> {
        let mut kinds = Vec::new();
        let mut list = Vec::new();
        for name in names {
            let (id, kind) = self.find_log(name)?.ok_or_else(|| {
                Error::Refused(format!("the drone has no log variable `{name}`: is Steady's firmware on it?"))
            })?;
            kinds.push(kind);
            list.push(Variable { kind: log::type_code(kind), id });
        }
        let variables =
            Variables::new(&list).ok_or_else(|| Error::invalid_reply("a log block", "too many variables"))?;
        let size: usize = kinds.iter().map(|k| k.size()).sum();
        // A late packet may delete the block; then another one is tried.
        let mut attempts = 1..=LOG_ATTEMPTS;
        let bytes = loop {
            match (self.log_block(variables, size), attempts.next()) {
                (Ok(bytes), _) => break bytes,
                (Err(Error::NoAnswer { .. }), Some(_)) => {}
                (Err(error), _) => return Err(error),
            }
        };
        let mut rest = bytes.as_slice();
        kinds
            .into_iter()
            .map(|kind| {
                let value =
                    kind.read(rest).ok_or_else(|| Error::invalid_reply("log data", "too few bytes"))?;
                rest = rest.get(kind.size()..).unwrap_or_default();
                Ok(value)
            })
            .collect()
    }

    /// One packet of a log block that is made for it and deleted again.
    fn log_block(&mut self, variables: Variables, size: usize) -> Result<Vec<u8>> {
        let block = match self.next_block {
            Some(block) => block,
            None => {
                self.log_control(log::Request::Reset, &[])?;
                0
            }
        };
        // Blocks take turns, so that late data of an old one is not taken for the new one's.
        self.next_block = Some((block + 1) % log::MAX_BLOCKS);
        self.log_control(log::Request::Create(block, variables), &[errno::EEXIST])?;
        let start = log::Request::Start { block, period_ms: LOG_PERIOD_MS, old: false }.encode();
        let values = self.ask("log data", &start, ASK.with_timeout(Duration::from_millis(1000)), |p| {
            match log::Reply::decode(p) {
                Ok(log::Reply::Data { block: b, values, .. }) if b == block && values.len() == size => {
                    Some(values.to_vec())
                }
                _ => None,
            }
        });
        // The block is no longer needed, whatever the outcome.
        let gone = self.log_control(log::Request::Delete(block), &[errno::ENOENT]);
        let bytes = values?;
        gone.map(|()| bytes)
    }

    fn log_control(&mut self, request: log::Request, fine: &[u8]) -> Result<()> {
        let command = request.command();
        let error = self.ask("a log block", &request.encode(), ASK, |p| match log::Reply::decode(p) {
            Ok(log::Reply::Control { command: c, error, .. }) if c == command => Some(error),
            _ => None,
        })?;
        if error == 0 || fine.contains(&error) {
            return Ok(());
        }
        Err(Error::invalid_reply("a log block", format!("error {error}")))
    }

    /// Which gains the firmware flies. Waits for a drone that has just started until its flight loop runs.
    ///
    /// # Errors
    /// If the drone does not answer, this is not Steady's firmware, or its flight loop does not run.
    pub fn active_table(&mut self) -> Result<Active> {
        let until = self.link.now() + STARTING;
        loop {
            match self.log_once(&["steady.table", "steady.proven", "steady.tryOut", "steady.seq"])?[..] {
                [Value::U32(sequence), Value::U8(proven), Value::U8(try_out), Value::U32(steps)] => {
                    if steps > 0 {
                        return Ok(Active { sequence, is_proven: proven != 0, is_try_out: try_out != 0 });
                    }
                }
                _ => return Err(Error::invalid_reply("the active table", "values of other types")),
            }
            if self.link.now() >= until {
                return Err(Error::Refused(
                    "the drone's flight loop does not run, so it does not tell which table it flies: its sensors \
                     fail? `steady console` shows what it says"
                        .to_owned(),
                ));
            }
        }
    }
}
