//! Port 6: motion capture, and the old way of emergencies.

use steady_common::commander::Command;
use steady_common::crtp::Packet;
use steady_common::crtp::localization::{Request, Seen};
use steady_common::estimator::Mocap;
use steady_common::{Quat, Vec3};

use super::{Context, Outcome, Services};

impl Services {
    pub(super) fn localization(&mut self, packet: &Packet, context: &mut Context<'_>) -> Outcome {
        match Request::decode(packet)? {
            Request::Position(position) => self.seen(position, None, context),
            Request::Pose(position, attitude) => self.seen(position, Some(attitude), context),
            Request::PackedPositions(all) => {
                if let Some(own) = own(&all, context.device.address) {
                    self.seen(own.position, None, context);
                }
            }
            Request::PackedPoses(all) => {
                if let Some(own) = own(&all, context.device.address) {
                    self.seen(own.position, Some(own.attitude), context);
                }
            }
            Request::EmergencyStop => self.emergency_stop(context),
            Request::EmergencyWatchdog => self.send(Command::EmergencyWatchdog, context),
        }
        Ok(None)
    }

    fn seen(&mut self, position: Vec3, attitude: Option<Quat>, context: &mut Context<'_>) {
        let settings = &context.settings.localization;
        let mocap = Mocap {
            position,
            position_std: settings.position_std,
            attitude: attitude.map(|q| (q, settings.attitude_std)),
            age_s: settings.delay_s(),
        };
        self.send(Command::Mocap(mocap), context);
    }
}

/// What was seen of this drone.
fn own(all: &[Option<Seen>], address: u8) -> Option<Seen> {
    all.iter().flatten().copied().find(|seen| seen.id == address)
}
