//! Port 2: parameters, and keeping them over a restart.

use heapless::{Deque, Vec};
use steady_common::config_block;
use steady_common::crtp::param::{Raw, Reply, Request, type_of};
use steady_common::crtp::toc::{self, Info, Item};
use steady_common::crtp::{Packet, Port, errno};

use super::{Context, Outcome};
use crate::route::Route;
use crate::toc::{PARAMS, Param, Set, View, param, param_id, params_crc};

/// Jobs for the EEPROM that wait.
const JOBS: usize = 4;
/// Changes not yet sent to the client.
const CHANGES: usize = 8;
/// In the type byte of extended information: the parameter is persistent.
const PERSISTENT: u8 = 1;

/// What the EEPROM must do for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreRequest {
    /// Keep a value.
    Keep(Raw),
    /// Keep nothing.
    Forget,
    /// Ask for the stored value.
    Look,
    /// Keep a configuration block; not about a parameter.
    Configure([u8; config_block::SIZE]),
}

/// A job for the EEPROM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreJob {
    /// Number of the parameter it is about.
    pub id: u16,
    /// Where the answer goes.
    pub route: Route,
    /// What to do.
    pub request: StoreRequest,
}

/// A finished job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreDone {
    /// The job.
    pub job: StoreJob,
    /// What is kept now, or that the EEPROM failed.
    pub result: Result<Option<Raw>, ()>,
}

#[derive(Debug)]
pub(super) struct Params {
    crc: u32,
    jobs: Deque<StoreJob, JOBS>,
    changes: Vec<u16, CHANGES>,
}

fn value_of(param: &Param, view: &View<'_>) -> Raw {
    Raw::from((param.get)(view))
}

/// What the firmware starts a parameter with.
fn default_of(param: &Param, view: &View<'_>) -> Raw {
    value_of(param, &View { settings: &crate::settings::Settings::new(), ..*view })
}

fn persistent(id: u16) -> Result<&'static Param, u8> {
    param(id).filter(|p| p.persistent).ok_or(errno::ENOENT)
}

/// Writes a parameter, whose value in force afterwards is to be read.
fn write(param: &Param, value: Raw, context: &mut Context<'_>) -> Result<(), u8> {
    let set = param.set.ok_or(errno::EACCES)?;
    let value = value.value(param.kind).ok_or(errno::EINVAL)?;
    match set(context.settings, value) {
        Set::Done => Ok(()),
        Set::Refused => Err(errno::EINVAL),
        Set::Send(command) => {
            if (context.send)(command) {
                Ok(())
            } else {
                Err(errno::EBUSY)
            }
        }
    }
}

impl Params {
    pub(super) fn new() -> Self {
        Self { crc: params_crc(), jobs: Deque::new(), changes: Vec::new() }
    }

    pub(super) fn handle(&mut self, packet: &Packet, context: &mut Context<'_>) -> Outcome {
        if packet.channel() == toc::CHANNEL {
            let reply = match toc::Request::decode(packet, Port::Param)? {
                toc::Request::Info => {
                    let count = u16::try_from(PARAMS.len()).unwrap_or(u16::MAX);
                    toc::Reply::Info(Info { count, crc: self.crc })
                }
                toc::Request::Item(id) => param(id).map_or(toc::Reply::NoItem, |p| {
                    toc::Reply::Item(Item { id, kind: p.type_byte(), group: p.group, name: p.name })
                }),
            };
            return Ok(reply.encode(Port::Param).ok());
        }
        let request = Request::decode(packet)?;
        Ok(self.answer(&request, context).and_then(|reply| reply.encode().ok()))
    }

    fn answer<'a>(&mut self, request: &Request<'a>, context: &mut Context<'_>) -> Option<Reply<'a>> {
        let unknown = || Raw::new(&[errno::ENOENT]).unwrap_or_default();
        let kind = |id| param(id).map(|p| if p.persistent { PERSISTENT } else { 0 });
        match *request {
            Request::Read(id) => {
                let value = param(id).map(|p| value_of(p, &context.view()));
                Some(Reply::Read(id, value.ok_or(errno::ENOENT)))
            }
            // The answer is the value in force: also when it was refused or cannot be written.
            Request::Write(id, value) => Some(match param(id) {
                Some(p) => {
                    let _ = write(p, value, context);
                    Reply::Write(id, value_of(p, &context.view()))
                }
                None => Reply::Write(id, unknown()),
            }),
            Request::SetByName { group, name, kind, value } => {
                let result = param_id(group, name).and_then(param).ok_or(errno::ENOENT).and_then(|p| {
                    if type_of(kind) == Some(p.kind) { write(p, value, context) } else { Err(errno::EINVAL) }
                });
                Some(Reply::SetByName { group, name, error: result.err().unwrap_or(0) })
            }
            Request::ExtendedTypeOld(id) => {
                let known = kind(id).filter(|k| *k == PERSISTENT);
                Some(Reply::ExtendedTypeOld(id, known.unwrap_or(errno::ENOENT)))
            }
            Request::ExtendedType(id) => Some(Reply::ExtendedType(id, kind(id).ok_or(errno::ENOENT))),
            Request::DefaultOld(id) => Some(Reply::DefaultOld(
                id,
                param(id).map_or_else(unknown, |p| default_of(p, &context.view())),
            )),
            Request::Default(id) => {
                let value = param(id).map(|p| default_of(p, &context.view()));
                Some(Reply::Default(id, value.ok_or(errno::ENOENT)))
            }
            Request::Store(id) => {
                let job = persistent(id).map(|p| StoreRequest::Keep(value_of(p, &context.view())));
                self.queue(id, context.route, job).map(|error| Reply::Store(id, error))
            }
            Request::Clear(id) => {
                let job = persistent(id).map(|_| StoreRequest::Forget);
                self.queue(id, context.route, job).map(|error| Reply::Clear(id, error))
            }
            Request::StoredState(id) => {
                let job = persistent(id).map(|_| StoreRequest::Look);
                self.queue(id, context.route, job).map(|error| Reply::StoredState(id, Err(error)))
            }
        }
    }

    /// Lets a job wait for the EEPROM; gives the error that makes this impossible.
    fn queue(&mut self, id: u16, route: Route, request: Result<StoreRequest, u8>) -> Option<u8> {
        match request {
            Ok(request) => self.jobs.push_back(StoreJob { id, route, request }).err().map(|_| errno::ENOENT),
            Err(error) => Some(error),
        }
    }

    pub(super) fn next_job(&mut self) -> Option<StoreJob> {
        self.jobs.pop_front()
    }

    pub(super) fn job_done(&mut self, done: &StoreDone, view: &View<'_>) -> Option<Packet> {
        let id = done.job.id;
        let error = if done.result.is_ok() { 0 } else { errno::ENOENT };
        let reply = match done.job.request {
            StoreRequest::Keep(_) => Reply::Store(id, error),
            StoreRequest::Forget => Reply::Clear(id, error),
            StoreRequest::Configure(_) => return None,
            StoreRequest::Look => {
                let state = done.result.map_err(|()| errno::ENOENT);
                Reply::StoredState(id, state.map(|kept| (default_of_id(id, view), kept)))
            }
        };
        reply.encode().ok()
    }

    pub(super) fn changed(&mut self, group: &str, name: &str) {
        if let Some(id) = param_id(group, name)
            && !self.changes.contains(&id)
        {
            // A client that hears of eight changes at once reads the rest when it asks.
            let _ = self.changes.push(id);
        }
    }

    /// The next change to tell.
    pub(super) fn poll(&mut self, view: &View<'_>) -> Option<Packet> {
        let id = self.changes.pop()?;
        Reply::Changed(id, value_of(param(id)?, view)).encode().ok()
    }
}

fn default_of_id(id: u16, view: &View<'_>) -> Raw {
    param(id).map_or_else(Raw::default, |p| default_of(p, view))
}
