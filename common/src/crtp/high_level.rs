//! Port 8: take-off, landing, go-to and trajectories.

use super::{Builder, Malformed, Packet, Port, end, flag, floats};
use crate::Vec3;
use crate::commander::{HighLevel, Pace};

/// Where trajectories lie: in the memory that port 4 writes.
const LOCATION_MEMORY: u8 = 1;
/// Uncompressed polynomials.
const TYPE_POLY4D: u8 = 0;

/// Request from the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request {
    /// Which groups the drone belongs to.
    SetGroupMask(u8),
    /// Something to fly, for everyone (group 0) or for those whose mask has a common bit.
    Fly {
        /// The group.
        group: u8,
        /// What to do.
        action: HighLevel,
    },
}

/// The answer: the first three bytes of the request and the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The beginning of the request, zero filled.
    pub echo: [u8; 3],
    /// 0, or an error number; 1 when the planner refused.
    pub result: u8,
}

impl Reply {
    /// The planner cannot do that.
    pub const REFUSED: u8 = 1;

    /// The answer to a request.
    #[must_use]
    pub fn to(request: &Packet, result: u8) -> Self {
        let mut echo = [0; 3];
        echo.iter_mut().zip(request.data()).for_each(|(to, from)| *to = *from);
        Self { echo, result }
    }

    /// Encodes the packet.
    #[must_use]
    pub fn encode(&self) -> Packet {
        Builder::new(Port::HighLevel, 0).put(&self.echo).put(&[self.result]).packet()
    }

    /// Decodes a packet.
    pub fn decode(packet: &Packet) -> Result<Self, Malformed> {
        let mut r = packet.expect(Port::HighLevel, 0)?;
        let short = Malformed::Length;
        Ok(Self { echo: r.array().ok_or(short)?, result: r.u8().ok_or(short)? })
    }
}

impl Request {
    /// For everyone.
    #[must_use]
    pub fn everyone(action: HighLevel) -> Self {
        Self::Fly { group: 0, action }
    }

    /// The packet, with the newest command for each action.
    #[must_use]
    pub fn encode(&self) -> Packet {
        let mut b = Builder::new(Port::HighLevel, 0);
        match *self {
            Self::SetGroupMask(mask) => {
                b.put(&[0, mask]);
            }
            Self::Fly { group, action } => encode_action(&mut b, group, action),
        }
        b.packet()
    }

    /// Decodes a packet.
    pub fn decode(packet: &Packet) -> Result<Self, Malformed> {
        let mut r = packet.expect(Port::HighLevel, 0)?;
        let short = Malformed::Length;
        let command = r.u8().ok_or(short)?;
        // The first byte is the group for all commands but two.
        let group = r.u8().ok_or(short)?;
        let mut group_of = group;
        let action = match command {
            0 => {
                end(&r)?;
                return Ok(Self::SetGroupMask(group));
            }
            1 | 2 => {
                let [height, duration] = floats(&mut r)?;
                vertical(command == 1, height, false, Some(0.0), Pace::Duration(duration))
            }
            3 => HighLevel::Stop,
            4 => {
                let relative = flag(&mut r)?;
                let [x, y, z, yaw, duration] = floats(&mut r)?;
                let position = Vec3::new(x, y, z);
                HighLevel::GoTo { relative, linear: false, position, yaw, duration }
            }
            5 => {
                let (relative_position, reversed) = (flag(&mut r)?, flag(&mut r)?);
                let (id, [time_scale]) = (r.u8().ok_or(short)?, floats(&mut r)?);
                HighLevel::StartTrajectory {
                    id,
                    time_scale,
                    reversed,
                    relative_position,
                    relative_yaw: false,
                }
            }
            6 => {
                let (location, kind) = (r.u8().ok_or(short)?, r.u8().ok_or(short)?);
                let (offset, pieces) = (r.u32().ok_or(short)?, r.u8().ok_or(short)?);
                if location != LOCATION_MEMORY || kind != TYPE_POLY4D {
                    return Err(Malformed::Value);
                }
                group_of = 0;
                HighLevel::DefineTrajectory { id: group, offset, pieces }
            }
            7 | 8 => {
                let ([height, yaw], keep) = (floats(&mut r)?, flag(&mut r)?);
                let [duration] = floats(&mut r)?;
                vertical(command == 7, height, false, (!keep).then_some(yaw), Pace::Duration(duration))
            }
            9 | 10 => {
                let ([height], relative) = (floats(&mut r)?, flag(&mut r)?);
                let ([yaw], keep) = (floats(&mut r)?, flag(&mut r)?);
                let [speed] = floats(&mut r)?;
                vertical(command == 9, height, relative, (!keep).then_some(yaw), Pace::Speed(speed))
            }
            11 => {
                let (sideways, clockwise) = (flag(&mut r)?, flag(&mut r)?);
                let [angle, start_radius, end_radius, climb, duration] = floats(&mut r)?;
                HighLevel::Spiral { sideways, clockwise, angle, start_radius, end_radius, climb, duration }
            }
            12 => {
                let (relative, linear) = (flag(&mut r)?, flag(&mut r)?);
                let [x, y, z, yaw, duration] = floats(&mut r)?;
                HighLevel::GoTo { relative, linear, position: Vec3::new(x, y, z), yaw, duration }
            }
            13 => {
                let (relative_position, relative_yaw, reversed) =
                    (flag(&mut r)?, flag(&mut r)?, flag(&mut r)?);
                let (id, [time_scale]) = (r.u8().ok_or(short)?, floats(&mut r)?);
                HighLevel::StartTrajectory { id, time_scale, reversed, relative_position, relative_yaw }
            }
            other => return Err(Malformed::Command(other)),
        };
        end(&r)?;
        Ok(Self::Fly { group: group_of, action })
    }
}

fn vertical(up: bool, height: f32, relative: bool, yaw: Option<f32>, pace: Pace) -> HighLevel {
    if up {
        HighLevel::TakeOff { height, relative, yaw, pace }
    } else {
        HighLevel::Land { height, relative, yaw, pace }
    }
}

fn encode_action(b: &mut Builder, group: u8, action: HighLevel) {
    match action {
        HighLevel::TakeOff { height, relative, yaw, pace }
        | HighLevel::Land { height, relative, yaw, pace } => {
            let (keep, yaw) = (u8::from(yaw.is_none()), yaw.unwrap_or(0.0));
            let up = matches!(action, HighLevel::TakeOff { .. });
            match pace {
                Pace::Duration(s) if !relative => {
                    b.put(&[if up { 7 } else { 8 }, group]).f32(height).f32(yaw).put(&[keep]).f32(s);
                }
                // Relative heights exist only with a speed; a duration is turned into one.
                _ => {
                    let speed = match pace {
                        Pace::Speed(v) => v,
                        Pace::Duration(s) => crate::math::abs(height) / s,
                    };
                    b.put(&[if up { 9 } else { 10 }, group])
                        .f32(height)
                        .put(&[u8::from(relative)])
                        .f32(yaw)
                        .put(&[keep])
                        .f32(speed);
                }
            }
        }
        HighLevel::Stop => {
            b.put(&[3, group]);
        }
        HighLevel::GoTo { relative, linear, position, yaw, duration } => {
            b.put(&[12, group, u8::from(relative), u8::from(linear)])
                .f32(position.x)
                .f32(position.y)
                .f32(position.z)
                .f32(yaw)
                .f32(duration);
        }
        HighLevel::Spiral { sideways, clockwise, angle, start_radius, end_radius, climb, duration } => {
            b.put(&[11, group, u8::from(sideways), u8::from(clockwise)])
                .f32(angle)
                .f32(start_radius)
                .f32(end_radius)
                .f32(climb)
                .f32(duration);
        }
        HighLevel::DefineTrajectory { id, offset, pieces } => {
            b.put(&[6, id, LOCATION_MEMORY, TYPE_POLY4D]).u32(offset).put(&[pieces]);
        }
        HighLevel::StartTrajectory { id, time_scale, reversed, relative_position, relative_yaw } => {
            let flags = [relative_position, relative_yaw, reversed].map(u8::from);
            b.put(&[13, group]).put(&flags).put(&[id]).f32(time_scale);
        }
    }
}
