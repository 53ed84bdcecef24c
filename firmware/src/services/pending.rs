//! Answers that have to wait for the flight task: arming and recovering.

use steady_common::crtp::{Packet, platform, supervisor};

use crate::route::Route;
use crate::telemetry::Telemetry;

/// How long the flight task may take, ms.
const PATIENCE_MS: u32 = 100;
/// Bits of `supervisor.info`.
const ARMED: u16 = 1 << 1;
const CRASHED: u16 = 1 << 7;

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// To arm or disarm.
    Arm(bool),
    /// To leave the state after a crash.
    Recover,
}

/// Which port the answer goes out on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    Platform,
    Supervisor,
}

/// The newest question that is not yet answered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending(Option<(Route, Asked, Via, u32)>);

impl Pending {
    pub(super) fn ask(&mut self, route: Route, asked: Asked, via: Via, now_ms: u32) {
        self.0 = Some((route, asked, via, now_ms));
    }

    /// Who asked by this link is gone.
    pub(super) fn forget(&mut self, route: Route) {
        self.0.take_if(|(asker, ..)| *asker == route);
    }

    /// The answer for this link, once the flight task shows what was asked or has had its time.
    pub(super) fn poll(&mut self, route: Route, now_ms: u32, telemetry: &Telemetry) -> Option<Packet> {
        let (_, asked, via, since) = self.0.filter(|(asker, ..)| *asker == route)?;
        let is = |bit: u16| telemetry.supervisor_info & bit != 0;
        let success = match asked {
            Asked::Arm(wanted) => is(ARMED) == wanted,
            Asked::Recover => !is(CRASHED),
        };
        if !success && now_ms.wrapping_sub(since) < PATIENCE_MS {
            return None;
        }
        self.0 = None;
        let (armed, recovered) = (is(ARMED), !is(CRASHED));
        match (via, asked) {
            (Via::Platform, Asked::Arm(_)) => platform::Reply::Arm { success, armed }.encode().ok(),
            (Via::Platform, Asked::Recover) => platform::Reply::Recover { success, recovered }.encode().ok(),
            (Via::Supervisor, Asked::Arm(_)) => Some(supervisor::Reply::Arm { success, armed }.encode()),
            (Via::Supervisor, Asked::Recover) => {
                Some(supervisor::Reply::Recover { success, recovered }.encode())
            }
        }
    }
}
