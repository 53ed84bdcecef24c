//! A sweep's file: a command, a grid, and the cells they give.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use steady_data::error::{unknown, usage};
use steady_data::files;
use steady_sim::suggest::did_you_mean;
use toml::Value;

/// Stands for the cell's folder in a command.
pub(crate) const CELL: &str = "cell";
/// More cells than this are taken for a mistake.
const MAX_CELLS: usize = 100_000;
const KEYS: [&str; 5] = ["command", "grid", "result", "metrics", "slurm"];
const SLURM_KEYS: [&str; 1] = ["options"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    command: Vec<String>,
    grid: toml::Table,
    result: Option<PathBuf>,
    #[serde(default)]
    metrics: Vec<String>,
    #[serde(default)]
    slurm: Slurm,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Slurm {
    /// Options of `sbatch`, such as `--time=2:00:00`.
    #[serde(default)]
    pub(crate) options: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Names of the axes, in the order of the table.
    pub(crate) axes: Vec<String>,
    /// One for every combination of the axes' values.
    pub(crate) cells: Vec<Cell>,
    /// Where a cell's results are, in its folder; standard output if not given.
    pub(crate) result: Option<PathBuf>,
    /// Which of the results the table shows; all if empty.
    pub(crate) metrics: Vec<String>,
    pub(crate) slurm: Slurm,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// Folder name: the settings and a checksum of the whole command.
    pub(crate) name: String,
    pub(crate) settings: BTreeMap<String, String>,
    /// Arguments of `steady`, with `{cell}` for the cell's folder.
    pub(crate) args: Vec<String>,
}

impl Plan {
    /// Reads a sweep's file. `program` is the command line that the cells' commands must fit.
    pub(crate) fn load(path: &Path, program: &clap::Command) -> Result<Self> {
        Self::from_toml(&files::read_text(path)?, program).with_context(|| path.display().to_string())
    }

    pub(crate) fn from_toml(text: &str, program: &clap::Command) -> Result<Self> {
        let document: Document = toml::from_str(text).map_err(|error| {
            let unknown = error.message().strip_prefix("unknown field `").and_then(|m| m.split('`').next());
            let keys = KEYS.into_iter().chain(SLURM_KEYS);
            let hint = unknown.map_or_else(String::new, |key| did_you_mean(key, keys));
            usage(format!("{}{hint}", error.to_string().trim_end()))
        })?;
        let grid = axes(&document.grid)?;
        let program = program.clone().name("steady");
        let command = completed(&document, &grid, &program)?;
        let count = grid.iter().map(|(_, values)| values.len()).product::<usize>();
        ensure!(count <= MAX_CELLS, "the grid has {count} cells; the maximum is {MAX_CELLS}");
        let mut cells: Vec<Cell> = Vec::with_capacity(count);
        for index in 0..count {
            let cell = cell(&command, &grid, index);
            let words = std::iter::once("steady").chain(cell.args.iter().map(String::as_str));
            program.clone().try_get_matches_from(words).map_err(|error| {
                let said = error.to_string();
                let said: Vec<&str> = said.lines().take_while(|line| !line.starts_with("Usage")).collect();
                usage(format!("`steady {}`: {}", cell.args.join(" "), said.join(" ").trim()))
            })?;
            cells.push(cell);
        }
        let mut names: Vec<&str> = cells.iter().map(|c| c.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!("the cell {} is there twice: an axis lists the same value twice", twice[0]);
        }
        let Document { result, metrics, slurm, .. } = document;
        Ok(Self { axes: grid.into_iter().map(|(name, _)| name).collect(), cells, result, metrics, slurm })
    }
}

/// The axes of the grid with their values; `[grid.set] step = …` and `set.step = …` are the axis `set.step`.
fn axes(grid: &toml::Table) -> Result<Vec<(String, Vec<Value>)>> {
    fn collect(prefix: &str, table: &toml::Table, into: &mut Vec<(String, Vec<Value>)>) -> Result<()> {
        for (key, value) in table {
            let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            match value {
                Value::Table(inner) if prefix.is_empty() => collect(&name, inner, into)?,
                Value::Array(values) if !values.is_empty() => into.push((name, values.clone())),
                Value::Array(_) => bail!("grid.{name} has no values"),
                _ => bail!("grid.{name} is not a list; write {name} = [{value}]"),
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    collect("", grid, &mut found)?;
    ensure!(found.iter().all(|(name, _)| name != CELL), "grid.{CELL}: {{{CELL}}} is the cell's folder");
    Ok(found)
}

#[derive(Clone, Debug)]
enum Word {
    /// Literal text with placeholders.
    Text(String),
    /// An axis that becomes an option.
    Option(String),
}

/// The command with what a sweep adds: axes that it does not name itself, `--out` and `--json`.
fn completed(
    document: &Document,
    grid: &[(String, Vec<Value>)],
    program: &clap::Command,
) -> Result<Vec<Word>> {
    ensure!(
        !document.command.is_empty(),
        "command is empty; write command = [\"train\", \"--preset\", \"smoke\"]"
    );
    let names: Vec<&str> = grid.iter().map(|(name, _)| name.as_str()).chain([CELL]).collect();
    let mut used = Vec::new();
    for word in &document.command {
        for placeholder in placeholders(word) {
            if !names.contains(&placeholder) {
                return Err(unknown("axis", placeholder, &names).context("command"));
            }
            used.push(placeholder);
        }
    }
    let mut words: Vec<Word> = document.command.iter().cloned().map(Word::Text).collect();
    let unused = grid.iter().filter(|(name, _)| !used.contains(&name.as_str()));
    words.extend(unused.map(|(name, _)| Word::Option(name.clone())));

    let mut verb = program;
    for word in &document.command {
        let Some(inner) = verb.find_subcommand(word) else { break };
        verb = inner;
    }
    let option = |long: &str| verb.get_arguments().find(|arg| arg.get_long() == Some(long));
    let given = |long: &str| {
        let (long, with_value) = (format!("--{long}"), format!("--{long}="));
        document.command.iter().any(|word| *word == long || word.starts_with(&with_value))
    };
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| Word::Text((*word).to_owned())));
    // All cells in one place would overwrite each other. An `--output` without a default is a single file's.
    if option("out").is_some() && !given("out") {
        add(&["--out", "{cell}/run"]);
    }
    if option("output").is_some_and(|arg| !arg.get_default_values().is_empty())
        && !given("output")
        && !document.command.iter().any(|word| word == "-o")
    {
        add(&["--output", "{cell}/run"]);
    }
    if option("json").is_some() && !given("json") && document.result.is_none() {
        add(&["--json"]);
    }
    Ok(words)
}

/// The names in braces.
fn placeholders(word: &str) -> impl Iterator<Item = &str> {
    word.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name)
}

/// The cell at an index of the grid; the last axis varies fastest.
fn cell(command: &[Word], grid: &[(String, Vec<Value>)], index: usize) -> Cell {
    let mut values: Vec<(&str, &Value)> = Vec::with_capacity(grid.len());
    let mut rest = index;
    for (name, choices) in grid.iter().rev() {
        if let Some(value) = choices.get(rest % choices.len()) {
            values.push((name, value));
        }
        rest /= choices.len();
    }
    values.reverse();
    let mut args = Vec::new();
    for word in command {
        match word {
            Word::Text(text) => args.push(values.iter().fold(text.clone(), |text, (name, value)| {
                text.replace(&format!("{{{name}}}"), &shown(value))
            })),
            Word::Option(axis) => {
                let value = values.iter().find(|(name, _)| name == axis).map(|(_, value)| *value);
                args.extend(value.into_iter().flat_map(|value| option(axis, value)));
            }
        }
    }
    let settings: BTreeMap<String, String> =
        values.iter().map(|(name, value)| ((*name).to_owned(), shown(value))).collect();
    let label: Vec<String> = values.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect();
    let crc = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC).checksum(args.join("\0").as_bytes());
    Cell { name: format!("{}-{crc:08x}", file_name(&label.join(","))), settings, args }
}

/// An axis's value as options: `seed` is `--seed 1`, `set.step` is `--set step=0.1`, a Boolean is a flag
/// that is given or not.
fn option(axis: &str, value: &Value) -> Vec<String> {
    let long = |name: &str| format!("--{}", name.replace('_', "-"));
    match (axis.split_once('.'), value) {
        (Some((option, key)), _) => vec![long(option), format!("{key}={}", shown(value))],
        (None, Value::Boolean(true)) => vec![long(axis)],
        (None, Value::Boolean(false)) => Vec::new(),
        (None, _) => vec![long(axis), shown(value)],
    }
}

/// A value as one would type it.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A label as a file name: only safe characters, and not too long.
fn file_name(label: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "=,._+-".contains(c) { c } else { '_' };
    let name: String = label.chars().map(plain).take(100).collect();
    name.trim_start_matches(['.', '-']).to_owned()
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction};

    use super::*;

    fn program() -> clap::Command {
        let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
        let value = |name: &'static str| Arg::new(name).long(name);
        let train = clap::Command::new("train")
            .args([
                value("seed"),
                value("world"),
                value("out"),
                value("torch-threads"),
                flag("json"),
                flag("wild"),
            ])
            .arg(value("set").action(ArgAction::Append));
        clap::Command::new("any").subcommand(train).subcommand(clap::Command::new("doctor"))
    }

    fn plan(text: &str) -> Result<Plan> {
        Plan::from_toml(text, &program())
    }

    fn args(cell: &Cell) -> String {
        cell.args.join(" ")
    }

    #[test]
    fn a_grid_becomes_commands() {
        let text = "command = ['train']\n[grid]\nseed = [1, 2]\nset.step = [0.5]\nwild = [true, false]\ntorch_threads = [1]";
        let plan = plan(text).unwrap();
        assert_eq!(plan.axes, ["seed", "set.step", "torch_threads", "wild"]);
        assert_eq!(plan.cells.len(), 4);
        assert_eq!(
            args(&plan.cells[0]),
            "train --seed 1 --set step=0.5 --torch-threads 1 --wild --out {cell}/run --json"
        );
        assert_eq!(
            args(&plan.cells[3]),
            "train --seed 2 --set step=0.5 --torch-threads 1 --out {cell}/run --json"
        );
        assert!(plan.cells[3].name.starts_with("seed=2,set.step=0.5,torch_threads=1,wild=false-"));
    }

    #[test]
    fn what_the_command_says_itself_is_not_added() {
        let text =
            "command = ['train', '--world', 'my/{w}.toml', '--out={cell}/x', '--json']\n[grid]\nw = ['a']";
        assert_eq!(args(&plan(text).unwrap().cells[0]), "train --world my/a.toml --out={cell}/x --json");
        let text = "command = ['train']\nresult = 'run/result.json'\ngrid.seed = [1]";
        assert_eq!(args(&plan(text).unwrap().cells[0]), "train --seed 1 --out {cell}/run");
        assert_eq!(args(&plan("command = ['doctor']\n[grid]").unwrap().cells[0]), "doctor");
    }

    #[test]
    fn names_change_with_the_command_and_not_with_the_rest_of_the_grid() {
        let name = |text: &str| plan(text).unwrap().cells[0].name.clone();
        let one = name("command = ['train']\ngrid.seed = [1]");
        assert_eq!(one, name("command = ['train']\ngrid.seed = [1, 2, 3]"));
        assert_ne!(one, name("command = ['train', '--set', 'step=1']\ngrid.seed = [1]"));
        let hostile = name("command = ['train']\ngrid.world = ['../../etc/pass wd']");
        assert!(!hostile.contains('/') && !hostile.contains(' '), "{hostile}");
    }

    #[test]
    fn slips_are_named_with_what_was_meant() {
        for (text, words) in [
            ("comand = ['train']\n[grid]\n", &["comand", "did you mean `command`"][..]),
            ("command = ['train']\n[grid]\n[slurm]\noption = []", &["option", "did you mean `options`"]),
            ("command = ['train']", &["grid"]),
            ("command = []\n[grid]", &["command is empty"]),
            ("command = ['trian']\n[grid]", &["trian", "train"]),
            ("command = ['train']\ngrid.sed = [1]", &["--sed", "--seed"]),
            ("command = ['train']\ngrid.seed = 1", &["grid.seed", "seed = [1]"]),
            ("command = ['train']\ngrid.seed = []", &["grid.seed", "no values"]),
            ("command = ['train']\ngrid.seed = [1, 1]", &["seed=1", "twice"]),
            ("command = ['train', '{wrld}']\ngrid.world = ['a']", &["wrld", "did you mean `world`"]),
            ("command = ['train']\ngrid.cell = [1]", &["cell"]),
            ("command = ['train'\n", &["line 1"]),
        ] {
            let error = format!("{:#}", plan(text).unwrap_err());
            assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
        }
        let many: Vec<String> = (0..400).map(|i| i.to_string()).collect();
        let many = many.join(",");
        let error =
            plan(&format!("command = ['train']\n[grid]\nseed = [{many}]\nworld = [{many}]")).unwrap_err();
        assert!(error.to_string().contains("160000"), "{error}");
    }
}
