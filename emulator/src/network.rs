//! A network in one direction that loses packets, doubles them, delays them and lets them overtake each
//! other, the same way for the same seed.

use steady_common::crtp::Packet;
use steady_sim::Rng;

/// Random stream of the first direction's troubles.
const NETWORK_STREAM: u64 = 3000;

/// How bad a network is; the default is none of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trouble {
    /// Part of the packets that are lost, 0 to 1.
    pub loss: f64,
    /// Part of the packets that arrive twice, 0 to 1.
    pub duplicates: f64,
    /// Mean delay of a packet, ms. Each has its own, up to ten times the mean, so that they overtake
    /// each other.
    pub delay_ms: f64,
}

/// Packets on their way.
#[derive(Debug)]
pub struct Network {
    trouble: Trouble,
    rng: Rng,
    /// Arrival times; in the order they were sent.
    on_the_way: Vec<(u64, Packet)>,
}

impl Network {
    /// A network; `direction` tells the two of a link apart.
    #[must_use]
    pub fn new(trouble: Trouble, seed: u64, direction: u64) -> Self {
        Self { trouble, rng: Rng::new(seed, NETWORK_STREAM + direction), on_the_way: Vec::new() }
    }

    /// A packet is sent.
    pub fn put(&mut self, now_us: u64, packet: Packet) {
        let Trouble { loss, duplicates, delay_ms } = self.trouble;
        let copies = if duplicates > 0.0 && self.rng.chance(duplicates as f32) { 2 } else { 1 };
        for _ in 0..copies {
            if loss > 0.0 && self.rng.chance(loss as f32) {
                continue;
            }
            let mut arrives = now_us;
            if delay_ms > 0.0 {
                let times = -(1.0 - f64::from(self.rng.uniform())).max(1e-9).ln();
                arrives += (1000.0 * delay_ms * times.min(10.0)) as u64;
            }
            self.on_the_way.push((arrives, packet));
        }
    }

    /// The next packet that has arrived.
    pub fn take(&mut self, now_us: u64) -> Option<Packet> {
        let next = (0..self.on_the_way.len())
            .filter(|i| self.on_the_way[*i].0 <= now_us)
            .min_by_key(|i| (self.on_the_way[*i].0, *i))?;
        Some(self.on_the_way.remove(next).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(n: u16) -> Packet {
        let [a, b] = n.to_le_bytes();
        Packet::from_bytes(&[0x20, a, b]).unwrap()
    }

    #[test]
    fn without_trouble_everything_arrives_at_once_in_order() {
        let mut network = Network::new(Trouble::default(), 1, 0);
        (0..10).for_each(|n| network.put(5, packet(n)));
        (0..10).for_each(|n| assert_eq!(network.take(5), Some(packet(n))));
        assert_eq!(network.take(1_000_000), None);
    }

    #[test]
    fn trouble_is_as_bad_as_it_was_asked_for_and_repeats() {
        let trouble = Trouble { loss: 0.3, duplicates: 0.1, delay_ms: 2.0 };
        let run = || {
            let mut network = Network::new(trouble, 7, 1);
            let mut arrived = Vec::new();
            for n in 0..2000 {
                network.put(1000 * u64::from(n), packet(n));
                while let Some(p) = network.take(1000 * u64::from(n)) {
                    arrived.push(u16::from_le_bytes([p.data()[0], p.data()[1]]));
                }
            }
            arrived
        };
        let arrived = run();
        assert_eq!(arrived, run());
        let share = arrived.len() as f64 / 2000.0;
        assert!((0.72..0.82).contains(&share), "0.7 times 1.1: {share}");
        assert!(arrived.windows(2).any(|w| w[0] > w[1]), "some overtake");
        assert!(arrived.windows(2).any(|w| w[0] == w[1]) || arrived.len() > 1400, "some come twice");
    }
}
