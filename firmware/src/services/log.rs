//! Port 5: log variables in blocks that are sent at a period.

use heapless::Vec;
use steady_common::bytes::Writer;
use steady_common::crtp::log::{
    MAX_BLOCKS, MAX_PAYLOAD, MAX_VARIABLES, Reply, Request, Variables, type_code,
};
use steady_common::crtp::toc::{self, Info, Item};
use steady_common::crtp::{Packet, Port, errno, log as crtp_log};
use steady_common::value::Type;

use super::Outcome;
use crate::toc::{LOGS, View, log, logs_crc};

/// One variable of one block.
#[derive(Clone, Copy, Debug)]
struct Op {
    block: u8,
    variable: u16,
    kind: Type,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    id: u8,
    /// Period in ms; nothing while it is stopped.
    period_ms: Option<u16>,
    due_ms: u32,
}

#[derive(Debug)]
pub(super) struct Logs {
    crc: u32,
    blocks: Vec<Block, { MAX_BLOCKS as usize }>,
    ops: Vec<Op, { MAX_VARIABLES as usize }>,
}

impl Logs {
    pub(super) fn new() -> Self {
        Self { crc: logs_crc(), blocks: Vec::new(), ops: Vec::new() }
    }

    /// Forgets all blocks.
    pub(super) fn reset(&mut self) {
        self.blocks.clear();
        self.ops.clear();
    }

    pub(super) fn handle(&mut self, now_ms: u32, packet: &Packet) -> Outcome {
        if packet.channel() == toc::CHANNEL {
            let reply = match toc::Request::decode(packet, Port::Log)? {
                toc::Request::Info => {
                    let count = u16::try_from(LOGS.len()).unwrap_or(u16::MAX);
                    toc::Reply::Info(Info { count, crc: self.crc })
                }
                toc::Request::Item(id) => log(id).map_or(toc::Reply::NoItem, |l| {
                    toc::Reply::Item(Item { id, kind: type_code(l.kind), group: l.group, name: l.name })
                }),
            };
            return Ok(reply.encode(Port::Log).ok());
        }
        let request = Request::decode(packet)?;
        let (block, result) = match request {
            Request::Create(block, variables) => (block, self.create(block, &variables)),
            Request::Append(block, variables) => (block, self.append(block, &variables)),
            Request::Delete(block) => (block, self.delete(block)),
            Request::Start { block, period_ms, .. } => (block, self.start(block, period_ms, now_ms)),
            Request::Stop(block) => (block, self.stop(block)),
            Request::Reset => {
                self.reset();
                (0, Ok(()))
            }
        };
        let error = result.err().unwrap_or(0);
        Ok(Reply::Control { command: request.command(), block, error }.encode().ok())
    }

    fn find(&mut self, id: u8) -> Result<&mut Block, u8> {
        self.blocks.iter_mut().find(|b| b.id == id).ok_or(errno::ENOENT)
    }

    fn create(&mut self, id: u8, variables: &Variables) -> Result<(), u8> {
        if self.find(id).is_ok() {
            return Err(errno::EEXIST);
        }
        self.blocks.push(Block { id, period_ms: None, due_ms: 0 }).map_err(|_| errno::ENOMEM)?;
        self.append(id, variables)
    }

    /// Takes all of the variables or none.
    fn append(&mut self, block: u8, variables: &Variables) -> Result<(), u8> {
        self.find(block)?;
        let before = self.ops.len();
        let result = self.append_each(block, variables);
        if result.is_err() {
            self.ops.truncate(before);
        }
        result
    }

    fn append_each(&mut self, block: u8, variables: &Variables) -> Result<(), u8> {
        let mut size: usize = self.ops.iter().filter(|op| op.block == block).map(|op| op.kind.size()).sum();
        for variable in variables.iter() {
            let kind = crtp_log::type_of(variable.kind).ok_or(errno::ENOENT)?;
            log(variable.id).ok_or(errno::ENOENT)?;
            size += kind.size();
            if size > MAX_PAYLOAD {
                return Err(errno::E2BIG);
            }
            self.ops.push(Op { block, variable: variable.id, kind }).map_err(|_| errno::ENOMEM)?;
        }
        Ok(())
    }

    fn delete(&mut self, id: u8) -> Result<(), u8> {
        self.find(id)?;
        self.blocks.retain(|b| b.id != id);
        self.ops.retain(|op| op.block != id);
        Ok(())
    }

    fn start(&mut self, id: u8, period_ms: u16, now_ms: u32) -> Result<(), u8> {
        let block = self.find(id)?;
        (block.period_ms, block.due_ms) = (Some(period_ms), now_ms.wrapping_add(u32::from(period_ms)));
        Ok(())
    }

    fn stop(&mut self, id: u8) -> Result<(), u8> {
        self.find(id)?.period_ms = None;
        Ok(())
    }

    /// The next block that is due.
    pub(super) fn poll(&mut self, now_ms: u32, view: &View<'_>) -> Option<Packet> {
        let late = |block: &Block| now_ms.wrapping_sub(block.due_ms);
        let due = |block: &&mut Block| block.period_ms.is_some() && late(block) < u32::MAX / 2;
        // The one that has waited longest, so that a slow link serves all of them.
        let block = self.blocks.iter_mut().filter(due).max_by_key(|b| late(b))?;
        match block.period_ms {
            Some(0) | None => block.period_ms = None,
            Some(period) => {
                let period = u32::from(period);
                block.due_ms = block.due_ms.wrapping_add(period);
                if now_ms.wrapping_sub(block.due_ms) < u32::MAX / 2 {
                    // More than a period late: leave out what was missed.
                    block.due_ms = now_ms.wrapping_add(period);
                }
            }
        }
        let id = block.id;
        let mut values = [0; MAX_PAYLOAD];
        let mut w = Writer::new(&mut values);
        for op in self.ops.iter().filter(|op| op.block == id) {
            if let Some(log) = log(op.variable) {
                (log.get)(view).write_as(op.kind, &mut w);
            }
        }
        let length = w.len()?;
        Reply::Data { block: id, time_ms: now_ms, values: values.get(..length)? }.encode().ok()
    }
}
