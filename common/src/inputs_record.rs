//! Log records of what the estimator was given, so that its estimate can be computed again bit for bit.
//!
//! Three events: `imu`, every inertial sample as the estimator took it; `mocap`, every frame of motion capture that it
//! took, before the sample it was taken with; `estimator`, the whole filter after a sample ([`Snapshot`]), from which
//! on the others are enough. They are logged when the card's `config.txt` asks for them.

use crate::bytes::{Reader, Writer};
use crate::estimator::{Imu, Mocap, SNAPSHOT_LEN, Snapshot};
use crate::usdlog::schema::{Located, RECORD_CRC, RECORD_CRC_NAME};
use crate::usdlog::write::{self, RECORD_PREFIX_SIZE, Sink, record_prefix};
use crate::usdlog::{Field, Header, Record, SchemaError, Type};
use crate::{Quat, Vec3};

/// Names of the events in a uSD log.
pub const IMU_EVENT: &str = "imu";
/// Frames of motion capture.
pub const MOCAP_EVENT: &str = "mocap";
/// The whole filter.
pub const ESTIMATOR_EVENT: &str = "estimator";
/// Their ids: `SI`, `SM` and `SE` in the file's byte order.
const IMU_ID: u16 = u16::from_le_bytes(*b"SI");
const MOCAP_ID: u16 = u16::from_le_bytes(*b"SM");
const ESTIMATOR_ID: u16 = u16::from_le_bytes(*b"SE");
/// Events that a log with inputs has.
pub const EVENTS: u16 = 3;

const fn field(name: &'static str, kind: Type, unit: &'static str) -> Field {
    Field { name, kind, unit, default: None }
}

/// Fields of an inertial sample.
pub const IMU_FIELDS: [Field; 9] = [
    field("imu.ax", Type::F32, "m/s2"),
    field("imu.ay", Type::F32, "m/s2"),
    field("imu.az", Type::F32, "m/s2"),
    field("imu.gx", Type::F32, "rad/s"),
    field("imu.gy", Type::F32, "rad/s"),
    field("imu.gz", Type::F32, "rad/s"),
    field("imu.count", Type::U8, ""),
    field("imu.flags", Type::U8, ""),
    Field::required(RECORD_CRC_NAME, Type::U16),
];

/// Fields of a frame of motion capture. Without an attitude `mocap.attitudeStd` is 0.
pub const MOCAP_FIELDS: [Field; 11] = [
    field("mocap.x", Type::F32, "m"),
    field("mocap.y", Type::F32, "m"),
    field("mocap.z", Type::F32, "m"),
    field("mocap.positionStd", Type::F32, "m"),
    field("mocap.qw", Type::F32, ""),
    field("mocap.qx", Type::F32, ""),
    field("mocap.qy", Type::F32, ""),
    field("mocap.qz", Type::F32, ""),
    field("mocap.attitudeStd", Type::F32, "rad"),
    field("mocap.age", Type::F32, "s"),
    Field::required(RECORD_CRC_NAME, Type::U16),
];

/// The filter's first field. The rest is read as one piece: it has a version of its own.
const FORMAT_FIELD: &str = "estimator.format";
/// Version of a snapshot's values; another meaning or number of them is another version.
const FORMAT: u16 = 1;

const IMU_SIZE: usize = RECORD_PREFIX_SIZE + 6 * 4 + 1 + 1 + 2;
const MOCAP_SIZE: usize = RECORD_PREFIX_SIZE + 10 * 4 + 2;
const ESTIMATOR_SIZE: usize = RECORD_PREFIX_SIZE + 2 + 4 * SNAPSHOT_LEN + 2;

/// Samples that go to the card together.
pub const BATCH_SAMPLES: usize = 8;
/// Most bytes that something on its way to the card has as records.
pub const MAX_SIZE: usize = MOCAP_SIZE + BATCH_SAMPLES * IMU_SIZE;
const _: () = assert!(ESTIMATOR_SIZE <= MAX_SIZE);

/// What is to be known of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputFlags(pub u8);

impl InputFlags {
    /// The estimator was told that the drone flies.
    pub const FLYING: Self = Self(1);
    /// A frame of motion capture was taken with it.
    pub const MOCAP: Self = Self(2);
    /// The estimator was started anew: what it knew after this sample does not follow from what it knew before.
    pub const RESTARTED: Self = Self(4);

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

/// One step of the estimator: what it was given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tick {
    /// When, µs since boot.
    pub time_us: u64,
    /// The inertial sample.
    pub imu: Imu,
    /// The frame of motion capture, if one had come.
    pub mocap: Option<Mocap>,
    /// Whether it was told that the drone flies.
    pub flying: bool,
    /// How often the estimator has been started, this step included.
    pub starts: u32,
}

/// An inertial sample as it is in a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When the estimator took it, µs since boot.
    pub time_us: u64,
    /// The sample.
    pub imu: Imu,
    /// Counts samples, so that a missing one is noticed.
    pub count: u8,
    /// What is to be known of it.
    pub flags: InputFlags,
}

/// Some samples on their way to the card, with at most one frame of motion capture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch {
    /// Time of the first sample, µs since boot.
    time_us: u64,
    /// Times of the samples after it, µs.
    after_us: [u16; BATCH_SAMPLES],
    imu: [Imu; BATCH_SAMPLES],
    flags: [InputFlags; BATCH_SAMPLES],
    /// The first sample's count.
    count: u8,
    length: u8,
    /// The frame, and which sample it was taken with.
    mocap: Option<Mocap>,
    mocap_at: u8,
}

impl Batch {
    /// An empty one, for samples from `time_us` on, the first of which has this count.
    #[must_use]
    pub fn new(time_us: u64, count: u8) -> Self {
        Self {
            time_us,
            after_us: [0; BATCH_SAMPLES],
            imu: [Imu::default(); BATCH_SAMPLES],
            flags: [InputFlags(0); BATCH_SAMPLES],
            count,
            length: 0,
            mocap: None,
            mocap_at: 0,
        }
    }

    /// Adds a step's inputs; false when they have no room in it.
    pub fn push(&mut self, tick: &Tick, restarted: bool) -> bool {
        let index = usize::from(self.length);
        let after_us = tick.time_us.checked_sub(self.time_us).and_then(|us| u16::try_from(us).ok());
        let has_room = self.mocap.is_none() || tick.mocap.is_none();
        let (Some(after_us), true, Some(time), Some(imu), Some(flags)) = (
            after_us,
            has_room,
            self.after_us.get_mut(index),
            self.imu.get_mut(index),
            self.flags.get_mut(index),
        ) else {
            return false;
        };
        (*time, *imu) = (after_us, tick.imu);
        *flags = InputFlags(0)
            .with(InputFlags::FLYING, tick.flying)
            .with(InputFlags::MOCAP, tick.mocap.is_some())
            .with(InputFlags::RESTARTED, restarted);
        if tick.mocap.is_some() {
            (self.mocap, self.mocap_at) = (tick.mocap, self.length);
        }
        self.length += 1;
        true
    }

    /// True when no further sample has room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        usize::from(self.length) >= BATCH_SAMPLES
    }

    /// The samples.
    fn samples(&self) -> impl Iterator<Item = Sample> {
        let all = self.after_us.iter().zip(&self.imu).zip(&self.flags).take(usize::from(self.length));
        all.zip(0_u8..).map(|(((after_us, imu), flags), index)| Sample {
            time_us: self.time_us + u64::from(*after_us),
            imu: *imu,
            count: self.count.wrapping_add(index),
            flags: *flags,
        })
    }
}

/// What goes to the card.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "there is no heap")]
pub enum Inputs {
    /// Samples, perhaps with a frame.
    Batch(Batch),
    /// The whole filter after the step at this time, µs since boot.
    Snapshot(u64, Snapshot),
}

impl Inputs {
    /// Hands over its records' bytes, one after the other.
    pub fn encode(&self, mut record: impl FnMut(&[u8])) {
        match self {
            Self::Snapshot(time_us, snapshot) => {
                let mut bytes = [0; ESTIMATOR_SIZE];
                let mut w = Writer::new(&mut bytes);
                w.put(&record_prefix(ESTIMATOR_ID, *time_us)).put(&FORMAT.to_le_bytes());
                snapshot.0.iter().for_each(|value| _ = w.put(&value.to_le_bytes()));
                record(sealed(&mut bytes));
            }
            Self::Batch(batch) => {
                for (index, sample) in batch.samples().enumerate() {
                    if let Some(mocap) = batch.mocap.filter(|_| usize::from(batch.mocap_at) == index) {
                        record(sealed(&mut encode_mocap(sample.time_us, &mocap)));
                    }
                    record(sealed(&mut encode_imu(&sample)));
                }
            }
        }
    }

    /// Hands over what a reader of the log gets, one after the other.
    pub fn each(&self, mut input: impl FnMut(Input)) {
        match self {
            Self::Snapshot(time_us, snapshot) => input(Input::Snapshot(*time_us, *snapshot)),
            Self::Batch(batch) => {
                for (index, sample) in batch.samples().enumerate() {
                    if let Some(mocap) = batch.mocap.filter(|_| usize::from(batch.mocap_at) == index) {
                        input(Input::Mocap(sample.time_us, mocap));
                    }
                    input(Input::Imu(sample));
                }
            }
        }
    }

    /// Time of the last of it, µs since boot.
    #[must_use]
    pub fn time_us(&self) -> u64 {
        match self {
            Self::Snapshot(time_us, _) => *time_us,
            Self::Batch(batch) => batch.samples().last().map_or(batch.time_us, |sample| sample.time_us),
        }
    }
}

fn encode_imu(sample: &Sample) -> [u8; IMU_SIZE] {
    let mut bytes = [0; IMU_SIZE];
    let mut w = Writer::new(&mut bytes);
    w.put(&record_prefix(IMU_ID, sample.time_us));
    let Imu { accelerometer, gyro } = sample.imu;
    for value in accelerometer.to_array().into_iter().chain(gyro.to_array()) {
        w.put(&value.to_le_bytes());
    }
    w.put(&[sample.count, sample.flags.0]);
    bytes
}

fn encode_mocap(time_us: u64, mocap: &Mocap) -> [u8; MOCAP_SIZE] {
    let mut bytes = [0; MOCAP_SIZE];
    let mut w = Writer::new(&mut bytes);
    w.put(&record_prefix(MOCAP_ID, time_us));
    let Vec3 { x, y, z } = mocap.position;
    let (q, std) = mocap.attitude.unwrap_or((Quat::IDENTITY, 0.0));
    for value in [x, y, z, mocap.position_std, q.w, q.x, q.y, q.z, std, mocap.age_s] {
        w.put(&value.to_le_bytes());
    }
    bytes
}

/// With the checksum at its end.
fn sealed<const SIZE: usize>(bytes: &mut [u8; SIZE]) -> &[u8] {
    if let Some((covered, crc)) = bytes.split_last_chunk_mut::<2>() {
        *crc = RECORD_CRC.checksum(covered).to_le_bytes();
    }
    bytes
}

/// The events in a file's header.
pub fn events(sink: &mut impl Sink) {
    let count = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    write::event(sink, IMU_ID, IMU_EVENT, count(IMU_FIELDS.len()));
    IMU_FIELDS.iter().for_each(|field| write::variable(sink, &[field.name], field.kind));
    write::event(sink, MOCAP_ID, MOCAP_EVENT, count(MOCAP_FIELDS.len()));
    MOCAP_FIELDS.iter().for_each(|field| write::variable(sink, &[field.name], field.kind));
    write::event(sink, ESTIMATOR_ID, ESTIMATOR_EVENT, count(1 + SNAPSHOT_LEN + 1));
    write::variable(sink, &[FORMAT_FIELD], Type::U16);
    const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    for index in 0..SNAPSHOT_LEN {
        let digit = |n: usize| DIGITS.get(n % 10).copied().unwrap_or("");
        write::variable(sink, &["estimator.v", digit(index / 10), digit(index)], Type::F32);
    }
    write::variable(sink, &[RECORD_CRC_NAME], Type::U16);
}

/// An input as it is in a log.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "read one after the other")]
pub enum Input {
    /// An inertial sample.
    Imu(Sample),
    /// A frame of motion capture, taken with the sample of this time, µs since boot.
    Mocap(u64, Mocap),
    /// The whole filter after the sample of this time, µs since boot.
    Snapshot(u64, Snapshot),
}

impl Input {
    /// Its time, µs since boot.
    #[must_use]
    pub fn time_us(&self) -> u64 {
        match self {
            Self::Imu(sample) => sample.time_us,
            Self::Mocap(time_us, _) | Self::Snapshot(time_us, _) => *time_us,
        }
    }
}

/// Reads the inputs of one file, by the names in its header.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    imu: Located<9>,
    mocap: Located<11>,
    estimator: Located<2>,
}

impl Decoder {
    /// The decoder for a file with this header; `None` when it has no inputs.
    ///
    /// # Errors
    /// If an event lacks a required field, or a field has another type.
    pub fn new(header: &Header<'_>) -> Result<Option<Self>, SchemaError> {
        let estimator =
            [Field::required(FORMAT_FIELD, Type::U16), Field::required(RECORD_CRC_NAME, Type::U16)];
        let imu = Located::find(header, IMU_EVENT, &IMU_FIELDS)?;
        let mocap = Located::find(header, MOCAP_EVENT, &MOCAP_FIELDS)?;
        let estimator = Located::find(header, ESTIMATOR_EVENT, &estimator)?;
        Ok(imu.zip(mocap).zip(estimator).map(|((imu, mocap), estimator)| Self { imu, mocap, estimator }))
    }

    /// The input in a record from a [`Scanner`](crate::usdlog::Scanner), which has tested its CRC; `None` for records
    /// of other events, and for a filter of another version.
    #[must_use]
    pub fn decode(&self, record: &Record<'_>) -> Option<Input> {
        let values = record.values;
        let time_us = record.time_us;
        if record.event == self.imu.event {
            let [ax, ay, az, gx, gy, gz, ..] = floats(values, &self.imu.offsets);
            let byte =
                |index: usize| values.get(usize::from(self.imu.offsets.get(index).copied()??)).copied();
            let imu = Imu { accelerometer: Vec3::new(ax?, ay?, az?), gyro: Vec3::new(gx?, gy?, gz?) };
            return Some(Input::Imu(Sample { time_us, imu, count: byte(6)?, flags: InputFlags(byte(7)?) }));
        }
        if record.event == self.mocap.event {
            let [x, y, z, position_std, qw, qx, qy, qz, std, age_s, _] = floats(values, &self.mocap.offsets);
            let (q, std) = (Quat::new(qw?, qx?, qy?, qz?), std?);
            let mocap = Mocap {
                position: Vec3::new(x?, y?, z?),
                position_std: position_std?,
                attitude: (std != 0.0).then_some((q, std)),
                age_s: age_s?,
            };
            return Some(Input::Mocap(time_us, mocap));
        }
        if record.event != self.estimator.event {
            return None;
        }
        let [format, _] = self.estimator.offsets;
        let mut r = Reader::new(values.get(usize::from(format?)..)?);
        if r.u16()? != FORMAT {
            return None;
        }
        let mut snapshot = Snapshot([0.0; SNAPSHOT_LEN]);
        for value in &mut snapshot.0 {
            *value = r.f32()?;
        }
        Some(Input::Snapshot(time_us, snapshot))
    }
}

/// The floats at these places; those of other types are nonsense.
fn floats<const COUNT: usize>(values: &[u8], offsets: &[Option<u16>; COUNT]) -> [Option<f32>; COUNT] {
    offsets.map(|offset| {
        let bytes = values.get(usize::from(offset?)..)?.first_chunk()?;
        Some(f32::from_le_bytes(*bytes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimator::{Estimator, Noise};
    use crate::usdlog::{Layout, Scanner, write::begin};
    use std::vec::Vec;

    fn tick(time_us: u64, mocap: Option<Mocap>) -> Tick {
        let part = time_us as f32 * 1e-6;
        let imu = Imu { accelerometer: Vec3::new(part, -0.0, 9.8), gyro: Vec3::new(0.1, part, -part) };
        Tick { time_us, imu, mocap, flying: time_us.is_multiple_of(2000), starts: 0 }
    }

    fn frame(attitude: Option<(Quat, f32)>) -> Mocap {
        Mocap { position: Vec3::new(1.0, 2.0, 3.0), position_std: 0.01, attitude, age_s: 0.02 }
    }

    #[test]
    fn inputs_survive_the_round_trip_through_a_file() {
        let mut filter = Estimator::new(Noise::DEFAULT, Vec3::Z, 0.3, 5);
        let first = tick(5000, None);
        filter.tick(5, &first.imu, None, true).unwrap();
        let snapshot = filter.snapshot().unwrap();
        let pose = frame(Some((Quat::from_euler(Vec3::new(0.1, 0.2, 0.3)), 0.05)));
        let mut batch = Batch::new(5000, 254);
        assert!(batch.push(&first, true));
        assert!(batch.push(&tick(6003, Some(pose)), false));
        assert!(!batch.push(&tick(7000, Some(frame(None))), false), "a second frame has no room");
        assert!(!batch.push(&tick(4000, None), false) && !batch.push(&tick(80_000, None), false));
        let mut other = Batch::new(7000, 0);
        assert!(other.push(&tick(7000, Some(frame(None))), false));

        let mut file = Vec::new();
        let mut sink = |b: &[u8]| file.extend_from_slice(b);
        begin(&mut sink, EVENTS);
        events(&mut sink);
        for inputs in [Inputs::Snapshot(5000, snapshot), Inputs::Batch(batch), Inputs::Batch(other)] {
            let mut size = 0;
            inputs.encode(|b| {
                file.extend_from_slice(b);
                size += b.len();
            });
            assert!(size <= MAX_SIZE);
        }
        let header = Header::parse(&file).unwrap();
        let decoder = Decoder::new(&header).unwrap().unwrap();
        let mut read = Vec::new();
        let scanner = Scanner::new(Layout::new(&header).unwrap(), &file[..header.length()]);
        scanner.finish(&file[header.length()..], |r| read.push(decoder.decode(&r).unwrap()));
        let sample = |time_us, count, flags| {
            Input::Imu(Sample { time_us, imu: tick(time_us, None).imu, count, flags: InputFlags(flags) })
        };
        let wanted = [
            Input::Snapshot(5000, snapshot),
            sample(5000, 254, 4),
            Input::Mocap(6003, pose),
            sample(6003, 255, 2),
            Input::Mocap(7000, frame(None)),
            sample(7000, 0, 2),
        ];
        assert_eq!(read, wanted);
    }

    #[test]
    fn a_restored_filter_goes_on_bit_for_bit() {
        let mut filter = Estimator::new(Noise::DEFAULT, Vec3::ZERO, 0.3, 0).with_drag(0.2);
        let mut copy: Option<Estimator> = None;
        for t in 0_u32..3000 {
            let inputs = tick(u64::from(t) * 1000, None);
            let mocap = t.is_multiple_of(7).then(|| frame(None));
            // Now and then a step takes longer.
            let now_ms = t + t / 13;
            filter.tick(now_ms, &inputs.imu, mocap.as_ref(), t > 500).unwrap();
            if let Some(copy) = &mut copy {
                copy.tick(now_ms, &inputs.imu, mocap.as_ref(), t > 500).unwrap();
                assert_eq!(copy.state(), filter.state(), "step {t}");
            }
            match (filter.snapshot(), &copy) {
                (Some(now), Some(copy)) => assert_eq!(copy.snapshot().unwrap().differing_bits(&now), 0),
                (Some(now), None) if t > 100 => copy = Some(now.restore(now_ms)),
                _ => {}
            }
        }
        assert!(copy.is_some());
    }
}
