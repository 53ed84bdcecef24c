//! `cargo xtask bench`: runs the benchmark programs and puts their figures into one table.
//!
//! A benchmark program is an example of a package. It prints, among anything else, lines of seven
//! tab-separated fields:
//!
//! ```text
//! BENCH  <name>  <value>  <unit>  <compared with>  <its value>  <target, or ->
//! ```
//!
//! with a target like `<=100` or `>=8e6`. A figure without a counterpart has `-` in both fields.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{firmware, setup, sh};

/// The benchmark programs: package and example.
const PROGRAMS: &[(&str, &str)] = &[
    ("steady-common", "bench_law"),
    ("steady-common", "bench_usdlog"),
    ("steady-data", "bench_log"),
    ("steady-sim", "bench_sim"),
    ("steady-native", "bench_native"),
    ("steady-reality", "bench_reality"),
    ("steady", "bench_train"),
    ("virtual-crazyflie", "bench_flight"),
    ("virtual-crazyflie", "bench_swarm"),
];

/// Build and run all benchmarks (optimised), and print one table of their figures.
///
/// Every figure stands beside the one it is compared with, measured in the same run. A missed target
/// is said but is no error, unless --check is given: other work on the machine moves the figures.
#[derive(Args)]
pub(crate) struct Cmd {
    /// Exit with status 1 when a target is missed.
    #[arg(long)]
    check: bool,
    /// Arguments for the benchmark programs.
    #[arg(last = true, value_name = "ARG")]
    args: Vec<String>,
}

impl Cmd {
    /// Runs them all; a program that fails is an error.
    pub(crate) fn run(self) -> Result<()> {
        // Benchmarks do not train: what set-up cannot do is said, and the build decides.
        setup::run()?;
        // The virtual flight executes it.
        firmware::build()?;
        let mut figures = Vec::new();
        for (package, example) in PROGRAMS {
            figures.extend(collect(package, example, &self.args)?);
        }
        if figures.is_empty() {
            bail!("the benchmark programs printed no figure");
        }
        print!("\n{}", table(&figures));
        let missed = figures.iter().filter(|figure| figure.met() == Some(false)).count();
        match missed {
            0 => Ok(()),
            n if self.check => bail!("{n} target(s) missed"),
            n => {
                println!("\n{n} target(s) missed");
                Ok(())
            }
        }
    }
}

/// Runs one program, shows what it says, and reads its figures.
fn collect(package: &str, example: &str, args: &[String]) -> Result<Vec<Figure>> {
    let mut command = sh::cargo();
    command.args(["run", "--release", "--locked", "--package", package, "--example", example]);
    if !args.is_empty() {
        command.arg("--").args(args);
    }
    println!("$ {}", sh::shown(&command));
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let output = child.stdout.take().context("no standard output")?;
    let mut figures = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.with_context(|| format!("cannot read what {package}'s {example} prints"))?;
        if let Some(fields) = line.strip_prefix("BENCH\t") {
            figures.push(Figure::parse(fields).with_context(|| format!("bad benchmark line `{line}`"))?);
        } else {
            println!("{line}");
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("benchmark {example} of {package} failed ({status})");
    }
    Ok(figures)
}

/// One benchmark line.
struct Figure {
    name: String,
    value: f64,
    unit: String,
    compared: Option<(String, f64)>,
    target: Option<Target>,
}

/// A bound on a figure.
enum Target {
    AtMost(f64),
    AtLeast(f64),
}

impl Target {
    fn parse(text: &str) -> Result<Option<Self>> {
        if text == "-" {
            return Ok(None);
        }
        if let Some(bound) = text.strip_prefix("<=") {
            return Ok(Some(Self::AtMost(number(bound)?)));
        }
        if let Some(bound) = text.strip_prefix(">=") {
            return Ok(Some(Self::AtLeast(number(bound)?)));
        }
        bail!("target `{text}` is neither `-`, `<=NUMBER` nor `>=NUMBER`")
    }
}

fn number(text: &str) -> Result<f64> {
    text.trim().parse().with_context(|| format!("`{text}` is not a number"))
}

impl Figure {
    fn parse(fields: &str) -> Result<Self> {
        let fields: Vec<&str> = fields.split('\t').map(str::trim).collect();
        let [name, value, unit, other, other_value, target] = fields[..] else {
            bail!("{} fields after BENCH instead of 6", fields.len());
        };
        let compared = if other == "-" { None } else { Some((other.to_owned(), number(other_value)?)) };
        Ok(Self {
            name: name.to_owned(),
            value: number(value)?,
            unit: unit.to_owned(),
            compared,
            target: Target::parse(target)?,
        })
    }

    /// Whether the target is met; `None` without one. A NaN meets nothing.
    fn met(&self) -> Option<bool> {
        self.target.as_ref().map(|target| match target {
            Target::AtMost(bound) => self.value <= *bound,
            Target::AtLeast(bound) => self.value >= *bound,
        })
    }

    fn row(&self) -> [String; 7] {
        let dash = || "-".to_owned();
        let (other, other_value, ratio) = match &self.compared {
            Some((name, value)) => (name.clone(), short(*value), format!("{:.2}x", self.value / value)),
            None => (dash(), dash(), dash()),
        };
        let verdict = match (&self.target, self.met()) {
            (Some(Target::AtMost(bound)), met) => format!("<= {} {}", short(*bound), word(met)),
            (Some(Target::AtLeast(bound)), met) => format!(">= {} {}", short(*bound), word(met)),
            (None, _) => dash(),
        };
        [self.name.clone(), short(self.value), self.unit.clone(), other, other_value, ratio, verdict]
    }
}

fn word(met: Option<bool>) -> &'static str {
    if met == Some(true) { "ok" } else { "MISSED" }
}

/// Four significant digits, with a suffix for thousands, millions and billions.
fn short(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        x if x >= 1e9 => (value / 1e9, " G"),
        x if x >= 1e6 => (value / 1e6, " M"),
        x if x >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        x if x >= 1000.0 => 0,
        x if x >= 100.0 => 1,
        x if x >= 10.0 => 2,
        _ => 3,
    };
    format!("{scaled:.digits$}{suffix}")
}

/// All figures, aligned: text to the left, numbers to the right.
fn table(figures: &[Figure]) -> String {
    let head = ["benchmark", "figure", "unit", "compared with", "its figure", "ratio", "target"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(figures.iter().map(Figure::row));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| match column {
                1 | 4 | 5 => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_is_there() {
        let folders: Vec<_> =
            std::fs::read_dir(sh::root()).unwrap().map(|entry| entry.unwrap().path()).collect();
        for (package, example) in PROGRAMS {
            let file = format!("examples/{example}.rs");
            assert!(folders.iter().any(|folder| folder.join(&file).is_file()), "{package} has no {file}");
        }
    }

    #[test]
    fn lines_become_an_aligned_table() {
        let figures = [
            Figure::parse("control law\t83.2\tns\tstock Mellinger\t41.6\t<=100").unwrap(),
            Figure::parse("physics\t7.5e6\tsteps/s\t-\t-\t>=8e6").unwrap(),
            Figure::parse("other\t3\tms\t-\t-\t-").unwrap(),
        ];
        assert_eq!(
            table(&figures),
            "benchmark     figure  unit     compared with    its figure  ratio  target\n\
             control law    83.20  ns       stock Mellinger       41.60  2.00x  <= 100.0 ok\n\
             physics      7.500 M  steps/s  -                         -      -  >= 8.000 M MISSED\n\
             other          3.000  ms       -                         -      -  -\n"
        );
    }

    #[test]
    fn bad_lines_are_refused_with_the_reason() {
        let reason = |line| Figure::parse(line).err().map(|error| format!("{error:#}")).unwrap_or_default();
        assert!(reason("a\t1\tns").contains("3 fields"));
        assert!(reason("a\tx\tns\t-\t-\t-").contains("`x` is not a number"));
        assert!(reason("a\t1\tns\t-\t-\t<100").contains("target `<100`"));
    }

    #[test]
    fn a_figure_that_is_not_a_number_misses_its_target() {
        let figure = Figure::parse("a\tNaN\tns\t-\t-\t<=100").unwrap();
        assert_eq!(figure.met(), Some(false));
    }
}
