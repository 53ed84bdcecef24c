//! `steady report`: a loop as one page.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::files;
use crate::report::data::Data;
use crate::report::page;

/// Write one self-contained page about a loop or a comparison.
///
/// Results with intervals, learning curves, flights in 3D to rotate and play, attitude, motors,
/// gains, skills, the drone's health, and the commands that reproduce it. Needs no network.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    /// Folder of `steady loop`.
    folder: PathBuf,
    /// The page; default: report.html in the folder. An existing one is replaced.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Print the page's data as JSON instead.
    #[arg(long)]
    json: bool,
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(&Data::of(&self.folder)?)?);
            return Ok(());
        }
        let output = self.output.unwrap_or_else(|| self.folder.join("report.html"));
        files::write(&output, page(&self.folder)?.as_bytes())?;
        println!("{}", output.display());
        Ok(())
    }
}
