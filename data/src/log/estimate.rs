//! Replays the estimator: the same filter and the same inputs give the same bits.
//!
//! From a snapshot of the whole filter on, every inertial sample and every frame of motion capture of the log goes
//! through the drone's own filter; what it estimates is compared bit by bit with the state in the control step of
//! that time, and the filter itself with the next snapshot. After a missing input it goes on at the next snapshot.

use std::collections::VecDeque;

use serde::Serialize;
use steady_common::State;
use steady_common::estimator::{Estimator, Mocap, Snapshot};
use steady_common::inputs_record::{Decoder, Input, InputFlags, Sample};
use steady_common::transition::{self, Transition};

use super::{Log, LogError};

/// Control steps and inputs may be this many apart in a file: more than the drone's queue.
const MAX_APART: usize = 512;

/// Result of a replay of the estimator.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EstimateReplay {
    /// Inertial samples in the log.
    pub samples: u64,
    /// Frames of motion capture in the log.
    pub frames: u64,
    /// Control steps whose state was compared.
    pub compared: u64,
    /// Control steps whose state could not be computed: no snapshot yet, or an input was missing.
    pub without_inputs: u64,
    /// Bits that differ in states.
    pub differing_bits: u64,
    /// Snapshots that were compared with the replayed filter.
    pub snapshots_compared: u64,
    /// Bits that differ in snapshots.
    pub differing_snapshot_bits: u64,
    /// Places where inputs are missing.
    pub gaps: u64,
    /// Sequence number of the first control step whose state differs.
    pub first_difference: Option<u32>,
}

impl EstimateReplay {
    /// True when states were compared and none of them differs.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.compared > 0 && self.differing_bits == 0 && self.differing_snapshot_bits == 0
    }
}

impl std::fmt::Display for EstimateReplay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} estimates replayed from {} inertial samples and {} frames: {} bits differ, {} in {} snapshots",
            self.compared,
            self.samples,
            self.frames,
            self.differing_bits,
            self.differing_snapshot_bits,
            self.snapshots_compared
        )?;
        if self.without_inputs > 0 {
            write!(f, "; {} left out, without inputs", self.without_inputs)?;
        }
        if self.gaps > 0 {
            write!(f, "; inputs are missing in {} places", self.gaps)?;
        }
        match self.first_difference {
            Some(sequence) => write!(f, "; first in step {sequence}"),
            None => Ok(()),
        }
    }
}

/// Replays the estimator of a log; `None` for logs without its inputs.
///
/// # Errors
/// If the file cannot be read to its end, or its records lack a required field.
pub fn replay(log: &mut Log) -> Result<Option<EstimateReplay>, LogError> {
    let Some(inputs) = log.decoder(Decoder::new)? else { return Ok(None) };
    let steps = log.decoder(transition::Decoder::new)?;
    let mut replayer = Replayer::default();
    log.scan(|record| {
        if let Some(step) = steps.as_ref().and_then(|steps| steps.decode(record)) {
            replayer.step(&step);
        } else if let Some(input) = inputs.decode(record) {
            replayer.input(&input);
        }
    })?;
    replayer.result.without_inputs += replayer.steps.len() as u64;
    Ok(Some(replayer.result))
}

#[derive(Default)]
struct Replayer {
    /// The filter after the last sample, as long as no input is missing.
    filter: Option<Estimator>,
    /// The last sample.
    last: Option<Sample>,
    /// A frame whose sample has not come yet.
    frame: Option<(u64, Mocap)>,
    /// Control steps that are waiting for the sample of their time: time, sequence number, state.
    steps: VecDeque<(u64, u32, State)>,
    /// States after samples that are waiting for their control step; `None` where they are not known.
    states: VecDeque<(u64, Option<State>)>,
    result: EstimateReplay,
}

impl Replayer {
    fn step(&mut self, step: &Transition) {
        while self.states.front().is_some_and(|(time_us, _)| *time_us < step.time_us) {
            self.states.pop_front();
        }
        match self.states.front().copied().filter(|(time_us, _)| *time_us == step.time_us) {
            Some((_, state)) => self.compare(state, step.sequence, &step.state),
            None => self.steps.push_back((step.time_us, step.sequence, step.state)),
        }
        if self.steps.len() > MAX_APART {
            self.steps.pop_front();
            self.result.without_inputs += 1;
        }
    }

    fn input(&mut self, input: &Input) {
        match input {
            Input::Imu(sample) => self.sample(sample),
            Input::Mocap(time_us, mocap) => {
                self.result.frames += 1;
                self.frame = Some((*time_us, *mocap));
            }
            Input::Snapshot(time_us, snapshot) => self.snapshot(*time_us, snapshot),
        }
    }

    fn sample(&mut self, sample: &Sample) {
        self.result.samples += 1;
        let frame =
            self.frame.take().filter(|(time_us, _)| *time_us == sample.time_us).map(|(_, frame)| frame);
        let follows = self
            .last
            .is_none_or(|last| last.count.wrapping_add(1) == sample.count && last.time_us < sample.time_us);
        let is_complete = follows && sample.flags.has(InputFlags::MOCAP) == frame.is_some();
        self.result.gaps += u64::from(!is_complete);
        if !is_complete || sample.flags.has(InputFlags::RESTARTED) {
            self.filter = None;
        }
        if let Some(filter) = &mut self.filter {
            let is_flying = sample.flags.has(InputFlags::FLYING);
            // Where the drone's own filter diverged, the sample says that it was started anew.
            let _ = filter.tick(milliseconds(sample.time_us), &sample.imu, frame.as_ref(), is_flying);
        }
        self.last = Some(*sample);
        self.settle(sample.time_us);
    }

    fn snapshot(&mut self, time_us: u64, snapshot: &Snapshot) {
        let is_now = self.last.is_some_and(|last| last.time_us == time_us);
        match self.filter.as_ref().filter(|_| is_now).map(Estimator::snapshot) {
            Some(own) => {
                self.result.snapshots_compared += 1;
                let bits = own.map_or(u32::MAX, |own| own.differing_bits(snapshot));
                self.result.differing_snapshot_bits += u64::from(bits);
            }
            // Nothing is known of what came between it and the samples.
            None if !is_now && self.last.is_some() => self.filter = None,
            None => {}
        }
        // From the drone's own filter again, so that one difference is counted once.
        if is_now || self.last.is_none() {
            self.filter = Some(snapshot.restore(milliseconds(time_us)));
        }
    }

    /// Compares the control step of a sample's time, now or when it comes.
    fn settle(&mut self, time_us: u64) {
        let state = self.filter.as_ref().map(Estimator::state);
        while let Some((at_us, sequence, logged)) = self.steps.front().copied() {
            if at_us > time_us {
                break;
            }
            self.steps.pop_front();
            if at_us == time_us {
                self.compare(state, sequence, &logged);
                return;
            }
            self.result.without_inputs += 1;
        }
        self.states.push_back((time_us, state));
        if self.states.len() > MAX_APART {
            self.states.pop_front();
        }
    }

    fn compare(&mut self, replayed: Option<State>, sequence: u32, logged: &State) {
        let Some(replayed) = replayed else {
            self.result.without_inputs += 1;
            return;
        };
        let bits: u32 = values(&replayed)
            .zip(values(logged))
            .map(|(a, b)| (a.to_bits() ^ b.to_bits()).count_ones())
            .sum();
        self.result.compared += 1;
        self.result.differing_bits += u64::from(bits);
        if bits > 0 {
            self.result.first_difference.get_or_insert(sequence);
        }
    }
}

fn values(state: &State) -> impl Iterator<Item = f32> {
    let q = state.attitude;
    let vectors = [state.position, state.velocity, state.rates].into_iter().flat_map(|v| [v.x, v.y, v.z]);
    vectors.chain([q.w, q.x, q.y, q.z])
}

fn milliseconds(us: u64) -> u32 {
    // As the drone counts them: they wrap after 49 days.
    (us / 1000) as u32
}
