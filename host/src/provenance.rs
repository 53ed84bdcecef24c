//! Where a result comes from.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit the program was built from, `unknown` outside a checkout; `+` when files were changed.
pub(crate) const COMMIT: &str = match option_env!("STEADY_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Everything needed to reproduce a result.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Provenance {
    version: &'static str,
    commit: &'static str,
    /// Version of libtorch, or `none`.
    libtorch: &'static str,
    command: Vec<String>,
    seed: u64,
    processor: String,
    threads: usize,
    started_unix_s: u64,
}

impl Provenance {
    pub(crate) fn of_this_run(seed: u64) -> Self {
        Self {
            version: VERSION,
            commit: COMMIT,
            libtorch: option_env!("STEADY_LIBTORCH_VERSION").unwrap_or("none"),
            command: std::env::args().collect(),
            seed,
            processor: processor(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            started_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        }
    }
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_filled_in() {
        let p = Provenance::of_this_run(7);
        assert_eq!(p.seed, 7);
        assert!(!p.command.is_empty() && !p.processor.is_empty() && p.threads > 0 && !p.commit.is_empty());
    }
}
