//! Port 9: arming, emergencies and the supervisor's flags (protocol version 12 and up).

use super::{Builder, Malformed, Packet, Port, end, flag};

const INFO: u8 = 0;
const COMMAND: u8 = 1;
/// Set in the command byte of answers.
const ANSWER: u8 = 0x80;
/// Asks for all flags at once.
const BITFIELD: u8 = 0x0C;

/// Request from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// One flag of the bit field, 0 to 10.
    Flag(u8),
    /// All flags, as the log variable `supervisor.info` has them.
    Bitfield,
    /// Arm or disarm.
    Arm(bool),
    /// Leave the state after a crash.
    Recover,
    /// Motors off. Not answered.
    EmergencyStop,
    /// Feeds the emergency watchdog. Not answered.
    EmergencyWatchdog,
}

/// Reply of the drone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To [`Request::Flag`].
    Flag(u8, bool),
    /// To [`Request::Bitfield`].
    Bitfield(u16),
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
}

impl Request {
    /// Encodes the packet.
    #[must_use]
    pub fn encode(&self) -> Packet {
        let (channel, data): (u8, &[u8]) = match *self {
            Self::Flag(n) => (INFO, &[n.saturating_add(1)]),
            Self::Bitfield => (INFO, &[BITFIELD]),
            Self::Arm(arm) => (COMMAND, &[1, u8::from(arm)]),
            Self::Recover => (COMMAND, &[2]),
            Self::EmergencyStop => (COMMAND, &[3]),
            Self::EmergencyWatchdog => (COMMAND, &[4]),
        };
        Builder::new(Port::Supervisor, channel).put(data).packet()
    }

    /// Decodes a packet.
    pub fn decode(packet: &Packet) -> Result<Self, Malformed> {
        if let Ok(mut r) = packet.expect(Port::Supervisor, INFO) {
            return match r.u8().ok_or(Malformed::Length)? {
                n @ 1..BITFIELD => Ok(Self::Flag(n - 1)),
                BITFIELD => Ok(Self::Bitfield),
                c => Err(Malformed::Command(c)),
            };
        }
        let mut r = packet.expect(Port::Supervisor, COMMAND)?;
        let request = match r.u8().ok_or(Malformed::Length)? {
            1 => Self::Arm(flag(&mut r)?),
            2 => Self::Recover,
            // Trailing bytes are ignored: a stop must not be refused.
            3 => return Ok(Self::EmergencyStop),
            4 => return Ok(Self::EmergencyWatchdog),
            c => return Err(Malformed::Command(c)),
        };
        end(&r).map(|()| request)
    }
}

impl Reply {
    /// Encodes the packet.
    #[must_use]
    pub fn encode(&self) -> Packet {
        match *self {
            Self::Flag(n, on) => {
                let command = ANSWER | n.saturating_add(1);
                Builder::new(Port::Supervisor, INFO).put(&[command, u8::from(on)]).packet()
            }
            Self::Bitfield(bits) => {
                Builder::new(Port::Supervisor, INFO).put(&[ANSWER | BITFIELD]).u16(bits).packet()
            }
            Self::Arm { success, armed } => Builder::new(Port::Supervisor, COMMAND)
                .put(&[ANSWER | 1, u8::from(success), u8::from(armed)])
                .packet(),
            Self::Recover { success, recovered } => Builder::new(Port::Supervisor, COMMAND)
                .put(&[ANSWER | 2, u8::from(success), u8::from(recovered)])
                .packet(),
        }
    }

    /// Decodes a packet.
    pub fn decode(packet: &Packet) -> Result<Self, Malformed> {
        let short = Malformed::Length;
        let number = |c: u8| if c & ANSWER == 0 { Err(Malformed::Command(c)) } else { Ok(c & !ANSWER) };
        if let Ok(mut r) = packet.expect(Port::Supervisor, INFO) {
            return match number(r.u8().ok_or(short)?)? {
                n @ 1..BITFIELD => Ok(Self::Flag(n - 1, flag(&mut r)?)),
                BITFIELD => Ok(Self::Bitfield(r.u16().ok_or(short)?)),
                c => Err(Malformed::Command(c)),
            };
        }
        let mut r = packet.expect(Port::Supervisor, COMMAND)?;
        match number(r.u8().ok_or(short)?)? {
            1 => Ok(Self::Arm { success: flag(&mut r)?, armed: flag(&mut r)? }),
            2 => Ok(Self::Recover { success: flag(&mut r)?, recovered: flag(&mut r)? }),
            c => Err(Malformed::Command(c)),
        }
    }
}
