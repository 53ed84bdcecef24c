//! Ports 3 and 7: streamed set-points.

use steady_common::commander::{Command, Setpoint};
use steady_common::crtp::setpoint::{Request, Rpyt};
use steady_common::crtp::{Packet, Port};

use super::{Context, Outcome, Services};

/// Sticks that were not heard for this long must show no thrust again, ms.
const FORGET_MS: u32 = 2000;

/// Guards against a thrust stick that is up when flying begins: it counts only after it was seen at
/// zero.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sticks {
    unlocked: bool,
    last_ms: u32,
}

impl Sticks {
    fn take(&mut self, now_ms: u32, sticks: &Rpyt) -> Option<Setpoint> {
        if now_ms.wrapping_sub(self.last_ms) > FORGET_MS {
            self.unlocked = false;
        }
        self.last_ms = now_ms;
        self.unlocked |= sticks.thrust == 0;
        let setpoint = Rpyt { thrust: if self.unlocked { sticks.thrust } else { 0 }, ..*sticks }.setpoint();
        setpoint.is_finite().then_some(setpoint)
    }
}

impl Services {
    pub(super) fn setpoint(&mut self, now_ms: u32, packet: &Packet, context: &mut Context<'_>) -> Outcome {
        if packet.port() == Some(Port::Commander) {
            let sticks = Rpyt::decode(packet)?;
            let setpoint = self.sticks.take(now_ms, &sticks).ok_or(steady_common::crtp::Malformed::Value)?;
            self.send(Command::Setpoint(setpoint), context);
            return Ok(None);
        }
        let command = match Request::decode(packet)? {
            Request::Setpoint(setpoint) => Command::Setpoint(setpoint),
            Request::NotifyStop { remain_valid_ms } => Command::NotifySetpointsStop { remain_valid_ms },
        };
        self.send(command, context);
        Ok(None)
    }
}
