//! One simulated drone.

use steady_common::{Quat, State, Vec3};

use crate::battery::Battery;
use crate::body::{self, Air};
use crate::initial::Initial;
use crate::mocap::MocapSample;
use crate::motors::Heat;
use crate::params::Params;
use crate::rng::Rng;
use crate::sensors::{ImuSample, Sensing};

/// One simulated drone: body, rotors, battery, sensors, and its own random numbers.
///
/// Always step it with the [`Params`] it was made with.
#[derive(Clone, Debug, PartialEq)]
pub struct Drone {
    state: State,
    rpm: [f32; 4],
    /// Attitude before the latest step.
    last_attitude: Quat,
    battery: Battery,
    rng: Rng,
    steps: u64,
    /// What the way to the motors, the motors and the air remember, in worlds where one of them does.
    memory: Option<Box<Memory>>,
    /// Apart, so that a fleet without sensors stays dense in memory.
    sensing: Option<Box<Sensing>>,
}

impl Drone {
    /// A drone on the floor at the origin, with random stream number `index` of `seed`.
    #[must_use]
    pub fn new(params: &Params, seed: u64, index: u64) -> Self {
        let mut drone = Self {
            state: State::default(),
            rpm: [0.0; 4],
            last_attitude: Quat::IDENTITY,
            battery: Battery::new(params.battery.as_ref(), params.full_voltage_v),
            rng: Rng::new(seed, index),
            steps: 0,
            memory: None,
            sensing: None,
        };
        drone.reset(params, &Initial::on_floor(params, Vec3::ZERO));
        drone
    }

    /// Begins a new episode: battery charged, sensors with new biases. Random numbers continue.
    ///
    /// Allocates only in the first call for a drone with sensors, and in worlds with a delay, gusts or heat.
    pub fn reset(&mut self, params: &Params, initial: &Initial) {
        self.state = State { attitude: initial.state.attitude.normalized(), ..initial.state };
        self.rpm = initial.rpm;
        self.last_attitude = initial.last_attitude.unwrap_or(self.state.attitude);
        self.battery = Battery::new(params.battery.as_ref(), params.full_voltage_v);
        self.steps = 0;
        self.memory = Memory::new(params, initial.rpm, &mut self.rng).map(Box::new);
        if let Some(p) = &params.sensing {
            let fresh = Sensing::new(p, params.gravity_m_s2, &self.state, &mut self.rng);
            match &mut self.sensing {
                Some(sensing) => **sensing = fresh,
                none => *none = Some(Box::new(fresh)),
            }
        }
    }

    /// One physics step with motor commands as fractions of
    /// [`MAX_MOTOR_THRUST_N`](crate::MAX_MOTOR_THRUST_N), M1..M4, the battery compensated ideally.
    #[inline]
    pub fn step(&mut self, params: &Params, thrust_fraction: [f32; 4]) {
        self.step_pushed(params, thrust_fraction, Vec3::ZERO);
    }

    /// Like [`Self::step`], with another force on the body, in N in the world frame.
    #[inline]
    pub fn step_pushed(&mut self, params: &Params, thrust_fraction: [f32; 4], push_n: Vec3) {
        let available_n = match params.battery {
            Some(_) => params.motors.thrust_at_voltage(self.battery.voltage_v),
            None => f32::INFINITY,
        };
        let target = params.motors.speeds_for_fraction(thrust_fraction, available_n, self.battery.voltage_v);
        self.advance(params, target, push_n);
    }

    /// One physics step with raw 16-bit PWM ratios at the present battery voltage, M1..M4.
    pub fn step_pwm(&mut self, params: &Params, pwm: [u16; 4], push_n: Vec3) {
        self.step_pwm_at(params, pwm.map(f32::from), self.battery.voltage_v, push_n);
    }

    /// One physics step with PWM ratios of 65535 at a known battery voltage, M1..M4: what a log says.
    pub fn step_pwm_at(&mut self, params: &Params, pwm: [f32; 4], battery_v: f32, push_n: Vec3) {
        let target = params.motors.speeds_for_pwm(pwm, battery_v);
        self.advance(params, target, push_n);
    }

    /// One physics step with rotor speeds to tend to, rpm: past effectiveness and voltage.
    pub fn step_rpm(&mut self, params: &Params, target_rpm: [f32; 4]) {
        self.advance(params, target_rpm, Vec3::ZERO);
    }

    #[inline]
    fn advance(&mut self, params: &Params, mut target_rpm: [f32; 4], push_n: Vec3) {
        let mut gust_m_s = Vec3::ZERO;
        if let Some(memory) = &mut self.memory {
            gust_m_s = memory.step(params, &mut target_rpm, &mut self.rng);
        }
        let [m1, m2, m3, m4] = self.rpm;
        let drag_rpm_sum = (m1 + m2) + (m3 + m4);
        params.motors.advance(&mut self.rpm, target_rpm);
        if let (Some(memory), Some(heat)) = (&mut self.memory, &params.motors.heat) {
            memory.heat.step(heat, &self.rpm);
        }
        let velocity_before = self.state.velocity;
        let attitude_before = self.state.attitude;
        let air = Air { rpm: &self.rpm, drag_rpm_sum, push_n, gust_m_s, last_attitude: self.last_attitude };
        body::step(params, &mut self.state, &air);
        self.last_attitude = attitude_before;
        self.steps += 1;
        if let Some(battery) = &params.battery {
            self.battery.step(battery, &self.rpm);
        }
        if let (Some(sensing), Some(p)) = (&mut self.sensing, &params.sensing) {
            sensing.step(params, p, &self.state, velocity_before, &mut self.rng);
        }
    }

    /// Turns faster by this, rad/s in the body frame.
    pub fn add_rates(&mut self, by: Vec3) {
        self.state.rates += by;
    }

    /// The true state.
    #[inline]
    #[must_use]
    pub fn truth(&self) -> &State {
        &self.state
    }

    /// Rotor speeds of M1..M4, rpm.
    #[inline]
    #[must_use]
    pub fn rpm(&self) -> [f32; 4] {
        self.rpm
    }

    /// The battery.
    #[must_use]
    pub fn battery(&self) -> &Battery {
        &self.battery
    }

    /// The latest reading of the inertial measurement unit, in worlds that simulate it.
    #[must_use]
    pub fn imu(&self) -> Option<ImuSample> {
        self.sensing.as_ref().map(|s| s.imu_sample)
    }

    /// The mocap frame that reached the drone in the latest step, if one did.
    #[must_use]
    pub fn mocap(&self) -> Option<MocapSample> {
        self.sensing.as_ref().and_then(|s| s.mocap_sample)
    }

    /// Physics steps since the reset.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The drone's random numbers, also for whoever draws its initial states.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
}

/// What lasts from step to step beyond the state, the rotors and the battery.
#[derive(Clone, Debug, PartialEq)]
struct Memory {
    delay: Delay,
    heat: Heat,
    /// World frame, m/s.
    gust_m_s: Vec3,
}

impl Memory {
    /// That of a new episode; `None` in worlds where nothing is remembered.
    fn new(params: &Params, rpm: [f32; 4], rng: &mut Rng) -> Option<Self> {
        let gusts = params.wind.as_ref().and_then(|wind| wind.gusts.as_ref());
        let is_needed = params.motors.delay_steps > 0 || params.motors.heat.is_some() || gusts.is_some();
        is_needed.then(|| Self {
            delay: Delay { on_their_way: vec![rpm; params.motors.delay_steps], oldest: 0 },
            heat: Heat::COLD,
            gust_m_s: gusts.map_or(Vec3::ZERO, |gusts| gusts.first(rng)),
        })
    }

    /// Before a step: what the motors are told late and lose to heat, and the gust, m/s.
    fn step(&mut self, params: &Params, target_rpm: &mut [f32; 4], rng: &mut Rng) -> Vec3 {
        self.delay.swap(target_rpm);
        if let Some(heat) = &params.motors.heat {
            self.heat.weaken(heat, target_rpm);
        }
        if let Some(gusts) = params.wind.as_ref().and_then(|wind| wind.gusts.as_ref()) {
            self.gust_m_s = gusts.next(self.gust_m_s, rng);
        }
        self.gust_m_s
    }
}

/// Commands on their way to the motors: a ring, the oldest leaves as the newest comes.
#[derive(Clone, Debug, PartialEq)]
struct Delay {
    on_their_way: Vec<[f32; 4]>,
    oldest: usize,
}

impl Delay {
    /// Takes the newest command and gives the oldest.
    fn swap(&mut self, command: &mut [f32; 4]) {
        if let Some(slot) = self.on_their_way.get_mut(self.oldest) {
            std::mem::swap(slot, command);
        }
        self.oldest += 1;
        if self.oldest >= self.on_their_way.len() {
            self.oldest = 0;
        }
    }
}
