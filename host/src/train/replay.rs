//! The replay memory ℬ: a ring of transitions, one preallocated row of `f32` per quantity.

use steady_common::observation::OBSERVATION_LEN;
use steady_sim::Rng;
use tch::Tensor;

use super::env::{EXTRA_LEN, Instant, Transition};
use super::spectral::Batch;

/// A ring buffer of transitions.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    capacity: usize,
    /// Transitions ever put in.
    pushed: u64,
    s: Vec<f32>,
    s_extra: Vec<f32>,
    a: Vec<f32>,
    offset: Vec<f32>,
    r: Vec<f32>,
    s2: Vec<f32>,
    s2_extra: Vec<f32>,
    discount: Vec<f32>,
    value: Vec<f32>,
}

/// Names and widths of the columns, in the order of [`Replay::columns`].
const COLUMNS: [(&str, usize); 9] = [
    ("s", OBSERVATION_LEN),
    ("s_extra", EXTRA_LEN),
    ("a", 4),
    ("offset", 4),
    ("r", 1),
    ("s2", OBSERVATION_LEN),
    ("s2_extra", EXTRA_LEN),
    ("discount", 1),
    ("value", 1),
];

impl Replay {
    /// An empty memory for `capacity` transitions.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let mut replay = Self { capacity: capacity.max(1), ..Self::default() };
        let capacity = replay.capacity;
        for (column, (_, width)) in replay.columns_mut().into_iter().zip(COLUMNS) {
            column.reserve_exact(capacity * width);
        }
        replay
    }

    fn columns_mut(&mut self) -> [&mut Vec<f32>; 9] {
        let Self { s, s_extra, a, offset, r, s2, s2_extra, discount, value, .. } = self;
        [s, s_extra, a, offset, r, s2, s2_extra, discount, value]
    }

    fn columns(&self) -> [&Vec<f32>; 9] {
        let Self { s, s_extra, a, offset, r, s2, s2_extra, discount, value, .. } = self;
        [s, s_extra, a, offset, r, s2, s2_extra, discount, value]
    }

    /// Number of transitions in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.r.len()
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.r.is_empty()
    }

    /// Transitions ever put in.
    #[must_use]
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Puts a transition and the return from there on in, in place of the oldest when the memory is full.
    pub fn push(&mut self, t: &Transition, value: f32) {
        let slot = (self.pushed % self.capacity as u64) as usize;
        self.pushed += 1;
        let (reward, discount, value) = ([t.reward], [t.discount], [value]);
        let rows: [&[f32]; 9] = [
            &t.from.observation,
            &t.from.extra,
            &t.action,
            &t.offset,
            &reward,
            &t.to.observation,
            &t.to.extra,
            &discount,
            &value,
        ];
        for (column, row) in self.columns_mut().into_iter().zip(rows) {
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
    #[must_use]
    pub fn newest(&self, count: usize) -> Vec<usize> {
        let count = count.min(self.len()) as u64;
        (self.pushed - count..self.pushed).map(|i| (i % self.capacity as u64) as usize).collect()
    }

    /// Rows of (s, a, r, s′) at these places.
    #[must_use]
    pub fn batch(&self, places: &[usize]) -> Batch {
        Batch {
            s: gather(&self.s, OBSERVATION_LEN, places),
            a: gather(&self.offset, 4, places),
            r: gather(&self.r, 1, places),
            s2: gather(&self.s2, OBSERVATION_LEN, places),
            value: gather(&self.value, 1, places),
        }
    }

    /// Discounts at these places, a column.
    pub fn discounts(&self, places: &[usize]) -> Tensor {
        gather(&self.discount, 1, places)
    }

    /// s at a place.
    #[must_use]
    pub fn from(&self, place: usize) -> Instant {
        instant(&self.s, &self.s_extra, place)
    }

    /// s′ at a place.
    #[must_use]
    pub fn to(&self, place: usize) -> Instant {
        instant(&self.s2, &self.s2_extra, place)
    }

    /// Everything a checkpoint must hold, by name.
    #[must_use]
    pub fn saved(&self) -> Vec<(String, Tensor)> {
        let mut all: Vec<_> = self
            .columns()
            .into_iter()
            .zip(COLUMNS)
            .map(|(column, (name, _))| (format!("replay.{name}"), Tensor::from_slice(column)))
            .collect();
        all.push(("replay.pushed".to_owned(), Tensor::from_slice(&[self.pushed as i64])));
        all
    }

    /// Puts back what [`Self::saved`] gave.
    ///
    /// # Errors
    /// When a tensor is missing or has another size.
    pub fn restore(&mut self, saved: &super::nets::Saved) -> anyhow::Result<()> {
        self.pushed = saved.get("replay.pushed", &[1])?.int64_value(&[0]) as u64;
        let len = self.pushed.min(self.capacity as u64) as i64;
        for (column, (name, width)) in self.columns_mut().into_iter().zip(COLUMNS) {
            let tensor = saved.get(&format!("replay.{name}"), &[len * width as i64])?;
            column.resize(tensor.numel(), 0.0);
            tensor.f_copy_data(column, tensor.numel())?;
        }
        Ok(())
    }
}

fn gather(column: &[f32], width: usize, places: &[usize]) -> Tensor {
    let mut rows = Vec::with_capacity(places.len() * width);
    for &place in places {
        rows.extend_from_slice(&column[place * width..(place + 1) * width]);
    }
    Tensor::from_slice(&rows).view([places.len() as i64, width as i64])
}

fn instant(observations: &[f32], extras: &[f32], place: usize) -> Instant {
    let mut instant = Instant { observation: [0.0; OBSERVATION_LEN], extra: [0.0; EXTRA_LEN] };
    let (o, x) = (place * OBSERVATION_LEN, place * EXTRA_LEN);
    instant.observation.copy_from_slice(&observations[o..o + OBSERVATION_LEN]);
    instant.extra.copy_from_slice(&extras[x..x + EXTRA_LEN]);
    instant
}
