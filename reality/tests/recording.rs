//! Recorded flights are read, and bad ones are refused by name.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::io::Write;
use std::path::PathBuf;

use steady_reality::{Flight, Recording};

const HEADING: &str = "time_s,vicon_x_m,vicon_y_m,vicon_z_m,vicon_qw,vicon_qx,vicon_qy,vicon_qz,vicon_vx_m_s,vicon_vy_m_s,\
    vicon_vz_m_s,gyro_x_rad_s,gyro_y_rad_s,gyro_z_rad_s,acc_x_m_s2,acc_y_m_s2,acc_z_m_s2,m1_pwm,m2_pwm,m3_pwm,m4_pwm,vbat_v";

/// A drone that hovers at a metre for six seconds.
fn rows() -> Vec<String> {
    let row = |i: i32| {
        let time_s = 0.01 * f64::from(i);
        format!("{time_s:.3},0,0,1,1,0,0,0,0,0,0,0,0,0,0,0,9.81,40000,40000,40000,40000,3.7")
    };
    (0..600).map(row).collect()
}

fn written(heading: &str, rows: &[String]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hover.csv");
    std::fs::write(&path, format!("{heading}\n{}\n", rows.join("\n"))).unwrap();
    (folder, path)
}

fn error(heading: &str, rows: &[String]) -> String {
    let (_folder, path) = written(heading, rows);
    Recording::open(&path).unwrap_err().to_string()
}

#[test]
fn plain_and_gzipped_files_are_the_same_flight() {
    let (folder, path) = written(HEADING, &rows());
    let plain = Recording::open(&path).unwrap();
    let gz = folder.path().join("hover.csv.gz");
    let mut encoder = flate2::write::GzEncoder::new(std::fs::File::create(&gz).unwrap(), Default::default());
    encoder.write_all(&std::fs::read(&path).unwrap()).unwrap();
    encoder.finish().unwrap();
    let gzipped = Recording::open(&gz).unwrap();
    assert_eq!(plain.name, "hover");
    assert_eq!(plain.name, gzipped.name);
    assert_eq!(plain.pieces, gzipped.pieces);
    let [flight] = &Flight::all(&plain).unwrap()[..] else { panic!("one flight") };
    assert!((flight.duration_s() - 5.98).abs() < 0.03, "{}", flight.duration_s());
    assert!((flight.samples[100].state.position.z - 1.0).abs() < 1e-6);
}

#[test]
fn a_torn_gzipped_file_is_an_error() {
    let (folder, path) = written(HEADING, &rows());
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
    encoder.write_all(&std::fs::read(path).unwrap()).unwrap();
    let whole = encoder.finish().unwrap();
    let torn = folder.path().join("torn.csv.gz");
    std::fs::write(&torn, &whole[..whole.len() / 2]).unwrap();
    let message = Recording::open(&torn).unwrap_err().to_string();
    assert!(message.contains("torn.csv.gz"), "{message}");
}

#[test]
fn what_is_wrong_is_named_with_row_and_column() {
    let missing = HEADING.replace("gyro_y_rad_s", "gyroy_rad_s");
    let message = error(&missing, &rows());
    assert!(message.contains("no column `gyro_y_rad_s`") && message.contains("gyroy_rad_s"), "{message}");

    let mut text = rows();
    text[41] = text[41].replace("9.81", "n/a");
    assert!(error(HEADING, &text).ends_with("row 42, column acc_z_m_s2: `n/a` is not a number"));

    let mut backwards = rows();
    backwards[9] = backwards[9].replacen("0.090", "0.040", 1);
    let message = error(HEADING, &backwards);
    assert!(message.contains("row 10, column time_s") && message.contains("backwards"), "{message}");

    let mut short = rows();
    short[3] = "0.03,1".to_owned();
    assert!(error(HEADING, &short).contains("not a CSV table"));

    let (_folder, path) = written(HEADING, &rows()[..200]);
    let message = Flight::all(&Recording::open(&path).unwrap()).unwrap_err().to_string();
    assert!(message.contains("200 rows in 1 pieces"), "{message}");
}

#[test]
fn implausible_rows_and_gaps_cut_a_flight() {
    let mut bad = rows();
    for row in &mut bad[450..460] {
        *row = row.replace("40000,3.7", "3700000,3.7");
    }
    let (_folder, path) = written(HEADING, &bad);
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.pieces.iter().map(Vec::len).collect::<Vec<_>>(), [450, 140]);
    assert_eq!(recording.refused, 10);
    let first = recording.first_refused.as_deref().unwrap();
    assert_eq!(first, "row 451, column m4_pwm: 3700000 is not from 0 to 65535");
    // The second piece is too short.
    assert_eq!(Flight::all(&recording).unwrap().len(), 1);

    let mut nan = rows();
    nan[5] = nan[5].replace("3.7", "NaN");
    let (_folder, path) = written(HEADING, &nan);
    assert_eq!(Recording::open(&path).unwrap().refused, 1);

    let mut late = rows();
    late.drain(300..320);
    let (_folder, path) = written(HEADING, &late);
    assert_eq!(Recording::open(&path).unwrap().pieces.len(), 2);
}

#[test]
fn real_flights_are_read_whole() {
    let Some(folder) = steady_test_support::recording("real-flights") else { return };
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "gz") {
            continue;
        }
        let recording = Recording::open(&path).unwrap();
        assert_eq!((recording.pieces.len(), recording.refused), (1, 0), "{}", recording.name);
        let [flight] = &Flight::all(&recording).unwrap()[..] else { panic!("one flight") };
        // Motion capture's object is 0.3 to 2.2 degrees off.
        let mount_deg = flight.mount_rad.norm().to_degrees();
        assert!((0.2..3.5).contains(&mount_deg), "{}: {mount_deg}", flight.name);
        // The attitude is right when the specific force is along it: drag is all that is left in body x.
        let mut sum = 0.0;
        for i in (flight.take_off + 100)..(flight.landing - 150) {
            sum += flight.specific_force(i).0.x;
        }
        let mean = sum / (flight.landing - flight.take_off - 250) as f32;
        assert!(mean.abs() < 0.2, "{}: {mean}", flight.name);
        count += 1;
    }
    assert_eq!(count, 12);
}
