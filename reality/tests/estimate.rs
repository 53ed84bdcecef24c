//! The drone's estimator on recorded flights, beside the official one's logged estimate.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use steady_common::estimator::CRAZYFLIE_DRAG_PER_S;
use steady_reality::Recording;
use steady_reality::estimate::{Errors, Judge, Setup};

/// The recorded flights of which nearly all telemetry was received: gaps in at most 1 % of the rows, 94 % of every
/// kind of packet.
const COMPLETE: [&str; 6] = [
    "B2_circle_fast_rep3",
    "B3_figure8_medium_rep3",
    "B3_figure8_fast_rep2",
    "B5_helix_slow_rep1",
    "B5_helix_fast_rep3",
    "B9_trefoil_slow_rep14",
];
const DELAY_S: f64 = 0.02;

fn judges() -> Option<Vec<Judge>> {
    let folder = steady_test_support::recording("real-flights")?;
    let open = |name| Judge::all(&Recording::open(&folder.join(format!("{name}.csv.gz"))).unwrap()).unwrap();
    Some(COMPLETE.into_iter().flat_map(open).collect())
}

fn mean(judges: &[Judge], setup: Setup) -> Errors {
    Errors::mean(&judges.iter().map(|judge| judge.ours(&setup).unwrap()).collect::<Vec<_>>())
}

/// Asserts what was measured, to the last digit given.
fn assert_measured(errors: Errors, [velocity, tilt, yaw]: [f64; 3]) {
    assert!((errors.velocity_m_s - velocity).abs() < 6e-4, "{errors:?}");
    assert!((errors.tilt_deg - tilt).abs() < 6e-3, "{errors:?}");
    assert!((errors.yaw_deg - yaw).abs() < 6e-3, "{errors:?}");
}

#[test]
fn drag_halves_the_errors_on_recorded_flights() {
    let Some(judges) = judges() else { return };
    assert_eq!(judges.len(), 6);
    let logged: Vec<Errors> = judges.iter().map(|judge| judge.logged().unwrap()).collect();
    // Without drag the filter is as far off as the official one, which flew.
    assert_measured(Errors::mean(&logged), [0.069, 1.51, 0.42]);
    assert_measured(mean(&judges, Setup::pose(DELAY_S)), [0.071, 1.54, 0.42]);
    assert_measured(mean(&judges, Setup::position(DELAY_S)), [0.052, 1.87, 2.77]);

    let drag_per_s = CRAZYFLIE_DRAG_PER_S;
    let pose = mean(&judges, Setup { drag_per_s, ..Setup::pose(DELAY_S) });
    assert!(pose.velocity_m_s <= 0.042 && pose.tilt_deg <= 0.90 && pose.yaw_deg <= 0.43, "{pose:?}");
    let position = mean(&judges, Setup { drag_per_s, ..Setup::position(DELAY_S) });
    assert!(position.velocity_m_s <= 0.034 && position.tilt_deg <= 0.95, "{position:?}");
    assert!(position.yaw_deg <= 0.6, "{position:?}");
}

#[test]
fn a_filter_that_knows_the_delay_is_nearer_to_the_velocity() {
    let Some(judges) = judges() else { return };
    let (drag_per_s, told_delay_s) = (CRAZYFLIE_DRAG_PER_S, DELAY_S as f32);
    for (setup, velocity) in [(Setup::pose(DELAY_S), 0.034), (Setup::position(DELAY_S), 0.026)] {
        let silent = mean(&judges, Setup { drag_per_s, ..setup });
        let told = mean(&judges, Setup { drag_per_s, told_delay_s, ..setup });
        assert!(told.velocity_m_s <= velocity && told.tilt_deg <= silent.tilt_deg, "{told:?} {silent:?}");
        assert!(told.yaw_deg <= 0.6, "{told:?}");
    }
}
