//! What surrounds the board in a flight: the body in its world, the ground, faults, and the record of
//! it all.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use steady_common::crtp::localization;
use steady_common::{State, Vec3};
use steady_sim::Plant;

use crate::board::Board;
use crate::cortex::unicorn::Memory;
use crate::fault::Faults;
use crate::ground::Ground;
use crate::outside::Outside;

/// Period of the barometer, ms.
const BAROMETER_MS: u64 = 20;

/// One millisecond of a flight as it truly was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TruthSample {
    /// Virtual time, µs.
    pub time_us: u64,
    /// The body's true state.
    pub truth: State,
    /// Power of the motors, of 65536.
    pub motors: [u16; 4],
    /// Thrust the rotors really give, of the full thrust.
    pub thrust: [f32; 4],
    /// Battery voltage, V.
    pub battery_v: f32,
}

/// Where the drones of one world are. Each has its own thread and clock, so the others' places are the newest
/// ones that they have told.
#[derive(Debug)]
pub struct Swarm {
    positions_m: Mutex<Vec<Vec3>>,
}

impl Swarm {
    /// Drones on the floor at these places.
    #[must_use]
    pub fn new(positions_m: Vec<Vec3>) -> Self {
        Self { positions_m: Mutex::new(positions_m) }
    }

    /// Tells where a drone is, and finds out about the others.
    fn meet(&self, number: usize, plant: &mut Plant) {
        let mut positions_m = self.positions_m.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mine) = positions_m.get_mut(number) {
            *mine = plant.truth().position;
        }
        plant.set_neighbours(positions_m.iter().enumerate().filter(|(i, _)| *i != number).map(|(_, p)| *p));
    }
}

/// Everything around the board.
pub struct Scene {
    /// The body.
    pub plant: Plant,
    /// Who is at the other end of the radio.
    pub ground: Box<dyn Ground>,
    /// What goes wrong, and when.
    pub faults: Faults,
    /// The flight so far.
    pub samples: Vec<TruthSample>,
    /// Motion capture is lost (a fault).
    pub is_mocap_lost: bool,
    /// The other drones, and this one's number among them.
    pub swarm: Option<(Arc<Swarm>, usize)>,
    /// All samples are kept, not only the last.
    pub keeps_samples: bool,
    step: u64,
}

impl Scene {
    /// A scene that begins now.
    #[must_use]
    pub fn new(plant: Plant, ground: Box<dyn Ground>, faults: Faults) -> Self {
        Self {
            plant,
            ground,
            faults,
            samples: Vec::new(),
            is_mocap_lost: false,
            swarm: None,
            keeps_samples: true,
            step: 0,
        }
    }

    fn millisecond(&mut self, board: &mut Board, memory: &mut Memory<'_>) {
        let time_us = board.now / crate::board::TICKS_PER_US;
        let mut faults = std::mem::take(&mut self.faults);
        faults.apply(time_us, self, board, memory);
        self.faults = faults;

        if let Some((swarm, number)) = &self.swarm {
            swarm.meet(*number, &mut self.plant);
        }
        let motors = board.motors();
        let reading = self.plant.step(motors);
        board.sensors.measure(reading.gyro, reading.force);
        if self.step.is_multiple_of(BAROMETER_MS) {
            board.sensors.measure_air(reading.pressure_pa, 25.0);
        }
        // The radio processor's converter has 10 bits over 5.4 V.
        board.nrf.battery_v = (reading.battery_v / 5.4 * 1023.0).round() * (5.4 / 1023.0);
        if let Some(frame) = reading.mocap
            && !self.is_mocap_lost
        {
            let seen = match frame.attitude {
                Some(attitude) => localization::Request::Pose(frame.position_m, attitude),
                None => localization::Request::Position(frame.position_m),
            };
            board.broadcast(&seen.encode());
        }
        if !self.keeps_samples {
            self.samples.clear();
        }
        self.samples.push(TruthSample {
            time_us,
            truth: *self.plant.truth(),
            motors,
            thrust: self.plant.thrust(),
            battery_v: reading.battery_v,
        });
        self.ground.millisecond(time_us, self.plant.truth(), board, memory);
        self.step += 1;
    }
}

/// A scene shared with the session.
#[derive(Clone)]
pub struct SharedScene(pub Rc<RefCell<Scene>>);

impl Outside for SharedScene {
    fn step(&mut self, board: &mut Board, memory: &mut Memory<'_>) {
        self.0.borrow_mut().millisecond(board, memory);
    }
}
