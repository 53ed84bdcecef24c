//! Is a table better than the best so far? Both flew the same judging flights.

use serde::{Deserialize, Serialize};

use super::stage::{Outcome, rounded};
use crate::stats::mean_95;

/// What was decided about a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The table is the best so far; otherwise the drone gets the one before it back.
    pub is_kept: bool,
    /// It is clearly better or worse: the difference is larger than its uncertainty.
    pub is_clear: bool,
    /// Mean change of the cumulative reward, and the half-width of its 95 % interval.
    pub change: Option<(f64, f64)>,
    /// Why, for people.
    pub reason: String,
}

impl Verdict {
    /// Clearly better.
    #[must_use]
    pub fn is_improvement(&self) -> bool {
        self.is_kept && self.is_clear
    }
}

/// Compares a table with the best so far, flight by flight. The first one has nothing to be compared with.
#[must_use]
pub fn judge(best: Option<&[Outcome]>, new: &[Outcome]) -> Verdict {
    let Some(best) = best else {
        return Verdict {
            is_kept: true,
            is_clear: true,
            change: None,
            reason: "the simulator's table".to_owned(),
        };
    };
    let bad = |all: &[Outcome]| all.iter().filter(|o| !o.is_good).count();
    if bad(new) != bad(best) {
        let is_kept = bad(new) < bad(best);
        let trouble = new.iter().find_map(|o| o.trouble.as_deref()).unwrap_or("flights end as they should");
        let reason = format!(
            "{} of {} judging flights ended badly, {} before: {trouble}",
            bad(new),
            new.len(),
            bad(best)
        );
        return Verdict { is_kept, is_clear: true, change: None, reason };
    }
    let reward = |o: &Outcome| o.tracking.filter(|_| o.is_good).map(|t| t.cumulative_reward);
    let differences: Vec<f64> = new
        .iter()
        .filter_map(|n| {
            let b = best.iter().find(|b| b.seed == n.seed)?;
            Some(reward(n)? - reward(b)?)
        })
        .collect();
    if differences.len() < 2 {
        let reason = "no two judging flights can be compared".to_owned();
        return Verdict { is_kept: false, is_clear: false, change: None, reason };
    }
    let (mean, half) = mean_95(&differences);
    let (mean, half) = (rounded(mean), rounded(half));
    let is_clear = mean.abs() > half;
    let word = match (is_clear, mean > 0.0) {
        (true, true) => "better",
        (true, false) => "worse",
        (false, _) => "no clear difference",
    };
    Verdict {
        is_kept: mean > 0.0,
        is_clear,
        change: Some((mean, half)),
        reason: format!("{word}: the reward changes by {mean:+.1} ± {half:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fly::Tracking;

    fn flights(rewards: &[f64]) -> Vec<Outcome> {
        (1..)
            .zip(rewards)
            .map(|(flight, reward)| Outcome {
                flight,
                seed: u64::from(flight),
                is_good: reward.is_finite(),
                trouble: (!reward.is_finite()).then(|| "it crashed".to_owned()),
                tracking: Some(Tracking {
                    duration_s: 1.0,
                    tracking_error_m: 0.1,
                    max_error_m: 0.2,
                    cumulative_reward: *reward,
                    ..Tracking::default()
                }),
                steps: 1,
                lost: 0,
                cpu_load: 0.3,
                new_card: false,
            })
            .collect()
    }

    #[test]
    fn what_is_better_worse_and_unclear() {
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
            let verdict = judge(Some(&best), &flights(new));
            assert_eq!((verdict.is_kept, verdict.is_clear), (is_kept, is_clear), "{new:?} {verdict:?}");
            assert_eq!(verdict.is_improvement(), is_kept && is_clear);
        }
        let verdict = judge(Some(&flights(&[-900.0, crash, -889.0])), &best);
        assert!(verdict.is_improvement(), "flying to the end is better than any reward: {verdict:?}");
        assert!(judge(Some(&best), &flights(&[crash, -1.0, -1.0])).reason.contains("crashed"));
        assert!(judge(None, &best).is_kept);
        let all_bad = flights(&[crash, crash, crash]);
        assert!(!judge(Some(&all_bad), &all_bad).is_kept);
    }
}
