//! `steady loop`: fly, learn, flash, and again.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::parse::{self, Noise};
use crate::closed_loop::compare::{self, Comparison};
use crate::closed_loop::journal::Origin;
use crate::closed_loop::learner::SkillLearner;
use crate::closed_loop::real_drone::{RealDrone, Terminal};
use crate::closed_loop::settings::HOLD;
use crate::closed_loop::{ClosedLoop, Drone, DroneKind, Learner, Settings};
use crate::train::run as training;

/// The noise without values given.
const NOISE: &str = "0.05,0.05,0.05,0.025";
/// The world in the journal of a real drone.
const REAL: &str = "real";

/// The whole method in closed loop: flash a table, fly, learn from the logs, and again.
///
/// Begins with a run of `steady train`, or trains one. Every table is written to the drone and read back, judged by
/// flights without noise, and rolled back when it flies no better. Whatever interrupts it, --resume continues where it
/// was, and ends with the same numbers.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    /// hover, takeoff-land, figure8, square, helix, or a CSV file of polynomial pieces.
    #[arg(long, default_value = "takeoff-land", value_parser = parse::task_or_file)]
    task: String,
    /// World: name of a shipped one, a TOML file, or sample-N, measured-N or outside-N for number N of a sampler.
    #[arg(long, default_value = "paper", value_parser = parse::world)]
    world: String,
    /// Adaptations, at most.
    #[arg(long, default_value_t = 4)]
    iterations: u32,
    /// Exploring flights before each adaptation.
    #[arg(long, default_value_t = 3)]
    flights: u32,
    /// Flights without noise that judge a table; the same seeds for every table.
    #[arg(long, default_value_t = 3)]
    judging: u32,
    /// End after so many iterations in a row without a clear improvement.
    #[arg(long, default_value_t = 2)]
    patience: u32,
    /// Noise of the exploring flights: standard deviations of thrust, roll, pitch and yaw.
    #[arg(long, value_name = "T,R,P,Y", default_value = NOISE)]
    noise: Noise,
    /// Control steps for which a draw of the noise is held.
    #[arg(long, default_value_t = HOLD)]
    hold: u16,
    /// Run folder of `steady train` to begin with.
    #[arg(long, conflicts_with = "preset")]
    run: Option<PathBuf>,
    /// Without --run: the preset that is trained first, into OUT/run.
    #[arg(long, default_value = "quick", value_parser = parse::preset)]
    preset: String,
    /// Seed of everything random but the training, whose seed is always 1.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Use the simulator's skills alone, without discovery.
    #[arg(long)]
    transfer_only: bool,
    /// Change one setting of the adaptation.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse::adapt_setting)]
    changes: Vec<String>,
    /// Compare the PID, the simulator's gains, transfer alone and the whole method, for seeds 1 to this.
    #[arg(long, value_name = "SEEDS", conflicts_with_all = ["seed", "transfer_only"])]
    compare: Option<u32>,
    /// Flights that judge a controller for one seed of --compare.
    #[arg(long, default_value_t = 3)]
    compare_flights: u32,
    /// Something that goes wrong in the exploring flights of a virtual drone, as SECONDS:WHAT[=VALUE].
    #[arg(long, value_name = "FAULT")]
    fault: Vec<String>,
    /// Free room on a virtual drone's card at the start of the exploring flights, MiB.
    #[arg(long, value_name = "MIB")]
    card_free_mib: Option<u32>,
    /// native (the firmware's flight code on this computer, fastest), virtual (the firmware's image on the virtual
    /// Crazyflie), or the address of a real drone: then tables go onto it by radio, you fly it and bring the card, and
    /// are asked before each step. See docs/real-drone.md first.
    #[arg(long, value_name = "native|virtual|URI", default_value = "virtual")]
    drone: DroneKind,
    /// Where the files of a real drone's card are found when it is in this computer.
    #[arg(long, value_name = "FOLDER")]
    card: Option<PathBuf>,
    /// Firmware image; default: where `cargo xtask firmware` puts it.
    #[arg(long)]
    elf: Option<PathBuf>,
    /// Flights at once.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Folder for everything.
    #[arg(short, long, default_value = "loop")]
    out: PathBuf,
    /// Continue with what is in the folder.
    #[arg(long)]
    resume: bool,
    /// Print the journal, or the comparison, as JSON.
    #[arg(long)]
    json: bool,
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        let settings = self.settings();
        settings.check()?;
        let card = self.card_of_real_drone()?;
        let run = self.trained()?;
        let origin = Origin::new(&run, &self.drone, self.elf.as_deref())?;
        // Networks of our size; and the same bits whatever else runs.
        crate::torch::set_threads(1);
        let learner = |settings: &Settings| SkillLearner::new(&run, settings, self.jobs.max(1));
        if let (DroneKind::Real(uri), Some(card)) = (&self.drone, card) {
            let drone = RealDrone::new(uri.clone(), settings.task.clone(), card, self.out.clone(), Terminal);
            // There is one drone.
            return self.run_loop(&drone, settings.clone(), origin, &learner(&settings), 1);
        }
        let drone = settings.simulated_drone(self.elf.as_deref())?;
        if let Some(seeds) = self.compare {
            let wanted = Comparison::new(settings, seeds, self.compare_flights, origin);
            let learners = |settings: &Settings| Box::new(learner(settings)) as Box<dyn Learner>;
            let done = compare::compare(&self.out, wanted, self.resume, &*drone, &learners, self.jobs)?;
            if self.json {
                println!("{}", serde_json::to_string_pretty(&done.rows())?);
            } else {
                print!("{}", done.table());
            }
            return Ok(());
        }
        self.run_loop(&*drone, settings.clone(), origin, &learner(&settings), self.jobs)
    }

    /// Checks options that only some drones have.
    fn card_of_real_drone(&self) -> Result<Option<PathBuf>> {
        match (&self.drone, &self.card) {
            (DroneKind::Real(_), None) => bail!("a real drone needs --card, the folder of its card's files"),
            (DroneKind::Real(_), _) if self.compare.is_some() || !self.fault.is_empty() => {
                bail!("--compare and --fault are for simulated drones")
            }
            (DroneKind::Native | DroneKind::Virtual, Some(_)) => bail!("--card is for a real drone"),
            (DroneKind::Native, None) if !self.fault.is_empty() || self.card_free_mib.is_some() => {
                bail!("--fault and --card-free-mib need --drone virtual")
            }
            (_, card) => Ok(card.clone()),
        }
    }

    fn run_loop(
        &self,
        drone: &dyn Drone,
        settings: Settings,
        origin: Origin,
        learner: &dyn Learner,
        jobs: usize,
    ) -> Result<()> {
        let opened = ClosedLoop::open(&self.out, settings, origin, self.resume, drone, learner)?;
        let mut this = opened.with(jobs, Some(""));
        this.run()?;
        if self.json {
            println!("{}", serde_json::to_string_pretty(this.journal())?);
        } else {
            print!("{}", this.journal().table());
        }
        Ok(())
    }

    fn settings(&self) -> Settings {
        let is_real = matches!(self.drone, DroneKind::Real(_));
        Settings {
            drone: self.drone.name().to_owned(),
            task: self.task.clone(),
            world: if is_real { REAL.to_owned() } else { self.world.clone() },
            iterations: self.iterations,
            flights: self.flights,
            judging: self.judging,
            patience: self.patience,
            seed: self.seed,
            noise: self.noise.0,
            hold: self.hold,
            transfer_only: self.transfer_only,
            changes: self.changes.clone(),
            faults: self.fault.clone(),
            card_free_mib: self.card_free_mib,
        }
    }

    /// The run to begin with: the one that is named, or one that is trained here to its end.
    fn trained(&self) -> Result<PathBuf> {
        if let Some(run) = &self.run {
            return run.canonicalize().with_context(|| format!("{}: not a run folder", run.display()));
        }
        let run = self.out.join("run");
        if !training::is_complete(&run) {
            let begun = run.join("config.toml").exists();
            ensure!(
                self.resume || !begun,
                "{} already holds a run: continue it with --resume, or give another --out",
                self.out.display()
            );
            eprintln!("training, preset {}", self.preset);
            let me = std::env::current_exe().context("this program cannot be found")?;
            let mut command = Command::new(me);
            command.arg("train");
            match begun {
                true => command.arg("--resume").arg(&run),
                false => command.args(["--preset", &self.preset]).arg("--out").arg(&run),
            };
            // Its results are not this command's.
            command.stdout(std::io::stderr());
            let status = command.status().context("the training cannot be started")?;
            ensure!(status.success(), "the training failed; continue with --resume");
        }
        run.canonicalize().with_context(|| format!("{}: not a run folder", run.display()))
    }
}
