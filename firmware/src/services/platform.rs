//! Ports 13 and 9: versions, arming, emergencies.

use steady_common::commander::Command;
use steady_common::crtp::{PROTOCOL_VERSION, Packet, platform, supervisor};

use super::pending::{Asked, Via};
use super::{Context, Outcome, Services};

/// Most bytes of a version text in an answer.
const MAX_VERSION: usize = 29;

impl Services {
    pub(super) fn platform(&mut self, now_ms: u32, packet: &Packet, context: &mut Context<'_>) -> Outcome {
        use platform::{APP, Reply, Request};
        if packet.channel() == APP {
            return Ok(None);
        }
        let reply = match Request::decode(packet)? {
            Request::ProtocolVersion => Reply::ProtocolVersion(PROTOCOL_VERSION),
            Request::FirmwareVersion => Reply::FirmwareVersion(cut(context.device.version, MAX_VERSION)),
            Request::DeviceName => Reply::DeviceName(context.device.board.device_name()),
            Request::Notify(_) => Reply::Notified,
            // A carrier on the air would end every radio link; it stays off.
            Request::ContinuousWave(_) => Reply::ContinuousWave(false),
            Request::Arm(arm) => return self.ask(now_ms, Asked::Arm(arm), Via::Platform, context),
            Request::Recover => return self.ask(now_ms, Asked::Recover, Via::Platform, context),
        };
        Ok(reply.encode().ok())
    }

    pub(super) fn supervisor(&mut self, now_ms: u32, packet: &Packet, context: &mut Context<'_>) -> Outcome {
        use supervisor::{Reply, Request};
        let info = context.telemetry.supervisor_info;
        match supervisor::Request::decode(packet)? {
            Request::Flag(n) => Ok(Some(Reply::Flag(n, info & (1 << n) != 0).encode())),
            Request::Bitfield => Ok(Some(Reply::Bitfield(info).encode())),
            Request::Arm(arm) => self.ask(now_ms, Asked::Arm(arm), Via::Supervisor, context),
            Request::Recover => self.ask(now_ms, Asked::Recover, Via::Supervisor, context),
            Request::EmergencyStop => {
                self.emergency_stop(context);
                Ok(None)
            }
            Request::EmergencyWatchdog => {
                self.send(Command::EmergencyWatchdog, context);
                Ok(None)
            }
        }
    }

    /// Stops through the settings too, so that a full queue cannot swallow it.
    pub(super) fn emergency_stop(&mut self, context: &mut Context<'_>) {
        context.settings.stop = true;
        self.send(Command::EmergencyStop, context);
    }

    fn ask(&mut self, now_ms: u32, asked: Asked, via: Via, context: &mut Context<'_>) -> Outcome {
        let command = match asked {
            Asked::Arm(arm) => Command::Arm(arm),
            Asked::Recover => Command::Recover,
        };
        self.send(command, context);
        self.pending.ask(context.route, asked, via, now_ms);
        Ok(None)
    }
}

/// At most so many bytes of a text, without splitting a character.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or("")
}
