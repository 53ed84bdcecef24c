//! The power button.
//!
//! It belongs to the radio processor. That asks us to close our files when it is pressed, and switches
//! the power off when we answer, or one second later in any case: nothing we can say keeps the power on.
//! On the ground the file is closed and the answer follows. In the air the answer is withheld, so that
//! the motors have the whole second, and the flight task comes down as fast as it can steer; the log
//! is complete up to its last commit at every moment.

use steady_common::supervisor;

/// The answer does not wait longer than this for the files, ms.
const CLOSE_MS: u32 = 800;

/// What is to be done now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// Tell the flight task.
    pub come_down: bool,
    /// Have the files closed.
    pub close_files: bool,
    /// Answer the radio processor: the power may go.
    pub acknowledge: bool,
}

/// What the button has set going.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shutdown {
    /// Nothing.
    #[default]
    Idle,
    /// The flight task has to stop the motors.
    ComingDown,
    /// The files are being closed, since this time in ms.
    Closing(u32),
    /// Answered: the power goes.
    Done,
}

impl Shutdown {
    /// The button was pressed. Pressing it again changes nothing.
    pub fn press(&mut self) {
        if *self == Self::Idle {
            *self = Self::ComingDown;
        }
    }

    /// To be called every few milliseconds with the supervisor's state and whether the files are closed.
    pub fn step(&mut self, now_ms: u32, supervisor: supervisor::State, closed: bool) -> Orders {
        if *self == Self::ComingDown && !supervisor.may_fly() {
            *self = Self::Closing(now_ms);
        }
        match *self {
            Self::Idle | Self::Done => Orders::default(),
            Self::ComingDown => Orders { come_down: true, ..Orders::default() },
            Self::Closing(since) => {
                let acknowledge = closed || now_ms.wrapping_sub(since) > CLOSE_MS;
                if acknowledge {
                    *self = Self::Done;
                }
                Orders { come_down: true, close_files: true, acknowledge }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steady_common::supervisor::State;

    #[test]
    fn on_the_ground_the_answer_waits_for_the_files() {
        let mut shutdown = Shutdown::default();
        assert_eq!(shutdown.step(0, State::PreFlightPassed, true), Orders::default(), "not pressed");
        shutdown.press();
        let closing = Orders { come_down: true, close_files: true, acknowledge: false };
        assert_eq!(shutdown.step(10, State::PreFlightPassed, false), closing);
        assert_eq!(shutdown.step(800, State::PreFlightPassed, false), closing);
        assert_eq!(
            shutdown.step(801, State::PreFlightPassed, true),
            Orders { acknowledge: true, ..closing },
            "closed"
        );
        shutdown.press();
        assert_eq!(shutdown.step(802, State::PreFlightPassed, true), Orders::default(), "answered once");
    }

    #[test]
    fn a_card_that_hangs_does_not_keep_the_power_on() {
        let mut shutdown = Shutdown::default();
        shutdown.press();
        let answered = (0..2000).find(|now| shutdown.step(*now, State::Locked, false).acknowledge);
        assert_eq!(answered, Some(CLOSE_MS + 1));
    }

    #[test]
    fn while_motors_may_run_it_is_never_answered() {
        for state in State::ALL.into_iter().filter(|state| state.may_fly()) {
            let mut shutdown = Shutdown::default();
            shutdown.press();
            for now in 0..5000 {
                let orders = shutdown.step(now, state, true);
                assert_eq!(orders, Orders { come_down: true, ..Orders::default() }, "{}", state.name());
            }
            assert!(shutdown.step(5000, State::Reset, true).acknowledge, "down: {}", state.name());
        }
    }
}
