//! Reads logs of this firmware and prints how far the drone was from its reference.
//!
//! ```text
//! cargo run -p steady-data --example read_log -- common/tests/data/log_1
//! ```

use std::path::PathBuf;

use steady_common::transition::Flags;

fn main() -> anyhow::Result<()> {
    let logs: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    anyhow::ensure!(!logs.is_empty(), "name logs, or folders that hold them");

    for segment in steady_data::log::transitions(&logs)?.segments {
        let flown = segment.steps.iter().filter(|step| step.flags.has(Flags::LAW));
        let errors_m: Vec<f32> =
            flown.map(|step| (step.state.position - step.reference.position).norm()).collect();
        let mean_m = errors_m.iter().sum::<f32>() / errors_m.len().max(1) as f32;
        println!(
            "{}: {} steps, {} of them flown, mean distance from the reference {mean_m:.3} m",
            segment.file.display(),
            segment.steps.len(),
            errors_m.len()
        );
    }
    Ok(())
}
