//! A session: image, board, world and ground together, and how they run.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use steady_common::Vec3;
use steady_sim::{Plant, PlantParams, World};

use crate::board::card::Card;
use crate::board::eeprom::Eeprom;
use crate::board::nrf::Nrf;
use crate::board::{Board, ProcessorTime, Stop, TICKS_PER_MS, TICKS_PER_US};
use crate::chip::flash;
use crate::cortex::map;
use crate::fault::{Fault, Faults, Kind};
use crate::ground::Ground;
use crate::image::Image;
use crate::machine::Machine;
use crate::scene::{Scene, SharedScene, Swarm, TruthSample};
use crate::trace::{Texts, Trace};

/// How often the firmware's output is collected.
const SLICE: u64 = 10 * TICKS_PER_MS;

/// Functions of the image whose work is counted: the control step (law and mixer), the estimator's step
/// (prediction and correction), and the whole flight step, a thousand times a second. The firmware keeps
/// them whole.
pub const METERED: [&str; 3] = [
    "<steady_firmware::flight::pilots::Pilots>::fly",
    "<steady_common::estimator::Estimator>::tick",
    "<steady_firmware::flight::Flight>::step",
];

/// What a session starts with.
pub struct Setup {
    /// The firmware.
    pub image: Image,
    /// The world.
    pub world: World,
    /// Of all random numbers.
    pub seed: u64,
    /// Pages for the flash: address and bytes.
    pub pages: Vec<(u32, Vec<u8>)>,
    /// File that holds the flash. Where it exists, the drone starts with what it holds, and image and
    /// pages are not put into the flash; it is written when the flash has changed.
    pub flash: Option<PathBuf>,
    /// The card's image file; `None` for no deck.
    pub card: Option<PathBuf>,
    /// What the EEPROM holds.
    pub eeprom: Vec<u8>,
    /// Which board it is, as its one-time programmable memory says: `0;CF21`.
    pub otp: String,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Count instructions and cycles by function.
    pub profile: bool,
    /// Also stop at what a chip puts up with, but no firmware should do; `None` for our own image alone.
    pub strict: Option<bool>,
}

/// A line of output: virtual time in µs, text.
pub type Line = (u64, String);

/// A running session.
pub struct Session {
    /// The machine.
    pub machine: Machine,
    scene: Rc<RefCell<Scene>>,
    image: Image,
    texts: Texts,
    /// Faults that strike between two instructions, next one first.
    exact_faults: Vec<Fault>,
    flash: Option<PathBuf>,
    pages_saved: u64,
    /// What the firmware said so far.
    pub lines: Vec<Line>,
    /// Output that could not be decoded.
    pub damaged_lines: u64,
    started: Instant,
    truth: Option<BufWriter<std::fs::File>>,
    /// ProcessorTime at the beginning of the flight and at its end so far.
    airborne: Option<(ProcessorTime, ProcessorTime)>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The time was up, or the mission over.
    Over,
    /// The firmware, or the ground, switched the power off.
    PowerOff,
    /// The machine could not go on; this is why.
    Stopped(String),
}

impl Session {
    /// Puts everything together; the firmware has not run yet.
    ///
    /// # Errors
    /// If the world is not valid or a file cannot be opened.
    pub fn new(setup: Setup, ground: Box<dyn Ground>) -> Result<Self> {
        let file = setup.card.as_deref().map(open_card).transpose()?;
        let has_deck = file.is_some();
        let mut faults = Faults::new(setup.faults);
        let exact_faults = faults.take_exact();
        let world = PlantParams::new(&setup.world).context("the world cannot be simulated")?;
        let scene = Scene::new(Plant::new(&world, setup.seed), ground, faults);
        let scene = Rc::new(RefCell::new(scene));
        let mut board = Board::new(
            Card::new(file),
            Eeprom::with(&setup.eeprom),
            Nrf::new(has_deck),
            Box::new(SharedScene(Rc::clone(&scene))),
        );
        if let Some(is_strict) = setup.strict {
            board.set_strict(is_strict);
        }
        let texts = Texts::of(&setup.image)?;
        let kept = setup.flash.as_deref().filter(|path| path.exists()).map(read_flash).transpose()?;
        let mut machine = match &kept {
            Some(bytes) => Machine::with_flash(board, bytes)?,
            None => Machine::new(board, &setup.image)?,
        };
        machine.set_otp(&setup.otp);
        let (board, memory) = machine.parts();
        if kept.is_none() {
            for (address, bytes) in &setup.pages {
                flash::program(memory.flash, (address - map::FLASH) as usize, bytes);
            }
        }
        // A function that the image does not have is never counted: no address is odd.
        board.meter(&METERED.map(|name| setup.image.address_of(name).unwrap_or(1)));
        if setup.profile {
            board.profile = Some(vec![(0, 0); map::FLASH_LEN / 2]);
        }
        let mut session = Self {
            machine,
            scene,
            image: setup.image,
            texts,
            exact_faults,
            flash: setup.flash,
            pages_saved: 0,
            lines: Vec::new(),
            damaged_lines: 0,
            started: Instant::now(),
            truth: None,
            airborne: None,
        };
        if let (None, Some(path)) = (&kept, &session.flash) {
            save_flash(&mut session.machine, path)?;
        }
        Ok(session)
    }

    /// Remembers the last millisecond alone, for a session that may last for days.
    pub fn forget_history(&mut self) {
        self.scene.borrow_mut().keeps_samples = false;
    }

    /// Puts the drone on the floor at a place of a world that it shares with others.
    pub fn join(&mut self, swarm: &Arc<Swarm>, number: usize, place_m: Vec3) {
        let mut scene = self.scene.borrow_mut();
        scene.plant.stand_at(place_m);
        scene.swarm = Some((Arc::clone(swarm), number));
    }

    /// Writes the simulator's truth into a file while the session runs, a line every 10 ms.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn write_truth_to(&mut self, path: &Path) -> Result<()> {
        let file = std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut file = BufWriter::new(file);
        writeln!(file, "time_us,x_m,y_m,z_m,roll_rad,pitch_rad,yaw_rad")?;
        self.truth = Some(file);
        Ok(())
    }

    /// The scene.
    #[must_use]
    pub fn scene(&self) -> std::cell::Ref<'_, Scene> {
        self.scene.borrow()
    }

    /// The image.
    #[must_use]
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Runs for so long, or until the mission is over or something ends it; `each` hears every line.
    /// `pace` is the virtual time that may pass in a second of real time; `None` runs freely.
    pub fn run(&mut self, limit_s: f64, pace: Option<f64>, mut each: impl FnMut(&Line)) -> End {
        let limit = (limit_s * 168e6) as u64;
        let mut trace = Trace::new(&self.image, &self.texts);
        let start = (Instant::now(), self.machine.look().now);
        let end = loop {
            let now = self.machine.look().now;
            let over = self.scene.borrow().ground.mission().is_some_and(|m| m.is_over());
            if now >= limit || over {
                break End::Over;
            }
            let fault = self.exact_faults.first().copied();
            let mut until = (now + SLICE).min(limit);
            if let Some(fault) = fault {
                until = until.min((fault.time_us * TICKS_PER_US).max(now + 1));
            }
            let stop = self.machine.run_until(until);
            let (board, mut memory) = self.machine.parts();
            let time_us = board.now / TICKS_PER_US;
            for text in trace.poll(&mut memory) {
                self.lines.push((time_us, text));
                if let Some(line) = self.lines.last() {
                    each(line);
                }
            }
            if self.scene.borrow().ground.mission().is_some_and(|m| m.is_airborne()) {
                let effort = self.machine.look().effort;
                self.airborne = Some((self.airborne.map_or(effort, |(first, _)| first), effort));
            }
            let nrf = &self.machine.look().nrf;
            let written = nrf.pages_written();
            if let Some(path) = &self.flash
                && written != self.pages_saved
                && nrf.is_flash_idle()
            {
                self.pages_saved = written;
                if let Err(error) = save_flash(&mut self.machine, path) {
                    break End::Stopped(format!("{error:#}"));
                }
            }
            if let Some(file) = &mut self.truth
                && let Some(sample) = self.scene.borrow().samples.last()
                && let Err(error) = tell(file, sample)
            {
                break End::Stopped(format!("{error:#}"));
            }
            match stop {
                Some(Stop::PowerOff) => break End::PowerOff,
                Some(stop) => break End::Stopped(self.machine.explain(&stop, &self.image)),
                None => {}
            }
            if let Some(fault) = fault
                && self.machine.look().now >= fault.time_us * TICKS_PER_US
            {
                self.exact_faults.remove(0);
                strike(fault.kind, &mut self.machine);
            }
            if let Some(pace) = pace {
                let virtual_s = (self.machine.look().now - start.1) as f64 / 168e6;
                let ahead = virtual_s / pace - start.0.elapsed().as_secs_f64();
                if ahead > 0.0 {
                    std::thread::sleep(Duration::from_secs_f64(ahead.min(0.1)));
                }
            }
        };
        self.damaged_lines += trace.damaged;
        end
    }

    /// Part of the time in the air that the processor was not asleep.
    #[must_use]
    pub fn flight_load(&self) -> Option<f64> {
        let (first, last) = self.airborne?;
        let (busy, asleep) = ((last.cycles - first.cycles) as f64, (last.asleep - first.asleep) as f64);
        (busy + asleep > 0.0).then(|| busy / (busy + asleep))
    }

    /// Real time since the session was made, s.
    #[must_use]
    pub fn real_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Virtual time, s.
    #[must_use]
    pub fn virtual_s(&self) -> f64 {
        self.machine.look().now as f64 / 168e6
    }

    /// Instructions and cycles by function, most cycles first.
    #[must_use]
    pub fn profile(&self) -> Vec<(String, u64, u64)> {
        let mut functions = std::collections::BTreeMap::<&str, (u64, u64)>::new();
        let counts = self.machine.look().profile.as_deref().unwrap_or_default();
        for (address, (instructions, cycles)) in (map::FLASH..).step_by(2).zip(counts) {
            if *cycles > 0 {
                let name = self.image.function(address).map_or("?", |(name, _)| name);
                let entry = functions.entry(name).or_default();
                entry.0 += instructions;
                entry.1 += cycles;
            }
        }
        let mut list: Vec<_> = functions.into_iter().map(|(n, (i, c))| (n.to_owned(), i, c)).collect();
        list.sort_by_key(|(_, _, cycles)| std::cmp::Reverse(*cycles));
        list
    }
}

/// A line of the truth.
fn tell(file: &mut impl std::io::Write, sample: &TruthSample) -> Result<()> {
    let (p, rpy) = (sample.truth.position, sample.truth.attitude.to_euler());
    writeln!(file, "{},{},{},{},{},{},{}", sample.time_us, p.x, p.y, p.z, rpy.x, rpy.y, rpy.z)?;
    file.flush().context("cannot write the truth")
}

fn read_flash(path: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    anyhow::ensure!(
        bytes.len() == map::FLASH_LEN,
        "{} has {} bytes; the flash has {}",
        path.display(),
        bytes.len(),
        map::FLASH_LEN
    );
    Ok(bytes)
}

/// Beside its place first, so that there is never half a file.
fn save_flash(machine: &mut Machine, path: &Path) -> Result<()> {
    let draft = path.with_extension("part");
    let (_, memory) = machine.parts();
    std::fs::write(&draft, &*memory.flash)
        .and_then(|()| std::fs::rename(&draft, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// A fault strikes between two instructions.
fn strike(kind: Kind, machine: &mut Machine) {
    match kind {
        Kind::PowerCut => machine.power_cycle(),
        Kind::FlowBlocked(ms) => machine.board().block_flow(ms * TICKS_PER_MS),
        Kind::DebugHalt => machine.debug_halt(true),
        Kind::DebugGo => machine.debug_halt(false),
        Kind::ImuStuck => machine.board().hang_sensor_bus(true),
        Kind::ImuBack => {
            machine.board().hang_sensor_bus(false);
            let board = machine.board();
            (board.sensors.is_dead, board.sensors.is_shy, board.i2c3.is_noisy) = (false, false, false);
        }
        // All others strike on a millisecond.
        _ => {}
    }
}

fn open_card(path: &Path) -> Result<std::fs::File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .with_context(|| format!("cannot open the card image {}", path.display()))
}
