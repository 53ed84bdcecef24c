//! The same seed gives the same bits, whatever the number of threads and the order of stepping.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]
#![allow(clippy::disallowed_methods, reason = "statistics, not simulation")]

use steady_common::Vec3;
use steady_sim::initial::Spread;
use steady_sim::{Drone, Fleet, InitialDistribution, Rng, World};

/// A command that depends on the drone's state, so that a single different bit spreads.
fn command(drone: &Drone, step: usize) -> [f32; 4] {
    let s = drone.truth();
    let lift = 0.6 + 0.5 * (1.0 - s.position.z) - 0.2 * s.velocity.z;
    let wobble = if step % 7 < 3 { 0.01 } else { -0.01 };
    [lift - 0.02 * s.rates.x, lift + wobble, lift + 0.02 * s.rates.x, lift - wobble]
}

fn rollout(world: &World, threads: usize, seed: u64) -> Fleet {
    let mut fleet = Fleet::new(world, 101, seed).unwrap();
    fleet.reset(&InitialDistribution::Wide(Spread::default()), Vec3::Z);
    fleet.run(threads, 300, command);
    fleet
}

#[test]
fn threads_do_not_change_a_bit() {
    let named = ["nominal", "paper", "gusts", "fading-motor"].map(|name| World::named(name).unwrap());
    for world in named.into_iter().chain([World::sample(5)]) {
        let one = rollout(&world, 1, 42);
        for threads in [2, 3, 200] {
            assert_eq!(one.drones(), rollout(&world, threads, 42).drones(), "{} {threads}", world.name);
        }
        assert_ne!(one.drones(), rollout(&world, 1, 43).drones());
    }
}

#[test]
fn stepping_together_equals_running_and_flying_alone() {
    for name in ["paper", "gusts", "jets", "fading-motor"] {
        stepping_together_equals_alone(&World::named(name).unwrap());
    }
}

fn stepping_together_equals_alone(world: &World) {
    let run = rollout(world, 2, 9);

    let mut stepped = Fleet::new(world, 101, 9).unwrap();
    stepped.reset(&InitialDistribution::Wide(Spread::default()), Vec3::Z);
    for step in 0..300 {
        let commands: Vec<_> = stepped.drones().iter().map(|d| command(d, step)).collect();
        stepped.step(&commands);
    }
    assert_eq!(run.drones(), stepped.drones());

    let params = world.compile().unwrap();
    let mut alone = Drone::new(&params, 9, 77);
    let start = InitialDistribution::Wide(Spread::default()).sample(&params, Vec3::Z, alone.rng());
    alone.reset(&params, &start);
    for step in 0..300 {
        let command = command(&alone, step);
        alone.step(&params, command);
    }
    assert_eq!(&run.drones()[77], &alone);
}

#[test]
fn something_beside_every_drone_goes_with_it() {
    let mut fleet = Fleet::new(&World::default(), 70, 1).unwrap();
    let mut counts = vec![0_usize; 70];
    fleet.run_with(3, 25, &mut counts, |count, drone, step| {
        assert_eq!((*count, drone.steps()), (step, step as u64));
        *count += 1;
        [0.0; 4]
    });
    assert!(counts.iter().all(|c| *c == 25));
}

/// A fingerprint of many steps: it changes when a machine, a compiler or an edit changes a bit.
#[test]
fn the_bits_are_those_of_every_other_machine() {
    let fingerprint = |name: &str| {
        let fleet = rollout(&World::named(name).unwrap(), 2, 1);
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for drone in fleet.drones() {
            let (p, q) = (drone.truth().position, drone.truth().velocity);
            for bits in [p.x, p.y, p.z, q.x, q.y, q.z].map(f32::to_bits) {
                hash = (hash ^ u64::from(bits)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        hash
    };
    assert_eq!(fingerprint("gym"), 0x605d_93f4_6ac1_68f8);
    assert_eq!(fingerprint("paper"), 0x82f9_90ae_6a54_9e0a);
    assert_eq!(fingerprint("gusts"), 0x3a1b_3127_f566_c3b4);
}

#[test]
fn a_saved_generator_resumes_exactly() {
    let params = World::named("paper").unwrap().compile().unwrap();
    let mut drone = Drone::new(&params, 3, 4);
    (0..100).for_each(|_| drone.step(&params, [0.7; 4]));
    let saved = drone.rng().state();
    let mut twin = drone.clone();
    *twin.rng() = Rng::from_state(saved);
    for _ in 0..100 {
        drone.step(&params, [0.6; 4]);
        twin.step(&params, [0.6; 4]);
    }
    assert_eq!(drone, twin);
}

#[test]
fn initial_states_have_the_stated_spread() {
    let params = World::default().compile().unwrap();
    let mut rng = Rng::new(1, 1);
    let goal = Vec3::new(0.0, 0.0, 1.0);
    let n = 5000;
    let (mut offsets, mut rolls) = (0.0, 0.0);
    for _ in 0..n {
        let start = InitialDistribution::Paper.sample(&params, goal, &mut rng);
        offsets += (start.state.position.x - goal.x).powi(2);
        rolls += start.state.attitude.to_euler().x.powi(2);
        assert_eq!((start.state.velocity, start.state.rates), (Vec3::ZERO, Vec3::ZERO));
    }
    assert!(((offsets / n as f32).sqrt() - 0.02).abs() < 1e-3);
    assert!(((rolls / n as f32).sqrt().to_degrees() - 5.0).abs() < 0.3);
    let spread = Spread { position_m: 2.0, ..Spread::default() };
    for _ in 0..n {
        let start = InitialDistribution::Wide(spread).sample(&params, goal, &mut rng);
        assert!(start.state.is_finite() && start.state.position.z > 0.06);
        assert!(start.rpm.iter().all(|r| (r / params.hover_rpm() - 1.0).abs() <= 0.2001));
    }
}
