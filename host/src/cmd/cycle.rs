//! `steady loop`: fly, learn, flash, and again.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use steady_radio::Uri;

use super::fly::Noise;
use crate::cycle::compare::{self, Comparison};
use crate::cycle::journal::Origin;
use crate::cycle::real_drone::{RealDrone, Terminal};
use crate::cycle::settings::{HOLD, Settings};
use crate::cycle::teacher::Adaptation;
use crate::cycle::virtual_drone::VirtualDrone;
use crate::cycle::{Loop, Stage, Teacher};
use crate::fly::{Program, find_image};

/// The noise without values given.
const NOISE: &str = "0.05,0.05,0.05,0.025";
/// What stands in the journal for a world that is none of ours.
const REAL: &str = "real";
/// Longest firmware image that is looked at.
const MOST_ELF_BYTES: u64 = 256 << 20;

/// The whole of the method on the virtual Crazyflie: flash a table, fly, learn from the logs, and again.
///
/// Begins with a run of `steady train`, or trains one. Every table is written over the radio's bootloader
/// and read back, judged by flights without noise, and rolled back when it flies worse. Whatever ends it,
/// --resume goes on where it was, and ends with the same numbers.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    /// hover, takeoff-land, figure8, or a CSV file of polynomial pieces.
    #[arg(long, default_value = "takeoff-land")]
    task: String,
    /// World: name of a shipped one or a TOML file.
    #[arg(long, default_value = "paper")]
    world: String,
    /// Adaptations, at most.
    #[arg(long, default_value_t = 4)]
    iterations: u32,
    /// Flights with noise before each adaptation.
    #[arg(long, default_value_t = 3)]
    flights: u32,
    /// Flights without noise that judge a table; the same seeds for every table.
    #[arg(long, default_value_t = 3)]
    judging: u32,
    /// End after so many iterations in a row without a clear improvement.
    #[arg(long, default_value_t = 2)]
    patience: u32,
    /// Noise of the flights that are learned from: standard deviations of thrust, roll, pitch and yaw.
    #[arg(long, value_name = "T,R,P,Y", default_value = NOISE)]
    noise: Noise,
    /// Control steps for which a draw of the noise is held.
    #[arg(long, default_value_t = HOLD)]
    hold: u16,
    /// Run folder of `steady train` to begin with.
    #[arg(long, conflicts_with = "preset")]
    run: Option<PathBuf>,
    /// Without --run: the preset that is trained first, into OUT/run.
    #[arg(long, default_value = "quick")]
    preset: String,
    /// Random numbers of everything but the training, whose seed is always 1.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Use the simulator's skills alone, without discovery.
    #[arg(long)]
    transfer_only: bool,
    /// Change one setting of the adaptation.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<String>,
    /// Compare the PID, the simulator's gains, transfer alone and the whole method, for seeds 1 to this.
    #[arg(long, value_name = "SEEDS", conflicts_with_all = ["seed", "transfer_only"])]
    compare: Option<u32>,
    /// Flights that judge a controller for one seed of --compare.
    #[arg(long, default_value_t = 3)]
    compare_flights: u32,
    /// Something that goes wrong in the flights with noise, as SECONDS:WHAT[=VALUE].
    #[arg(long, value_name = "FAULT")]
    fault: Vec<String>,
    /// Free room on the card at the start of the flights with noise, MiB.
    #[arg(long, value_name = "MIB")]
    card_free_mib: Option<u32>,
    /// A real drone instead of the virtual one, by its address: tables go onto it by radio, you fly it and bring
    /// the card, and are asked before each step. See docs/real-drone.md first.
    #[arg(long, value_name = "URI", requires = "card", conflicts_with_all = ["compare", "world", "fault", "card_free_mib"])]
    drone: Option<Uri>,
    /// Where the files of the drone's card are found when it is in this computer.
    #[arg(long, value_name = "FOLDER", requires = "drone")]
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
    /// Go on with what is in the folder.
    #[arg(long)]
    resume: bool,
    /// Print the journal, or the comparison, as JSON.
    #[arg(long)]
    json: bool,
}

impl Cmd {
    /// Does it.
    ///
    /// # Errors
    /// If something is missing or not valid, or a station cannot be done.
    pub(crate) fn run(self) -> Result<()> {
        let settings = self.settings()?;
        settings.check()?;
        let run = self.trained()?;
        let origin = origin(&run, &find_image(self.elf.as_deref())?)?;
        // Networks of our size; and the same bits whatever else runs.
        crate::torch::set_threads(1);
        let teacher = |settings: &Settings| Adaptation {
            run: run.clone(),
            transfer_only: settings.transfer_only,
            changes: settings.changes.clone(),
            seed: settings.seed,
            threads: self.jobs.max(1),
        };
        if let (Some(uri), Some(card)) = (&self.drone, &self.card) {
            let task = settings.task.clone();
            let drone = RealDrone::new(uri.clone(), task, card.clone(), self.out.clone(), Terminal);
            // There is one drone.
            return self.walk(&drone, settings.clone(), origin, &teacher(&settings), 1);
        }
        let drone = VirtualDrone {
            program: Program::find(self.elf.as_deref())?,
            task: settings.task.clone(),
            world: settings.world.clone(),
        };
        if let Some(seeds) = self.compare {
            let wanted = Comparison::new(settings, seeds, self.compare_flights, origin);
            let teachers = |settings: &Settings| Box::new(teacher(settings)) as Box<dyn Teacher>;
            let done = compare::compare(&self.out, wanted, self.resume, &drone, &teachers, self.jobs)?;
            if self.json {
                println!("{}", serde_json::to_string_pretty(&done.rows())?);
            } else {
                print!("{}", done.table());
            }
            return Ok(());
        }
        self.walk(&drone, settings.clone(), origin, &teacher(&settings), self.jobs)
    }

    fn walk(
        &self,
        stage: &dyn Stage,
        settings: Settings,
        origin: Origin,
        teacher: &dyn Teacher,
        jobs: usize,
    ) -> Result<()> {
        let mut this = Loop::open(&self.out, settings, origin, self.resume, stage, teacher)?.with(jobs, "");
        this.run()?;
        if self.json {
            println!("{}", serde_json::to_string_pretty(this.journal())?);
        } else {
            print!("{}", this.journal().table());
        }
        Ok(())
    }

    fn settings(&self) -> Result<Settings> {
        Ok(Settings {
            task: place(&self.task)?,
            world: if self.drone.is_some() { REAL.to_owned() } else { place(&self.world)? },
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
        })
    }

    /// The run to begin with: the one that is named, or one that is trained here, whole.
    fn trained(&self) -> Result<PathBuf> {
        if let Some(run) = &self.run {
            return run.canonicalize().with_context(|| format!("{}: is no run folder", run.display()));
        }
        let run = self.out.join("run");
        let result = run.join("result.json");
        let is_whole = || -> Option<bool> {
            let value: serde_json::Value = serde_json::from_slice(&std::fs::read(&result).ok()?).ok()?;
            value["complete"].as_bool()
        };
        if is_whole() != Some(true) {
            let begun = run.join("config.toml").exists();
            ensure!(
                self.resume || !begun,
                "{} already holds a run: go on with --resume, or give another --out",
                self.out.display()
            );
            eprintln!("training, preset {}", self.preset);
            let me = std::env::current_exe().context("where is this program?")?;
            let mut command = Command::new(me);
            command.arg("train");
            match begun {
                true => command.arg("--resume").arg(&run),
                false => command.args(["--preset", &self.preset]).arg("--out").arg(&run),
            };
            // Its results are not this command's.
            command.stdout(std::io::stderr());
            let status = command.status().context("the training cannot be started")?;
            ensure!(status.success(), "the training did not end well; go on with --resume");
        }
        run.canonicalize().with_context(|| format!("{}: is no run folder", run.display()))
    }
}

/// Files by their whole path, so that the loop can go on from anywhere; other names as they are.
fn place(name: &str) -> Result<String> {
    let path = Path::new(name);
    if !path.is_file() {
        return Ok(name.to_owned());
    }
    Ok(path.canonicalize().with_context(|| format!("{name}: cannot be read"))?.to_string_lossy().into_owned())
}

fn origin(run: &Path, elf: &Path) -> Result<Origin> {
    let crc = |path: &Path| -> Result<u32> {
        let read = || -> Result<Vec<u8>> {
            ensure!(std::fs::metadata(path)?.len() <= MOST_ELF_BYTES, "it is too large");
            Ok(std::fs::read(path)?)
        };
        let bytes = read().with_context(|| format!("{}: cannot be read", path.display()))?;
        Ok(crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC).checksum(&bytes))
    };
    let commit = option_env!("STEADY_COMMIT").unwrap_or("unknown");
    Ok(Origin {
        run: run.to_owned(),
        table_crc32: crc(&run.join("gains.bin"))?,
        firmware_crc32: crc(elf)?,
        program: format!("{} {commit}", env!("CARGO_PKG_VERSION")),
        command: std::env::args().collect(),
    })
}
