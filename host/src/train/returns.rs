//! Monte-Carlo and λ-returns of collected episodes: the critic's targets.

use tch::{Kind, Tensor, no_grad};

use super::env::{Collection, Transition};
use super::spectral::Skills;

/// Returns are clipped at this many mean deviations from their mean.
const OUTLIER: f64 = 6.0;

/// Returns of a collection's transitions within their episodes.
#[derive(Debug, Default)]
pub struct Returns {
    /// Transitions of the episode that follow.
    pub ahead: Vec<usize>,
    /// Discounted reward until the episode's end.
    pub partial: Vec<f32>,
    pub discount: Vec<f32>,
    /// Index of the episode's last transition.
    pub last: Vec<usize>,
    /// Index of the episode's next transition; its own for the last one.
    pub next: Vec<usize>,
}

impl Returns {
    pub fn new(collection: &Collection) -> Self {
        let n = collection.transitions.len();
        let episodes = collection.episodes.iter().max().map_or(0, |e| *e as usize + 1);
        let mut ahead: Vec<Option<(f32, f32, usize, usize)>> = vec![None; episodes];
        let mut following: Vec<Option<usize>> = vec![None; episodes];
        let mut returns = Self {
            ahead: vec![0; n],
            partial: vec![0.0; n],
            discount: vec![0.0; n],
            last: vec![0; n],
            next: vec![0; n],
        };
        for (i, (t, &episode)) in collection.transitions.iter().zip(&collection.episodes).enumerate().rev() {
            let (sum, discount, last, count) = match ahead[episode as usize] {
                Some((sum, discount, last, count)) => {
                    (t.reward + t.discount * sum, t.discount * discount, last, count + 1)
                }
                None => (t.reward, t.discount, i, 0),
            };
            ahead[episode as usize] = Some((sum, discount, last, count));
            returns.next[i] = following[episode as usize].replace(i).unwrap_or(i);
            returns.ahead[i] = count;
            (returns.partial[i], returns.discount[i], returns.last[i]) = (sum, discount, last);
        }
        returns
    }
}

/// The critic's regression: Q(s, a) = r + ends · w, one row for every transition.
///
/// These are λ-returns. With λ = 1 they are Monte-Carlo returns, with the value at the episode's end; with
/// λ = 0 one-step targets.
#[derive(Debug)]
pub struct Rows {
    /// φ(s, a).
    pub phi: Tensor,
    /// φ of the states the return is bootstrapped from, discounted and weighted.
    pub ends: Tensor,
    /// The reward until there.
    pub r: Tensor,
    returns: Returns,
}

/// φ of all transitions of a collection, which is what a round computes longest.
#[derive(Debug)]
pub struct Features {
    /// Of (s, a).
    phi: Tensor,
    /// Of s′ and the law's own action.
    after: Tensor,
}

impl Features {
    pub fn new(skills: &Skills, collection: &Collection) -> Self {
        let rows = |of: &dyn Fn(usize) -> Vec<f32>| {
            let values: Vec<f32> = (0..collection.transitions.len()).flat_map(of).collect();
            Tensor::from_slice(&values).view([collection.transitions.len() as i64, -1])
        };
        let at = |i: usize| -> &Transition { &collection.transitions[i] };
        let s = rows(&|i| at(i).from.to_vec());
        let a = rows(&|i| at(i).offset.to_vec());
        let after = rows(&|i| at(i).to.to_vec());
        no_grad(|| Self { phi: skills.features(&s, &a), after: skills.features(&after, &a.zeros_like()) })
    }
}

impl Rows {
    pub fn new(features: &Features, collection: &Collection, lambda: f32) -> Self {
        let returns = Returns::new(collection);
        let (phi, after) = (features.phi.shallow_clone(), &features.after);
        let width = phi.size()[1];
        let mut ends = Vec::<f32>::try_from(after.reshape([-1])).unwrap_or_default();
        let sums = lambda_returns(collection, &returns, lambda, &mut ends, width as usize);
        let ends = Tensor::from_slice(&ends).view([-1, width]);
        let r = Tensor::from_slice(&sums).view([-1, 1]);
        // A few crashes would otherwise decide the whole fit.
        let mean = r.mean(Kind::Float);
        let limit = (&r - &mean).abs().mean(Kind::Float) * OUTLIER;
        let r = (&r - &mean).minimum(&limit).maximum(&-limit) + mean;
        Self { phi, ends, r, returns }
    }

    /// Returns less the prediction of the twin that was not fitted to the episode.
    pub fn errors(&self, collection: &Collection, w: &Tensor) -> Tensor {
        let errors = &self.r + self.ends.matmul(w) - self.phi.matmul(w);
        let other: Vec<i64> = collection.episodes.iter().map(|e| i64::from(1 - e / 2 % 2)).collect();
        errors.gather(1, &Tensor::from_slice(&other).view([-1, 1]), false)
    }

    /// The rows of every other pair of episodes that are followed by `lookahead` more transitions or a crash.
    pub fn of(&self, collection: &Collection, parity: u32, lookahead: usize) -> Self {
        let known = |i: usize| self.returns.ahead[i] >= lookahead || self.returns.discount[i] == 0.0;
        let rows: Vec<i64> = (0..)
            .zip(&collection.episodes)
            .filter(|(i, e)| **e / 2 % 2 == parity && known(*i))
            .map(|(i, _)| i as i64)
            .collect();
        let rows = Tensor::from_slice(&rows);
        let pick = |t: &Tensor| t.index_select(0, &rows);
        Self { phi: pick(&self.phi), ends: pick(&self.ends), r: pick(&self.r), returns: Returns::default() }
    }
}

/// The reward part of the λ-returns; `ends`, rows of φ after each transition, become the bootstrap part.
fn lambda_returns(
    collection: &Collection,
    returns: &Returns,
    lambda: f32,
    ends: &mut [f32],
    width: usize,
) -> Vec<f32> {
    let mut sums: Vec<f32> = collection.transitions.iter().map(|t| t.reward).collect();
    for (i, transition) in collection.transitions.iter().enumerate().rev() {
        let (next, discount) = (returns.next[i], transition.discount);
        let (own, later) = ends.split_at_mut((i + 1) * width);
        let own = &mut own[i * width..];
        if next == i {
            own.iter_mut().for_each(|x| *x *= discount);
            continue;
        }
        sums[i] += lambda * discount * sums[next];
        let later = &later[(next - i - 1) * width..][..width];
        for (x, later) in own.iter_mut().zip(later) {
            *x = discount * ((1.0 - lambda) * *x + lambda * later);
        }
    }
    sums
}

/// The coefficient of determination R² of a prediction.
pub fn r_squared(truth: &Tensor, prediction: &Tensor) -> f64 {
    let error = (truth - prediction).square().mean(Kind::Double).double_value(&[]);
    let spread = truth.to_kind(Kind::Double).var(false).double_value(&[]);
    1.0 - error / spread.max(1e-12)
}
