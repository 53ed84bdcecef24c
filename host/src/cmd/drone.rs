//! What all verbs that talk to a drone share: its address, a progress display, and the confirmation
//! before something is changed.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use steady_radio::client::Client;
use steady_radio::tables::Phase;
use steady_radio::toc::Cache;
use steady_radio::{Uri, link};

/// Which drone.
#[derive(Debug, Args)]
pub(crate) struct Address {
    /// The drone: radio://DONGLE/CHANNEL/RATE/ADDRESS, or udp://HOST:PORT for a virtual one.
    #[arg(long, env = "CFLIB_URI", default_value = "radio://0/80/2M/E7E7E7E7E7")]
    pub(crate) uri: String,
}

impl Address {
    /// Opens the link; nothing is sent yet.
    pub(crate) fn connect(&self) -> Result<Client> {
        let uri: Uri = self.uri.parse()?;
        Ok(Client::new(link::open(&uri)?, Cache::of_user()))
    }
}

/// Asks before something is changed.
#[derive(Debug, Args)]
pub(crate) struct Consent {
    /// Do not ask.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Show what would be done, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl Consent {
    /// True when it is to be done.
    pub(crate) fn ask(&self, question: &str) -> Result<bool> {
        if self.dry_run {
            eprintln!("dry run: nothing was changed");
            return Ok(false);
        }
        if self.yes {
            return Ok(true);
        }
        if !std::io::stdin().is_terminal() {
            bail!(
                "{question} Standard input is no terminal: give --yes, or --dry-run to see what would be done"
            );
        }
        eprint!("{question} [y/N] ");
        std::io::stderr().flush()?;
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        let agreed = matches!(answer.trim(), "y" | "Y" | "yes");
        if !agreed {
            eprintln!("nothing was changed");
        }
        Ok(agreed)
    }
}

/// A bar on a terminal, a line for every step without one; both on standard error.
pub(super) struct Progress {
    bar: ProgressBar,
    last: &'static str,
}

impl Progress {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{msg:<28} {wide_bar} {pos}/{len}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, last: "" }
    }

    pub(super) fn step(&mut self, step: Phase) {
        let (text, done, of) = match step {
            Phase::Reading(done, of) => ("reading the tables", done, of),
            Phase::Entering => ("restarting into bootloader", 0, 1),
            Phase::Writing(done, of) => ("writing", done, of),
            Phase::Verifying(done, of) => ("reading back", done, of),
            Phase::Leaving => ("restarting into firmware", 0, 1),
            Phase::Asking => ("asking what it flies", 0, 1),
        };
        self.bar.set_length(of as u64);
        self.bar.set_position(done as u64);
        if text != self.last {
            self.last = text;
            self.bar.set_message(text);
            if self.bar.is_hidden() {
                eprintln!("{text}");
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
