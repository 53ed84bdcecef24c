//! Files of people: gain tables as TOML, charts as SVG and PNG.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use steady_data::gains_file;
use steady_data::plot::space::{PathInSpace, Space};
use steady_data::plot::{Chart, Series};

fn nominal_text() -> String {
    gains_file::to_toml(&gains_file::load("nominal").unwrap())
}

#[test]
fn toml_survives_the_round_trip() {
    let mut table = gains_file::load("nominal").unwrap();
    table.gains.rate.d.z *= 1.2345;
    table.source = 0xFEDC_BA98_7654_3210;
    table.sequence = 77;
    assert_eq!(gains_file::from_toml(&gains_file::to_toml(&table), "t").unwrap(), table);
}

#[test]
fn every_mistake_names_file_and_field() {
    let text = nominal_text();
    for (from, to, words) in [
        ("position.p.xy = 0.4", "position.p.xy = 40", &["position.p.xy = 40", "[0.05, 3.2]"][..]),
        (
            "position.p.xy = 0.4",
            "position.p.yx = 0.4",
            &["gains.position.p.yx", "did you mean `gains.position.p.xy`"],
        ),
        ("position.p.xy = 0.4", "", &["gains.position.p.xy", "missing"]),
        ("mass_kg = 0.027", "mass_kg = \"heavy\"", &["mass_kg", "number"]),
        ("mass_kg = 0.027", "mass_kg = 0.5", &["mass_kg = 0.5", "0.06"]),
        ("mass_kg = 0.027", "mass_kg = ", &["line 5"]),
        ("sequence = 1", "sequence = 0", &["sequence number 0"]),
        ("law_version = 1", "law_version = 9", &["law version 9"]),
        ("rate.z = 1", "rate.z = -1", &["integral limit 7 = -1"]),
        (
            "[integral_limits]",
            "[integral_limits]\nrate.yaw = 1",
            &["integral_limits.rate.yaw", "did you mean"],
        ),
    ] {
        assert!(text.contains(from), "{from}");
        let error = gains_file::from_toml(&text.replacen(from, to, 1), "my.toml").unwrap_err().to_string();
        assert!(error.starts_with("my.toml: "), "{error}");
        for word in words {
            assert!(error.contains(word), "{error} lacks {word}");
        }
    }
}

#[test]
fn nan_and_infinity_are_refused() {
    for bad in ["nan", "inf", "-inf"] {
        let text = nominal_text().replacen("position.p.xy = 0.4", &format!("position.p.xy = {bad}"), 1);
        assert!(gains_file::from_toml(&text, "t").is_err());
    }
}

#[test]
fn charts_are_drawn_with_their_text() {
    let folder = tempfile::tempdir().unwrap();
    let line = Series {
        name: "measured".to_owned(),
        points: vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN)],
        band: vec![(0.5, 1.5), (1.5, 2.5), (0.0, 1.0)],
        ..Series::default()
    };
    let chart = Chart { title: "A title".to_owned(), series: vec![line], ..Chart::default() };
    let [svg, png] = chart.save(&folder.path().join("chart")).unwrap();
    let text = std::fs::read_to_string(svg).unwrap();
    assert!(text.contains("A title") && text.contains("measured"));
    assert_eq!(&std::fs::read(png).unwrap()[1..4], b"PNG");
}

#[test]
fn an_empty_chart_is_drawn_too() {
    let folder = tempfile::tempdir().unwrap();
    Chart { equal_axes: true, ..Chart::default() }.save(&folder.path().join("empty")).unwrap();
}

#[test]
fn paths_in_space_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let points = (0..50).map(|i| 0.1 * f64::from(i)).map(|t| [t.cos(), t.sin(), 0.1 * t]).collect();
    let path = PathInSpace { name: "flown".to_owned(), points, is_reference: false };
    let space = Space { title: "A helix".to_owned(), paths: vec![path] };
    let [svg, png] = space.save(&folder.path().join("helix")).unwrap();
    let text = std::fs::read_to_string(svg).unwrap();
    assert!(text.contains("A helix") && text.contains("flown"));
    assert_eq!(&std::fs::read(png).unwrap()[1..4], b"PNG");
    Space::default().save(&folder.path().join("empty")).unwrap();
}
