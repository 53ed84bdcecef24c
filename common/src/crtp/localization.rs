//! Port 6: motion capture samples, for one drone or packed for several.

use super::setpoint::{put_milli_vector, take_milli_vector};
use super::{Builder, Malformed, Packet, Port, end, floats, quaternion};
use crate::{Quat, Vec3};

const POSITION: u8 = 0;
const GENERIC: u8 = 1;
const PACKED_POSITION: u8 = 2;

/// Positions in one packed packet.
pub const MAX_PACKED_POSITIONS: usize = 4;
/// Poses in one packed packet.
pub const MAX_PACKED_POSES: usize = 2;

/// A sample of one drone of a swarm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// Last byte of the radio address.
    pub id: u8,
    /// World frame, m.
    pub position: Vec3,
    /// Body to world; identity where only the position is known.
    pub attitude: Quat,
}

/// Message from the host. Packed entries beyond the first are optional.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request {
    /// This drone's position, m.
    Position(Vec3),
    /// This drone's position, m, and attitude.
    Pose(Vec3, Quat),
    /// Positions of several drones, in millimetres.
    PackedPositions([Option<Seen>; MAX_PACKED_POSITIONS]),
    /// Positions in millimetres and compressed attitudes of several drones.
    PackedPoses([Option<Seen>; MAX_PACKED_POSES]),
    /// Motors off (protocol versions before 12).
    EmergencyStop,
    /// Feeds the emergency watchdog (protocol versions before 12).
    EmergencyWatchdog,
}

impl Request {
    /// Encodes the packet.
    #[must_use]
    pub fn encode(&self) -> Packet {
        let generic = |kind: u8| *Builder::new(Port::Localization, GENERIC).put(&[kind]);
        match *self {
            Self::Position(p) => {
                Builder::new(Port::Localization, POSITION).f32(p.x).f32(p.y).f32(p.z).packet()
            }
            Self::Pose(p, q) => {
                generic(8).f32(p.x).f32(p.y).f32(p.z).f32(q.x).f32(q.y).f32(q.z).f32(q.w).packet()
            }
            Self::PackedPositions(all) => {
                let mut b = Builder::new(Port::Localization, PACKED_POSITION);
                for seen in all.iter().flatten() {
                    b.put(&[seen.id]);
                    put_milli_vector(&mut b, seen.position);
                }
                b.packet()
            }
            Self::PackedPoses(all) => {
                let mut b = generic(9);
                for seen in all.iter().flatten() {
                    b.put(&[seen.id]);
                    put_milli_vector(&mut b, seen.position);
                    b.u32(quaternion::compress(seen.attitude));
                }
                b.packet()
            }
            Self::EmergencyStop => generic(3).packet(),
            Self::EmergencyWatchdog => generic(4).packet(),
        }
    }

    /// Decodes a packet. Positions must be finite, attitudes rotations.
    pub fn decode(packet: &Packet) -> Result<Self, Malformed> {
        if let Ok(mut r) = packet.expect(Port::Localization, POSITION) {
            let [x, y, z] = floats(&mut r)?;
            end(&r)?;
            return finite(Vec3::new(x, y, z)).map(Self::Position);
        }
        if let Ok(mut r) = packet.expect(Port::Localization, PACKED_POSITION) {
            let mut all = [None; MAX_PACKED_POSITIONS];
            for slot in &mut all {
                let Some(id) = r.u8() else { break };
                let position = take_milli_vector(&mut r)?;
                *slot = Some(Seen { id, position, attitude: Quat::IDENTITY });
            }
            return end(&r).map(|()| Self::PackedPositions(all));
        }
        let mut r = packet.expect(Port::Localization, GENERIC)?;
        match r.u8().ok_or(Malformed::Length)? {
            3 => Ok(Self::EmergencyStop),
            4 => Ok(Self::EmergencyWatchdog),
            8 => {
                let [x, y, z, qx, qy, qz, qw] = floats(&mut r)?;
                end(&r)?;
                let q = Quat::new(qw, qx, qy, qz);
                let length2 = qw * qw + qx * qx + qy * qy + qz * qz;
                if !(0.81..=1.21).contains(&length2) {
                    return Err(Malformed::Value);
                }
                Ok(Self::Pose(finite(Vec3::new(x, y, z))?, q.normalized()))
            }
            9 => {
                let mut all = [None; MAX_PACKED_POSES];
                for slot in &mut all {
                    let Some(id) = r.u8() else { break };
                    let position = take_milli_vector(&mut r)?;
                    let attitude = quaternion::decompress(r.u32().ok_or(Malformed::Length)?);
                    *slot = Some(Seen { id, position, attitude });
                }
                end(&r).map(|()| Self::PackedPoses(all))
            }
            c => Err(Malformed::Command(c)),
        }
    }
}

fn finite(v: Vec3) -> Result<Vec3, Malformed> {
    if v.is_finite() { Ok(v) } else { Err(Malformed::Value) }
}
