//! The results of a sweep's cells as one table: means and 95 % intervals over the seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;
use steady_sim::suggest::did_you_mean;

use super::cell::{STDOUT, Stamp};
use super::plan::{Cell, Plan};
use crate::{files, stats};

/// The axis that means and intervals are taken over.
const SEED: &str = "seed";

/// What one cell came to: its numbers by name.
pub(crate) type Numbers = BTreeMap<String, f64>;

/// The table of a sweep.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Table {
    /// Axes, without the seed.
    pub(crate) axes: Vec<String>,
    /// What was measured, in the columns' order.
    pub(crate) metrics: Vec<String>,
    /// One row for every combination of the axes' values.
    pub(crate) rows: Vec<Row>,
    /// The commits whose program made the results; more than one are not comparable without a look.
    pub(crate) commits: BTreeSet<String>,
}

/// All seeds of one combination.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// The axes' values.
    pub(crate) settings: BTreeMap<String, String>,
    /// Cells that are done.
    pub(crate) cells: usize,
    /// By metric.
    pub(crate) values: BTreeMap<String, Estimate>,
}

/// A mean over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Estimate {
    /// The mean.
    pub(crate) mean: f64,
    /// Half the width of its 95 % interval; none for a single value.
    pub(crate) half_width_95: Option<f64>,
    /// Values it is taken over.
    pub(crate) n: usize,
}

/// The numbers of a cell that is done.
pub(crate) fn read(folder: &Path, cell: &Cell, plan: &Plan) -> Result<Numbers> {
    let wanted = plan.result.is_some() || cell.args.iter().any(|arg| arg == "--json");
    if !wanted {
        return Ok(Numbers::new());
    }
    let path = plan.result.as_ref().map_or_else(|| folder.join(STDOUT), |result| folder.join(result));
    let text = fs::read(&path).with_context(|| format!("{}: cannot be read", path.display()))?;
    let value: Value =
        serde_json::from_slice(&text).with_context(|| format!("{}: is not JSON", path.display()))?;
    let mut numbers = Numbers::new();
    flatten("", &value, &mut numbers);
    numbers.retain(|name, _| !cell.settings.contains_key(name));
    Ok(numbers)
}

/// Every number of a document by its dotted path. The elements of a list are told apart by their texts, if
/// these differ, else by their place; a single one needs no name.
fn flatten(path: &str, value: &Value, into: &mut Numbers) {
    let inside = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Number(number) => {
            into.extend(number.as_f64().map(|number| (path.to_owned(), number)));
        }
        Value::Object(fields) => fields.iter().for_each(|(name, value)| flatten(&inside(name), value, into)),
        Value::Array(elements) if elements.len() == 1 => flatten(path, &elements[0], into),
        Value::Array(elements) => {
            let texts: Vec<String> = elements.iter().map(texts).collect();
            let differ = texts.iter().collect::<BTreeSet<_>>().len() == texts.len();
            for (index, (element, texts)) in elements.iter().zip(&texts).enumerate() {
                let name = if differ { texts.clone() } else { index.to_string() };
                flatten(&inside(&name), element, into);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn texts(value: &Value) -> String {
    let fields = value.as_object().into_iter().flat_map(|fields| fields.values());
    fields.filter_map(Value::as_str).collect::<Vec<_>>().join("/")
}

impl Table {
    /// Puts together what was found.
    pub(crate) fn new(plan: &Plan, found: &[(&Cell, Stamp, Numbers)]) -> Result<Self> {
        let known: BTreeSet<&String> = found.iter().flat_map(|(_, _, numbers)| numbers.keys()).collect();
        for metric in &plan.metrics {
            if !found.is_empty() && !known.contains(metric) {
                bail!("metrics: no cell has `{metric}`{}", did_you_mean(metric, known.into_iter()));
            }
        }
        let metrics =
            if plan.metrics.is_empty() { known.into_iter().cloned().collect() } else { plan.metrics.clone() };
        let axes: Vec<String> = plan.axes.iter().filter(|axis| *axis != SEED).cloned().collect();
        let mut rows: Vec<Row> = Vec::new();
        for cell in &plan.cells {
            let settings = without_seed(cell);
            if rows.iter().all(|row| row.settings != settings) {
                let of_row: Vec<&Numbers> = found
                    .iter()
                    .filter(|(cell, ..)| without_seed(cell) == settings)
                    .map(|(_, _, numbers)| numbers)
                    .collect();
                let values = metrics.iter().filter_map(|metric| {
                    let values: Vec<f64> =
                        of_row.iter().filter_map(|numbers| numbers.get(metric)).copied().collect();
                    Some((metric.clone(), Estimate::of(&values)?))
                });
                rows.push(Row { cells: of_row.len(), values: values.collect(), settings });
            }
        }
        let commits = found.iter().map(|(_, stamp, _)| stamp.commit.clone()).collect();
        Ok(Self { axes, metrics, rows, commits })
    }

    /// Writes `table.md`, `table.csv`, `table.json`.
    pub(crate) fn save(&self, folder: &Path) -> Result<()> {
        files::write(&folder.join("table.md"), self.markdown().as_bytes())?;
        files::write(&folder.join("table.json"), &serde_json::to_vec_pretty(self)?)?;
        files::write(&folder.join("table.csv"), &self.csv()?)
    }

    /// The table for people.
    pub(crate) fn markdown(&self) -> String {
        let headings = self.axes.iter().map(String::as_str).chain(["cells"]);
        let mut lines: Vec<Vec<String>> =
            vec![headings.chain(self.metrics.iter().map(String::as_str)).map(str::to_owned).collect()];
        for row in &self.rows {
            let settings = self.axes.iter().map(|axis| row.settings.get(axis).cloned().unwrap_or_default());
            let values = self.metrics.iter().map(|metric| match row.values.get(metric) {
                Some(estimate) => estimate.to_string(),
                None => "–".to_owned(),
            });
            lines.push(settings.chain([row.cells.to_string()]).chain(values).collect());
        }
        let width = |column: usize| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
        };
        let widths: Vec<usize> = (0..lines.first().map_or(0, Vec::len)).map(width).collect();
        let mut text = String::new();
        for (number, line) in lines.iter().enumerate() {
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                let _ = match column < self.axes.len() {
                    true => write!(text, "| {cell:<width$} "),
                    false => write!(text, "| {cell:>width$} "),
                };
            }
            text.push_str("|\n");
            if number == 0 {
                for (column, width) in widths.iter().enumerate() {
                    let end = if column < self.axes.len() { '-' } else { ':' };
                    let _ = write!(text, "|{:-<1$}{end}", "", width + 1);
                }
                text.push_str("|\n");
            }
        }
        text
    }

    fn csv(&self) -> Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let columns =
            self.metrics.iter().flat_map(|m| ["mean", "half_width_95", "n"].map(|c| format!("{m}.{c}")));
        writer.write_record(self.axes.iter().cloned().chain(["cells".to_owned()]).chain(columns))?;
        for row in &self.rows {
            let settings = self.axes.iter().map(|axis| row.settings.get(axis).cloned().unwrap_or_default());
            let values = self.metrics.iter().flat_map(|metric| match row.values.get(metric) {
                Some(Estimate { mean, half_width_95, n }) => {
                    let half = half_width_95.map_or_else(String::new, |half| half.to_string());
                    [mean.to_string(), half, n.to_string()]
                }
                None => [String::new(), String::new(), "0".to_owned()],
            });
            writer.write_record(settings.chain([row.cells.to_string()]).chain(values))?;
        }
        Ok(writer.into_inner()?)
    }
}

/// Writes `cells.csv`: one row for every cell that is done, with everything it measured.
pub(crate) fn save_cells(folder: &Path, plan: &Plan, found: &[(&Cell, Stamp, Numbers)]) -> Result<()> {
    let names: BTreeSet<&String> = found.iter().flat_map(|(_, _, numbers)| numbers.keys()).collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    let fixed = ["cell", "seconds", "commit"];
    let axes = plan.axes.iter().map(String::as_str);
    writer.write_record(axes.chain(fixed).chain(names.iter().map(|name| name.as_str())))?;
    for (cell, stamp, numbers) in found {
        let settings = plan.axes.iter().map(|axis| cell.settings.get(axis).cloned().unwrap_or_default());
        let fixed = [cell.name.clone(), format!("{:.3}", stamp.seconds), stamp.commit.clone()];
        let values = names.iter().map(|name| numbers.get(*name).map_or_else(String::new, f64::to_string));
        writer.write_record(settings.chain(fixed).chain(values))?;
    }
    files::write(&folder.join("cells.csv"), &writer.into_inner()?)
}

fn without_seed(cell: &Cell) -> BTreeMap<String, String> {
    cell.settings.iter().filter(|(axis, _)| *axis != SEED).map(|(a, v)| (a.clone(), v.clone())).collect()
}

impl Estimate {
    fn of(values: &[f64]) -> Option<Self> {
        let (mean, half) = stats::mean_95(values);
        (!values.is_empty()).then(|| Self {
            mean,
            half_width_95: (values.len() > 1).then_some(half),
            n: values.len(),
        })
    }
}

impl std::fmt::Display for Estimate {
    /// The interval with two digits that count and the mean with as many decimals.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = |value: f64, wanted: i32| {
            if value == 0.0 || !value.is_finite() {
                return 3;
            }
            (wanted - 1 - value.abs().log10().floor() as i32).clamp(0, 9) as usize
        };
        match self.half_width_95 {
            Some(half) if half > 0.0 => {
                let decimals = digits(half, 2);
                write!(f, "{:.decimals$} ± {half:.decimals$}", self.mean)
            }
            Some(_) => write!(f, "{:.*} ± 0", digits(self.mean, 4), self.mean),
            None => write!(f, "{:.*}", digits(self.mean, 4), self.mean),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(json: &str) -> Vec<(String, f64)> {
        let mut found = Numbers::new();
        flatten("", &serde_json::from_str(json).unwrap(), &mut found);
        found.into_iter().collect()
    }

    #[test]
    fn numbers_are_found_wherever_they_are() {
        assert_eq!(
            numbers(r#"[{"a": 1, "b": {"c": 2.5}, "d": "x", "e": true, "f": null}]"#),
            [("a".to_owned(), 1.0), ("b.c".to_owned(), 2.5)]
        );
        assert_eq!(
            numbers(r#"[{"task": "hover", "e": 1}, {"task": "eight", "e": 2}]"#),
            [("eight.e".to_owned(), 2.0), ("hover.e".to_owned(), 1.0)]
        );
        assert_eq!(
            numbers("[[3, 4], [5]]"),
            [("0.0".to_owned(), 3.0), ("0.1".to_owned(), 4.0), ("1".to_owned(), 5.0)]
        );
    }

    #[test]
    fn figures_have_the_digits_that_count() {
        let shown = |values: &[f64]| Estimate::of(values).unwrap().to_string();
        assert_eq!(shown(&[1234.5]), "1234");
        assert_eq!(shown(&[0.012_345]), "0.01235");
        assert_eq!(shown(&[1.0, 1.0]), "1.000 ± 0");
        assert_eq!(shown(&[10.0, 11.0, 12.0]), "11.0 ± 2.5");
        assert_eq!(Estimate::of(&[]), None);
    }

    fn sweep() -> (Plan, Vec<Numbers>) {
        let program = clap::Command::new("steady").subcommand(
            clap::Command::new("x").args(["seed", "world"].map(|name| clap::Arg::new(name).long(name))),
        );
        let text = "command = ['x']\n[grid]\nseed = [1, 2, 3]\nworld = ['a', 'b']";
        let plan = Plan::from_toml(text, &program).unwrap();
        let number = |cell: &Cell| {
            let seed: f64 = cell.settings["seed"].parse().unwrap();
            let error = if cell.settings["world"] == "a" { 9.0 + seed } else { 0.0 };
            Numbers::from([("error".to_owned(), error), ("reward".to_owned(), -seed)])
        };
        let numbers = plan.cells.iter().map(number).collect();
        (plan, numbers)
    }

    fn stamp() -> Stamp {
        Stamp {
            args: Vec::new(),
            exit_code: Some(0),
            signal: None,
            seconds: 1.0,
            ended_unix_s: 1,
            version: "1".to_owned(),
            commit: "abc".to_owned(),
        }
    }

    #[test]
    fn seeds_become_means_with_intervals() {
        let (mut plan, numbers) = sweep();
        let found: Vec<_> = plan.cells.clone().into_iter().zip(numbers).collect();
        // One cell of world b is missing.
        let found: Vec<_> = found.iter().take(5).map(|(cell, n)| (cell, stamp(), n.clone())).collect();
        plan.metrics = vec!["error".to_owned()];
        let table = Table::new(&plan, &found).unwrap();
        assert_eq!(
            table.markdown(),
            "| world | cells |      error |\n\
             |-------|------:|-----------:|\n\
             | a     |     3 | 11.0 ± 2.5 |\n\
             | b     |     2 |  0.000 ± 0 |\n"
        );
        let csv = String::from_utf8(table.csv().unwrap()).unwrap();
        assert!(csv.starts_with("world,cells,error.mean,error.half_width_95,error.n\na,3,11,2.48"), "{csv}");
        plan.metrics = vec!["eror".to_owned()];
        let error = Table::new(&plan, &found).unwrap_err().to_string();
        assert!(error.contains("did you mean `error`"), "{error}");
        plan.metrics.clear();
        assert_eq!(Table::new(&plan, &found).unwrap().metrics, ["error", "reward"]);

        let folder = tempfile::tempdir().unwrap();
        save_cells(folder.path(), &plan, &found).unwrap();
        let cells = fs::read_to_string(folder.path().join("cells.csv")).unwrap();
        assert_eq!(cells.lines().count(), 6);
        assert!(cells.starts_with("seed,world,cell,seconds,commit,error,reward\n1,a,"), "{cells}");
    }

    #[test]
    fn results_that_should_be_there_are_missed() {
        let (mut plan, _) = sweep();
        let folder = tempfile::tempdir().unwrap();
        let f = folder.path();
        assert!(read(f, &plan.cells[0], &plan).unwrap().is_empty());
        plan.result = Some("run/r.json".into());
        let error = read(f, &plan.cells[0], &plan).unwrap_err().to_string();
        assert!(error.contains("run/r.json: cannot be read"), "{error}");
        fs::create_dir(f.join("run")).unwrap();
        fs::write(f.join("run/r.json"), "{\"a\": 1, \"seed\": 1").unwrap();
        assert!(read(f, &plan.cells[0], &plan).unwrap_err().to_string().contains("not JSON"));
        fs::write(f.join("run/r.json"), "{\"a\": 1, \"seed\": 1}").unwrap();
        assert_eq!(read(f, &plan.cells[0], &plan).unwrap(), Numbers::from([("a".to_owned(), 1.0)]));
    }
}
