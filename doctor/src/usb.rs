//! The devices on the USB, as Linux tells of them in files: no driver, no permission needed.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) vendor: u16,
    pub(super) product: u16,
    /// What it calls itself.
    pub(super) name: String,
    /// The file that programs open to use it.
    pub(super) node: PathBuf,
}

/// All devices; `root` is `/` but in tests.
pub(super) fn devices(root: &Path) -> Vec<Device> {
    let entries = fs::read_dir(root.join("sys/bus/usb/devices")).into_iter().flatten().flatten();
    let mut found: Vec<Device> = entries.filter_map(|entry| device(root, &entry.path())).collect();
    found.sort_by(|a, b| a.node.cmp(&b.node));
    found
}

/// Interfaces are listed among the devices; they have no vendor.
fn device(root: &Path, folder: &Path) -> Option<Device> {
    let text = |name: &str| fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned());
    let id = |name: &str| u16::from_str_radix(&text(name)?, 16).ok();
    let number = |name: &str| text(name)?.parse::<u16>().ok();
    Some(Device {
        vendor: id("idVendor")?,
        product: id("idProduct")?,
        name: text("product").unwrap_or_default(),
        node: root.join(format!("dev/bus/usb/{:03}/{:03}", number("busnum")?, number("devnum")?)),
    })
}

impl Device {
    /// Whether programs of this user may use the device.
    pub(super) fn usable(&self) -> Result<(), ErrorKind> {
        OpenOptions::new().read(true).write(true).open(&self.node).map(drop).map_err(|error| error.kind())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Makes the files that Linux has for a device.
    pub(crate) fn plug(root: &Path, place: &str, vendor: &str, product: &str, name: &str) -> PathBuf {
        let folder = root.join("sys/bus/usb/devices").join(place);
        fs::create_dir_all(&folder).unwrap();
        let number = place.rsplit('-').next().unwrap();
        for (file, text) in [
            ("idVendor", vendor),
            ("idProduct", product),
            ("product", name),
            ("busnum", "1"),
            ("devnum", number),
        ] {
            fs::write(folder.join(file), format!("{text}\n")).unwrap();
        }
        let node = root.join(format!("dev/bus/usb/001/{number:0>3}"));
        fs::create_dir_all(node.parent().unwrap()).unwrap();
        fs::write(&node, "").unwrap();
        node
    }

    #[test]
    fn devices_are_read_from_linuxs_files() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(devices(root.path()), []);
        let node = plug(root.path(), "1-7", "1915", "7777", "Crazyradio PA USB Dongle");
        // An interface, and a folder with nonsense.
        fs::create_dir_all(root.path().join("sys/bus/usb/devices/1-7:1.0")).unwrap();
        plug(root.path(), "1-8", "zzzz", "7777", "?");
        let expected =
            Device { vendor: 0x1915, product: 0x7777, name: "Crazyradio PA USB Dongle".to_owned(), node };
        assert_eq!(devices(root.path()), std::slice::from_ref(&expected));
        assert_eq!(expected.usable(), Ok(()));
        fs::remove_file(&expected.node).unwrap();
        assert_eq!(expected.usable(), Err(ErrorKind::NotFound));
    }
}
