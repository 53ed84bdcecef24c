//! What flies: the virtual Crazyflie and its image, the radio dongle, the debug probe.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use steady_radio::link::{UDEV_FILE, UDEV_RULE};
use steady_sweep::programs;

use super::Finding;
use super::usb::Device;

const BUILD_EMULATOR: &str = "cargo build --release -p virtual-crazyflie";
const BUILD_FIRMWARE: &str = "cargo xtask firmware";
/// The number of ARM in an ELF's header, and where it is.
const ELF_ARM: [u8; 2] = [40, 0];
const ELF_MACHINE: std::ops::Range<usize> = 18..20;

/// Crazyradio (PA, and the 2.0 as a Crazyradio PA).
const CRAZYRADIO: (u16, u16) = (0x1915, 0x7777);
const NO_DONGLE: &str = "plug it in; the virtual Crazyflie needs none (--uri udp://127.0.0.1:19850)";
/// Debug probes that are known by their vendor: SEGGER, and those with a product.
const SEGGER: u16 = 0x1366;
const ST: u16 = 0x0483;
const ST_LINKS: [u16; 9] = [0x3744, 0x3748, 0x374b, 0x374d, 0x374e, 0x374f, 0x3752, 0x3753, 0x3754];
const BLACK_MAGIC: (u16, u16) = (0x1d50, 0x6018);
const PROBE_RULE: &str = "install probe-rs's udev rules (https://probe.rs/docs/getting-started/probe-setup), then plug the probe in again";

pub(super) fn virtual_crazyflie(found: Option<PathBuf>) -> Finding {
    Finding::path("virtual-crazyflie", found, "not built (steady fly)", BUILD_EMULATOR)
}

pub(super) fn firmware(image: Option<PathBuf>) -> Finding {
    let name = "firmware image";
    match image {
        Some(path) if is_for_arm(&path) => Finding::ok(name, path.display().to_string()),
        Some(path) => {
            Finding::bad(name, format!("{} is not an ELF for the drone", path.display()), BUILD_FIRMWARE)
        }
        None => Finding::bad(name, "not built (steady fly, steady flash)", BUILD_FIRMWARE),
    }
}

fn is_for_arm(path: &Path) -> bool {
    let mut header = [0; ELF_MACHINE.end];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    read.is_ok() && header.starts_with(b"\x7fELF") && header[ELF_MACHINE] == ELF_ARM
}

pub(super) fn crazyradio(devices: &[Device]) -> Finding {
    let dongle = devices.iter().find(|device| (device.vendor, device.product) == CRAZYRADIO);
    let rule = format!(
        "put {UDEV_RULE} into {UDEV_FILE}, then sudo udevadm control --reload-rules && sudo udevadm trigger, \
         sudo usermod -a -G plugdev $USER, and log in again"
    );
    device("Crazyradio", dongle, ("not plugged in (a real drone)", NO_DONGLE), &rule)
}

pub(super) fn probe_rs() -> Finding {
    Finding::path(
        "probe-rs",
        programs::find("probe-rs"),
        "not installed (flashing and logging over a debug probe; the radio needs none)",
        "cargo install probe-rs-tools --locked",
    )
}

pub(super) fn debug_probe(devices: &[Device]) -> Finding {
    let probe = devices.iter().find(|device| {
        let id = (device.vendor, device.product);
        let by_name = device.name.to_ascii_uppercase().contains("CMSIS-DAP");
        let st_link = id.0 == ST && ST_LINKS.contains(&id.1);
        by_name || st_link || id.0 == SEGGER || id == BLACK_MAGIC
    });
    let missing = (
        "not plugged in (debugging; the radio flashes without one)",
        "connect an ST-Link, J-Link or CMSIS-DAP probe to the drone's debug adapter",
    );
    device("debug probe", probe, missing, PROBE_RULE)
}

/// A device that should be there and usable.
fn device(name: &'static str, found: Option<&Device>, missing: (&str, &str), rule: &str) -> Finding {
    let Some(device) = found else { return Finding::bad(name, missing.0, missing.1) };
    let shown = format!("{} at {}", device.name, device.node.display());
    match device.usable() {
        Ok(()) => Finding::ok(name, shown),
        Err(ErrorKind::PermissionDenied) => {
            Finding::bad(name, format!("{shown}: the system does not allow its use"), rule)
        }
        Err(why) => Finding::bad(name, format!("{shown}: cannot be opened ({why})"), "plug it in again"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::usb::{self, tests::plug};

    #[test]
    fn dongle_and_probe_are_told_from_other_devices() {
        let root = tempfile::tempdir().unwrap();
        plug(root.path(), "1-1", "1d6b", "0002", "EHCI Host Controller");
        plug(root.path(), "1-2", "1915", "521f", "another Nordic device");
        let devices = usb::devices(root.path());
        assert!(!crazyradio(&devices).ok && !debug_probe(&devices).ok);
        for (place, vendor, product, name) in [
            ("1-3", "0483", "374b", "STM32 STLink"),
            ("1-4", "1366", "0101", "J-Link"),
            ("1-5", "2e8a", "000c", "Debug Probe (CMSIS-DAP)"),
            ("1-6", "1d50", "6018", "Black Magic Probe"),
        ] {
            let other = tempfile::tempdir().unwrap();
            plug(other.path(), place, vendor, product, name);
            let found = debug_probe(&usb::devices(other.path()));
            assert!(found.ok && found.detail.contains(name), "{found:?}");
        }
        plug(root.path(), "1-7", "1915", "7777", "Crazyradio PA USB Dongle");
        assert!(crazyradio(&usb::devices(root.path())).ok);
    }

    #[test]
    fn a_dongle_that_may_not_be_used_comes_with_the_rule() {
        let root = tempfile::tempdir().unwrap();
        let node = plug(root.path(), "1-7", "1915", "7777", "Crazyradio PA USB Dongle");
        fs::set_permissions(&node, fs::Permissions::from_mode(0o444)).unwrap();
        let found = crazyradio(&usb::devices(root.path()));
        // The administrator may everything.
        if fs::OpenOptions::new().write(true).open(&node).is_err() {
            assert!(found.fix.unwrap().contains("99-bitcraze.rules"));
        } else {
            assert!(found.ok);
        }
        fs::remove_file(&node).unwrap();
        let found = crazyradio(&usb::devices(root.path()));
        assert_eq!(found.fix.as_deref(), Some("plug it in again"));
    }

    #[test]
    fn only_an_image_for_the_drone_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("steady.elf");
        assert!(!is_for_arm(&path));
        assert!(!is_for_arm(Path::new("/proc/self/exe")), "this test is no firmware");
        let mut header = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x28\0".to_vec();
        fs::write(&path, &header).unwrap();
        assert!(is_for_arm(&path));
        header.truncate(19);
        fs::write(&path, &header).unwrap();
        assert!(!is_for_arm(&path));
    }
}
