//! The firmware image. On the PC there is nothing to run: `cargo xtask firmware` builds it.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod board;
#[cfg(target_os = "none")]
mod image;

/// Says how to build the image for the drone.
#[cfg(not(target_os = "none"))]
fn main() {
    println!("This program runs on a Crazyflie. Build it with `cargo xtask firmware`.");
}
