//! What the LEDs say.
//!
//! | LED | means |
//! |---|---|
//! | blue left | on: running; blinking: a log is being written; off half the time, slowly: the card failed or is full |
//! | green left | on: a client is connected |
//! | red left | blinking: the battery is low |
//! | green right | blinking: may be armed; on: armed; fast: in the air |
//! | red right | blinking: something stands against arming; on: crashed or locked |

use steady_common::supervisor;

use crate::storage;
use crate::telemetry::Telemetry;

/// Battery voltage below which the LED warns, V.
pub(crate) const LOW_BATTERY_V: f32 = 3.2;

/// Which LEDs are lit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leds {
    /// Blue, left.
    pub blue_left: bool,
    /// Green, left.
    pub green_left: bool,
    /// Red, left.
    pub red_left: bool,
    /// Green, right.
    pub green_right: bool,
    /// Red, right.
    pub red_right: bool,
}

/// Lit for the first half of every period.
pub(crate) fn blink(now_ms: u32, period_ms: u32) -> bool {
    now_ms % period_ms.max(2) < period_ms / 2
}

/// What to show at a moment.
#[must_use]
pub fn show(now_ms: u32, telemetry: &Telemetry, card: storage::State, connected: bool) -> Leds {
    use supervisor::State;
    let state = telemetry.supervisor;
    let stopped = matches!(state, State::Crashed | State::Locked);
    let armed = state.may_fly() || state == State::Arming;
    Leds {
        blue_left: match card {
            storage::State::NoCard | storage::State::Ready => true,
            storage::State::Logging => blink(now_ms, 200),
            storage::State::Full | storage::State::Failed => blink(now_ms, 2000),
        },
        green_left: connected,
        red_left: telemetry.battery_v < LOW_BATTERY_V && blink(now_ms, 500),
        green_right: if state.is_airborne() {
            blink(now_ms, 100)
        } else if armed {
            true
        } else {
            telemetry.blockers.is_empty() && !stopped && blink(now_ms, 1000)
        },
        red_right: stopped || (!armed && !telemetry.blockers.is_empty() && blink(now_ms, 500)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steady_common::supervisor::{Blockers, State};

    fn seen(telemetry: &Telemetry, card: storage::State) -> (Leds, Leds) {
        let (mut any, mut all) = (Leds::default(), show(0, telemetry, card, true));
        for now in 0..4000 {
            let now = show(now, telemetry, card, true);
            for (any, all, now) in [
                (&mut any.blue_left, &mut all.blue_left, now.blue_left),
                (&mut any.red_left, &mut all.red_left, now.red_left),
                (&mut any.green_right, &mut all.green_right, now.green_right),
                (&mut any.red_right, &mut all.red_right, now.red_right),
            ] {
                *any |= now;
                *all &= now;
            }
        }
        (any, all)
    }

    fn telemetry(supervisor: State, blockers: u16) -> Telemetry {
        Telemetry { supervisor, blockers: Blockers(blockers), battery_v: 4.0, ..Telemetry::default() }
    }

    #[test]
    fn right_side_tells_whether_it_may_fly() {
        let card = storage::State::Ready;
        let (any, all) = seen(&telemetry(State::PreFlightPassed, 0), card);
        assert!(any.green_right && !all.green_right && !any.red_right);
        let (any, _) = seen(&telemetry(State::PreFlightFailed, 1), card);
        assert!(any.red_right && !any.green_right);
        let (_, all) = seen(&telemetry(State::ReadyToFly, 0), card);
        assert!(all.green_right);
        for state in [State::Crashed, State::Locked] {
            let (any, all) = seen(&telemetry(state, 0), card);
            assert!(all.red_right && !any.green_right, "{state:?}");
        }
    }

    #[test]
    fn left_side_tells_battery_and_card() {
        let (any, all) = seen(&telemetry(State::PreFlightPassed, 0), storage::State::Logging);
        assert!(any.blue_left && !all.blue_left && !any.red_left);
        let low = Telemetry { battery_v: 3.0, ..telemetry(State::PreFlightPassed, 0) };
        let (any, all) = seen(&low, storage::State::Ready);
        assert!(any.red_left && !all.red_left && all.blue_left);
    }
}
