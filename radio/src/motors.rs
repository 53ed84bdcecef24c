//! A test of the propellers: each motor turns alone, and the accelerometer says how much that shakes the
//! drone. A motor that does not turn shakes nothing; a bent axle or a damaged propeller shakes a lot.

use std::time::Duration;

use steady_common::value::Value;

use crate::client::Client;
use crate::error::{Error, Result};

/// Power of a motor in the test, of 65536: it turns well, and one alone does not lift the drone.
pub const POWER: u16 = 20_000;
/// From a motor's start until its vibration is known: two of the drone's measurements after it has come up to
/// speed. Shorter than the time after which the drone ends a test by itself.
const TURNING: Duration = Duration::from_millis(900);
/// From its end until it stands still, likewise.
const RESTING: Duration = Duration::from_millis(900);
/// A motor that shakes less than so many times the drone at rest does not turn.
const STILL: f32 = 2.0;
/// A motor that shakes so many times less than the others is weak.
const WEAK: f32 = 4.0;
/// A motor that shakes so many times more than the others has something wrong.
const SHAKES: f32 = 4.0;

/// What is the matter with a motor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Good,
    /// It does not turn, or has no propeller.
    Still,
    /// It turns slower than the others, or has lost a part of its propeller's grip.
    Weak,
    /// Its propeller or its axle is out of balance.
    Shakes,
}

impl Verdict {
    /// What it is, and what to do.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Still => {
                "does not turn, or has no propeller: look at its plug, its propeller, hair on its axle"
            }
            Self::Weak => "weaker than the others: clean its axle, try another propeller, then another motor",
            Self::Shakes => {
                "shakes: replace the propeller; if it stays so, the axle is bent: replace the motor"
            }
        }
    }
}

/// Variances of the horizontal acceleration, (m/s²)².
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shaking {
    /// With all motors still.
    pub rest: f32,
    /// With one motor at a time.
    pub motors: [f32; 4],
}

impl Shaking {
    /// Judges each motor by the others.
    #[must_use]
    pub fn verdicts(&self) -> [Verdict; 4] {
        // Of the motors that turn, without the drone's own noise.
        let own = self.motors.map(|variance| variance - self.rest);
        // NaN does not turn either.
        let turns = |n: usize| self.motors[n] > STILL * self.rest;
        std::array::from_fn(|n| {
            if !turns(n) {
                return Verdict::Still;
            }
            let mut others: Vec<f32> = (0..4).filter(|m| *m != n && turns(*m)).map(|m| own[m]).collect();
            others.sort_by(f32::total_cmp);
            match others.get(others.len().saturating_sub(1) / 2) {
                Some(usual) if own[n] > SHAKES * usual => Verdict::Shakes,
                Some(usual) if own[n] < usual / WEAK => Verdict::Weak,
                _ => Verdict::Good,
            }
        })
    }
}

/// Turns one motor after the other, and measures. Whatever happens, the motors are off afterwards.
///
/// # Errors
/// If the drone does not answer, is armed, or does not turn its motors.
pub fn check(client: &mut Client, mut observe: impl FnMut(usize)) -> Result<Shaking> {
    if client.flags()?.is_armed() {
        return Err(Error::Refused("the drone is armed: `steady disarm` first".to_owned()));
    }
    let outcome = measure(client, &mut observe);
    // The drone ends the test by itself too.
    let off = client
        .param("motorPowerSet.enable")
        .and_then(|p| client.set("motorPowerSet.enable", p, Value::U8(0)));
    let shaking = outcome?;
    off?;
    Ok(shaking)
}

fn measure(client: &mut Client, observe: &mut dyn FnMut(usize)) -> Result<Shaking> {
    let names = ["motorPowerSet.m1", "motorPowerSet.m2", "motorPowerSet.m3", "motorPowerSet.m4"];
    let mut params = Vec::new();
    for name in names {
        let param = client.param(name)?;
        client.set(name, param, Value::U16(0))?;
        params.push(param);
    }
    let enable = client.param("motorPowerSet.enable")?;
    let rest = shaking(client, RESTING)?;
    let mut motors = [0.0; 4];
    for (n, ((name, param), variance)) in names.iter().zip(&params).zip(&mut motors).enumerate() {
        observe(n + 1);
        client.set("motorPowerSet.enable", enable, Value::U8(1))?;
        client.set(name, *param, Value::U16(POWER))?;
        *variance = shaking(client, TURNING)?;
        let pwm = format!("motor.m{}", n + 1);
        if client.log_once(&[pwm.as_str()])?.first() != Some(&Value::U16(POWER)) {
            let why = client.blockers()?;
            return Err(Error::Refused(format!(
                "the drone does not turn motor {}: put it upright on the floor; what stands against flying: {why}",
                n + 1
            )));
        }
        client.set(name, *param, Value::U16(0))?;
        shaking(client, RESTING)?;
    }
    Ok(Shaking { rest, motors })
}

/// Horizontal vibration after a while.
fn shaking(client: &mut Client, wait: Duration) -> Result<f32> {
    let until = client.now() + wait;
    while client.now() < until {
        let left = until.saturating_sub(client.now());
        client.console(left)?;
    }
    match client.log_once(&["steady.vibX", "steady.vibY"])?[..] {
        [Value::F32(x), Value::F32(y)] if x.is_finite() && y.is_finite() => Ok(x + y),
        _ => Err(Error::invalid_reply("the vibration", "values that are not finite")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_motor_is_judged_by_the_others() {
        use Verdict::{Good, Shakes, Still, Weak};
        for (motors, verdicts) in [
            ([0.02, 0.025, 0.018, 0.022], [Good; 4]),
            ([0.02, 0.0011, 0.018, 0.022], [Good, Still, Good, Good]),
            ([0.02, 0.025, 0.5, 0.022], [Good, Good, Shakes, Good]),
            ([0.02, 0.025, 0.018, 0.004], [Good, Good, Good, Weak]),
            ([0.5, 0.0011, 0.018, 0.02], [Shakes, Still, Good, Good]),
            ([0.001; 4], [Still; 4]),
            ([f32::NAN, 0.02, 0.02, 0.02], [Still, Good, Good, Good]),
        ] {
            assert_eq!(Shaking { rest: 0.001, motors }.verdicts(), verdicts, "{motors:?}");
        }
        assert!([Still, Weak, Shakes].iter().all(|v| v.text().contains(':')), "each with advice");
    }
}
