//! The log record of one control step.
//!
//! A record holds the law's inputs and its memory *before* the step, so that the step can be
//! computed again bit for bit and the observation be rebuilt. To keep records small, what follows
//! from the record before is not repeated: the last action, and the last errors of the position,
//! velocity and rate loops. [`Transition::law_memory`] and [`Transition::observation`] therefore
//! take the predecessor, which must have the sequence number before this one's.
//!
//! [`FIELDS`] is the only list of fields: encoding, decoding and the uSD header come from it. Files are
//! read by the names in their own header ([`Decoder`]), so that logs of older and newer firmware stay
//! readable. Names are the official firmware's where it logs the same thing in the same unit; ours are
//! in the group `steady`. Frames are right-handed; nothing here has the Crazyflie's inverted pitch. The
//! CRC-16 at the end covers the whole record, event id and timestamp included.

mod tracker;

pub use tracker::{Link, StepTracker};

use crate::bytes::Writer;
use crate::gain_table::GainTable;
use crate::law::{self, Memory, PerLoop};
use crate::observation::{OBSERVATION_LEN, observe};
use crate::usdlog::schema::{Located, RECORD_CRC, RECORD_CRC_NAME};
use crate::usdlog::write::{RECORD_PREFIX_SIZE, record_prefix};
use crate::usdlog::{Field, Header, Record, SchemaError, Type};
use crate::{Action, Reference, State, Vec3};

/// Name of the event in a uSD log.
pub const EVENT_NAME: &str = "transition";
/// Id of the event in a uSD log: `ST` in the file's byte order.
pub const EVENT_ID: u16 = u16::from_le_bytes(*b"ST");
/// Bytes of the CRC-16 after the fields.
const CRC_SIZE: usize = 2;
/// Bytes of a record as this firmware writes it, from the event id to the CRC. Records of a file have
/// the size that its header gives.
pub const RECORD_SIZE: usize = RECORD_PREFIX_SIZE + VALUES_SIZE;
const VALUES_SIZE: usize = fields_size() + CRC_SIZE;

/// Flags of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// A motor was at its limit.
    pub const SATURATED: Self = Self(1 << 0);
    /// Exploration noise was added to the action.
    pub const NOISE: Self = Self(1 << 1);
    /// The law was reset: its memory before this step was the default one.
    pub const LAW_RESET: Self = Self(1 << 2);
    /// Gains set by parameter flew instead of the table's.
    pub const TRY_OUT: Self = Self(1 << 3);
    /// The supervisor let the motors turn.
    pub const MOTORS_ON: Self = Self(1 << 4);
    /// The supervisor saw a flight.
    pub const FLYING: Self = Self(1 << 5);
    /// Motion capture was recent.
    pub const MOCAP: Self = Self(1 << 6);
    /// The differentiable law computed the action, so the step can be replayed.
    pub const LAW: Self = Self(1 << 7);

    /// True when all flags of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With the flags of `other` set when `on`.
    #[must_use]
    pub const fn with(self, other: Self, on: bool) -> Self {
        if on { Self(self.0 | other.0) } else { Self(self.0 & !other.0) }
    }
}

/// One control step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transition {
    /// When the step was computed, µs since boot; the record's own timestamp in the log.
    pub time_us: u64,
    /// Counts control steps since boot; a gap means lost records.
    pub sequence: u32,
    /// The estimate the step was computed from.
    pub state: State,
    /// The reference the step was computed from.
    pub reference: Reference,
    /// The law's integrals before the step.
    pub integral: PerLoop,
    /// The law's filtered derivatives before the step.
    pub derivative: PerLoop,
    /// The law's last attitude error before the step. The other last errors follow from the record
    /// before.
    pub attitude_error: Vec3,
    /// The step's length as given to the law, s.
    pub dt_s: f32,
    /// What the controller asked for.
    pub action: Action,
    /// What the motors were asked for: the action with exploration noise.
    pub applied: Action,
    /// Motor commands after battery compensation and limits, 65535 is full.
    pub pwm: [u16; 4],
    /// Battery voltage, V.
    pub battery_v: f32,
    /// Sequence number of the gain table in use, 0 for the built-in gains.
    pub table: u32,
    /// Flags.
    pub flags: Flags,
    /// Which controller flew, as the parameter `stabilizer.controller` counts them.
    pub controller: u8,
    /// The supervisor's state, by its number.
    pub supervisor: u8,
    /// The gain guard's state, by its number.
    pub guard: u8,
}

/// How a Rust type is stored in a record.
trait Stored: Sized + Copy {
    const KIND: Type;
    fn put(self, w: &mut Writer<'_>);
    fn read(values: &[u8], offset: usize) -> Option<Self>;
}

macro_rules! stored {
    ($($rust:ty => $kind:ident),*) => {$(
        impl Stored for $rust {
            const KIND: Type = Type::$kind;
            fn put(self, w: &mut Writer<'_>) {
                w.put(&self.to_le_bytes());
            }
            fn read(values: &[u8], offset: usize) -> Option<Self> {
                values.get(offset..)?.first_chunk().copied().map(Self::from_le_bytes)
            }
        }
    )*};
}
stored!(u8 => U8, u16 => U16, u32 => U32, f32 => F32);

/// The one list of fields: name, Rust type, place in [`Transition`], unit, and for a field that logs may
/// lack the value it then has.
macro_rules! fields {
    ($($name:literal: $type:ty = $($path:tt).+, $unit:literal $(, default $default:literal)?;)*) => {
        const FIELD_COUNT: usize = [$($name),*].len() + 1;

        /// Every field of the record in the order it is written, from the sequence number to the CRC.
        pub const FIELDS: [Field; FIELD_COUNT] = [
            $(Field {
                name: $name,
                kind: <$type as Stored>::KIND,
                unit: $unit,
                default: optional!($(stringify!($default))?),
            },)*
            Field::required(RECORD_CRC_NAME, Type::U16),
        ];

        const fn fields_size() -> usize {
            0 $(+ <$type as Stored>::KIND.size())*
        }

        impl Transition {
            fn put_fields(&self, w: &mut Writer<'_>) {
                $(<$type as Stored>::put(field!(self, $($path).+), w);)*
            }

            /// `None` only if an offset is outside of the values or that of a required field is missing.
            // Inlined so that the offsets of this firmware's own layout become constants.
            #[inline(always)]
            fn read_fields(&mut self, values: &[u8], offsets: &[Option<u16>; FIELD_COUNT]) -> Option<()> {
                let mut offsets = offsets.iter();
                $(field!(self, $($path).+) = match offsets.next()? {
                    Some(offset) => <$type as Stored>::read(values, usize::from(*offset))?,
                    None => optional!($($default)?)?,
                };)*
                Some(())
            }
        }
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

/// A place in a record; motors are an array.
macro_rules! field {
    ($record:expr, pwm.$index:tt) => {
        $record.pwm[$index]
    };
    ($record:expr, $($path:tt).+) => {
        $record.$($path).+
    };
}

fields! {
    "steady.seq": u32 = sequence, "";
    "stateEstimate.x": f32 = state.position.x, "m";
    "stateEstimate.y": f32 = state.position.y, "m";
    "stateEstimate.z": f32 = state.position.z, "m";
    "stateEstimate.qw": f32 = state.attitude.w, "";
    "stateEstimate.qx": f32 = state.attitude.x, "";
    "stateEstimate.qy": f32 = state.attitude.y, "";
    "stateEstimate.qz": f32 = state.attitude.z, "";
    "stateEstimate.vx": f32 = state.velocity.x, "m/s";
    "stateEstimate.vy": f32 = state.velocity.y, "m/s";
    "stateEstimate.vz": f32 = state.velocity.z, "m/s";
    "steady.rateX": f32 = state.rates.x, "rad/s";
    "steady.rateY": f32 = state.rates.y, "rad/s";
    "steady.rateZ": f32 = state.rates.z, "rad/s";
    "ctrltarget.x": f32 = reference.position.x, "m";
    "ctrltarget.y": f32 = reference.position.y, "m";
    "ctrltarget.z": f32 = reference.position.z, "m";
    "ctrltarget.vx": f32 = reference.velocity.x, "m/s";
    "ctrltarget.vy": f32 = reference.velocity.y, "m/s";
    "ctrltarget.vz": f32 = reference.velocity.z, "m/s";
    "ctrltarget.ax": f32 = reference.acceleration.x, "m/s2";
    "ctrltarget.ay": f32 = reference.acceleration.y, "m/s2";
    "ctrltarget.az": f32 = reference.acceleration.z, "m/s2";
    "steady.refYaw": f32 = reference.yaw, "rad";
    "steady.refYawRate": f32 = reference.yaw_rate, "rad/s";
    "steady.iPosX": f32 = integral.position.x, "m s";
    "steady.iPosY": f32 = integral.position.y, "m s";
    "steady.iPosZ": f32 = integral.position.z, "m s";
    "steady.iVelX": f32 = integral.velocity.x, "m";
    "steady.iVelY": f32 = integral.velocity.y, "m";
    "steady.iVelZ": f32 = integral.velocity.z, "m";
    "steady.iAttX": f32 = integral.attitude.x, "rad s";
    "steady.iAttY": f32 = integral.attitude.y, "rad s";
    "steady.iAttZ": f32 = integral.attitude.z, "rad s";
    "steady.iRateX": f32 = integral.rate.x, "rad";
    "steady.iRateY": f32 = integral.rate.y, "rad";
    "steady.iRateZ": f32 = integral.rate.z, "rad";
    "steady.dPosX": f32 = derivative.position.x, "m/s";
    "steady.dPosY": f32 = derivative.position.y, "m/s";
    "steady.dPosZ": f32 = derivative.position.z, "m/s";
    "steady.dVelX": f32 = derivative.velocity.x, "m/s2";
    "steady.dVelY": f32 = derivative.velocity.y, "m/s2";
    "steady.dVelZ": f32 = derivative.velocity.z, "m/s2";
    "steady.dAttX": f32 = derivative.attitude.x, "rad/s";
    "steady.dAttY": f32 = derivative.attitude.y, "rad/s";
    "steady.dAttZ": f32 = derivative.attitude.z, "rad/s";
    "steady.dRateX": f32 = derivative.rate.x, "rad/s2";
    "steady.dRateY": f32 = derivative.rate.y, "rad/s2";
    "steady.dRateZ": f32 = derivative.rate.z, "rad/s2";
    "steady.eAttX": f32 = attitude_error.x, "rad";
    "steady.eAttY": f32 = attitude_error.y, "rad";
    "steady.eAttZ": f32 = attitude_error.z, "rad";
    "steady.dt": f32 = dt_s, "s";
    "steady.lawThrust": f32 = action.thrust, "";
    "steady.lawRoll": f32 = action.roll, "";
    "steady.lawPitch": f32 = action.pitch, "";
    "steady.lawYaw": f32 = action.yaw, "";
    "steady.actThrust": f32 = applied.thrust, "";
    "steady.actRoll": f32 = applied.roll, "";
    "steady.actPitch": f32 = applied.pitch, "";
    "steady.actYaw": f32 = applied.yaw, "";
    "motor.m1": u16 = pwm.0, "1/65535";
    "motor.m2": u16 = pwm.1, "1/65535";
    "motor.m3": u16 = pwm.2, "1/65535";
    "motor.m4": u16 = pwm.3, "1/65535";
    "pm.vbat": f32 = battery_v, "V";
    "steady.table": u32 = table, "";
    "steady.flags": u16 = flags.0, "";
    "stabilizer.controller": u8 = controller, "";
    "steady.supervisor": u8 = supervisor, "", default 0;
    "steady.guard": u8 = guard, "", default 0;
}

/// Reads the control steps of one file, by the names in its header.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    located: Located<FIELD_COUNT>,
    /// The fields are where this firmware writes them: read at constant offsets, which is faster.
    is_written_layout: bool,
}

impl Decoder {
    /// The decoder for a file with this header; `None` when it has no control steps, as the official
    /// firmware's logs.
    ///
    /// Unknown fields are skipped. Optional fields that are missing get their default.
    ///
    /// # Errors
    /// If the event lacks a required field, or a field has another type.
    pub fn new(header: &Header<'_>) -> Result<Option<Self>, SchemaError> {
        let located = Located::find(header, EVENT_NAME, &FIELDS)?;
        Ok(located.map(|located| Self { located, is_written_layout: located.offsets == WRITTEN_OFFSETS }))
    }

    /// The control step in a record from a [`Scanner`](crate::usdlog::Scanner), which has tested its
    /// CRC; `None` for records of other events.
    #[must_use]
    pub fn decode(&self, record: &Record<'_>) -> Option<Transition> {
        if record.event != self.located.event || record.values.len() != self.located.values_size {
            return None;
        }
        let mut transition = Transition { time_us: record.time_us, ..Transition::default() };
        match record.values.first_chunk::<VALUES_SIZE>() {
            Some(values) if self.is_written_layout => transition.read_fields(values, &WRITTEN_OFFSETS)?,
            _ => transition.read_fields(record.values, &self.located.offsets)?,
        }
        Some(transition)
    }
}

/// Where the fields are in the records that this firmware writes.
const WRITTEN_OFFSETS: [Option<u16>; FIELD_COUNT] = {
    let mut offsets = [None; FIELD_COUNT];
    let (mut rest, mut fields): (&mut [Option<u16>], &[Field]) = (&mut offsets, &FIELDS);
    let mut at = 0;
    while let (Some((offset, other)), Some((field, fields_left))) =
        (rest.split_first_mut(), fields.split_first())
    {
        *offset = Some(at as u16);
        at += field.kind.size();
        (rest, fields) = (other, fields_left);
    }
    offsets
};

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Not [`RECORD_SIZE`] bytes.
    Length(usize),
    /// Another event.
    Event(u16),
    /// The checksum does not match.
    Crc {
        /// Checksum in the record.
        stored: u16,
        /// Checksum of its bytes.
        computed: u16,
    },
}

impl core::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Length(n) => write!(f, "{n} bytes instead of {RECORD_SIZE}"),
            Self::Event(id) => write!(f, "event id {id:#06x} instead of {EVENT_ID:#06x}"),
            Self::Crc { stored, computed } => {
                write!(f, "record CRC is {stored:#06x}, the bytes give {computed:#06x}")
            }
        }
    }
}

impl core::error::Error for DecodeError {}

impl Transition {
    /// The record's bytes in a uSD log.
    #[must_use]
    pub fn encode(&self) -> [u8; RECORD_SIZE] {
        let mut record = [0; RECORD_SIZE];
        let mut w = Writer::new(&mut record);
        w.put(&record_prefix(EVENT_ID, self.time_us));
        self.put_fields(&mut w);
        if let Some((covered, crc)) = record.split_last_chunk_mut::<CRC_SIZE>() {
            *crc = RECORD_CRC.checksum(covered).to_le_bytes();
        }
        record
    }

    /// The inverse of [`encode`](Self::encode), for records that this program made itself. Files are
    /// read with a [`Decoder`].
    pub fn decode(record: &[u8]) -> Result<Self, DecodeError> {
        let wrong_length = DecodeError::Length(record.len());
        if record.len() != RECORD_SIZE {
            return Err(wrong_length);
        }
        let (prefix, values) = record.split_first_chunk::<RECORD_PREFIX_SIZE>().ok_or(wrong_length)?;
        let [a, b, time_us @ ..] = *prefix;
        let event = u16::from_le_bytes([a, b]);
        if event != EVENT_ID {
            return Err(DecodeError::Event(event));
        }
        let (covered, crc) = record.split_last_chunk::<CRC_SIZE>().ok_or(wrong_length)?;
        let (stored, computed) = (u16::from_le_bytes(*crc), RECORD_CRC.checksum(covered));
        if stored != computed {
            return Err(DecodeError::Crc { stored, computed });
        }
        let mut transition = Self { time_us: u64::from_le_bytes(time_us), ..Self::default() };
        transition.read_fields(values, &WRITTEN_OFFSETS).ok_or(wrong_length)?;
        Ok(transition)
    }

    /// True when `previous` is the step before this one.
    #[must_use]
    pub fn follows(&self, previous: &Self) -> bool {
        self.sequence == previous.sequence.wrapping_add(1)
    }

    /// True when the differentiable law flew this step: what can be learned from.
    #[must_use]
    pub fn is_law_flight(&self) -> bool {
        self.flags.has(Flags(Flags::FLYING.0 | Flags::MOTORS_ON.0 | Flags::LAW.0))
    }

    /// Takes over what the law remembers before the step.
    pub fn set_law_memory(&mut self, memory: &Memory) {
        self.integral = memory.integral;
        self.derivative = memory.derivative;
        self.attitude_error = memory.error.attitude;
        self.flags = self.flags.with(Flags::LAW_RESET, !memory.started);
    }

    /// The law's memory before the step; `None` when `previous` is needed and is not the step
    /// before.
    #[must_use]
    pub fn law_memory(&self, previous: Option<&Self>) -> Option<Memory> {
        if self.flags.has(Flags::LAW_RESET) {
            return Some(Memory::default());
        }
        let previous = previous.filter(|p| self.follows(p))?;
        // The errors of position, velocity and rate depend on nothing but state and reference.
        let mut replay = Memory::default();
        let table = GainTable::built_in();
        let (state, reference) = (&previous.state, &previous.reference);
        law::step(&table.gains, &table.vehicle, state, reference, &mut replay, previous.dt_s);
        Some(Memory {
            integral: self.integral,
            derivative: self.derivative,
            error: PerLoop { attitude: self.attitude_error, ..replay.error },
            started: true,
        })
    }

    /// The observation before the step; `None` when `previous` is not the step before. Motors
    /// are the normalised thrusts that the last action gave.
    #[must_use]
    pub fn observation(&self, previous: &Self) -> Option<[f32; OBSERVATION_LEN]> {
        let memory = self.law_memory(Some(previous)).filter(|_| self.follows(previous))?;
        let last = &previous.applied;
        Some(observe(&self.state, &self.reference, last, &memory, &last.motors().thrust))
    }

    /// The law's action computed again from the record, as [`action`](Self::action) must be to the
    /// last bit when the record has [`Flags::LAW`] and not [`Flags::TRY_OUT`] and `table` is the
    /// one that flew.
    #[must_use]
    pub fn replay(&self, previous: Option<&Self>, table: &GainTable) -> Option<Action> {
        let mut memory = self.law_memory(previous)?;
        let (state, reference) = (&self.state, &self.reference);
        Some(law::step(&table.gains, &table.vehicle, state, reference, &mut memory, self.dt_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Quat, Trajectory, Vec3};
    use proptest::prelude::*;
    use std::vec::Vec;

    /// A flight of the law with the noise a flight has, logged as the drone logs it.
    fn flight(steps: u32) -> Vec<Transition> {
        let table = GainTable::built_in();
        let mut memory = Memory::default();
        let mut records = Vec::new();
        for k in 0..steps {
            let t = k as f32 * 0.002;
            let wobble = |phase: f32| 0.05 * (7.0 * t + phase).sin();
            let reference = Trajectory::FIGURE_EIGHT.at(t);
            let state = State {
                position: reference.position + Vec3::new(wobble(0.0), wobble(1.0), wobble(2.0)),
                velocity: reference.velocity + Vec3::new(wobble(3.0), wobble(4.0), wobble(5.0)),
                attitude: Quat::from_euler(Vec3::new(wobble(6.0), wobble(7.0), wobble(8.0))),
                rates: Vec3::new(wobble(9.0), wobble(10.0), wobble(11.0)) * 10.0,
            };
            let mut record = Transition {
                time_us: 5_000_000_000 + u64::from(k) * 2000,
                sequence: 41 + k,
                state,
                reference,
                dt_s: 0.002,
                pwm: [1, 2, 40_000, 65_535],
                battery_v: 3.9,
                controller: 5,
                ..Transition::default()
            };
            record.set_law_memory(&memory);
            record.action =
                law::step(&table.gains, &table.vehicle, &state, &reference, &mut memory, record.dt_s);
            record.applied = Action { roll: record.action.roll + wobble(12.0), ..record.action };
            records.push(record);
        }
        records
    }

    #[test]
    fn a_flight_is_computed_again_bit_for_bit_from_its_bytes() {
        let records: Vec<_> = flight(500).iter().map(|r| Transition::decode(&r.encode()).unwrap()).collect();
        assert_eq!(records, flight(500));
        let table = GainTable::built_in();
        let mut previous = None;
        for record in &records {
            let replayed = record.replay(previous, &table).unwrap();
            let bits = |a: Action| a.into_array().map(f32::to_bits);
            assert_eq!(bits(replayed), bits(record.action), "step {}", record.sequence);
            previous = Some(record);
        }
    }

    #[test]
    fn without_the_record_before_nothing_is_made_up() {
        let records = flight(4);
        let table = GainTable::built_in();
        assert!(records[0].replay(None, &table).is_some(), "the first step needs no other");
        assert!(records[2].replay(None, &table).is_none());
        assert!(records[3].replay(Some(&records[1]), &table).is_none());
        assert!(records[3].observation(&records[1]).is_none());
        let observation = records[3].observation(&records[2]).unwrap();
        assert_eq!(observation[17], records[2].applied.roll);
    }

    #[test]
    fn names_fit_the_protocols_and_are_unique() {
        for field in FIELDS {
            let (group, name) = field.name.split_once('.').unwrap();
            assert!(group.len() + name.len() + 2 <= 26, "{}", field.name);
            assert_eq!(FIELDS.iter().filter(|f| f.name == field.name).count(), 1, "{}", field.name);
        }
        assert_eq!(RECORD_SIZE, 277);
        assert_eq!(10 + FIELDS.iter().map(|f| f.kind.size()).sum::<usize>(), RECORD_SIZE);
    }

    #[test]
    fn damage_to_any_byte_is_noticed() {
        let record = flight(2)[1].encode();
        for at in 0..RECORD_SIZE {
            let mut damaged = record;
            damaged[at] ^= 0x10;
            assert!(Transition::decode(&damaged).is_err(), "byte {at}");
        }
        assert_eq!(Transition::decode(&record[1..]), Err(DecodeError::Length(RECORD_SIZE - 1)));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = Transition::decode(&bytes);
        }

        #[test]
        fn any_fields_survive_the_round_trip(fields in prop::collection::vec(any::<u8>(), RECORD_SIZE)) {
            let mut record: [u8; RECORD_SIZE] = fields.try_into().unwrap();
            record[..2].copy_from_slice(&EVENT_ID.to_le_bytes());
            let (covered, crc) = record.split_last_chunk_mut::<2>().unwrap();
            *crc = RECORD_CRC.checksum(covered).to_le_bytes();
            prop_assert_eq!(Transition::decode(&record).unwrap().encode(), record);
        }
    }
}
