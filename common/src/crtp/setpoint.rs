//! Ports 3 and 7: streamed set-points.

use super::{Builder, Malformed, Packet, Port, end, flag, floats, quaternion};
use crate::bytes::Reader;
use crate::commander::Setpoint;
use crate::math::{DEG_TO_RAD, RAD_TO_DEG};
use crate::{Quat, Reference, Vec3, math};

/// Channel of set-points.
const SETPOINT: u8 = 0;
/// Channel of meta commands.
const META: u8 = 1;

/// Full scale of thrust in packets.
const FULL_THRUST: f32 = 65535.0;
/// Thrusts below this are zero in [`Rpyt`].
const MIN_THRUST: u16 = 1000;
/// Thrusts are limited to this in [`Rpyt`].
const MAX_THRUST: u16 = 60000;

/// Request on port 7.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request {
    /// A set-point.
    Setpoint(Setpoint),
    /// No more set-points; the last one stays valid for a while.
    NotifyStop {
        /// For how long, ms.
        remain_valid_ms: u32,
    },
}

/// The oldest set-point, port 3: roll, pitch, yaw rate, thrust.
///
/// Whoever takes these must have seen one without thrust first, so that a stick left up does not
/// start the motors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rpyt {
    /// rad.
    pub roll: f32,
    /// rad, right-handed (nose down is positive).
    pub pitch: f32,
    /// rad/s, right-handed (counter-clockwise is positive).
    pub yaw_rate: f32,
    /// As sent, 65535 is full.
    pub thrust: u16,
}

impl Rpyt {
    /// The packet. The wire has pitch nose up and yaw clockwise, in degrees.
    #[must_use]
    pub fn encode(&self) -> Packet {
        Builder::new(Port::Commander, 0)
            .f32(self.roll * RAD_TO_DEG)
            .f32(-self.pitch * RAD_TO_DEG)
            .f32(-self.yaw_rate * RAD_TO_DEG)
            .u16(self.thrust)
            .packet()
    }

    /// Decodes a packet.
    pub fn decode(packet: &Packet) -> Result<Self, Malformed> {
        let mut r = packet.expect(Port::Commander, 0)?;
        let [roll, pitch, yaw_rate] = floats(&mut r)?.map(|v| v * DEG_TO_RAD);
        let thrust = r.u16().ok_or(Malformed::Length)?;
        end(&r)?;
        Ok(Self { roll, pitch: -pitch, yaw_rate: -yaw_rate, thrust })
    }

    /// What it asks for, with the official dead band and limit on thrust.
    #[must_use]
    pub fn setpoint(&self) -> Setpoint {
        let thrust = if self.thrust < MIN_THRUST { 0 } else { self.thrust.min(MAX_THRUST) };
        Setpoint::Manual {
            roll: self.roll,
            pitch: self.pitch,
            yaw_rate: self.yaw_rate,
            thrust: f32::from(thrust) / FULL_THRUST,
            rates: false,
        }
    }
}

/// Millimetres, or the like, in 16 bits.
#[allow(clippy::cast_possible_truncation, reason = "float casts saturate")]
fn milli(value: f32) -> [u8; 2] {
    let half = if value < 0.0 { -0.5 } else { 0.5 };
    ((value * 1000.0 + half) as i16).to_le_bytes()
}

fn milli_vector(r: &mut Reader<'_>) -> Result<Vec3, Malformed> {
    let mut next = || r.array().map(|b| f32::from(i16::from_le_bytes(b)) * 0.001).ok_or(Malformed::Length);
    Ok(Vec3::new(next()?, next()?, next()?))
}

pub(super) fn put_milli_vector(b: &mut Builder, v: Vec3) {
    b.put(&milli(v.x)).put(&milli(v.y)).put(&milli(v.z));
}

pub(super) fn take_milli_vector(r: &mut Reader<'_>) -> Result<Vec3, Malformed> {
    milli_vector(r)
}

impl Request {
    /// Encodes the packet.
    #[must_use]
    pub fn encode(&self) -> Packet {
        match *self {
            Self::Setpoint(setpoint) => encode_setpoint(&setpoint),
            Self::NotifyStop { remain_valid_ms } => {
                Builder::new(Port::Setpoint, META).put(&[0]).u32(remain_valid_ms).packet()
            }
        }
    }

    /// Decodes a packet.
    pub fn decode(packet: &Packet) -> Result<Self, Malformed> {
        if let Ok(mut r) = packet.expect(Port::Setpoint, META) {
            return match r.u8().ok_or(Malformed::Length)? {
                0 => Ok(Self::NotifyStop { remain_valid_ms: r.u32().ok_or(Malformed::Length)? }),
                c => Err(Malformed::Command(c)),
            };
        }
        let mut r = packet.expect(Port::Setpoint, SETPOINT)?;
        let kind = r.u8().ok_or(Malformed::Length)?;
        let setpoint = decode_setpoint(kind, &mut r)?;
        end(&r)?;
        if setpoint.is_finite() { Ok(Self::Setpoint(setpoint)) } else { Err(Malformed::Value) }
    }
}

fn encode_setpoint(setpoint: &Setpoint) -> Packet {
    let mut b = Builder::new(Port::Setpoint, SETPOINT);
    match *setpoint {
        Setpoint::Stop => {
            b.put(&[0]);
        }
        Setpoint::ClimbAttitude { roll, pitch, yaw_rate, climb } => {
            b.put(&[4]).f32(roll * RAD_TO_DEG).f32(-pitch * RAD_TO_DEG).f32(yaw_rate * RAD_TO_DEG).f32(climb);
        }
        Setpoint::FullState { reference, rates } => {
            b.put(&[6]);
            put_milli_vector(&mut b, reference.position);
            put_milli_vector(&mut b, reference.velocity);
            put_milli_vector(&mut b, reference.acceleration);
            b.u32(quaternion::compress(Quat::from_euler(Vec3::Z * reference.yaw)));
            put_milli_vector(&mut b, rates);
        }
        Setpoint::Position { position, yaw } => {
            b.put(&[7]).f32(position.x).f32(position.y).f32(position.z).f32(yaw * RAD_TO_DEG);
        }
        Setpoint::Velocity { velocity, yaw_rate } => {
            b.put(&[8]).f32(velocity.x).f32(velocity.y).f32(velocity.z).f32(yaw_rate * RAD_TO_DEG);
        }
        Setpoint::HeightAttitude { roll, pitch, yaw_rate, height } => {
            b.put(&[9])
                .f32(roll * RAD_TO_DEG)
                .f32(-pitch * RAD_TO_DEG)
                .f32(yaw_rate * RAD_TO_DEG)
                .f32(height);
        }
        Setpoint::Hover { forward, left, yaw_rate, height } => {
            b.put(&[10]).f32(forward).f32(left).f32(yaw_rate * RAD_TO_DEG).f32(height);
        }
        Setpoint::Manual { roll, pitch, yaw_rate, thrust, rates } => {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "float casts saturate"
            )]
            let thrust = (thrust * FULL_THRUST + 0.5) as u16;
            b.put(&[11])
                .f32(roll * RAD_TO_DEG)
                .f32(-pitch * RAD_TO_DEG)
                .f32(yaw_rate * RAD_TO_DEG)
                .u16(thrust)
                .put(&[u8::from(rates)]);
        }
    }
    b.packet()
}

/// Pitch on the wire is nose up; the yaw rates of the three oldest types (1, 2, 5) are clockwise.
fn decode_setpoint(kind: u8, r: &mut Reader<'_>) -> Result<Setpoint, Malformed> {
    let old = matches!(kind, 1 | 2 | 5);
    let turn = |degrees: f32| if old { -degrees * DEG_TO_RAD } else { degrees * DEG_TO_RAD };
    Ok(match kind {
        0 => Setpoint::Stop,
        1 | 8 => {
            let [x, y, z, yaw_rate] = floats(r)?;
            Setpoint::Velocity { velocity: Vec3::new(x, y, z), yaw_rate: turn(yaw_rate) }
        }
        2 | 9 => {
            let [roll, pitch, yaw_rate, height] = floats(r)?;
            Setpoint::HeightAttitude {
                roll: roll * DEG_TO_RAD,
                pitch: -pitch * DEG_TO_RAD,
                yaw_rate: turn(yaw_rate),
                height,
            }
        }
        4 => {
            let [roll, pitch, yaw_rate, climb] = floats(r)?;
            Setpoint::ClimbAttitude {
                roll: roll * DEG_TO_RAD,
                pitch: -pitch * DEG_TO_RAD,
                yaw_rate: turn(yaw_rate),
                climb,
            }
        }
        5 | 10 => {
            let [forward, left, yaw_rate, height] = floats(r)?;
            Setpoint::Hover { forward, left, yaw_rate: turn(yaw_rate), height }
        }
        6 => {
            let (position, velocity) = (milli_vector(r)?, milli_vector(r)?);
            let acceleration = milli_vector(r)?;
            let attitude = quaternion::decompress(r.u32().ok_or(Malformed::Length)?);
            let rates = milli_vector(r)?;
            let yaw = attitude.to_euler().z;
            let reference = Reference { position, velocity, acceleration, yaw, yaw_rate: rates.z };
            Setpoint::FullState { reference, rates }
        }
        7 => {
            let [x, y, z, yaw] = floats(r)?;
            Setpoint::Position { position: Vec3::new(x, y, z), yaw: math::wrap_angle(yaw * DEG_TO_RAD) }
        }
        11 => {
            let [roll, pitch, yaw_rate] = floats(r)?.map(|v| v * DEG_TO_RAD);
            let thrust = f32::from(r.u16().ok_or(Malformed::Length)?) / FULL_THRUST;
            Setpoint::Manual { roll, pitch: -pitch, yaw_rate, thrust, rates: flag(r)? }
        }
        // Type 3 emulates the pulses of a remote control; not supported.
        other => return Err(Malformed::Command(other)),
    })
}
