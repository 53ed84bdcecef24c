//! Every rule that bounds, shrinks or rolls back a step of the gains.
//!
//! - A step changes the logarithm of a gain by at most `scale · step`, or `scale · fast_step` for the attitude
//!   and rate loops ([`TrustRegion::bounds`]).
//! - The scale begins at 1, is halved after a step that was not kept, and doubled, up to 1, after one that
//!   was ([`TrustRegion::scale_after`]).
//! - A table that simulated worlds like the data refuse is tried with a half, a quarter and an eighth of the
//!   step; then there is no new table ([`TrustRegion::backtrack`], [`refusal`]).
//! - A table is kept when its judging flights are better than those of the best table so far, and rolled back
//!   otherwise ([`decide`]). No model has a say in that, only flights.

use serde::{Deserialize, Serialize};
use steady_common::gains::GAIN_COUNT;

use super::outcome::Outcome;
use crate::stats::Estimate;

/// What is left of the scale after a step that was not kept.
const SHRINK: f32 = 0.5;
/// Gains from this one on are those of the attitude and rate loops.
const FIRST_FAST_GAIN: usize = 12;
/// How often a refused step is halved.
const MAX_HALVINGS: i32 = 3;
/// A table is worse in a world when it loses more than this part of the present table's reward there.
const WORLD_TOLERANCE: f64 = 0.05;

/// How far a step may go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrustRegion {
    /// Largest change of a gain's logarithm.
    pub step: f32,
    /// The same for the attitude and rate loops, whose limits lie beyond what transitions of 50 ms show.
    pub fast_step: f32,
    /// Part of these that is allowed now.
    pub scale: f32,
}

impl TrustRegion {
    /// Largest change of each gain's logarithm.
    pub fn bounds(&self) -> [f64; GAIN_COUNT] {
        let step = |gain| if gain < FIRST_FAST_GAIN { self.step } else { self.fast_step };
        std::array::from_fn(|gain| f64::from(self.scale * step(gain)))
    }

    /// The scale after these decisions about steps.
    pub fn scale_after<'a>(decisions: impl IntoIterator<Item = &'a Decision>) -> f32 {
        decisions
            .into_iter()
            .fold(1.0, |scale: f32, d| if d.is_kept { (scale / SHRINK).min(1.0) } else { scale * SHRINK })
    }

    /// The largest of the parts 1, ½, ¼ and ⅛ of a step that `check` does not refuse, or 0; with the last
    /// check and why a larger part was refused.
    pub fn backtrack<C>(mut check: impl FnMut(f32) -> (Option<String>, C)) -> (f32, Option<String>, C) {
        let (mut part, mut refused) = (1.0, None);
        for halvings in 0.. {
            let (why, found) = check(part);
            if why.is_none() {
                return (part, refused, found);
            }
            refused = why;
            if halvings == MAX_HALVINGS {
                return (0.0, refused, found);
            }
            part *= 0.5;
        }
        unreachable!("the loop ends at MAX_HALVINGS")
    }
}

/// A flight in a simulated world: its reward and whether it failed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorldFlight {
    pub reward: f64,
    /// It crashed or was not flown to its end.
    pub failed: bool,
}

/// Why worlds refuse a table, given flights of the present and the new one in each, by the world's number.
pub fn refusal(flights: &[(u64, WorldFlight, WorldFlight)]) -> Option<String> {
    let n = flights.len();
    let crashes: Vec<u64> =
        flights.iter().filter(|(_, old, new)| new.failed && !old.failed).map(|(world, ..)| *world).collect();
    if let Some(world) = crashes.first() {
        return Some(format!(
            "it crashes in {} of {n} worlds like the data, such as sample-{world}",
            crashes.len()
        ));
    }
    let is_worse = |old: &WorldFlight, new: &WorldFlight| {
        // A NaN is worse, too.
        let tolerable = old.reward - WORLD_TOLERANCE * old.reward.abs();
        new.reward.is_nan() || new.reward < tolerable
    };
    let worse = flights.iter().filter(|(_, old, new)| !old.failed && is_worse(old, new)).count();
    (2 * worse > n).then(|| format!("it flies worse in {worse} of {n} worlds like the data"))
}

/// What was decided about a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// The table is the best so far; otherwise the drone gets the one before it back.
    pub is_kept: bool,
    /// It is clearly better or worse: the difference is larger than its 95 % interval.
    pub is_clear: bool,
    /// Change of the cumulative reward, over pairs of judging flights.
    pub change: Option<Estimate>,
    /// Why, for people.
    pub reason: String,
}

impl Decision {
    /// About an adaptation that proposed no table.
    pub fn unchanged() -> Self {
        let reason = "the adaptation proposed no change".to_owned();
        Self { is_kept: false, is_clear: false, change: None, reason }
    }

    /// Clearly better.
    pub fn is_improvement(&self) -> bool {
        self.is_kept && self.is_clear
    }
}

/// Compares a table with the best so far, flight by flight with the same seeds. The first has nothing to be
/// compared with.
pub fn decide(best: Option<&[Outcome]>, new: &[Outcome]) -> Decision {
    let Some(best) = best else {
        let reason = "the simulator's table".to_owned();
        return Decision { is_kept: true, is_clear: true, change: None, reason };
    };
    let failed = |all: &[Outcome]| all.iter().filter(|o| !o.is_good()).count();
    if failed(new) != failed(best) {
        let trouble = new.iter().find_map(|o| o.trouble.as_deref());
        let crashed = || if failed(new) > 0 { "it crashed" } else { "every flight ended as it should" };
        let reason = format!(
            "{} of {} judging flights failed, {} before: {}",
            failed(new),
            new.len(),
            failed(best),
            trouble.unwrap_or_else(crashed)
        );
        return Decision { is_kept: failed(new) < failed(best), is_clear: true, change: None, reason };
    }
    let reward = |o: &Outcome| o.metrics.filter(|_| o.is_good()).map(|m| m.cumulative_reward);
    let differences: Vec<f64> = new
        .iter()
        .filter_map(|n| Some(reward(n)? - reward(best.iter().find(|b| b.seed == n.seed)?)?))
        .collect();
    if differences.len() < 2 {
        let reason = "no two judging flights can be compared".to_owned();
        return Decision { is_kept: false, is_clear: false, change: None, reason };
    }
    // Rounded, so that a journal that was written and read again has the same bits.
    let round = |value: f64| (value * 1e9).round() / 1e9;
    let change = Estimate::of(&differences);
    let change = Estimate { mean: round(change.mean), half_width: change.half_width.map(round) };
    let is_clear = change.is_significant();
    let word = match (is_clear, change.mean > 0.0) {
        (true, true) => "better",
        (true, false) => "worse",
        (false, _) => "no clear difference",
    };
    let reason = format!("{word}: the reward changes by {change:.1}");
    Decision { is_kept: change.mean > 0.0, is_clear, change: Some(change), reason }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::tests::outcome;
    use super::*;

    fn flights(rewards: &[f64]) -> Vec<Outcome> {
        (1..)
            .zip(rewards)
            .map(|(flight, reward)| Outcome {
                trouble: (!reward.is_finite()).then(|| "it tipped over".to_owned()),
                ..outcome(flight, 0.1, *reward)
            })
            .collect()
    }

    #[test]
    fn better_tables_are_kept_and_others_are_not() {
        let best = flights(&[-1000.0, -1010.0, -990.0]);
        let crash = f64::NAN;
        for (new, is_kept, is_clear) in [
            (&[-900.0, -912.0, -889.0], true, true),
            (&[-1100.0, -1112.0, -1089.0], false, true),
            (&[-800.0, -1100.0, -995.0], true, false),
            (&[-990.0, -1030.0, -991.0], false, false),
            (&[-900.0, crash, -889.0], false, true),
            (&[-1000.0, -1010.0, -990.0], false, false),
        ] {
            let decision = decide(Some(&best), &flights(new));
            assert_eq!((decision.is_kept, decision.is_clear), (is_kept, is_clear), "{new:?} {decision:?}");
            assert_eq!(decision.is_improvement(), is_kept && is_clear);
        }
        let decision = decide(Some(&flights(&[-900.0, crash, -889.0])), &best);
        assert!(decision.is_improvement(), "flying to the end is better than any reward: {decision:?}");
        assert!(decide(Some(&best), &flights(&[crash, -1.0, -1.0])).reason.contains("tipped over"));
        assert!(decide(None, &best).is_kept);
        let all_failed = flights(&[crash, crash, crash]);
        assert!(!decide(Some(&all_failed), &all_failed).is_kept);
    }

    #[test]
    fn steps_shrink_after_failures_and_grow_after_successes() {
        let kept = Decision { is_kept: true, ..Decision::unchanged() };
        let not = Decision::unchanged();
        let scale = |decisions: &[&Decision]| TrustRegion::scale_after(decisions.iter().copied());
        assert_eq!(scale(&[]), 1.0);
        assert_eq!(scale(&[&kept, &not, &not]), 0.25);
        assert_eq!((scale(&[&not, &not, &kept]), scale(&[&not, &kept, &kept])), (0.5, 1.0));
        let bounds = TrustRegion { step: 0.4, fast_step: 0.1, scale: 0.5 }.bounds();
        assert!((bounds[0] - 0.2).abs() < 1e-6 && (bounds[11] - 0.2).abs() < 1e-6);
        assert!((bounds[12] - 0.05).abs() < 1e-6 && (bounds[23] - 0.05).abs() < 1e-6);
    }

    #[test]
    fn refused_steps_are_halved_three_times() {
        let try_all = |limit: f32| {
            let mut tried = Vec::new();
            let (part, refused, last) = TrustRegion::backtrack(|part| {
                tried.push(part);
                ((part > limit).then(|| "too far".to_owned()), part)
            });
            (part, refused.is_some(), last, tried.len())
        };
        assert_eq!(try_all(1.0), (1.0, false, 1.0, 1));
        assert_eq!(try_all(0.3), (0.25, true, 0.25, 3));
        assert_eq!(try_all(0.0), (0.0, true, 0.125, 4));
    }

    #[test]
    fn worlds_refuse_crashes_and_clear_losses_in_most_of_them() {
        let flight = |reward: f64, failed| WorldFlight { reward, failed };
        let old = flight(-100.0, false);
        assert_eq!(refusal(&[(1, old, flight(-104.0, false)), (2, old, flight(-104.0, false))]), None);
        assert_eq!(refusal(&[(1, old, flight(-106.0, false)), (2, old, old)]), None, "one of two");
        assert!(refusal(&[(1, old, flight(-106.0, false)); 2]).unwrap().contains("2 of 2"));
        assert!(refusal(&[(7, old, flight(-1.0, true)), (2, old, old)]).unwrap().contains("sample-7"));
        assert_eq!(
            refusal(&[(7, flight(-1e3, true), flight(-1e3, true))]),
            None,
            "the present one crashes too"
        );
        assert!(refusal(&[(1, old, flight(f64::NAN, false))]).is_some());
    }
}
