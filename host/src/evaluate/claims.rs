//! What the comparison should show, and whether it does.

use serde::Serialize;
use steady_sim::flight::Task;

use super::results::{Estimate, Group, Metric, Results, paired};
use super::suite::Controller::{self, Oracle, Pid, Simulator, Steady, Transfer};

/// What a number must be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// At least so much.
    AtLeast(f64),
    /// More than that.
    MoreThan(f64),
    /// At most so much.
    AtMost(f64),
}

/// Whether a claim holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Yes, with its whole interval.
    Met,
    /// The mean is enough, but the interval reaches past the bound, or there is none.
    MetOnAverage,
    /// No.
    Missed,
    /// It cannot be said.
    Unmeasured(String),
}

/// A claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// In words, with its world.
    pub text: String,
    /// The number: mean over seeds of what was paired by seed.
    pub measured: Option<Estimate>,
    /// Its unit.
    pub unit: &'static str,
    /// What it must be.
    pub needed: Bound,
    /// Whether it is.
    pub verdict: Verdict,
}

impl Claim {
    fn new(text: String, unit: &'static str, needed: Bound, values: Result<Vec<f64>, String>) -> Self {
        let (measured, reason) = match values {
            Ok(values) if values.iter().all(|v| v.is_finite()) => (Estimate::of(&values), None),
            Ok(_) => (None, Some("it cannot be computed from these flights".to_owned())),
            Err(reason) => (None, Some(reason)),
        };
        let verdict = match &measured {
            Some(measured) => judge(measured, needed),
            None => Verdict::Unmeasured(reason.unwrap_or_else(|| "it was not flown".to_owned())),
        };
        Self { text, measured, unit, needed, verdict }
    }
}

fn judge(measured: &Estimate, needed: Bound) -> Verdict {
    let holds = |value: f64| match needed {
        Bound::AtLeast(bound) => value >= bound,
        Bound::MoreThan(bound) => value > bound,
        Bound::AtMost(bound) => value <= bound,
    };
    let surely = measured.half.is_some_and(|h| holds(measured.mean - h) && holds(measured.mean + h));
    match (holds(measured.mean), surely) {
        (true, true) => Verdict::Met,
        (true, false) => Verdict::MetOnAverage,
        (false, _) => Verdict::Missed,
    }
}

/// How much less STEADY's number is than another's: the other's first.
type Less = fn(f64, f64) -> f64;

/// The claims about every world of a comparison.
#[must_use]
pub fn claims(results: &Results) -> Vec<Claim> {
    results.settings.worlds.iter().flat_map(|world| about(results, world)).collect()
}

fn about(results: &Results, world: &str) -> Vec<Claim> {
    let per_seed = |task: Task, controller: Controller, metric: Metric| {
        results.per_seed(Group { world, task, controller, variation: "" }, metric)
    };
    // How much smaller an error is with STEADY.
    let less = |task: Task, other: Controller, metric: Metric, value: Less| {
        paired(&per_seed(task, other, metric), &per_seed(task, Steady, metric), value)
    };
    let mut claims = Vec::new();
    let eight = Task::FigureEight;
    for (other, percent) in [(Simulator, 30.2), (Transfer, 11.9)] {
        claims.push(Claim::new(
            format!("{world}, figure8: tracking error below {}'s", other.title()),
            "%",
            Bound::AtLeast(percent),
            Ok(less(eight, other, Metric::TrackingError, |other, steady| 100.0 * (other - steady) / other)),
        ));
    }
    for (other, percent) in [(Simulator, 22.7), (Transfer, 9.1), (Pid, 10.9)] {
        claims.push(Claim::new(
            format!("{world}, figure8: cumulative reward above {}'s", other.title()),
            "%",
            Bound::AtLeast(percent),
            Ok(less(eight, other, Metric::Reward, |other, steady| 100.0 * (steady - other) / other.abs())),
        ));
    }
    let measures: [(&str, &'static str, Metric, Less); 2] = [
        ("height error", "cm", Metric::HeightError, |other, steady| 100.0 * (other - steady)),
        ("roll/pitch RMS", "deg", Metric::Tilt, |other, steady| (other - steady).to_degrees()),
    ];
    for (name, unit, metric, value) in measures {
        for other in [Simulator, Transfer] {
            claims.push(Claim::new(
                format!("{world}, takeoff-land: {name} smaller than {}'s", other.title()),
                unit,
                Bound::MoreThan(0.0),
                Ok(less(Task::TakeoffLand, other, metric, value)),
            ));
        }
    }
    for task in [Task::TakeoffLand, eight] {
        for (name, metric) in [("tracking error", Metric::TrackingError), ("reward", Metric::Reward)] {
            let [from, now, to] = [Simulator, Steady, Oracle].map(|c| per_seed(task, c, metric));
            let way = paired(&from, &to, |from, to| to - from);
            let better = |gap: &f64| if metric == Metric::Reward { *gap > 0.0 } else { *gap < 0.0 };
            let parts = if way.iter().all(better) {
                let parts = from.iter().filter_map(|(seed, from)| {
                    Some(100.0 * (now.get(seed)? - from) / (to.get(seed)? - from))
                });
                Ok(parts.collect())
            } else {
                Err("the Oracle is not better than the Simulator with every seed".to_owned())
            };
            claims.push(Claim::new(
                format!("{world}, {}: part of the way from Simulator to Oracle in {name}", task.name()),
                "%",
                Bound::AtLeast(70.0),
                parts,
            ));
        }
    }
    claims.extend(discovery(results, world));
    claims
}

/// What discovery brought to predictions, over all campaigns with it in a world.
fn discovery(results: &Results, world: &str) -> Vec<Claim> {
    let groups =
        results.groups().filter(|g| g.world == world && g.controller == Steady && g.variation.is_empty());
    let found: Vec<_> =
        groups.flat_map(|g| results.campaigns_of(g)).filter_map(|campaign| campaign.discovery).collect();
    let less = found
        .iter()
        .map(|d| 100.0 * f64::from(d.error_without - d.error_with) / f64::from(d.error_without))
        .collect();
    let largest = found.iter().map(|d| f64::from(d.correlation)).reduce(f64::max);
    let mut correlation = Claim::new(
        format!("{world}: largest correlation of a new skill with one of the simulator's"),
        "",
        Bound::AtMost(0.05),
        Ok(largest.into_iter().collect()),
    );
    // The largest of all is no mean: it needs no interval.
    if correlation.verdict == Verdict::MetOnAverage {
        correlation.verdict = Verdict::Met;
    }
    vec![
        Claim::new(
            format!("{world}: held-out error with discovery below that of transfer only, same flights"),
            "%",
            Bound::MoreThan(0.0),
            Ok(less),
        ),
        correlation,
    ]
}

#[cfg(test)]
mod tests {
    use super::super::bench::Cell;
    use super::super::results::tests::{cell, results};
    use super::*;

    /// The paper's table, with three seeds that differ a little; tracking error and reward of STEADY as given.
    fn papers(steady: f32, reward: f32) -> Vec<Cell> {
        let mut cells = Vec::new();
        for seed in 1..=3_u8 {
            let k = 1.0 + 0.001 * f32::from(seed);
            let mut add = |controller, error: f32, reward: f32| {
                for task in [Task::FigureEight, Task::TakeoffLand] {
                    cells.push(cell(task, controller, seed.into(), error * k, reward * k));
                }
            };
            add(Steady, steady, reward);
            add(Transfer, 0.1115, -1365.0);
            add(Simulator, 0.1406, -1620.0);
            add(Pid, 0.0983, -1400.0);
            add(Oracle, 0.09, -1200.0);
        }
        cells
    }

    fn verdict(claims: &[Claim], text: &str) -> Verdict {
        claims.iter().find(|c| c.text.contains(text)).unwrap().verdict.clone()
    }

    #[test]
    fn what_is_met_is_met() {
        let claims = claims(&results(papers(0.0975, -1220.0)));
        let unmet: Vec<_> = claims.iter().filter(|c| c.verdict != Verdict::Met).collect();
        // Nothing was learned in these hand-made results, so discovery is not measured.
        assert!(unmet.iter().all(|c| matches!(c.verdict, Verdict::Unmeasured(_))), "{unmet:#?}");
        assert_eq!((claims.len(), unmet.len()), (15, 2));
        let below = claims.iter().find(|c| c.text.contains("error below Simulator")).unwrap();
        let expected = 100.0 * (1.0 - 0.0975 / 0.1406);
        assert!((below.measured.unwrap().mean - expected).abs() < 1e-3, "{below:?}");
    }

    #[test]
    fn what_is_missed_is_said() {
        let mut cells = papers(0.112, -1380.0);
        let found = claims(&results(cells.clone()));
        for text in
            ["error below Simulator", "error below Skill", "reward above Simulator", "RMS smaller than Skill"]
        {
            assert_eq!(verdict(&found, text), Verdict::Missed, "{text}");
        }
        let part =
            found.iter().find(|c| c.text.contains("figure8: part of the way from Simulator to Oracle in t"));
        let part = part.unwrap();
        assert_eq!(part.verdict, Verdict::Missed);
        assert!((part.measured.unwrap().mean - 100.0 * (0.1406 - 0.112) / (0.1406 - 0.09)).abs() < 0.01);
        // An oracle that is none is no ceiling.
        for cell in cells.iter_mut().filter(|c| c.key.controller == Oracle) {
            cell.flights.iter_mut().for_each(|f| f.tracking_error_m = 0.2);
        }
        let found = claims(&results(cells));
        assert!(matches!(verdict(&found, "Oracle in tracking error"), Verdict::Unmeasured(_)));
    }

    #[test]
    fn an_interval_across_the_bound_is_no_proof() {
        let mut cells = papers(0.0975, -1220.0);
        for cell in cells.iter_mut().filter(|c| c.key.controller == Steady && c.key.seed == 2) {
            cell.flights.iter_mut().for_each(|f| f.tracking_error_m = 0.09);
        }
        assert_eq!(verdict(&claims(&results(cells.clone())), "error below Simulator"), Verdict::MetOnAverage);
        cells.retain(|c| c.key.seed == 1);
        assert_eq!(verdict(&claims(&results(cells)), "error below Simulator"), Verdict::MetOnAverage);
    }
}
