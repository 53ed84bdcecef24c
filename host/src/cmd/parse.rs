//! Values of command-line options: names are checked while parsing, so that a bad one is a usage error (exit
//! status 2) that suggests the nearest.

use std::path::Path;
use std::str::FromStr;

use steady_common::Controller;
use steady_common::exploration::Exploration;
use steady_sim::script::Course;
use steady_sim::suggest::unknown;
use steady_sim::{Task, World};

/// Exploration noise: standard deviations of thrust, roll, pitch and yaw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Noise(pub(crate) [f32; 4]);

impl FromStr for Noise {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let values: Vec<f32> = text.split(',').map_while(|v| v.trim().parse().ok()).collect();
        match values[..] {
            [thrust, roll, pitch, yaw] if values.iter().all(|v| (0.0..=Exploration::LIMIT).contains(v)) => {
                Ok(Self([thrust, roll, pitch, yaw]))
            }
            _ => Err(format!(
                "four standard deviations (thrust, roll, pitch, yaw) from 0 to {}, such as 0.02,0.01,0.01,0.005",
                Exploration::LIMIT
            )),
        }
    }
}

/// Files by their whole path, so that a loop can be continued from another folder.
fn absolute(name: &str) -> Result<String, String> {
    let path = Path::new(name).canonicalize().map_err(|e| format!("{name}: cannot be read: {e}"))?;
    Ok(path.to_string_lossy().into_owned())
}

/// A world's name, its file, or `sample-N`, `measured-N` or `outside-N`.
pub(crate) fn world(text: &str) -> Result<String, String> {
    let world = World::load(text).map_err(|e| e.to_string())?;
    world.compile().map_err(|e| e.to_string())?;
    if Path::new(text).is_file() { absolute(text) } else { Ok(text.to_owned()) }
}

/// A task's name.
pub(crate) fn task(text: &str) -> Result<Task, String> {
    text.parse()
}

/// A task's name, or a CSV file of polynomial pieces.
pub(crate) fn task_or_file(text: &str) -> Result<String, String> {
    match text.parse()? {
        Course::Task(_) => Ok(text.to_owned()),
        Course::Pieces(_) => absolute(text),
    }
}

/// A controller of the firmware.
pub(crate) fn controller(text: &str) -> Result<Controller, String> {
    let names = Controller::ALL.map(Controller::name);
    let found = Controller::ALL.into_iter().find(|c| c.name() == text);
    found.ok_or_else(|| unknown("controller", text, &names))
}

/// A setting of the adaptation, as `KEY=VALUE`.
#[cfg(feature = "train")]
pub(crate) fn adapt_setting(text: &str) -> Result<String, String> {
    let change = text.to_owned();
    crate::adapt::config::Config::with(std::slice::from_ref(&change)).map_err(|e| format!("{e:#}"))?;
    Ok(change)
}

/// A preset of the training.
#[cfg(feature = "train")]
pub(crate) fn preset(text: &str) -> Result<String, String> {
    crate::train::config::Config::preset(text, &[]).map_err(|e| format!("{e:#}"))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_four_small_numbers() {
        assert_eq!("0.02,0.01,0.01,0.005".parse(), Ok(Noise(Exploration::DEFAULT.std)));
        for bad in ["", "0.1", "0,0,0,0,0", "0,0,0,x", "0,0,0,0.2", "0,0,0,-0.1", "0,0,0,nan"] {
            assert!(bad.parse::<Noise>().is_err(), "{bad}");
        }
    }

    #[test]
    fn bad_names_suggest_the_nearest() {
        for (error, near) in [
            (world("papper").unwrap_err(), "`paper`"),
            (task_or_file("figure9").unwrap_err(), "`figure8`"),
            (controller("pib").unwrap_err(), "`pid`"),
        ] {
            assert!(error.contains(&format!("did you mean {near}")), "{error}");
        }
        assert_eq!(world("sample-1003").unwrap(), "sample-1003");
        assert!(world("sample-x").is_err());
    }
}
