//! The replay memory: a ring of transitions, one flat column of `f32` per quantity.

use steady_common::observation::OBSERVATION_LEN;
use steady_sim::Rng;
use tch::Tensor;

use super::env::Transition;
use super::nets::Archive;
use super::spectral::Batch;

/// Names and widths of the columns.
const COLUMNS: [(&str, usize); 6] =
    [("s", OBSERVATION_LEN), ("offset", 4), ("r", 1), ("s2", OBSERVATION_LEN), ("discount", 1), ("value", 1)];

/// A ring buffer of transitions.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    capacity: usize,
    /// Transitions ever added.
    pushed: u64,
    columns: [Vec<f32>; 6],
}

impl Replay {
    /// An empty memory for `capacity` transitions.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self { capacity, pushed: 0, columns: COLUMNS.map(|(_, width)| Vec::with_capacity(capacity * width)) }
    }

    fn len(&self) -> usize {
        self.pushed.min(self.capacity as u64) as usize
    }

    /// Transitions ever added.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Adds a transition and the return from there on, in place of the oldest when the memory is full.
    pub fn push(&mut self, t: &Transition, value: f32) {
        let slot = (self.pushed % self.capacity as u64) as usize;
        self.pushed += 1;
        let rows: [&[f32]; 6] = [&t.from, &t.offset, &[t.reward], &t.to, &[t.discount], &[value]];
        for (column, row) in self.columns.iter_mut().zip(rows) {
            let at = slot * row.len();
            if let Some(old) = column.get_mut(at..at + row.len()) {
                old.copy_from_slice(row);
            } else {
                column.extend_from_slice(row);
            }
        }
    }

    /// `count` places drawn at random.
    pub fn draw(&self, rng: &mut Rng, count: usize) -> Vec<usize> {
        let len = self.len().max(1) as u64;
        (0..count).map(|_| ((u64::from(rng.next_u32()) * len) >> 32) as usize).collect()
    }

    /// The places of the newest `count` transitions, oldest first.
    pub fn newest(&self, count: usize) -> Vec<usize> {
        let count = count.min(self.len()) as u64;
        (self.pushed - count..self.pushed).map(|i| (i % self.capacity as u64) as usize).collect()
    }

    pub fn batch(&self, places: &[usize]) -> Batch {
        let [s, a, r, s2, discount, value] = [0, 1, 2, 3, 4, 5].map(|i| {
            let (column, (_, width)) = (&self.columns[i], COLUMNS[i]);
            let rows: Vec<f32> =
                places.iter().flat_map(|p| &column[p * width..(p + 1) * width]).copied().collect();
            Tensor::from_slice(&rows).view([places.len() as i64, width as i64])
        });
        Batch { s, a, r, s2, discount, value }
    }

    /// Saves or restores everything a checkpoint must hold.
    pub(crate) fn archive(&mut self, archive: &mut Archive) -> anyhow::Result<()> {
        archive.count("replay.pushed", &mut self.pushed)?;
        let len = self.len();
        for (column, (name, width)) in self.columns.iter_mut().zip(COLUMNS) {
            column.resize(len * width, 0.0);
            archive.values(&format!("replay.{name}"), column)?;
        }
        Ok(())
    }
}
