//! The results of a sweep's cells as one table: means and 95 % intervals over the seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value as Json;
use steady_data::error::usage;
use steady_data::files;
use steady_data::stats::Estimate;
use steady_data::table::Table as Markdown;
use steady_sim::suggest::did_you_mean;

use crate::cell::{STDOUT, Stamp};
use crate::plan::{Cell, Plan};

/// The axis of the means and intervals.
const SEED: &str = "seed";

/// The results of one cell by name.
pub(crate) type Numbers = BTreeMap<String, f64>;

/// A sweep's table.
#[derive(Clone, Debug, Serialize)]
pub struct SweepTable {
    /// Axes, without the seed.
    pub(crate) axes: Vec<String>,
    pub(crate) metrics: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// Commits of the programs that made the results.
    pub(crate) commits: BTreeSet<String>,
}

/// All seeds of one combination.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) cells: usize,
    pub(crate) values: BTreeMap<String, Value>,
}

/// A mean over seeds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Value {
    #[serde(flatten)]
    estimate: Estimate,
    /// Number of seeds.
    n: usize,
}

pub(crate) fn read(folder: &Path, cell: &Cell, plan: &Plan) -> Result<Numbers> {
    let wanted = plan.result.is_some() || cell.args.iter().any(|arg| arg == "--json");
    if !wanted {
        return Ok(Numbers::new());
    }
    let path = plan.result.as_ref().map_or_else(|| folder.join(STDOUT), |result| folder.join(result));
    let value: Json = serde_json::from_str(&files::read_text(&path)?)
        .with_context(|| format!("{}: is not JSON", path.display()))?;
    let mut numbers = Numbers::new();
    flatten("", &value, &mut numbers);
    numbers.retain(|name, _| !cell.settings.contains_key(name));
    Ok(numbers)
}

/// Every number of a document by its dotted path. Elements of a list are named by their texts, if these
/// differ, else by their index; a single one needs no name.
fn flatten(path: &str, value: &Json, into: &mut Numbers) {
    let inside = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Json::Number(number) => {
            into.extend(number.as_f64().map(|number| (path.to_owned(), number)));
        }
        Json::Object(fields) => fields.iter().for_each(|(name, value)| flatten(&inside(name), value, into)),
        Json::Array(elements) if elements.len() == 1 => flatten(path, &elements[0], into),
        Json::Array(elements) => {
            let texts: Vec<String> = elements.iter().map(texts).collect();
            let differ = texts.iter().collect::<BTreeSet<_>>().len() == texts.len();
            for (index, (element, texts)) in elements.iter().zip(&texts).enumerate() {
                let name = if differ { texts.clone() } else { index.to_string() };
                flatten(&inside(&name), element, into);
            }
        }
        Json::Null | Json::Bool(_) | Json::String(_) => {}
    }
}

fn texts(value: &Json) -> String {
    let fields = value.as_object().into_iter().flat_map(|fields| fields.values());
    fields.filter_map(Json::as_str).collect::<Vec<_>>().join("/")
}

impl SweepTable {
    pub(crate) fn new(plan: &Plan, found: &[(&Cell, Stamp, Numbers)]) -> Result<Self> {
        let known: BTreeSet<&String> = found.iter().flat_map(|(_, _, numbers)| numbers.keys()).collect();
        for metric in &plan.metrics {
            if !found.is_empty() && !known.contains(metric) {
                return Err(usage(format!("metrics: no cell has `{metric}`{}", did_you_mean(metric, known))));
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
                    let value = Value { estimate: Estimate::of(&values), n: values.len() };
                    (!values.is_empty()).then_some((metric.clone(), value))
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
        files::write_json(&folder.join("table.json"), self)?;
        files::write(&folder.join("table.csv"), &self.csv()?)
    }

    /// The table in Markdown.
    pub fn markdown(&self) -> String {
        let headings = self.axes.iter().map(String::as_str).chain(["cells"]);
        let mut table = Markdown::new(headings.chain(self.metrics.iter().map(String::as_str)));
        for row in &self.rows {
            let values = self.metrics.iter().map(|metric| {
                row.values.get(metric).map_or_else(|| "–".to_owned(), |v| v.estimate.to_string())
            });
            table.row(self.settings(row).chain([row.cells.to_string()]).chain(values));
        }
        table.to_string()
    }

    fn settings<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = String> + 'a {
        self.axes.iter().map(|axis| row.settings.get(axis).cloned().unwrap_or_default())
    }

    fn csv(&self) -> Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let columns =
            self.metrics.iter().flat_map(|m| ["mean", "half_width", "n"].map(|c| format!("{m}.{c}")));
        writer.write_record(self.axes.iter().cloned().chain(["cells".to_owned()]).chain(columns))?;
        for row in &self.rows {
            let values = self.metrics.iter().flat_map(|metric| match row.values.get(metric) {
                Some(Value { estimate: Estimate { mean, half_width }, n }) => {
                    [mean.to_string(), half_width.map_or_else(String::new, |h| h.to_string()), n.to_string()]
                }
                None => [String::new(), String::new(), "0".to_owned()],
            });
            writer.write_record(self.settings(row).chain([row.cells.to_string()]).chain(values))?;
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

#[cfg(test)]
mod tests {
    use std::fs;

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
        let table = SweepTable::new(&plan, &found).unwrap();
        assert_eq!(
            table.markdown(),
            "| world | cells |      error |\n\
             |-------|------:|-----------:|\n\
             | a     |     3 | 11.0 ± 2.5 |\n\
             | b     |     2 |  0.000 ± 0 |\n"
        );
        let csv = String::from_utf8(table.csv().unwrap()).unwrap();
        assert!(csv.starts_with("world,cells,error.mean,error.half_width,error.n\na,3,11,2.48"), "{csv}");
        plan.metrics = vec!["eror".to_owned()];
        let error = SweepTable::new(&plan, &found).unwrap_err().to_string();
        assert!(error.contains("did you mean `error`"), "{error}");
        plan.metrics.clear();
        assert_eq!(SweepTable::new(&plan, &found).unwrap().metrics, ["error", "reward"]);

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
