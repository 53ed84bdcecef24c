//! What is no firmware for the drone, or cannot run on it: `virtual-crazyflie fly` says what is wrong, where, and what to do.
#![allow(clippy::unwrap_used)]

use std::process::Command;

/// Where the firmware is in flash.
const FIRMWARE: u32 = 0x0800_4000;

/// A vector table whose entries all lead to the code behind it.
fn binary(code: &[u16]) -> Vec<u8> {
    let mut words = [(FIRMWARE + 4 * 98) | 1; 98];
    words[0] = 0x2002_0000;
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(code.iter().flat_map(|half| half.to_le_bytes()));
    bytes
}

/// An ELF file with one segment.
fn elf(machine: u8, address: u32, content: &[u8]) -> Vec<u8> {
    let mut file = b"\x7FELF\x01\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2, 0, machine, 0, 1, 0, 0, 0]);
    file.extend([0_u32, 52, 0, 0].iter().flat_map(|w| w.to_le_bytes()));
    file.extend([52_u16, 32, 1, 40, 0, 0].iter().flat_map(|h| h.to_le_bytes()));
    let len = content.len() as u32;
    let header = [1, 84, address, address, len, len, 5, 4];
    file.extend(header.iter().flat_map(|w: &u32| w.to_le_bytes()));
    file.extend(content);
    file
}

/// A package with nothing in it: the end of an empty directory.
fn package() -> Vec<u8> {
    let mut bytes = b"PK\x05\x06".to_vec();
    bytes.resize(22, 0);
    bytes
}

/// What `fly` says of an image, which is not to succeed.
fn refused(name: &str, image: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, image).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_virtual-crazyflie"));
    command.args(["fly", "--no-card", "--elf"]).arg(&file).arg("--out").arg(folder.path().join("out"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said.into_owned()
}

#[track_caller]
fn assert_says(name: &str, image: &[u8], parts: &[&str]) {
    let said = refused(name, image);
    for part in parts {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
}

#[test]
fn what_is_no_image_is_refused_with_what_to_do() {
    let good = binary(&[0xE7FE]);
    assert_says(
        "a.txt",
        b"hello, this is no firmware at all",
        &["a.txt", "0x08004000", "give an ELF file, a package"],
    );
    assert_says(
        "pc.elf",
        &elf(62, FIRMWARE, &good),
        &["another processor", "give the one built for the drone"],
    );
    assert_says(
        "boot.elf",
        &elf(40, 0x0800_0000, &good[..16]),
        &["no vector table at 0x08004000", "link it for"],
    );
    assert_says(
        "big.bin",
        &[&good[..], &[0; 1 << 20]].concat(),
        &["do not fit into the 1 MiB of flash", "0x08004000"],
    );
    assert_says("nrf.elf", &elf(40, 0x0001_B000, &good), &["0x0001b000", "built for another chip"]);
    assert_says("empty.zip", &package(), &["empty.zip", "no manifest.json", "take the release"]);
    assert_says("torn.zip", &package()[..12], &["torn.zip", "zip"]);
    assert_says("torn.elf", &elf(40, FIRMWARE, &good)[..60], &["torn.elf"]);
}

#[test]
fn what_cannot_run_is_ended_with_address_and_what_to_do() {
    // Where the code begins.
    let at = "0x08004188";
    // movw r0, #0x2C00; movt r0, #0x4001 (SDIO); ldr r1, [r0]; b .
    let unmodelled = [0xF642, 0x4000, 0xF2C4, 0x0001, 0x6801, 0xE7FE];
    let parts = ["load from 0x40012c00 (SDIO)", at, "use a firmware without that part"];
    assert_says("sdio.bin", &binary(&unmodelled), &parts);
    // vmov.f32 s0, #1
    assert_says("float.bin", &binary(&[0xEEB7, 0x0A00, 0xE7FE]), &["floating-point", at, "switch it on"]);
    // udf, in every handler too.
    let parts =
        ["fault within the fault handler", "look at the first fault: undefined instruction at 0x08004188"];
    assert_says("udf.bin", &binary(&[0xDE00]), &parts);
    // wfi; b .-2: it never says a word.
    assert_says(
        "mute.bin",
        &binary(&[0xBF30, 0xE7FD]),
        &["does not answer on the radio", "processor is at 0x0800418"],
    );
}
