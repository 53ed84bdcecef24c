//! Connects to a drone and reads a parameter.
//!
//! ```text
//! cargo run -p virtual-crazyflie -- serve     # in another terminal: a drone without hardware
//! cargo run -p steady-radio --example read_param -- udp://127.0.0.1:19850 ctrlMel.kp_xy
//! ```

use steady_radio::client::{Client, show};
use steady_radio::toc::Cache;
use steady_radio::{Uri, link};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let uri: Uri = args.next().as_deref().unwrap_or(Uri::VIRTUAL).parse()?;
    let name = args.next().unwrap_or_else(|| "ctrlMel.kp_xy".to_owned());

    let mut client = Client::new(link::open(&uri)?, Cache::of_user());
    let firmware = client.platform()?.firmware;
    println!("{uri}: {firmware}, {:.2} V", client.battery_v()?);
    let param = client.param(&name)?;
    println!("{name} = {}", show(client.get(param)?));
    Ok(())
}
