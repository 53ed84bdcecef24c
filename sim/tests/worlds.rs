//! Worlds as files: what ships is valid, what is wrong is named.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use steady_sim::world::Integrator;
use steady_sim::{World, WorldError};
use toml::{Table, Value};

#[test]
fn every_shipped_world_is_valid_and_survives_the_round_trip() {
    assert_eq!(
        World::names().collect::<Vec<_>>(),
        [
            "nominal",
            "deck",
            "defective-motor",
            "paper",
            "real",
            "gym",
            "wind",
            "gusts",
            "jets",
            "delay",
            "fading-motor",
            "low-battery",
            "payload",
            "thrust-curve"
        ]
    );
    for name in World::names() {
        let world = World::named(name).unwrap();
        assert_eq!(world.name, name);
        assert!(!world.summary.is_empty());
        let whole = World { base: "nominal".to_owned(), ..world };
        assert_eq!(World::from_toml(&whole.to_toml(), "again").unwrap(), whole);
        whole.compile().unwrap();
    }
}

#[test]
fn the_shipped_worlds_are_what_they_say() {
    let nominal = World::named("nominal").unwrap();
    assert_eq!(World { summary: String::new(), ..nominal.clone() }, World::default());
    let hover = nominal.compile().unwrap().hover_rpm();
    assert!((hover - 14_468.43).abs() < 0.1, "{hover}");
    assert!((World::named("deck").unwrap().body.mass_kg - nominal.body.mass_kg - 0.007).abs() < 1e-6);
    let paper = World::named("paper").unwrap();
    for name in ["wind", "gusts", "jets", "delay", "fading-motor", "low-battery", "payload", "thrust-curve"] {
        let outside = World::named(name).unwrap();
        assert_eq!((&outside.imu, outside.motors.effectiveness), (&paper.imu, paper.motors.effectiveness));
        assert!(outside.provenance.starts_with("assumed: "), "{name}");
    }
    assert_eq!(
        World::named("gusts").unwrap().wind.velocity_m_s,
        World::named("wind").unwrap().wind.velocity_m_s
    );
    assert_eq!(paper.motors.effectiveness, World::named("defective-motor").unwrap().motors.effectiveness);
    assert_eq!(paper.body, World::named("deck").unwrap().body);
}

#[test]
fn a_file_states_differences_to_its_base() {
    let text = "name = \"mine\"\nbase = \"paper\"\n[physics]\nintegrator = \"rk4\"\n[radio]\nloss_probability = 0.5\n";
    let mine = World::from_toml(text, "mine").unwrap();
    let paper = World::named("paper").unwrap();
    assert_eq!((mine.body, mine.mocap), (paper.body, paper.mocap));
    assert_eq!((mine.physics.integrator, mine.radio.loss_probability), (Integrator::Rk4, 0.5));
    assert_eq!(mine.radio.latency_s, paper.radio.latency_s);
}

#[test]
fn worlds_load_by_name_or_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heavy.toml");
    std::fs::write(&path, "[body]\nmass_kg = 0.04\n").unwrap();
    assert_eq!(World::load(path.to_str().unwrap()).unwrap().body.mass_kg, 0.04);
    assert_eq!(World::load("deck").unwrap(), World::named("deck").unwrap());
    let missing = World::load("no/such.toml").unwrap_err();
    assert!(matches!(missing, WorldError::Read { .. }) && missing.to_string().contains("no/such.toml"));
    let misspelt = World::load("papper").unwrap_err().to_string();
    assert!(misspelt.contains("papper") && misspelt.contains("did you mean `paper`?"), "{misspelt}");
}

/// Text, and what its error must mention besides the file.
const WRONG: &[(&str, &[&str])] = &[
    ("[perception]\nsource = \"observer\"", &["w.toml:1", "`perception`", "the firmware's own estimator"]),
    ("perception.source = \"observer\"", &["w.toml:1", "`perception", "delete the section"]),
    ("[body]\nmas_kg = 1", &["w.toml:2", "`body.mas_kg`", "did you mean `body.mass_kg`?"]),
    ("[bodi]\nmass_kg = 1", &["w.toml:1", "`bodi`", "did you mean `body`?"]),
    ("mass_kg = 1", &["w.toml:1", "`mass_kg`", "did you mean `body.mass_kg`?"]),
    (
        "[motors]\n\nloss_probability = 0.1",
        &["w.toml:3", "`motors.loss_probability`", "`radio.loss_probability`"],
    ),
    ("mocap.noise_sdt_m = 0.1", &["w.toml:1", "`mocap.noise_sdt_m`", "`mocap.noise_std_m`"]),
    ("[radio]\nxyzzy = 1", &["w.toml:2", "`radio.xyzzy`"]),
    ("[body]\nmass_kg = 0", &["body.mass_kg = 0", "from 0.005 to 5"]),
    ("[body]\nmass_kg = -0.027", &["body.mass_kg = -0.027"]),
    ("[body]\nmass_kg = nan", &["body.mass_kg = NaN"]),
    ("[body]\nmass_kg = inf", &["body.mass_kg = inf"]),
    ("[body]\nmass_kg = 1e60", &["body.mass_kg"]),
    ("[body]\ninertia_kg_m2 = [1e-5, 1e-5, 9e-5]", &["body.inertia_kg_m2", "sum of the other two"]),
    ("[body]\ninertia_kg_m2 = [1e-5, -1e-5, 1e-5]", &["body.inertia_kg_m2[1] = -0.00001"]),
    ("[body]\ninertia_kg_m2 = [1e-5, 1e-5]", &["w.toml:2", "inertia_kg_m2"]),
    ("[body]\nmass_kg = \"heavy\"", &["w.toml:2", "[body] mass_kg", "invalid type"]),
    ("[motors]\ntau_rise_s = -0.1", &["motors.tau_rise_s = -0.1", "from 0 to 2"]),
    ("[motors]\neffectiveness = [1, 1, 1, -1]", &["motors.effectiveness[3] = -1"]),
    ("[radio]\nloss_probability = 1.5", &["radio.loss_probability = 1.5", "from 0 to 1"]),
    ("[mocap]\nrate_hz = 0", &["mocap.rate_hz = 0"]),
    ("[mocap]\nrate_hz = 500", &["mocap.rate_hz = 500", "at most physics.rate_hz = 240"]),
    ("[physics]\nrate_hz = -240", &["physics.rate_hz = -240"]),
    ("[physics]\nintegrator = \"rk5\"", &["w.toml:2", "rk5", "rk4"]),
    ("[battery]\nopen_circuit_v = [4,4,4,4,4,4,4,4,4,4,3]", &["battery.open_circuit_v", "rising"]),
    ("[[wind.jets]]\nradius_m = 0", &["wind.jets[0].radius_m = 0", "from 0.01 to 10"]),
    ("[[wind.jets]]\n[[wind.jets]]\nforce_n = [0, 6, 0]", &["wind.jets[1].force_n[1] = 6", "from -5 to 5"]),
    ("[[wind.jets]]\n[[wind.jets]]\n[[wind.jets]]", &["wind.jets = 3 of them", "at most 2"]),
    ("[[wind.jets]]\nraduis_m = 1", &["w.toml:2", "`wind.jets.raduis_m`", "`wind.jets.radius_m`"]),
    ("[wind]\nvelocity_m_s = [1, 0, 0]", &["wind.velocity_m_s = [1.0, 0.0, 0.0]", "without aero.rotor_drag"]),
    ("[wind]\ngust_std_m_s = 0.5", &["wind.gust_std_m_s = 0.5", "without aero.rotor_drag"]),
    ("base = \"paper\"\n[wind]\nvelocity_m_s = [0, 0, 21]", &["wind.velocity_m_s[2] = 21", "from -20 to 20"]),
    ("base = \"paper\"\n[wind]\ngust_tau_s = 0", &["wind.gust_tau_s = 0", "from 0.01 to 100"]),
    ("[motors]\nheat_loss = [0, 0, 0, 1]", &["motors.heat_loss[3] = 1", "from 0 to 0.9"]),
    ("[motors]\nheat_tau_s = 0", &["motors.heat_tau_s = 0", "from 0.1 to 1000"]),
    ("[motors]\nthrust_exponent = 0.4", &["motors.thrust_exponent = 0.4", "from 0.5 to 3"]),
    ("[body\nmass_kg = 1", &["w.toml:1"]),
    ("[body]\nmass_kg = ", &["w.toml:2", "mass_kg"]),
    ("[body]\nmass_kg = 1\nmass_kg = 1", &["w.toml:3", "duplicate"]),
    ("base = \"papr\"", &["papr", "did you mean `paper`?"]),
    ("body = 3", &["w.toml:1", "body = 3"]),
    ("base = \"deck\"\n[radio]\nloss_probability = 7", &["w.toml", "radio.loss_probability = 7"]),
];

#[test]
fn errors_name_the_file_the_field_and_the_fix() {
    for (text, needed) in WRONG {
        let error = World::from_toml(text, "w.toml").expect_err(text).to_string();
        for part in *needed {
            assert!(error.contains(part), "for\n{text}\nthe error\n{error}\ndoes not mention {part}");
        }
    }
}

#[test]
fn all_wrong_values_are_reported_at_once() {
    let text = "[body]\nmass_kg = 0\n[motors]\ntau_fall_s = -1\n";
    let error = World::from_toml(text, "w.toml").unwrap_err();
    assert!(matches!(&error, WorldError::Values { problems, .. } if problems.len() == 2), "{error}");
}

/// Calls `visit` with the path of every number in `value` and the whole with that number not a number;
/// `with` puts another value in this one's place.
fn spoil_every_number(
    value: &Value,
    path: &str,
    with: &dyn Fn(Value) -> Table,
    visit: &mut dyn FnMut(&str, &Table),
) {
    match value {
        Value::Float(_) => visit(path, &with(Value::Float(f64::NAN))),
        Value::Array(list) => {
            for (i, element) in list.iter().enumerate() {
                let put = |changed| {
                    let mut list = list.clone();
                    list[i] = changed;
                    with(Value::Array(list))
                };
                spoil_every_number(element, &format!("{path}[{i}]"), &put, visit);
            }
        }
        Value::Table(table) => {
            for (key, inner) in table {
                let put = |changed| {
                    let mut table = table.clone();
                    table.insert(key.clone(), changed);
                    with(Value::Table(table))
                };
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                spoil_every_number(inner, &path, &put, visit);
            }
        }
        _ => {}
    }
}

#[test]
fn no_number_of_a_world_escapes_the_check() {
    let whole: Table = toml::from_str(&World::named("jets").unwrap().to_toml()).unwrap();
    let mut seen = 0;
    let itself = |value: Value| value.as_table().unwrap().clone();
    spoil_every_number(&Value::Table(whole), "", &itself, &mut |path, spoilt| {
        let error = World::from_toml(&spoilt.to_string(), "w.toml").expect_err(path).to_string();
        assert!(error.contains(&format!("{path} = NaN")), "{path}: {error}");
        seen += 1;
    });
    assert!(seen > 100, "{seen}");
}

#[test]
fn sampled_worlds_are_valid_different_and_repeatable() {
    for seed in 0..1000 {
        let world = World::sample(seed);
        world.check().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(world, World::sample(seed));
        assert!(world.motors.effectiveness.iter().any(|e| *e < 1.0));
        assert!((0.027..=0.037).contains(&world.body.mass_kg));
        assert_ne!(world.body, World::sample(seed + 1).body);
        assert_eq!(World::from_toml(&world.to_toml(), "again").unwrap(), world);
    }
}

#[test]
fn outside_worlds_are_valid_different_and_repeatable() {
    let paper = World::named("paper").unwrap();
    let mut found = [0; 7];
    let mut on_paper = 0;
    for seed in 0..300 {
        let world = World::sample_outside(seed);
        world.check().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(world, World::load(&format!("outside-{seed}")).unwrap());
        assert_eq!((world.name.as_str(), world.base.as_str()), (&*format!("outside-{seed}"), "nominal"));
        assert_eq!(World::from_toml(&world.to_toml(), "again").unwrap(), world);
        let (w, m) = (&world.wind, &world.motors);
        let effects = [
            w.velocity_m_s != [0.0; 3],
            !w.jets.is_empty(),
            world.mocap.latency_s > 0.015,
            m.heat_loss != [0.0; 4],
            world.battery.initial_charge < 0.5,
            world.body.centre_of_mass_offset_m != [0.0; 2],
            m.thrust_exponent != 1.0,
        ];
        let count = effects.iter().filter(|is_there| **is_there).count();
        assert!((1..=2).contains(&count), "{}: {effects:?}", world.summary);
        assert_eq!(world.summary.matches(" and ").count(), count - 1, "{}", world.summary);
        found.iter_mut().zip(effects).for_each(|(n, is_there)| *n += usize::from(is_there));
        on_paper += usize::from(world.motors.effectiveness == paper.motors.effectiveness);
    }
    assert!(found.iter().all(|n| *n > 10), "{found:?}");
    assert!((100..200).contains(&on_paper), "{on_paper}");
}

#[test]
fn an_invalid_world_made_in_code_is_not_compiled() {
    let mut world = World::default();
    world.body.mass_kg = f32::NAN;
    assert!(world.compile().unwrap_err().to_string().contains("body.mass_kg"));
}
