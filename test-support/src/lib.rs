//! What tests need from outside their source: data, the firmware image, other programs.
//!
//! - [`tables`]: data that the project made. Excerpts are in the repository (`*/tests/data`); the full sets
//!   are used as well when the data folder is there.
//! - [`recording`]: recordings of others, which are in the data folder only.
//! - [`image`], [`architecture_image`]: images for the drone's processor, refused when they are stale.
//! - [`program`], [`built`]: programs that set-up installs or the workspace builds.
//!
//! Whoever gets `None` returns: the skip is recorded and printed, and `cargo xtask test` lists it. Only a
//! recording may be missing without an error. What one command could build or install fails the test
//! with that command, unless `STEADY_ALLOW_SKIP` is set; `cargo xtask test` fails even then.

mod data;
mod image;
mod program;
mod skip;
mod table;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub use data::{data_folder, recording, tables};
pub use image::{ARCHITECTURE, Built, FIRMWARE, RUSTC, architecture_image, image};
pub use program::{built, find, program};
pub use skip::{FOLDER_VARIABLE, Skip};
pub use table::{Row, Table};

/// The workspace's root.
#[must_use]
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        package.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
    })
}
