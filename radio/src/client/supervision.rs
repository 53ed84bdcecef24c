//! The supervisor: its flags, arming, recovery, emergency stop.

use std::time::Duration;

use steady_common::crtp::supervisor;
use steady_common::supervisor::Blockers;
use steady_common::value::Value;

use super::{ASK, Client, hear};
use crate::ask::Retry;
use crate::error::{Error, Result};

/// The supervisor's flags, as in `supervisor.info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    const NAMES: [&'static str; 12] = [
        "can be armed",
        "armed",
        "arms by itself",
        "can fly",
        "flying",
        "tumbled",
        "locked",
        "crashed",
        "planner active",
        "planner finished",
        "planner off",
        "deck fault",
    ];

    /// The firmware arms itself whenever it can, as the official one does on a Crazyflie 2.1.
    #[must_use]
    pub fn arms_itself(self) -> bool {
        self.0 & (1 << 2) != 0
    }

    /// Motors may turn.
    #[must_use]
    pub fn is_armed(self) -> bool {
        self.0 & (1 << 1) != 0
    }

    /// In the air.
    #[must_use]
    pub fn is_flying(self) -> bool {
        self.0 & (1 << 4) != 0
    }

    /// Stopped until the next boot.
    #[must_use]
    pub fn is_locked(self) -> bool {
        self.0 & (1 << 6) != 0
    }

    /// Names of the flags that are set.
    #[must_use]
    pub fn words(self) -> Vec<&'static str> {
        (0..).zip(Self::NAMES).filter(|(bit, _)| self.0 & (1 << bit) != 0).map(|(_, name)| name).collect()
    }
}

impl Client {
    /// The supervisor's flags.
    ///
    /// # Errors
    /// If the drone does not answer.
    pub fn flags(&mut self) -> Result<Flags> {
        let request = supervisor::Request::Bitfield.encode();
        let answer =
            self.ask("the supervisor's state", &request, ASK, |p| match supervisor::Reply::decode(p) {
                Ok(supervisor::Reply::Bitfield(bits)) => Some(Flags(bits)),
                _ => None,
            });
        // Official releases before 2026.04 cannot be asked: the same bits are a log variable there.
        match answer {
            Err(Error::NoAnswer { .. }) => match self.log_once(&["supervisor.info"]).as_deref() {
                Ok([Value::U16(bits)]) => Ok(Flags(*bits)),
                _ => answer,
            },
            answer => answer,
        }
    }

    /// Arms or disarms.
    ///
    /// # Errors
    /// If the drone does not answer, or the drone refuses.
    pub fn arm(&mut self, arm: bool) -> Result<()> {
        let request = supervisor::Request::Arm(arm).encode();
        // The drone answers after at most 100 ms.
        let retry = Retry::new(200, 4000, 1);
        let armed = self.ask("arming", &request, retry, |p| match supervisor::Reply::decode(p) {
            Ok(supervisor::Reply::Arm { armed, .. }) => Some(armed),
            _ => None,
        })?;
        if armed == arm {
            return Ok(());
        }
        if !arm {
            return Err(Error::Refused(
                "the drone stays armed: it is flying? `steady stop` stops it".to_owned(),
            ));
        }
        let why = self.blockers()?;
        Err(Error::Refused(format!("the drone does not arm; what stands against it: {why}")))
    }

    /// What blocks arming.
    ///
    /// # Errors
    /// If the drone does not answer.
    pub fn blockers(&mut self) -> Result<String> {
        if self.find_log("steady.blockers")?.is_none() {
            return Ok(self.flags()?.words().join(", "));
        }
        let bits = match self.log_once(&["steady.blockers"])?.first() {
            Some(Value::U16(bits)) => *bits,
            _ => 0,
        };
        let names: Vec<&str> =
            Blockers::NAMES.iter().filter(|(b, _)| bits & b.0 != 0).map(|(_, name)| *name).collect();
        Ok(if names.is_empty() { "nothing".to_owned() } else { names.join(", ") })
    }

    /// Leaves the state after a crash.
    ///
    /// # Errors
    /// If the drone does not answer, or the drone is still on its back.
    pub fn recover(&mut self) -> Result<()> {
        let request = supervisor::Request::Recover.encode();
        let retry = Retry::new(200, 4000, 1);
        let recovered = self.ask("recovery", &request, retry, |p| match supervisor::Reply::decode(p) {
            Ok(supervisor::Reply::Recover { recovered, .. }) => Some(recovered),
            _ => None,
        })?;
        if recovered {
            return Ok(());
        }
        Err(Error::Refused("the drone does not recover: put it upright on the floor first".to_owned()))
    }

    /// Emergency stop: motors off until the next boot. Repeated until the drone reports that it is locked.
    ///
    /// # Errors
    /// If the drone does not confirm it.
    pub fn stop(&mut self) -> Result<()> {
        let stop = supervisor::Request::EmergencyStop.encode();
        // It has no reply, so it is sent several times first and confirmed afterwards.
        for _ in 0..5 {
            self.link.send(&stop)?;
        }
        let ask = supervisor::Request::Bitfield.encode();
        let until = self.link.now() + Duration::from_secs(4);
        while self.link.now() < until {
            self.link.send(&stop)?;
            self.link.send(&ask)?;
            let again = self.link.now() + Duration::from_millis(50);
            while let Some(packet) = self.link.receive(again.saturating_sub(self.link.now()))? {
                match supervisor::Reply::decode(&packet) {
                    Ok(supervisor::Reply::Bitfield(bits)) if Flags(bits).is_locked() => return Ok(()),
                    _ => hear(&mut self.console, &packet),
                }
                if self.link.now() >= again {
                    break;
                }
            }
        }
        Err(Error::NoAnswer {
            what: "the emergency stop".to_owned(),
            seconds: 4.0,
            advice: ": it was sent many times, but the drone has not confirmed it; keep away from it"
                .to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_in_words() {
        assert_eq!(Flags(0b1_0010).words(), ["armed", "flying"]);
        assert!(Flags(2).is_armed() && !Flags(2).is_flying());
    }
}
