//! `virtual-crazyflie fly`: one flight in virtual time.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use steady_sim::script::Course;
use virtual_crazyflie::ground::Dongle;
use virtual_crazyflie::mission::{Mission, Phase};
use virtual_crazyflie::sdimage;
use virtual_crazyflie::session::{End, Session};
use virtual_crazyflie::setting::Setting;
use virtual_crazyflie::summary::Summary;

use super::options::Options;

/// Fly a task: the ground station arms the drone, takes off, flies, lands and switches it off.
///
/// Writes into the output folder: summary.json, truth.csv (state and motors every millisecond),
/// motors.bin (four 16-bit powers every millisecond), console.txt, firmware.log, the card's image and
/// the logs on it. Exit status 1 when the flight did not succeed.
#[derive(Args)]
pub(crate) struct Cmd {
    #[command(flatten)]
    options: Options,
    /// hover, takeoff-land, figure8, square, helix, or a CSV file of polynomial pieces.
    #[arg(long, default_value = "takeoff-land")]
    task: Course,
    /// A parameter to set before the flight, as GROUP.NAME=VALUE; may be given several times.
    #[arg(long, value_name = "PARAM")]
    param: Vec<Setting>,
    /// Folder for the results.
    #[arg(long, default_value = "flight")]
    out: PathBuf,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
    /// End after this virtual time at the latest, s.
    #[arg(long, default_value_t = 120.0)]
    limit: f64,
    /// Count instructions by function, into profile.txt.
    #[arg(long)]
    profile: bool,
    /// Print what the firmware says as it flies.
    #[arg(long, short)]
    verbose: bool,
}

impl Cmd {
    /// Flies; true when the flight succeeded.
    pub(crate) fn run(self) -> Result<bool> {
        let out = &self.out;
        fs::create_dir_all(out).with_context(|| format!("cannot make the folder {}", out.display()))?;
        let dongle = Dongle::new(&self.options.world.radio, self.options.seed);
        let setup = self.options.setup(out, self.profile)?;
        let mut mission = Mission::new(self.task.clone(), dongle).with_settings(self.param.clone());
        if !setup.image.is_ours() {
            mission = mission.identifying();
        }
        let card = setup.card.clone();
        let mut session = self.options.session(setup, Box::new(mission))?;
        let end = session.run(self.limit, None, |(time_us, line)| {
            if self.verbose {
                eprintln!("{:10.3} s  {line}", *time_us as f64 / 1e6);
            }
        });
        let summary = Summary::of(&session, &end, card.as_deref());
        self.options.keep_eeprom(session.machine.look().eeprom.bytes())?;
        self.write(&session, &summary, card.as_deref())?;
        if self.json {
            println!("{}", serde_json::to_string_pretty(&summary)?);
        } else {
            print!("{}", describe(&summary, &session, &end));
        }
        Ok(summary.success)
    }

    fn write(&self, session: &Session, summary: &Summary, card: Option<&Path>) -> Result<()> {
        let save = |name: &str, bytes: &[u8]| {
            let path = self.out.join(name);
            fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
        };
        save("summary.json", serde_json::to_string_pretty(summary)?.as_bytes())?;
        save("console.txt", summary.console.as_bytes())?;
        let mut log = String::new();
        for (time_us, line) in &session.lines {
            writeln!(log, "{:12.6}  {line}", *time_us as f64 / 1e6)?;
        }
        save("firmware.log", log.as_bytes())?;
        let scene = session.scene();
        let mut csv = String::from(
            "time_us,x,y,z,vx,vy,vz,roll,pitch,yaw,wx,wy,wz,m1,m2,m3,m4,battery_v,ref_x,ref_y,ref_z\n",
        );
        let mut motors = Vec::with_capacity(8 * scene.samples.len());
        let mut wanted =
            scene.ground.mission().map(|m| m.wanted.as_slice()).unwrap_or_default().iter().peekable();
        for s in &scene.samples {
            let (t, rpy) = (&s.truth, s.truth.attitude.to_euler());
            let [m1, m2, m3, m4] = s.motors;
            write!(csv, "{}", s.time_us)?;
            for v in [t.position, t.velocity, rpy, t.rates] {
                write!(csv, ",{},{},{}", v.x, v.y, v.z)?;
            }
            write!(csv, ",{m1},{m2},{m3},{m4},{}", s.battery_v)?;
            match wanted.next_if(|w| w.time_us <= s.time_us) {
                Some(w) => {
                    let p = w.reference.position;
                    writeln!(csv, ",{},{},{}", p.x, p.y, p.z)?;
                }
                None => csv.push_str(",,,\n"),
            }
            motors.extend(s.motors.iter().flat_map(|m| m.to_le_bytes()));
        }
        save("truth.csv", csv.as_bytes())?;
        save("motors.bin", &motors)?;
        if let Some(card) = card {
            for log in &summary.logs {
                if let Ok(content) = sdimage::read(card, &log.name) {
                    save(&log.name, &content)?;
                }
            }
        }
        if self.profile {
            let mut text = String::from("      cycles instructions  function\n");
            for (name, instructions, cycles) in session.profile() {
                writeln!(text, "{cycles:12} {instructions:12}  {name}")?;
            }
            save("profile.txt", text.as_bytes())?;
        }
        Ok(())
    }
}

/// The summary for people.
fn describe(s: &Summary, session: &Session, end: &End) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text.push_str(&format!("{name:<18} {value}\n"));
    if let Some(identity) = &s.identity {
        let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        let count = |n: Option<u16>| n.map_or("unknown".to_owned(), |n| n.to_string());
        line(
            "firmware",
            format!("{}, version {}", or_unknown(&identity.device), or_unknown(&identity.version)),
        );
        line(
            "",
            format!(
                "{} parameters, {} log variables; decks: {}",
                count(identity.parameters),
                count(identity.log_variables),
                if s.decks.is_empty() { "none".to_owned() } else { s.decks.join(", ") }
            ),
        );
        line("", "not Steady's: its functions are not metered, its logs not replayed".to_owned());
    }
    match &s.failure {
        None if s.success => line("flight", "done".to_owned()),
        None => line("flight", "not finished".to_owned()),
        Some(why) => line("flight", format!("failed: {why}")),
    }
    if let End::PowerOff = end {
        line("", "the drone switched itself off".to_owned());
    }
    let scene = session.scene();
    if let Some(mission) = scene.ground.mission() {
        let phases: Vec<String> = mission
            .history
            .iter()
            .filter(|(_, p)| !matches!(p, Phase::Upload(_) | Phase::FindMemory(_) | Phase::Set(..)))
            .map(|(t, p)| format!("{p:?} {:.2}", *t as f64 / 1e6))
            .collect();
        line("phases (s)", phases.join(", "));
    }
    let [x, y, z] = s.final_position_m;
    let landed = if s.is_landed { "on the floor, motors off" } else { "not landed" };
    line("end", format!("({x:.3}, {y:.3}, {z:.3}) m, {landed}; highest {:.2} m", s.highest_m));
    if let Some(m) = &s.metrics {
        line(
            "task",
            format!("{}; max error {:.1} cm, {:.1} s", m.line(), 100.0 * m.max_error_m, m.duration_s),
        );
    }
    line("processor", format!("{:.1} % load in the air (cycles are an estimate)", 100.0 * s.cpu_load));
    for (name, e) in [
        ("law and mixer", &s.control_step),
        ("estimator", &s.estimator),
        ("flight step", &s.flight_step),
        ("flight executor", &s.flight),
        ("radio executor", &s.radio),
    ]
    .into_iter()
    .filter(|_| s.identity.is_none())
    {
        line(
            name,
            format!(
                "{} runs; instructions {:.0} mean, {} max; cycles {:.0} mean, {} max",
                e.runs, e.instructions_mean, e.instructions_max, e.cycles_mean, e.cycles_max
            ),
        );
    }
    if let Some(ring) = &s.led_ring {
        line("LED ring", format!("{} pictures, the last one {}", ring.pictures, ring.colours.join(" ")));
    }
    for log in &s.logs {
        let state = match (&log.problem, log.is_closed) {
            (Some(problem), _) => problem.clone(),
            (None, true) => "closed".to_owned(),
            (None, false) => "not closed".to_owned(),
        };
        line(
            "log",
            format!("{}: {} bytes, {} records, {} lost, {state}", log.name, log.bytes, log.records, log.lost),
        );
    }
    for (time, cause) in &s.resets {
        line("reset", format!("{time:.3} s: {cause}"));
    }
    for (time, place, what) in &s.faults {
        line("fault", format!("{time:.3} s: {what} at {place}"));
    }
    line(
        "speed",
        format!(
            "{:.1} s in {:.1} s, {:.1} x real time, {:.0} million instructions/s",
            s.virtual_s,
            s.real_s,
            s.speed,
            s.instructions as f64 / s.real_s / 1e6
        ),
    );
    text
}
