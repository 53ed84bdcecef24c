//! The `steady` command as a user meets it: exit codes, messages, and files left alone.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn steady(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_steady")).current_dir(folder).args(args).output().unwrap()
}

/// Runs, expects the exit code, and returns standard output and standard error.
fn expect(folder: &Path, args: &[&str], code: i32) -> (String, String) {
    let output = steady(folder, args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{out}\n{err}");
    (out, err)
}

#[test]
fn wrong_usage_is_2_and_says_how() {
    let folder = tempfile::tempdir().unwrap();
    for args in [
        &["no-such-verb"][..],
        &["gains", "show"],
        &["gains", "check"],
        &["gains", "pack", "nominal"],
        &["gains", "pack", "nominal", "-o", "x.bin", "--sequence", "0"],
        &["compare-controllers", "--seeds", "0"],
        &["world", "sample", "--seed", "many"],
    ] {
        let (_, err) = expect(folder.path(), args, 2);
        assert!(err.contains("Usage") || err.contains("--help"), "{args:?}: {err}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn paths_and_addresses_that_do_not_exist_are_2_and_said_once() {
    let folder = tempfile::tempdir().unwrap();
    for (args, words) in [
        (&["flash", "none.zip"][..], "none.zip: cannot be read"),
        (&["fly", "--elf", "none.elf"], "none.elf"),
        (&["info", "--uri", "udp://x"], "udp://x"),
        (&["report", "none"], "none: there is no such folder"),
        (&["report", "."], "holds no loop"),
        (&["log", "info", "none"], "none: cannot be read"),
        (&["gains", "show", "nominl"], "did you mean `nominal`"),
        (&["world", "show", "none.toml"], "none.toml"),
        (&["sweep", "none.toml"], "none.toml: cannot be read"),
        (&["sweep", "--cell", "none"], "not a cell"),
    ] {
        let (_, err) = expect(folder.path(), args, 2);
        assert!(err.contains(words), "{args:?}: {err}");
        assert!(err.matches("No such file").count() <= 1 && err.lines().count() == 1, "{args:?}: {err}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn every_verb_has_help() {
    let folder = tempfile::tempdir().unwrap();
    for args in [
        &["--help"][..],
        &["compare-controllers", "--help"],
        &["gains", "--help"],
        &["gains", "pack", "--help"],
        &["gains", "flash", "--help"],
        &["flash", "--help"],
        &["info", "--help"],
        &["param", "set", "--help"],
        &["scan", "--help"],
        &["world", "--help"],
        &["doctor", "--help"],
        &["sweep", "--help"],
    ] {
        let (out, _) = expect(folder.path(), args, 0);
        assert!(out.contains("Usage"), "{args:?}");
    }
}

#[test]
fn a_table_goes_to_the_drones_format_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    expect(f, &["gains", "unpack", "nominal", "-o", "a.toml"], 0);
    let text = fs::read_to_string(f.join("a.toml")).unwrap();
    fs::write(f.join("b.toml"), text.replace("rate.p.z = ", "rate.p.z = 0.2 # ")).unwrap();
    expect(f, &["gains", "pack", "b.toml", "-o", "b.bin", "--sequence", "9"], 0);
    assert_eq!(fs::metadata(f.join("b.bin")).unwrap().len(), 1024);
    let (out, _) = expect(f, &["gains", "show", "b.bin", "--json"], 0);
    let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["sequence"], 9);
    assert!((shown["gains"]["rate.p.z"].as_f64().unwrap() - 0.2).abs() < 1e-6);
    let (out, _) = expect(f, &["gains", "diff", "a.toml", "b.bin"], 0);
    assert!(out.lines().count() == 1 && out.contains("rate.p.z"), "{out}");
    let (out, _) = expect(f, &["gains", "check", "nominal", "a.toml", "b.bin"], 0);
    assert_eq!(out.matches("ok").count(), 3);
}

#[test]
fn nothing_is_overwritten_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    fs::write(f.join("mine"), "precious").unwrap();
    for args in [
        &["gains", "pack", "nominal", "-o", "mine"][..],
        &["gains", "unpack", "nominal", "-o", "mine"],
        &["world", "sample", "-o", "mine"],
    ] {
        let (_, err) = expect(f, args, 1);
        assert!(err.contains("mine") && err.contains("--force"), "{err}");
        assert_eq!(fs::read_to_string(f.join("mine")).unwrap(), "precious");
    }
    expect(f, &["gains", "pack", "nominal", "-o", "mine", "--force"], 0);
    assert_eq!(fs::metadata(f.join("mine")).unwrap().len(), 1024);
}

#[test]
fn bad_gains_are_refused_with_file_and_field() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    expect(f, &["gains", "unpack", "nominal", "-o", "good.toml"], 0);
    expect(f, &["gains", "pack", "nominal", "-o", "good.bin"], 0);
    let text = fs::read_to_string(f.join("good.toml")).unwrap();
    fs::write(f.join("wild.toml"), text.replace("attitude.p.xy = ", "attitude.p.xy = 1000 # ")).unwrap();
    fs::write(f.join("typo.toml"), text.replace("attitude.p.xy", "atitude.p.xy")).unwrap();
    fs::write(f.join("torn.toml"), &text[..text.len() / 2]).unwrap();
    let page = fs::read(f.join("good.bin")).unwrap();
    let mut flipped = page.clone();
    flipped[70] ^= 1;
    fs::write(f.join("flipped.bin"), flipped).unwrap();
    fs::write(f.join("short.bin"), &page[..500]).unwrap();
    fs::write(f.join("blank.bin"), [0xFF; 1024]).unwrap();

    for (file, code, words) in [
        ("wild.toml", 1, &["attitude.p.xy = 1000", "outside"][..]),
        ("typo.toml", 2, &["gains.atitude.p.xy", "did you mean `gains.attitude.p.xy`"]),
        ("torn.toml", 1, &[]),
        ("flipped.bin", 1, &["CRC", "offset 156"]),
        ("short.bin", 1, &["500 bytes"]),
        ("blank.bin", 1, &["blank"]),
        ("absent.toml", 2, &["cannot be read"]),
    ] {
        for args in [
            &["gains", "show", file][..],
            &["gains", "check", file],
            &["gains", "pack", file, "-o", "out.bin"],
            &["compare-controllers", "--gains", file, "-o", "out"],
        ] {
            let (_, err) = expect(f, args, if args[1] == "check" { 1 } else { code });
            assert!(err.contains(file), "{args:?}: {err}");
            assert!(words.iter().all(|w| err.contains(w)), "{args:?}: {err}");
        }
    }
    assert!(!f.join("out.bin").exists() && !f.join("out").exists());
}

#[test]
fn bad_worlds_are_refused_with_file_and_field() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    for (text, code, words) in [
        ("[body]\nmass_kg = -1\n", 1, &["body.mass_kg", "-1"][..]),
        ("[body]\nmas_kg = 0.03\n", 2, &["mas_kg", "mass_kg"]),
        ("[body\n", 1, &["w.toml:1:6"]),
        ("[mocap]\nrate_hz = nan\n", 1, &["mocap.rate_hz"]),
        ("[radio]\nloss_probability = 1.5\n", 1, &["radio.loss_probability"]),
        ("base = \"nowhere\"\n", 2, &["nowhere"]),
    ] {
        fs::write(f.join("w.toml"), text).unwrap();
        for args in [
            &["world", "check", "w.toml"][..],
            &["world", "show", "w.toml"],
            &["compare-controllers", "--worlds", "w.toml", "-o", "out"],
        ] {
            // A bad value of an option is a usage error.
            let code = match args {
                [_, "check", ..] => 1,
                ["compare-controllers", ..] => 2,
                _ => code,
            };
            let (_, err) = expect(f, args, code);
            assert!(err.contains("w.toml") || text.contains("base"), "{args:?}: {err}");
            assert!(words.iter().all(|w| err.contains(w)), "{args:?}: {err}");
        }
    }
    assert!(!f.join("out").exists());
}

#[test]
fn worlds_can_be_listed_shown_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let (out, _) = expect(f, &["world", "list"], 0);
    for name in ["nominal", "deck", "defective-motor", "paper", "wind", "fading-motor"] {
        assert!(out.contains(name));
    }
    let (shown, _) = expect(f, &["world", "show", "paper"], 0);
    fs::write(f.join("copy.toml"), &shown).unwrap();
    let (again, _) = expect(f, &["world", "show", "copy.toml"], 0);
    assert_eq!(shown, again);
    expect(f, &["world", "sample", "--seed", "3", "-o", "gap.toml"], 0);
    expect(f, &["world", "sample", "--outside", "--seed", "3", "-o", "outside.toml"], 0);
    let (sampled, _) = expect(f, &["world", "show", "outside-3"], 0);
    assert_eq!(fs::read_to_string(f.join("outside.toml")).unwrap(), sampled);
    expect(f, &["world", "sample", "--outside", "--measured"], 2);
    expect(f, &["world", "check", "gap.toml", "copy.toml", "outside.toml"], 0);
}

#[test]
fn controllers_are_compared_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let (out, _) = expect(f, &["compare-controllers", "--seeds", "1", "--worlds", "nominal", "--json"], 0);
    let rows: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 6);
    for row in rows.as_array().unwrap() {
        assert_eq!((&row["flights"], &row["failed"]), (&1.into(), &0.into()), "{row}");
    }
    for name in ["table.md", "table.json", "figure8-nominal.svg", "hover-nominal.png", "motors-nominal.svg"] {
        assert!(fs::metadata(f.join("controllers").join(name)).unwrap().len() > 500, "{name}");
    }
}

#[test]
fn a_wrong_name_is_2_with_the_nearest_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut cases = vec![
        (&["world", "show", "nominl"][..], "nominal"),
        (&["gains", "show", "nominl"], "nominal"),
        (&["compare-controllers", "--worlds", "papper"], "paper"),
        (&["trian"], "train"),
    ];
    if cfg!(feature = "train") {
        cases.extend([
            (&["train", "--preset", "smok"][..], "smoke"),
            (&["train", "--preset", "smoke", "--world", "papper"], "paper"),
            (&["train", "--preset", "smoke", "--set", "epsodes=3"], "episodes"),
            (&["train", "--preset", "smoke", "--set", "form=afine"], "affine"),
            (&["oracle", "--preset", "qick"], "quick"),
        ]);
    }
    for (args, nearest) in cases {
        let (_, err) = expect(folder.path(), args, 2);
        assert!(err.contains(nearest), "{args:?}: {err}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_path_that_does_not_exist_is_2_and_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut cases = vec![
        &["world", "show", "no/such.toml"][..],
        &["gains", "show", "no/such.toml"],
        &["gains", "show", "no/such.bin"],
        &["compare-controllers", "--gains", "no/such.toml"],
        &["sweep", "no/such.toml"],
        &["report", "no/such"],
        &["log", "info", "no/such"],
    ];
    if cfg!(feature = "train") {
        cases.extend([&["train", "--resume", "no/such"][..], &["train", "--world", "no/such.toml"]]);
    }
    for args in cases {
        let (_, err) = expect(folder.path(), args, 2);
        assert!(err.contains("no/such"), "{args:?}: {err}");
        assert!(err.to_lowercase().matches("no such file").count() <= 1, "{args:?}: {err}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Runs with standard output (and, if asked, standard error) a pipe that nobody reads any more.
fn into_a_closed_pipe(folder: &Path, args: &[&str], both: bool) -> (i32, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let stderr = if both { writer.try_clone().unwrap().into() } else { std::process::Stdio::piped() };
    let output = Command::new(env!("CARGO_BIN_EXE_steady"))
        .current_dir(folder)
        .args(args)
        .stdout(writer)
        .stderr(stderr)
        .output()
        .unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_reader_that_has_gone_ends_the_command_quietly() {
    let folder = tempfile::tempdir().unwrap();
    for args in [
        &["world", "list"][..],
        &["gains", "show", "nominal"],
        &["gains", "show", "nominal", "--json"],
        &["doctor"],
    ] {
        assert_eq!(into_a_closed_pipe(folder.path(), args, false), (141, String::new()), "{args:?}");
    }
    // Errors have their own status, also when nobody hears them.
    assert_eq!(into_a_closed_pipe(folder.path(), &["world", "show", "nowhere"], true).0, 2);
}

#[test]
fn a_full_disk_behind_standard_output_is_an_error() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_steady")).args(["world", "list"]).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("standard output") && !said.contains("panicked"), "{said}");
}

/// A training that nobody listens to any more saves and ends after its round, as after Ctrl-C.
#[cfg(feature = "train")]
#[test]
fn a_training_whose_reader_has_gone_saves_first() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let args =
        ["train", "--preset", "smoke", "--set", "rounds=50", "--set", "evaluate_every=1", "--out", "run"];
    let (code, said) = into_a_closed_pipe(f, &args, false);
    assert_eq!(code, 130, "{said}");
    assert!(said.contains("--resume") && !said.contains("panicked"), "{said}");
    let rounds = fs::read_to_string(f.join("run/metrics.csv")).unwrap().lines().count() - 1;
    assert!((1..50).contains(&rounds), "{rounds}");
    assert!(fs::read_dir(f.join("run/checkpoints")).unwrap().next().is_some());
}
