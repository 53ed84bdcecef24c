//! The verbs that talk to a drone, as a user meets them: `steady` and `virtual-crazyflie` as processes.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use steady_test_support::{built, image};

fn steady(folder: &Path, uri: &str, args: &[&str], code: i32) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steady"));
    command.current_dir(folder).env("CFLIB_URI", uri).env("XDG_CACHE_HOME", folder.join("cache"));
    let output = command.args(args).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{out}\n{err}");
    (out, err)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text.lines().next_back().unwrap()).unwrap()
}

/// A virtual drone that ends with us.
struct Drone {
    process: Child,
    uri: String,
}

impl Drop for Drone {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a drone whose flash is kept in the folder.
#[track_caller]
fn serve(folder: &Path, args: &[&str]) -> Option<Drone> {
    let program = built(env!("CARGO_BIN_EXE_steady"), "virtual-crazyflie")?;
    let elf = image()?;
    let mut command = Command::new(program);
    command.current_dir(folder).args(["serve", "--quiet", "--udp", "127.0.0.1:0", "--seconds", "600"]);
    command.args(["--no-card", "--flash", "flash.img", "--elf"]).arg(elf).args(args);
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let uri = line.trim().strip_prefix("listening on ").unwrap().to_owned();
    Some(Drone { process, uri })
}

#[test]
fn a_table_is_flashed_read_reverted_tried_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let Some(drone) = serve(f, &[]) else { return };
    let uri = drone.uri.clone();
    steady(f, &uri, &["gains", "unpack", "nominal", "-o", "a.toml"], 0);
    let text = fs::read_to_string(f.join("a.toml")).unwrap();
    fs::write(f.join("a.toml"), text.replacen("position.p.xy = 0.4", "position.p.xy = 0.45", 1)).unwrap();

    let (_, err) = steady(f, &uri, &["gains", "flash", "a.toml"], 1);
    assert!(err.contains("--yes"), "{err}");
    let (out, _) = steady(f, &uri, &["gains", "flash", "a.toml", "--dry-run"], 0);
    assert!(out.contains("position.p.xy") && out.contains("0.45"), "{out}");
    assert_eq!(json(&steady(f, &uri, &["info", "--json"], 0).0)["table"]["sequence"], 0);

    for n in 1..=2 {
        let name = if n == 1 { "a.toml" } else { "nominal" };
        let (out, _) = steady(f, &uri, &["gains", "flash", name, "--yes", "--json"], 0);
        assert_eq!((&json(&out)["sequence"], &json(&out)["page"]), (&n.into(), &(n - 1).into()));
        assert!(json(&out)["packets_sent"].as_u64().unwrap() > 100, "{out}");
    }
    // What was there before the second one is kept as a file.
    let kept: Vec<_> = fs::read_dir(f.join("tables")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(kept.len(), 1);
    steady(f, &uri, &["gains", "check", kept[0].to_str().unwrap()], 0);

    steady(f, &uri, &["gains", "revert", "--yes"], 0);
    steady(f, &uri, &["gains", "read", "-o", "b.toml"], 0);
    let (out, _) = steady(f, &uri, &["gains", "diff", "a.toml", "b.toml"], 0);
    assert!(out.contains("no difference"), "{out}");
    let (out, _) = steady(f, &uri, &["gains", "history", "--json"], 0);
    let numbers: Vec<u64> = out
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap()["sequence"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [1, 2, 3]);

    steady(f, &uri, &["gains", "try", "nominal"], 0);
    assert_eq!(json(&steady(f, &uri, &["info", "--json"], 0).0)["table"]["is_try_out"], true);
    steady(f, &uri, &["gains", "try", "--off"], 0);
    let (out, _) = steady(f, &uri, &["param", "set", "ctrlMel.kp_xy=0.5", "--store"], 0);
    assert!(out.contains("kept"), "{out}");
    let (_, err) = steady(f, &uri, &["param", "get", "ctrlMel.kpp_xy"], 2);
    assert!(err.contains("did you mean `ctrlMel.kp_xy`") && err.contains("its group has"), "{err}");

    // Switched off and on: the flash is what it was.
    drop(drone);
    let Some(drone) = serve(f, &[]) else { return };
    let (out, _) = steady(f, &drone.uri, &["info", "--json"], 0);
    assert_eq!(json(&out)["table"]["sequence"], 3);
}

#[test]
fn an_armed_drone_and_a_bad_file_are_refused_before_anything_happens() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let Some(drone) = serve(f, &[]) else { return };
    let uri = drone.uri.clone();
    fs::write(f.join("bad.bin"), vec![0; 1024]).unwrap();
    let (_, err) = steady(f, &uri, &["gains", "flash", "bad.bin", "--yes"], 1);
    assert!(err.contains("not a gain table"), "{err}");
    let (_, err) = steady(f, &uri, &["flash", "bad.bin", "--yes"], 1);
    assert!(err.contains("no firmware"), "{err}");
    // It arms once it has been still for a while.
    let armed = (0..40).any(|_| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steady"));
        command.current_dir(f).env("XDG_CACHE_HOME", f.join("cache")).args(["arm", "--uri", &uri]);
        let output = command.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() || err.contains("stands against"), "{err}");
        output.status.success()
    });
    assert!(armed);
    let (_, err) = steady(f, &uri, &["gains", "flash", "nominal", "--yes"], 1);
    assert!(err.contains("armed") && err.contains("steady disarm"), "{err}");
    let (_, err) = steady(f, &uri, &["gains", "flash", "nominal", "--yes", "--min-battery", "4.5"], 1);
    assert!(err.contains("armed"), "{err}");
    steady(f, &uri, &["disarm"], 0);
    let (_, err) = steady(f, &uri, &["gains", "flash", "nominal", "--yes", "--min-battery", "4.5"], 1);
    assert!(err.contains("battery"), "{err}");
    steady(f, &uri, &["stop"], 0);
    let (out, _) = steady(f, &uri, &["info"], 0);
    assert!(out.contains("locked"), "{out}");
}

#[test]
fn another_board_is_named_and_nothing_is_written_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let Some(drone) = serve(f, &["--otp", "0;C21B"]) else { return };
    let before = fs::read(f.join("flash.img")).unwrap();
    let Some(elf) = image() else { return };
    let zip = elf.with_extension("zip");
    for args in [&["flash", zip.to_str().unwrap(), "--yes"][..], &["gains", "flash", "nominal", "--yes"]] {
        let (_, err) = steady(f, &drone.uri, args, 1);
        assert!(err.contains("Brushless") && err.contains("Nothing was written"), "{err}");
    }
    let (out, _) = steady(f, &drone.uri, &["info"], 0);
    assert!(out.contains("Brushless") && out.contains("not a Crazyflie 2.1"), "{out}");
    assert!(fs::read(f.join("flash.img")).unwrap() == before);
}

#[test]
fn radio_settings_are_shown_set_and_refused() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let Some(drone) = serve(f, &[]) else { return };
    let (out, _) = steady(f, &drone.uri, &["radio", "show"], 0);
    assert!(out.contains("radio://0/80/2M/E7E7E7E7E7"), "{out}");
    let set = ["radio", "set", "--channel", "60", "--rate", "1M", "--roll-trim", "-0.5", "--yes"];
    steady(f, &drone.uri, &set, 0);
    let (out, _) = steady(f, &drone.uri, &["radio", "show"], 0);
    assert!(out.contains("radio://0/60/1M/E7E7E7E7E7") && out.contains("roll -0.5"), "{out}");
    let (_, err) = steady(f, &drone.uri, &["radio", "set", "--channel", "126", "--yes"], 1);
    assert!(err.contains("channel 126") && err.contains("nothing was written"), "{err}");
    steady(f, &drone.uri, &["radio", "set", "--radio-address", "E7", "--yes"], 2);
    let (out, _) = steady(f, &drone.uri, &["info", "--json"], 0);
    assert_eq!(json(&out)["propellers"], "those of the 2.1+");
}

#[test]
fn check_motors_names_the_motor_that_shakes() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let Some(drone) = serve(f, &["--world", "paper", "--fault", "0:unbalanced=4"]) else { return };
    let (_, err) = steady(f, &drone.uri, &["check-motors"], 1);
    assert!(err.contains("--yes"), "{err}");
    let (out, err) = steady(f, &drone.uri, &["check-motors", "--yes"], 1);
    let shaky: Vec<&str> = out.lines().filter(|line| line.contains("shakes")).collect();
    assert!(shaky.len() == 1 && shaky[0].starts_with("M4"), "{out}");
    assert!(err.contains("do not fly"), "{err}");
}

#[test]
fn a_bad_network_and_a_power_cut_end_well() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let trouble = ["--loss", "0.3", "--duplicates", "0.1", "--delay-ms", "3"];
    let Some(drone) = serve(f, &trouble) else { return };
    let (out, _) = steady(f, &drone.uri, &["gains", "flash", "nominal", "--yes", "--json"], 0);
    assert_eq!(json(&out)["sequence"], 1);
    drop(drone);
    // The first word of the page it writes is its last.
    let Some(drone) = serve(f, &["--fault", "0.1:cut-at-word=3"]) else { return };
    let (_, err) = steady(f, &drone.uri, &["gains", "flash", "nominal", "--yes"], 3);
    assert!(err.contains("flies table 1"), "{err}");
    let (out, _) = steady(f, &drone.uri, &["gains", "flash", "nominal", "--yes", "--json"], 0);
    assert_eq!(
        (&json(&out)["sequence"], &json(&out)["page"]),
        (&2.into(), &2.into()),
        "the torn page is left out"
    );
}

#[test]
fn nobody_there_is_3_and_wrong_addresses_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (_, err) = steady(f, &format!("udp://{free}"), &["info"], 3);
    assert!(err.contains("no answer") && err.contains("steady scan"), "{err}");
    let (_, err) = steady(f, "tcp://1", &["info"], 2);
    assert!(err.contains("radio://0/80/2M"), "{err}");
    if cfg!(feature = "radio") && !Path::new("/dev/bus/usb").exists() {
        let (_, err) = steady(f, "radio://0/80/2M", &["info"], 3);
        assert!(err.contains("Crazyradio"), "{err}");
    }
    steady(f, "udp://127.0.0.1:1", &["gains", "try"], 2);
    assert!(!f.join("tables").exists());
}
