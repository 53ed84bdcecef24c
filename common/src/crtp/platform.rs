//! Port 13: versions, and the old way of arming.

use super::{Builder, Malformed, Packet, Port, TooLong, end, flag};

const COMMAND: u8 = 0;
const VERSION: u8 = 1;
/// Channel for applications.
pub const APP: u8 = 2;

/// Request from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Radio carrier for tests.
    ContinuousWave(bool),
    /// Arm or disarm (clients before protocol version 12).
    Arm(bool),
    /// Leave the state after a crash.
    Recover,
    /// Show a message with the LEDs.
    Notify(u8),
    /// Version of the protocol.
    ProtocolVersion,
    /// Version of the firmware.
    FirmwareVersion,
    /// Name of the device.
    DeviceName,
}

/// Reply of the drone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// To [`Request::Arm`].
    Arm {
        /// It was done.
        success: bool,
        /// The drone is armed now.
        armed: bool,
    },
    /// To [`Request::Recover`].
    Recover {
        /// It was done.
        success: bool,
        /// The drone is not in the state after a crash.
        recovered: bool,
    },
    /// To [`Request::ContinuousWave`].
    ContinuousWave(bool),
    /// To [`Request::Notify`].
    Notified,
    /// To [`Request::ProtocolVersion`].
    ProtocolVersion(i32),
    /// To [`Request::FirmwareVersion`], at most 29 bytes.
    FirmwareVersion(&'a str),
    /// To [`Request::DeviceName`], at most 29 bytes.
    DeviceName(&'a str),
}

impl Request {
    /// Encodes the packet.
    #[must_use]
    pub fn encode(&self) -> Packet {
        let (channel, data): (u8, &[u8]) = match *self {
            Self::ContinuousWave(on) => (COMMAND, &[0, u8::from(on)]),
            Self::Arm(arm) => (COMMAND, &[1, u8::from(arm)]),
            Self::Recover => (COMMAND, &[2]),
            Self::Notify(what) => (COMMAND, &[3, what]),
            Self::ProtocolVersion => (VERSION, &[0]),
            Self::FirmwareVersion => (VERSION, &[1]),
            Self::DeviceName => (VERSION, &[2]),
        };
        Builder::new(Port::Platform, channel).put(data).packet()
    }

    /// Decodes a packet.
    pub fn decode(packet: &Packet) -> Result<Self, Malformed> {
        if let Ok(mut r) = packet.expect(Port::Platform, VERSION) {
            // Clients may append anything to a request.
            return match r.u8().ok_or(Malformed::Length)? {
                0 => Ok(Self::ProtocolVersion),
                1 => Ok(Self::FirmwareVersion),
                2 => Ok(Self::DeviceName),
                c => Err(Malformed::Command(c)),
            };
        }
        let mut r = packet.expect(Port::Platform, COMMAND)?;
        let request = match r.u8().ok_or(Malformed::Length)? {
            0 => Self::ContinuousWave(flag(&mut r)?),
            1 => Self::Arm(flag(&mut r)?),
            2 => Self::Recover,
            3 => Self::Notify(r.u8().ok_or(Malformed::Length)?),
            c => return Err(Malformed::Command(c)),
        };
        end(&r).map(|()| request)
    }
}

impl<'a> Reply<'a> {
    /// Encodes the packet.
    pub fn encode(&self) -> Result<Packet, TooLong> {
        let command = |data: &[u8]| Builder::new(Port::Platform, COMMAND).put(data).finish();
        let version = |n: u8, data: &[u8]| Builder::new(Port::Platform, VERSION).put(&[n]).put(data).finish();
        match *self {
            Self::ContinuousWave(on) => command(&[0, u8::from(on)]),
            Self::Arm { success, armed } => command(&[1, u8::from(success), u8::from(armed)]),
            Self::Recover { success, recovered } => command(&[2, u8::from(success), u8::from(recovered)]),
            Self::Notified => command(&[]),
            Self::ProtocolVersion(v) => version(0, &v.to_le_bytes()),
            Self::FirmwareVersion(text) => version(1, text.as_bytes()),
            Self::DeviceName(text) => version(2, text.as_bytes()),
        }
    }

    /// Decodes a packet.
    pub fn decode(packet: &'a Packet) -> Result<Self, Malformed> {
        let short = Malformed::Length;
        if let Ok(mut r) = packet.expect(Port::Platform, VERSION) {
            let command = r.u8().ok_or(short)?;
            let text = || core::str::from_utf8(r.rest()).map_err(|_| Malformed::Text);
            return match command {
                0 => Ok(Self::ProtocolVersion(i32::from_le_bytes(r.array().ok_or(short)?))),
                1 => Ok(Self::FirmwareVersion(text()?)),
                2 => Ok(Self::DeviceName(text()?)),
                c => Err(Malformed::Command(c)),
            };
        }
        let mut r = packet.expect(Port::Platform, COMMAND)?;
        let Some(command) = r.u8() else { return Ok(Self::Notified) };
        match command {
            0 => Ok(Self::ContinuousWave(flag(&mut r)?)),
            1 => Ok(Self::Arm { success: flag(&mut r)?, armed: flag(&mut r)? }),
            2 => Ok(Self::Recover { success: flag(&mut r)?, recovered: flag(&mut r)? }),
            c => Err(Malformed::Command(c)),
        }
    }
}
