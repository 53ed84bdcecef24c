//! The image. On the PC there is nothing to run: `cargo xtask images` builds it.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod image;

/// Says how to build the image.
#[cfg(not(target_os = "none"))]
fn main() {
    println!("This program runs on the virtual Crazyflie. Build it with `cargo xtask images`.");
}
