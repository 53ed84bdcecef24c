//! The fields of a world that flights can tell, with what is known of a Crazyflie before any flight.

use serde::Serialize;
use steady_sim::World;

/// How a parameter is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// By its logarithm: always positive, the spread is a part of the value.
    Log,
    /// By itself: any sign, the spread is in the parameter's unit.
    Linear,
}

/// One field of a world, and its prior.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// As in a world's file.
    pub name: &'static str,
    /// How it is counted.
    pub scale: Scale,
    /// What a Crazyflie 2.1 has, for a mass of 27 g.
    pub typical: f64,
    /// Standard deviation between Crazyflies.
    pub spread: f64,
    get: fn(&World) -> f32,
    set: fn(&mut World, f32),
}

/// Standard deviation of the logarithm of what the four motors' effectivenesses have in common, beside
/// what each has for itself. Flights see thrust over mass, so the weight is in it too.
pub const COMMON_THRUST_SPREAD: f64 = 0.35;
/// The motors are the first parameters.
pub const MOTORS: usize = 4;

macro_rules! parameter {
    ($name:literal, $scale:ident, $typical:literal, $spread:literal, $($field:tt)+) => {
        Parameter {
            name: $name,
            scale: Scale::$scale,
            typical: $typical,
            spread: $spread,
            get: |world| world.$($field)+,
            set: |world, value| world.$($field)+ = value,
        }
    };
}

/// The parameters.
///
/// Torque over inertia, rate damping and lag have narrow priors. A controller that turns against every
/// disturbance makes commands look weaker than they are, and a free fit calls that a drone four times as inert
/// with ten times the damping: it predicts well and flies badly. The typical values are those of excitation
/// flights logged at 1 kHz.
pub const PARAMETERS: [Parameter; 21] = [
    parameter!("motors.effectiveness[0]", Log, 0.63, 0.12, motors.effectiveness[0]),
    parameter!("motors.effectiveness[1]", Log, 0.63, 0.12, motors.effectiveness[1]),
    parameter!("motors.effectiveness[2]", Log, 0.63, 0.12, motors.effectiveness[2]),
    parameter!("motors.effectiveness[3]", Log, 0.63, 0.12, motors.effectiveness[3]),
    parameter!("motors.thrust_slope_per_v", Linear, 0.1, 0.15, motors.thrust_slope_per_v),
    parameter!("motors.torque_nm_per_rpm2", Log, 1.9e-12, 0.1, motors.torque_nm_per_rpm2),
    parameter!("motors.tau_rise_s", Log, 0.05, 0.1, motors.tau_rise_s),
    parameter!("motors.tau_fall_s", Log, 0.06, 0.1, motors.tau_fall_s),
    Parameter {
        name: "motors.command_delay_s",
        scale: Scale::Linear,
        typical: 0.008,
        spread: 0.002,
        get: |world| world.motors.command_delay_s,
        set: |world, value| world.motors.command_delay_s = value.clamp(0.0, 0.1),
    },
    Parameter {
        name: "body.inertia_kg_m2[0..2]",
        scale: Scale::Log,
        typical: 2.1e-5,
        spread: 0.09,
        get: |world| world.body.inertia_kg_m2[0],
        set: |world, value| {
            let [x, y, _] = &mut world.body.inertia_kg_m2;
            (*x, *y) = (value, value);
        },
    },
    parameter!("body.inertia_kg_m2[2]", Log, 3.2e-5, 0.06, body.inertia_kg_m2[2]),
    parameter!("body.torque_trim_nm[0]", Linear, 0.0, 5e-4, body.torque_trim_nm[0]),
    parameter!("body.torque_trim_nm[1]", Linear, 0.0, 5e-4, body.torque_trim_nm[1]),
    parameter!("body.torque_trim_nm[2]", Linear, 0.0, 2e-4, body.torque_trim_nm[2]),
    parameter!("aero.drag_xy_n_s2_per_m", Log, 1.9e-6, 0.3, aero.drag_xy_n_s2_per_m),
    parameter!("aero.drag_z_n_s2_per_m", Log, 1.9e-6, 0.5, aero.drag_z_n_s2_per_m),
    parameter!("aero.speed_moment_n_s[0]", Linear, 4.2e-4, 1e-4, aero.speed_moment_n_s[0]),
    parameter!("aero.speed_moment_n_s[1]", Linear, 4.7e-4, 1e-4, aero.speed_moment_n_s[1]),
    parameter!("aero.rate_damping_nm_s[0]", Log, 1.5e-4, 0.3, aero.rate_damping_nm_s[0]),
    parameter!("aero.rate_damping_nm_s[1]", Log, 1.5e-4, 0.3, aero.rate_damping_nm_s[1]),
    parameter!("aero.rate_damping_nm_s[2]", Log, 3e-5, 0.3, aero.rate_damping_nm_s[2]),
];

/// An effect that a fit can be made without, as if the simulator did not have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The moment that follows the speed.
    Moment,
    /// The air's drag.
    Drag,
    /// Constant torques.
    Trims,
}

impl Effect {
    /// Whether a parameter stands for it.
    pub fn has(self, parameter: &Parameter) -> bool {
        parameter.name.starts_with(match self {
            Self::Moment => "aero.speed_moment",
            Self::Drag => "aero.drag",
            Self::Trims => "body.torque_trim",
        })
    }
}

/// Number of [`PARAMETERS`].
pub const COUNT: usize = PARAMETERS.len();

/// Values of [`PARAMETERS`] relative to the typical ones: differences of logarithms, or multiples of the spread.
pub type Point = [f64; COUNT];

impl Parameter {
    /// The value in a world.
    pub fn get(&self, world: &World) -> f64 {
        f64::from((self.get)(world))
    }

    /// The value of a coordinate.
    pub fn value(&self, coordinate: f64) -> f64 {
        match self.scale {
            Scale::Log => self.typical * coordinate.exp(),
            Scale::Linear => self.typical + coordinate * self.spread,
        }
    }

    /// The coordinate of a value.
    pub fn coordinate(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Log => (value / self.typical).ln(),
            Scale::Linear => (value - self.typical) / self.spread,
        }
    }

    /// Standard deviation of the prior, in coordinates, without what the motors have in common.
    pub fn deviation(&self) -> f64 {
        match self.scale {
            Scale::Log => self.spread,
            Scale::Linear => 1.0,
        }
    }
}

/// Puts a point into a world.
pub fn put(point: &Point, world: &mut World) {
    for (parameter, coordinate) in PARAMETERS.iter().zip(point) {
        (parameter.set)(world, parameter.value(*coordinate) as f32);
    }
    // No body has a moment of inertia above the sum of the other two.
    let [x, y, z] = &mut world.body.inertia_kg_m2;
    *z = z.min(*x + *y);
}
