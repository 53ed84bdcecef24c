//! `steady identify --discover`: what skills find in flights beyond the simulator, and what that is good for.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use indicatif::ProgressBar;
use serde::Serialize;
use steady_learn::discovery::{self, Discovered, Transition, discover_in, transitions};
use steady_learn::left_out::{self, Before, Squares};
use steady_learn::readings::{ACCELERATIONS, Along, Reading, readings};
use steady_reality::Flight;
use steady_reality::identify::parameters::Effect;
use steady_reality::score::{Score, Tally};
use steady_sim::World;
use steady_sim::residual::OUTPUTS;

use crate::out::Table;
use crate::pictures;

/// Readings that are printed, at most.
const STRONGEST: usize = 10;
/// Readings smaller than this part of what the simulator leaves are not printed.
const WEAK: f64 = 0.05;

/// An effect that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Untold {
    /// The moment that follows the speed
    Moment,
    /// The air's drag
    Drag,
    /// Constant torques
    Trims,
}

impl Untold {
    pub(super) fn effect(self) -> Effect {
        match self {
            Self::Moment => Effect::Moment,
            Self::Drag => Effect::Drag,
            Self::Trims => Effect::Trims,
        }
    }
}

impl fmt::Display for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

/// How flights are predicted that nothing was fitted to.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LeftOut {
    /// Identified, and identified with skills; then both with the trims of the 3 s before.
    scores: [Score; 4],
    /// The part of the squared residual that skills explain, of every acceleration.
    explained: [f64; OUTPUTS],
    /// Every flight by itself.
    flights: Vec<Flown>,
    /// Flights whose position is predicted better with skills half a second ahead, without and with trims.
    better: [usize; 2],
    #[serde(skip)]
    sums: Sums,
}

/// A flight that was left out.
#[derive(Clone, Debug, Serialize)]
struct Flown {
    flight: String,
    scores: [Score; 4],
    explained: [f64; OUTPUTS],
}

/// What is summed over flights.
#[derive(Clone, Debug, Default)]
struct Sums {
    tallies: [Tally; 4],
    residual: Squares,
}

impl Sums {
    fn of(left_out: &left_out::LeftOut) -> Self {
        let ([plain, trimmed], [skilled, both]) = (&left_out.identified, &left_out.with_skills);
        Self { tallies: [plain, skilled, trimmed, both].map(Tally::clone), residual: left_out.residual }
    }

    fn and(mut self, other: &Self) -> Self {
        self.tallies.iter_mut().zip(&other.tallies).for_each(|(all, one)| *all = all.clone().and(one));
        Self { residual: self.residual.and(&other.residual), ..self }
    }

    fn scores(&self) -> [Score; 4] {
        let names = [
            "identified",
            "identified + discovered skills",
            "identified, trimmed",
            "identified + discovered skills, trimmed",
        ];
        std::array::from_fn(|i| self.tallies[i].score(names[i]))
    }
}

impl LeftOut {
    fn new(flights: Vec<Flown>, sums: Sums) -> Self {
        let end_mm = |score: &Score| score.errors.last().map_or(0.0, |errors| errors.position_mm);
        let better = [0, 2]
            .map(|i| flights.iter().filter(|f| end_mm(&f.scores[i + 1]) < end_mm(&f.scores[i])).count());
        Self { scores: sums.scores(), explained: sums.residual.explained(), flights, better, sums }
    }

    /// Of several drones; of one it is nothing new.
    pub(super) fn of_all<'a>(drones: impl Iterator<Item = &'a Skills>) -> Option<Self> {
        let drones: Vec<&Self> = drones.map(|skills| &skills.left_out).collect();
        let flights = drones.iter().flat_map(|drone| drone.flights.clone()).collect();
        let sums = drones.iter().fold(Sums::default(), |all, drone| all.and(&drone.sums));
        (drones.len() > 1).then(|| Self::new(flights, sums))
    }

    pub(super) fn print(&self) {
        let [plain, trimmed] = self.better;
        let count = self.flights.len();
        println!("flights that nothing was fitted to, each predicted by the others of its drone:");
        print!("{}", super::super::world::score_table(&self.scores));
        println!(
            "half a second ahead, skills predict the position of {plain} of {count} flights better, trimmed of \
             {trimmed} of {count}"
        );
    }
}

/// What skills found in a drone's flights.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Skills {
    /// Root mean square of what the simulator leaves: m/s² in the world frame, rad/s² in the body frame.
    unexplained: [f64; OUTPUTS],
    /// The part of its square that skills explain, on pieces of the flights that they were not fitted to.
    explained: [f64; OUTPUTS],
    transitions: usize,
    readings: Vec<Reading>,
    left_out: LeftOut,
    #[serde(skip)]
    found: Discovered,
    #[serde(skip)]
    flown: Vec<Transition>,
}

/// Says what to do where a drone's flights do not suffice.
pub(super) fn check(drone: &str, flights: &[Flight]) -> Result<()> {
    match flights.iter().filter(|flight| flight.has_pose).count() {
        0 => bail!("{drone}: --discover needs flights with positions, and these are card logs alone"),
        1 => bail!(
            "{drone}: --discover predicts each flight by the drone's others, and there is one flight with positions; \
             give another of this drone, or leave out --discover"
        ),
        _ => Ok(()),
    }
}

impl Skills {
    /// Discovers skills beyond `world`, which is of all flights, and again for every flight without it.
    pub(super) fn new(
        drone: &str,
        before: &Before<'_>,
        world: &World,
        flights: &[Flight],
        seed: u64,
        bar: &ProgressBar,
    ) -> Result<Self> {
        let how = discovery::Settings::default();
        let short = || {
            format!(
                "{drone}: the flights are too short for skills: without any one of them eight seconds in the air have \
                 to be left; give longer flights or more, or leave out --discover"
            )
        };
        let flown = transitions(world, flights)?;
        let found = discover_in(&flown, &how, seed).with_context(short)?;
        let (mut each, mut sums) = (Vec::new(), Sums::default());
        bar.set_length(flights.len() as u64);
        for (number, _) in flights.iter().enumerate().filter(|(_, flight)| flight.has_pose) {
            bar.set_position(number as u64);
            let left_out = left_out::predict(before, flights, number, &how, seed)?.with_context(short)?;
            let one = Sums::of(&left_out);
            let (scores, explained) = (one.scores(), one.residual.explained());
            each.push(Flown { flight: left_out.flight, scores, explained });
            sums = sums.and(&one);
        }
        Ok(Self {
            unexplained: found.unexplained,
            explained: found.left.map(|left| 1.0 - left),
            transitions: found.transitions,
            readings: readings(&found, &flown),
            left_out: LeftOut::new(each, sums),
            found,
            flown,
        })
    }

    pub(super) fn print(&self) {
        println!("skills from {} transitions, beyond the simulator:", self.transitions);
        let mut table =
            Table::new(["acceleration", "left (RMS)", "explained of pieces left out", "of flights left out"]);
        for (k, name) in ACCELERATIONS.iter().enumerate() {
            table.row([
                (*name).to_owned(),
                format!("{:.2} {}", self.unexplained[k], unit(k)),
                format!("{:.0} %", 100.0 * self.explained[k]),
                format!("{:.0} %", 100.0 * self.left_out.explained[k]),
            ]);
        }
        print!("{table}");
        let strong = |reading: &&Reading| reading.is_sure() && reading.part > WEAK;
        let strong: Vec<&Reading> = self.readings.iter().filter(strong).take(STRONGEST).collect();
        if strong.is_empty() {
            println!("nothing simple in them is sure");
        } else {
            let mut table = Table::new([
                "they say",
                "goes with",
                "slope",
                "95 % interval",
                "size",
                "of what is left",
                "alone",
            ]);
            for reading in strong {
                let (along, per) = reading.along.words();
                let per = if per.is_empty() { String::new() } else { format!(" per {per}") };
                table.row([
                    ACCELERATIONS[reading.output].to_owned(),
                    along.to_owned(),
                    format!("{:.3} {}{per}", reading.slope, unit(reading.output)),
                    format!("{:.3} to {:.3}", reading.low, reading.high),
                    format!("{:.2}", reading.size),
                    format!("{:.0} %", 100.0 * reading.part),
                    format!("{:.0} %", 100.0 * reading.alone),
                ]);
            }
            print!("{table}");
        }
        self.left_out.print();
    }

    /// Draws what the simulator leaves over what it goes with most.
    pub(super) fn draw(&self, drone: &str, stem: &Path) -> Result<()> {
        let says = |reading: &&Reading| reading.alone * self.explained[reading.output].max(0.0);
        let varies = self.readings.iter().filter(|reading| reading.along != Along::Constant);
        if let Some(reading) = varies.max_by(|a, b| says(a).total_cmp(&says(b))) {
            let label = format!(
                "acceleration {} beyond the simulator ({})",
                ACCELERATIONS[reading.output],
                unit(reading.output)
            );
            pictures::skills(drone, &self.found, &self.flown, reading, &label, stem)?;
        }
        Ok(())
    }
}

fn unit(output: usize) -> &'static str {
    if output < 3 { "m/s²" } else { "rad/s²" }
}
