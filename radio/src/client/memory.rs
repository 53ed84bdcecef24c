//! The drone's memories, and its configuration block in one of them.

use steady_common::config_block::{self, ConfigBlock};
use steady_common::crtp::memory::{self, MAX_READ};
use steady_common::crtp::{Packet, errno};

use super::{ASK, ASK_SLOW, Client};
use crate::error::{Error, Result};

impl Client {
    /// Id and size of the first memory of a kind.
    ///
    /// # Errors
    /// If the drone does not answer.
    pub fn find_memory(&mut self, kind: memory::Kind) -> Result<Option<(u8, u32)>> {
        let request = memory::Request::Count.encode();
        let count =
            self.ask("the number of memories", &request, ASK, |p| match memory::Reply::decode(p) {
                Ok(memory::Reply::Count(count)) => Some(count),
                _ => None,
            })?;
        for id in 0..count {
            let request = memory::Request::Info(id).encode();
            let (found, size) = self.ask("a memory", &request, ASK, |p| match memory::Reply::decode(p) {
                Ok(memory::Reply::Info { id: i, kind, size, .. }) if i == id => Some((kind, size)),
                _ => None,
            })?;
            if found == kind as u8 {
                return Ok(Some((id, size)));
            }
        }
        Ok(None)
    }

    /// Reads parts of a memory, each by offset and length.
    ///
    /// # Errors
    /// If the drone does not answer, or the drone cannot read there.
    pub fn read_memory(
        &mut self,
        id: u8,
        parts: &[(u32, usize)],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Vec<u8>>> {
        let mut chunks: Vec<(u32, u8)> = Vec::new();
        for &(start, length) in parts {
            for offset in (0..length).step_by(MAX_READ) {
                let size = u8::try_from((length - offset).min(MAX_READ)).unwrap_or(u8::MAX);
                chunks.push((start + u32::try_from(offset).unwrap_or(u32::MAX), size));
            }
        }
        let index: std::collections::HashMap<u32, usize> =
            chunks.iter().enumerate().map(|(n, (address, _))| (*address, n)).collect();
        let request = |n: usize| {
            let (address, length) = chunks.get(n).copied().unwrap_or_default();
            memory::Request::Read { id, address, length }.encode()
        };
        let accept = |p: &Packet| match memory::Reply::decode(p) {
            Ok(memory::Reply::Read { id: i, address, data }) if i == id => {
                let n = *index.get(&address)?;
                let wanted = usize::from(chunks.get(n)?.1);
                match data {
                    Ok(data) if data.bytes().len() == wanted => Some((n, Ok(data))),
                    Ok(_) => None,
                    Err(code) => Some((n, Err(code))),
                }
            }
            _ => None,
        };
        let total = chunks.len();
        let answers = self.ask_many("a memory", total, request, accept, &mut |done| progress(done, total))?;
        let mut answers = answers.into_iter();
        parts
            .iter()
            .map(|&(start, length)| {
                let mut bytes = Vec::with_capacity(length);
                for _ in 0..length.div_ceil(MAX_READ) {
                    let data = answers.next().unwrap_or(Err(errno::EIO)).map_err(|code| {
                        Error::invalid_reply(format!("memory {id} at {start:#x}"), format!("error {code}"))
                    })?;
                    bytes.extend(data.bytes());
                }
                Ok(bytes)
            })
            .collect()
    }

    /// How the drone's radio is tuned, and its trims.
    ///
    /// # Errors
    /// If the drone does not answer, or has no such memory.
    pub fn config(&mut self) -> Result<ConfigBlock> {
        let id = self.config_memory()?;
        let parts = self.read_memory(id, &[(0, config_block::SIZE)], &mut |_, _| {})?;
        let block =
            parts.first().and_then(|bytes| <&[u8; config_block::SIZE]>::try_from(bytes.as_slice()).ok());
        let block = block.ok_or_else(|| Error::invalid_reply("the radio settings", "another length"))?;
        ConfigBlock::decode(block).map_err(|why| {
            Error::Refused(format!(
                "the drone's radio settings cannot be used: {why}; write all of them anew"
            ))
        })
    }

    /// Writes them; the drone reads its EEPROM back, and so does this. They count from its next start on.
    ///
    /// # Errors
    /// If a value is not possible, the drone does not answer, is armed, or keeps something else.
    pub fn set_config(&mut self, config: &ConfigBlock) -> Result<()> {
        config.check().map_err(|why| Error::Refused(format!("nothing was written: {why}")))?;
        let id = self.config_memory()?;
        let data = memory::Data::new(&config.encode())
            .ok_or_else(|| Error::invalid_reply("the radio settings", "too long"))?;
        let request = memory::Request::Write { id, address: 0, data }.encode();
        let accept = |p: &Packet| match memory::Reply::decode(p) {
            Ok(memory::Reply::Write { id: i, address: 0, error }) if i == id => Some(error),
            _ => None,
        };
        match self.ask("writing the radio settings", &request, ASK_SLOW, accept)? {
            0 => {}
            errno::EACCES => {
                return Err(Error::Refused(
                    "nothing was written: the drone is armed; `steady disarm` first".to_owned(),
                ));
            }
            errno::EINVAL => {
                return Err(Error::Refused(
                    "nothing was written: the drone refuses the values; `steady console` names what is wrong"
                        .to_owned(),
                ));
            }
            code => {
                return Err(Error::Verification(format!(
                    "the drone's EEPROM does not keep the radio settings (error {code}): try again; if it stays so, \
                     the EEPROM is broken"
                )));
            }
        }
        let kept = self.config()?;
        if kept.encode() != config.encode() {
            return Err(Error::Verification(format!(
                "the drone keeps other radio settings: {kept:?}; try again"
            )));
        }
        Ok(())
    }

    fn config_memory(&mut self) -> Result<u8> {
        let found = self.find_memory(memory::Kind::Eeprom)?;
        found.map(|(id, _)| id).ok_or_else(|| {
            Error::Refused(
                "the drone does not show its radio settings: is Steady's firmware on it? `steady flash` puts it there"
                    .to_owned(),
            )
        })
    }
}
