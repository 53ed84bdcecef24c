//! Trains gains in the simulator with the library, for some seconds, and prints them as a file that
//! `steady gains` reads.
//!
//! ```text
//! cargo run --release -p steady --example train_policy > my.toml
//! ```

use steady::gains_file;
use steady::train::config::Config;
use steady::train::trainer::Trainer;
use steady_common::{GainTable, Gains};

fn main() -> anyhow::Result<()> {
    // As `steady train --preset smoke --set rounds=5 --seed 1 --threads 2`.
    let config = Config::preset("smoke", &["rounds=5".to_owned()])?;
    let mut trainer = Trainer::new(config, 1, 2)?;
    eprintln!("nominal gains: return {:.1}", trainer.judge(&Gains::nominal()).mean_return);
    while !trainer.is_done() {
        trainer.round();
        let learned = trainer.judge(&trainer.best_gains());
        eprintln!("round {}: return {:.1}", trainer.rounds_done(), learned.mean_return);
    }
    let table = GainTable { gains: trainer.best_gains(), ..GainTable::built_in() };
    print!("{}", gains_file::to_toml(&table));
    Ok(())
}
