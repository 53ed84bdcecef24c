//! Port 8: take-off, landing, go-to and trajectories.

use steady_common::commander::{Command, HighLevel};
use steady_common::crtp::high_level::{Reply, Request};
use steady_common::crtp::{Malformed, Packet, errno};
use steady_common::planner;

use super::{Context, Outcome, Services};

/// What was defined since boot, ahead of the flight task's own report.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HighLevelService {
    defined: u32,
}

impl Services {
    pub(super) fn high_level(&mut self, packet: &Packet, context: &mut Context<'_>) -> Outcome {
        let request = match Request::decode(packet) {
            Ok(request) => request,
            // Clients know it, this firmware does not: answer with an error.
            Err(error @ (Malformed::Command(_) | Malformed::Value)) => {
                self.bad_packets = self.bad_packets.wrapping_add(1);
                let _ = error;
                return Ok(Some(Reply::to(packet, errno::ENOEXEC).encode()));
            }
            Err(error) => return Err(error),
        };
        let result = match request {
            Request::SetGroupMask(mask) => {
                context.settings.group_mask = mask;
                0
            }
            Request::Fly { group, action } => {
                let own = context.settings.group_mask;
                if group != 0 && group & own == 0 {
                    return Ok(None);
                }
                self.fly(action, context)
            }
        };
        Ok(Some(Reply::to(packet, result).encode()))
    }

    /// Passes an action on if it is possible now; gives the answer's result.
    fn fly(&mut self, action: HighLevel, context: &mut Context<'_>) -> u8 {
        let on_the_ground_too = matches!(action, HighLevel::DefineTrajectory { .. } | HighLevel::Stop);
        if !on_the_ground_too && !context.telemetry.supervisor.may_fly() {
            return errno::EBUSY;
        }
        let told = context.telemetry.planner;
        let status = planner::Status { defined: told.defined | self.planner.defined, ..told };
        if status.check(&action).is_err() {
            return Reply::REFUSED;
        }
        if let HighLevel::DefineTrajectory { id, .. } = action {
            self.planner.defined |= 1 << (id & 31);
        }
        self.send(Command::HighLevel(action), context);
        0
    }
}
