//! Work that Ctrl-C and closed pipes must not cut short: a training that saves, a drone in its bootloader.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

static SAVES: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicBool = AtomicBool::new(false);
/// 0: Ctrl-C may end the program; 1: the drone is in its bootloader; 2: and Ctrl-C was pressed.
static BOOTLOADER: AtomicU8 = AtomicU8::new(0);

/// Announces work that looks at [`asked`], saves and ends by itself.
#[cfg(feature = "train")]
pub(crate) fn expect_saving() {
    SAVES.store(true, Ordering::Relaxed);
}

/// Asks such work to end; false when there is none, or when it was asked before.
fn ask() -> bool {
    SAVES.load(Ordering::Relaxed) && !ASKED.swap(true, Ordering::Relaxed)
}

/// True once the work was asked to save and end.
#[cfg(feature = "train")]
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// While this lives the drone is in its bootloader.
pub(crate) struct InBootloader(());

impl InBootloader {
    pub(crate) fn begin() -> Self {
        BOOTLOADER.store(1, Ordering::Release);
        Self(())
    }
}

impl Drop for InBootloader {
    fn drop(&mut self) {
        BOOTLOADER.store(0, Ordering::Release);
    }
}

/// Nobody reads standard output any more; true when something has to be finished first.
pub(crate) fn on_closed_pipe() -> bool {
    ask();
    SAVES.load(Ordering::Relaxed) || BOOTLOADER.load(Ordering::Acquire) != 0
}

/// The handler of Ctrl-C. The first one lets a training save and a drone get its table; otherwise, and at
/// the second, the program ends.
pub(crate) fn on_ctrl_c() {
    if BOOTLOADER.compare_exchange(1, 2, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        eprintln!("the drone is in its bootloader: wait a moment; Ctrl-C again leaves it there");
    } else if ask() {
        eprintln!("saving; Ctrl-C again ends at once");
    } else {
        std::process::exit(130);
    }
}
