//! The summary of a flight, for people and programs.

use std::path::Path;

use serde::Serialize;
use steady_common::Action;
use steady_common::transition::{Decoder, Flags, Link, StepTracker};
use steady_common::usdlog::{Ending, Header, Layout, Scanner};
use steady_sim::FlightMetrics;
use steady_sim::metrics::Accumulator;

use crate::mission::{Identity, Phase};
use crate::sdimage;
use crate::session::{End, Session};

/// Milliseconds in a control step, and its length in s.
const CONTROL_MS: usize = 2;
const CONTROL_S: f64 = 0.002;
/// Exception numbers of the executors: interrupts 52 and 53, whose peripherals the firmware does not use.
const FLIGHT_EXCEPTION: usize = 16 + 52;
const RADIO_EXCEPTION: usize = 16 + 53;

/// What one executor, or one function with all it calls, took of the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Effort {
    /// How often it was entered.
    pub runs: u64,
    /// Mean instructions of a run.
    pub instructions_mean: f64,
    /// Largest number of instructions in a run.
    pub instructions_max: u64,
    /// Cycles in a run (an estimate): mean.
    pub cycles_mean: f64,
    /// Cycles of the longest run (an estimate).
    pub cycles_max: u64,
    /// When the longest run ended, s.
    pub max_at_s: Option<f64>,
}

/// What the LED ring has shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RingSummary {
    /// Times all its LEDs were set.
    pub pictures: u64,
    /// Pulses that are neither a 0 nor a 1.
    pub bad_pulses: u64,
    /// The colours at the end, as `#rrggbb`.
    pub colours: Vec<String>,
}

/// A log file on the card.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LogFile {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Records of control steps whose checksum is right.
    pub records: u64,
    /// Control steps missing between the first and the last record.
    pub lost: u64,
    /// Bytes that belong to no good record.
    pub skipped_bytes: u64,
    /// The file was closed: its checksum is there and right.
    pub is_closed: bool,
    /// Records made by the differentiable law while the motors turned.
    pub law_records: u64,
    /// What is wrong with the file as a whole.
    pub problem: Option<String>,
}

/// The summary.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// What the drone says it is; our own firmware is not asked.
    pub identity: Option<Identity>,
    /// Decks that are mounted.
    pub decks: Vec<String>,
    /// What the LED ring has shown, if there is one.
    pub led_ring: Option<RingSummary>,
    /// How it ended.
    pub end: String,
    /// The mission was flown to its end.
    pub success: bool,
    /// Why not.
    pub failure: Option<String>,
    /// The drone stands on the floor, upright, with its motors off.
    pub is_landed: bool,
    /// Where the drone ended, m.
    pub final_position_m: [f32; 3],
    /// Largest height, m.
    pub highest_m: f32,
    /// How well the part that counts was flown, by the simulator's truth.
    pub metrics: Option<FlightMetrics>,
    /// Virtual time, s.
    pub virtual_s: f64,
    /// Real time, s.
    pub real_s: f64,
    /// Virtual over real time.
    pub speed: f64,
    /// Instructions executed.
    pub instructions: u64,
    /// Part of the time that the processor was not asleep, in the air where it flew.
    pub cpu_load: f64,
    /// Flight executor.
    pub flight: Effort,
    /// Radio executor.
    pub radio: Effort,
    /// Control step: law and mixer.
    pub control_step: Effort,
    /// Estimator's step: prediction and correction.
    pub estimator: Effort,
    /// Flight step: both and everything around them, a thousand times a second.
    pub flight_step: Effort,
    /// Longest time with interrupts off, µs (an estimate), and where they were switched off.
    pub longest_lock: (f64, String),
    /// Deepest nesting of exceptions.
    pub deepest_nesting: usize,
    /// Shortest time left when the watchdog was fed, ms.
    pub watchdog_margin_ms: Option<f64>,
    /// Resets: time in s and cause.
    pub resets: Vec<(f64, String)>,
    /// Processor faults: time in s, where, what.
    pub faults: Vec<(f64, String, String)>,
    /// Radio packets: sent by the ground, not acknowledged, dropped by the radio processor.
    pub radio_packets: [u64; 3],
    /// Frames damaged and bytes lost between the processors.
    pub serial_errors: [u64; 2],
    /// Blocks read from and written to the card.
    pub card_blocks: [u64; 2],
    /// Log files on the card.
    pub logs: Vec<LogFile>,
    /// Peripherals used without their clock: where, which register.
    pub unclocked: Vec<(String, String)>,
    /// What the drone said on its console.
    pub console: String,
}

impl Summary {
    /// Sums a session up; `card` is the card's image.
    #[must_use]
    pub fn of(session: &Session, end: &End, card: Option<&Path>) -> Self {
        let scene = session.scene();
        let mission = scene.ground.mission();
        let board = session.machine.look();
        let last = scene.samples.last();
        let is_landed = scene.plant.is_on_floor() && last.is_some_and(|s| s.motors == [0; 4]);
        let failure = match end {
            End::Stopped(why) => Some(why.clone()),
            _ => mission.and_then(|m| m.failure.clone()),
        };
        let image = session.image();
        let failure =
            failure.map(|why| match mission.is_some_and(|m| m.failure.is_some() && !m.has_answered) {
                true => {
                    format!("{why}; its processor is at {}: look there", image.place(session.machine.pc()))
                }
                false => why,
            });
        let seconds = |ticks: u64| ticks as f64 / 168e6;
        let busy = board.effort.cycles as f64;
        let flown = mission.is_some_and(|m| m.history.iter().any(|(_, p)| *p == Phase::Disarm));
        Self {
            identity: mission.and_then(|m| m.identity.clone()),
            decks: board.nrf.deck_names(),
            led_ring: board.nrf.has_led_ring().then(|| RingSummary {
                pictures: board.ring.pictures,
                bad_pulses: board.ring.bad_pulses,
                colours: board
                    .ring
                    .colours()
                    .iter()
                    .map(|[r, g, b]| format!("#{r:02x}{g:02x}{b:02x}"))
                    .collect(),
            }),
            end: match end {
                End::Over => "over".to_owned(),
                End::PowerOff => "power off".to_owned(),
                End::Stopped(_) => "stopped".to_owned(),
            },
            success: failure.is_none() && (mission.is_none() || flown),
            failure,
            is_landed,
            final_position_m: last
                .map_or([0.0; 3], |s| [s.truth.position.x, s.truth.position.y, s.truth.position.z]),
            highest_m: scene.samples.iter().map(|s| s.truth.position.z).fold(0.0, f32::max),
            metrics: metrics(session),
            virtual_s: session.virtual_s(),
            real_s: session.real_s(),
            speed: session.virtual_s() / session.real_s().max(1e-9),
            instructions: board.effort.instructions,
            cpu_load: session.flight_load().unwrap_or(busy / (busy + board.effort.asleep as f64)),
            flight: effort(session, FLIGHT_EXCEPTION),
            radio: effort(session, RADIO_EXCEPTION),
            control_step: function(session, 0),
            estimator: function(session, 1),
            flight_step: function(session, 2),
            longest_lock: (board.locks.longest as f64 / 168.0, image.place(board.locks.longest_at)),
            deepest_nesting: board.nvic.deepest,
            watchdog_margin_ms: board.watchdog.closest.map(|ticks| seconds(ticks) * 1e3),
            resets: session.machine.resets.iter().map(|(t, c)| (seconds(*t), format!("{c:?}"))).collect(),
            faults: session
                .machine
                .faults
                .iter()
                .map(|(t, pc, what)| (seconds(*t), image.place(*pc), what.clone()))
                .collect(),
            radio_packets: {
                let (sent, lost) = mission.map_or((0, 0), |m| m.polls());
                [sent, lost, board.nrf.losses.dropped]
            },
            serial_errors: [u64::from(board.nrf.damaged()), board.serial_overruns()],
            card_blocks: [board.card.traffic.0, board.card.traffic.1],
            logs: card.map(logs).unwrap_or_default(),
            unclocked: board
                .unclocked
                .iter()
                .map(|(block, register)| (image.place(*block), format!("{register:#010x}")))
                .collect(),
            console: mission.map(|m| m.console.clone()).unwrap_or_default(),
        }
    }
}

fn effort(session: &Session, exception: usize) -> Effort {
    let stats = session.machine.handlers.get(exception).copied().unwrap_or_default();
    let runs = stats.runs.max(1) as f64;
    Effort {
        runs: stats.runs,
        instructions_mean: stats.instructions as f64 / runs,
        instructions_max: stats.max_instructions,
        cycles_mean: stats.cycles as f64 / runs,
        cycles_max: stats.longest,
        max_at_s: Some(stats.longest_at as f64 / 168e6),
    }
}

/// What a metered function took.
fn function(session: &Session, index: usize) -> Effort {
    let work = session.machine.look().meters.work(index);
    let calls = work.calls.max(1) as f64;
    Effort {
        runs: work.calls,
        instructions_mean: work.instructions as f64 / calls,
        instructions_max: work.max_instructions,
        cycles_mean: work.cycles as f64 / calls,
        cycles_max: work.max_cycles,
        max_at_s: None,
    }
}

fn metrics(session: &Session) -> Option<FlightMetrics> {
    let scene = session.scene();
    let mission = scene.ground.mission()?;
    let first = scene.samples.first()?.time_us;
    let mut totals = Accumulator::new(CONTROL_S);
    for wanted in mission.wanted.iter().filter(|w| w.counts).step_by(CONTROL_MS) {
        let index = (wanted.time_us - first) / 1000;
        let Some(sample) = scene.samples.get(index as usize) else { continue };
        totals.add(&sample.truth, &wanted.reference, &Action::from_motors(sample.thrust));
    }
    totals.finish((f64::from(mission.script().counted_s()) / CONTROL_S) as usize)
}

/// Looks at every log on a card.
#[must_use]
pub fn logs(card: &Path) -> Vec<LogFile> {
    let files = match sdimage::list(card) {
        Ok(files) => files,
        Err(error) => {
            let problem = Some(format!("{error:#}"));
            return vec![LogFile { name: card.display().to_string(), problem, ..LogFile::default() }];
        }
    };
    files
        .into_iter()
        .filter(|(name, _)| !name.contains('.'))
        .map(|(name, bytes)| match sdimage::read(card, &name) {
            Ok(content) => examine(name, &content),
            Err(error) => LogFile { name, bytes, problem: Some(format!("{error:#}")), ..LogFile::default() },
        })
        .collect()
}

/// Looks at a log.
#[must_use]
pub fn examine(name: String, content: &[u8]) -> LogFile {
    let mut file = LogFile { name, bytes: content.len() as u64, ..LogFile::default() };
    let opened = Header::parse(content).map_err(|e| e.to_string()).and_then(|header| {
        let layout = Layout::new(&header).map_err(|e| e.to_string())?;
        let decoder = Decoder::new(&header).map_err(|e| e.to_string())?;
        Ok((Scanner::new(layout, content), header.length(), decoder))
    });
    let (scanner, at, decoder) = match opened {
        Ok(opened) => opened,
        Err(problem) => return LogFile { problem: Some(problem), ..file },
    };
    let mut tracker = StepTracker::default();
    let summary = scanner.finish(&content[at..], |record| {
        let Some(transition) = decoder.as_ref().and_then(|d| d.decode(&record)) else { return };
        file.records += 1;
        if let (Link::Gap { lost }, _) = tracker.add(&transition) {
            file.lost += u64::from(lost);
        }
        if transition.flags.has(Flags::LAW) && transition.flags.has(Flags::MOTORS_ON) {
            file.law_records += 1;
        }
    });
    file.skipped_bytes = summary.skipped_bytes;
    file.is_closed = summary.ending == Ending::Complete;
    file
}
