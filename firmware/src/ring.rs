//! The LED-ring deck: twelve coloured LEDs in a chain, and what they say.
//!
//! | `ring.effect` | shows |
//! |---|---|
//! | 0 | nothing |
//! | 7 | one colour, `ring.solidRed` … |
//! | 13 | a colour for each LED, from the ring's memory |
//! | 14 | one colour that fades to `ring.fadeColor` in `ring.fadeTime` |
//! | 17 | a show from the ring's second memory, once |
//! | others | the drone's state, as below |
//!
//! | ring | means |
//! |---|---|
//! | red, blinking | something stands against arming |
//! | green, breathing, as many LEDs as the battery is full | may be armed |
//! | green | armed |
//! | white | in the air |
//! | yellow, blinking | levelling out or descending by itself |
//! | violet, blinking | the guard has taken gains out of flight |
//! | red | crashed or locked |
//! | every second LED red, fast | the battery is low |
//! | first LED blue | a log is being written |

use micromath::F32;
use steady_common::supervisor::State;
use steady_common::{guard, math};

use crate::leds::{LOW_BATTERY_V, blink};
use crate::settings::RingSettings;
use crate::storage;
use crate::telemetry::Telemetry;

/// LEDs in the ring.
pub const LEDS: usize = 12;
/// Bits of one LED's colour.
const BITS: usize = 24;
/// Pulses that set the ring: a bit each, and one of no length that leaves the line low.
pub const PULSES: usize = LEDS * BITS + 1;
/// Period of a bit, counts of 84 MHz: 1.25 µs.
pub const BIT_PERIOD: u16 = 105;
/// High time of a 0 and of a 1, counts.
const ZERO: u16 = 29;
const ONE: u16 = 75;
/// Brightest light used, of 255: a ring of full white draws more current than the motors leave.
const BRIGHT: u8 = 40;

/// Highest number of an effect that clients may choose, as in the official firmware.
pub const LAST_EFFECT: u8 = 17;
/// What the ring starts with: the drone's state.
pub const DEFAULT_EFFECT: u8 = 6;
const OFF: u8 = 0;
const SOLID: u8 = 7;
const MEMORY: u8 = 13;
const FADE: u8 = 14;
const TIMINGS: u8 = 17;

/// A colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Colour {
    /// Red.
    pub red: u8,
    /// Green.
    pub green: u8,
    /// Blue.
    pub blue: u8,
}

impl Colour {
    /// Off.
    pub const BLACK: Self = Self::new(0, 0, 0);
    const RED: Self = Self::new(BRIGHT, 0, 0);
    const GREEN: Self = Self::new(0, BRIGHT, 0);
    const BLUE: Self = Self::new(0, 0, BRIGHT);
    const YELLOW: Self = Self::new(BRIGHT, BRIGHT / 2, 0);
    const VIOLET: Self = Self::new(BRIGHT, 0, BRIGHT);
    const WHITE: Self = Self::new(BRIGHT / 2, BRIGHT / 2, BRIGHT / 2);

    const fn new(red: u8, green: u8, blue: u8) -> Self {
        Self { red, green, blue }
    }

    /// A part of the light.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
    fn dimmed(self, part: f32) -> Self {
        let dim = |light: u8| (f32::from(light) * part + 0.5) as u8;
        Self::new(dim(self.red), dim(self.green), dim(self.blue))
    }

    /// A part of the way to another colour.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two bytes")]
    fn towards(self, to: Self, part: f32) -> Self {
        let mix = |from: u8, to: u8| (f32::from(from) + part * (f32::from(to) - f32::from(from)) + 0.5) as u8;
        Self::new(mix(self.red, to.red), mix(self.green, to.green), mix(self.blue, to.blue))
    }

    /// From 5 bits of red, 6 of green and 5 of blue, high byte first; full stays full.
    fn from_565(high: u8, low: u8) -> Self {
        let (red, green) = (u16::from(high >> 3), u16::from(high & 7) << 3 | u16::from(low >> 5));
        let blue = u16::from(low & 0x1F);
        let five = |part: u16| ((part * 255 + 15) / 31) as u8;
        let six = |part: u16| ((part * 255 + 31) / 63) as u8;
        Self::new(five(red), six(green), five(blue))
    }

    /// As the chain wants it: green, red, blue, highest bit first.
    fn bits(self) -> u32 {
        u32::from_be_bytes([0, self.green, self.red, self.blue])
    }
}

/// A memory of the ring that clients write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory<const SIZE: usize>([u8; SIZE]);

/// Steps of a show, the one that ends it included.
const STEPS: usize = 64;
/// Bytes of a step.
const STEP: usize = 4;
/// Unit of a step's length, ms.
const STEP_MS: u32 = 40;

/// A colour for each LED, two bytes each.
pub type ColourMemory = Memory<{ 2 * LEDS }>;
/// A show: steps of four bytes. Length in 40 ms; colour in two bytes; then the LED from 1 on, or 0 for all
/// (bits 0 to 3), whether the colour comes slowly (bit 4), and seconds for a turn of the ring, or 0 (bits 5 to 7).
/// A step of no length and no colour ends it.
pub type TimingMemory = Memory<{ STEPS * STEP }>;

/// Both memories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedMemory {
    /// Colours of the LEDs.
    pub colours: ColourMemory,
    /// The show.
    pub timings: TimingMemory,
}

impl<const SIZE: usize> Default for Memory<SIZE> {
    fn default() -> Self {
        Self([0; SIZE])
    }
}

impl<const SIZE: usize> Memory<SIZE> {
    /// Bytes it has.
    pub const SIZE: usize = SIZE;

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Writes bytes; false when they do not fit.
    pub fn write(&mut self, address: u32, bytes: &[u8]) -> bool {
        let start = usize::try_from(address).unwrap_or(usize::MAX);
        let room = start.checked_add(bytes.len()).and_then(|end| self.0.get_mut(start..end));
        room.map(|room| room.copy_from_slice(bytes)).is_some()
    }
}

impl ColourMemory {
    fn colours(&self) -> [Colour; LEDS] {
        let mut colours = [Colour::BLACK; LEDS];
        for (colour, [high, low]) in colours.iter_mut().zip(self.0.as_chunks().0) {
            *colour = Colour::from_565(*high, *low);
        }
        colours
    }
}

impl TimingMemory {
    /// The show at a time after its beginning; at its end it stands still.
    fn picture(&self, mut left_ms: u32) -> [Colour; LEDS] {
        let (mut leds, mut turns) = ([Colour::BLACK; LEDS], 0.0);
        for [length, high, low, how] in self.0.as_chunks::<STEP>().0 {
            if (*length, *high, *low) == (0, 0, 0) {
                break;
            }
            let length_ms = STEP_MS * u32::from(*length);
            let (is_last, passed_ms) = (left_ms <= length_ms, left_ms.min(length_ms));
            let (which, is_slow, turn_s) = (usize::from(how & 0xF), how & 0x10 != 0, how >> 5);
            let part =
                if is_slow && is_last && length_ms > 0 { passed_ms as f32 / length_ms as f32 } else { 1.0 };
            if turn_s > 0 {
                turns += passed_ms as f32 / (1000.0 * f32::from(turn_s));
            }
            let colour = Colour::from_565(*high, *low);
            for (led, number) in leds.iter_mut().zip(1..) {
                if which == 0 || which == number {
                    *led = led.towards(colour, part);
                }
            }
            if is_last {
                break;
            }
            left_ms -= length_ms;
        }
        turned(&leds, turns)
    }
}

/// The picture turned round, between two LEDs too.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a show has at most 64 steps of 10 s"
)]
fn turned(leds: &[Colour; LEDS], turns: f32) -> [Colour; LEDS] {
    let whole = turns * LEDS as f32;
    let (shift, part) = (whole as usize, whole - (whole as usize) as f32);
    let at = |led: usize| leds.get(led % LEDS).copied().unwrap_or_default();
    core::array::from_fn(|led| {
        let from = led + LEDS - shift % LEDS;
        at(from).towards(at(from + LEDS - 1), part)
    })
}

/// Chooses what the ring shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lights {
    /// Where the fade comes from, where it goes to, and since when.
    from: Colour,
    to: Colour,
    since_ms: u32,
    /// When the show began.
    show_ms: Option<u32>,
}

impl Lights {
    /// The picture of a moment.
    pub fn picture(
        &mut self,
        now_ms: u32,
        settings: &RingSettings,
        memory: &LedMemory,
        telemetry: &Telemetry,
        card: storage::State,
    ) -> [Colour; LEDS] {
        if settings.effect != TIMINGS {
            self.show_ms = None;
        }
        match settings.effect {
            OFF => [Colour::BLACK; LEDS],
            SOLID => [settings.solid; LEDS],
            MEMORY => memory.colours.colours(),
            TIMINGS => {
                let began_ms = *self.show_ms.get_or_insert(now_ms);
                memory.timings.picture(now_ms.wrapping_sub(began_ms))
            }
            FADE => [self.fade(now_ms, settings); LEDS],
            _ => show(now_ms, telemetry, card),
        }
    }

    fn fade(&mut self, now_ms: u32, settings: &RingSettings) -> Colour {
        let [_, red, green, blue] = settings.fade_colour.to_be_bytes();
        let wanted = Colour::new(red, green, blue);
        let present = self.faded(now_ms, settings.fade_time_s);
        if wanted != self.to {
            (self.from, self.to, self.since_ms) = (present, wanted, now_ms);
            return present;
        }
        present
    }

    fn faded(&self, now_ms: u32, time_s: f32) -> Colour {
        let passed_s = now_ms.wrapping_sub(self.since_ms) as f32 * 1e-3;
        let part = if passed_s < time_s { passed_s / time_s } else { 1.0 };
        self.from.towards(self.to, part)
    }
}

/// The drone's state.
#[must_use]
pub fn show(now_ms: u32, telemetry: &Telemetry, card: storage::State) -> [Colour; LEDS] {
    let state = telemetry.supervisor;
    let blinking = |colour, period| if blink(now_ms, period) { colour } else { Colour::BLACK };
    let tripped = matches!(telemetry.guard, guard::Status::Tripped(_));
    let mut lit = LEDS;
    let colour = match state {
        State::Crashed | State::Locked | State::FreeFall => Colour::RED,
        State::LevelOut | State::Descending if tripped => blinking(Colour::VIOLET, 300),
        State::LevelOut | State::Descending => blinking(Colour::YELLOW, 300),
        State::Flying => Colour::WHITE,
        State::Arming | State::ReadyToFly | State::Landed => Colour::GREEN,
        State::PreFlightPassed => {
            lit = battery_leds(telemetry.battery_v);
            Colour::GREEN.dimmed(breath(now_ms))
        }
        State::NotInitialised | State::PreFlightFailed | State::Reset => blinking(Colour::RED, 500),
    };
    let low = telemetry.battery_v < LOW_BATTERY_V && blink(now_ms, 200);
    core::array::from_fn(|led| {
        if led == 0 && card == storage::State::Logging {
            Colour::BLUE
        } else if low && led % 2 == 1 {
            Colour::RED
        } else if led < lit {
            colour
        } else {
            Colour::BLACK
        }
    })
}

/// Period of a breath, ms.
const BREATH_MS: u32 = 2000;

/// Brightness that comes and goes, never quite to nothing. Roughly a sine: eyes do not see the last bits.
fn breath(now_ms: u32) -> f32 {
    let phase = (now_ms % BREATH_MS) as f32 / BREATH_MS as f32;
    0.6 + 0.4 * F32(phase * core::f32::consts::TAU).sin().0
}

/// As many LEDs as the battery is full, one at least.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded by the clamp")]
fn battery_leds(volts: f32) -> usize {
    math::clamp((volts - 3.5) * (LEDS as f32 / 0.7) + 0.5, 1.0, LEDS as f32) as usize
}

/// The lengths of the [`PULSES`] that set the ring, in counts.
pub fn pulses(colours: &[Colour; LEDS]) -> impl Iterator<Item = u16> {
    let bits = colours.iter().flat_map(|colour| {
        let word = colour.bits();
        (0..BITS).rev().map(move |bit| if word >> bit & 1 == 1 { ONE } else { ZERO })
    });
    bits.chain(core::iter::once(0))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn colours_go_out_green_first_and_highest_bit_first() {
        let mut colours = [Colour::BLACK; LEDS];
        colours[0] = Colour::new(0b1000_0000, 0b0000_0001, 0b1010_0000);
        let out: Vec<u16> = pulses(&colours).collect();
        assert_eq!(out.len(), PULSES);
        let bits: Vec<u8> = out[..BITS].iter().map(|p| u8::from(*p == ONE)).collect();
        assert_eq!(bits, [0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0]);
        assert!(out[BITS..LEDS * BITS].iter().all(|p| *p == ZERO));
        assert_eq!(out[LEDS * BITS], 0, "the line stays low");
    }

    fn seen(state: State, change: fn(&mut Telemetry), card: storage::State) -> BTreeSet<[u8; 3]> {
        let mut telemetry = Telemetry { supervisor: state, battery_v: 4.2, ..Telemetry::default() };
        change(&mut telemetry);
        let all = (0..2000).flat_map(|now| show(now, &telemetry, card));
        all.filter(|c| *c != Colour::BLACK).map(|c| [c.red, c.green, c.blue]).collect()
    }

    #[test]
    fn a_breath_is_nearly_a_sine_and_never_dark() {
        for now in 0..2 * BREATH_MS {
            let sine = 0.6 + 0.4 * (f64::from(now) * std::f64::consts::TAU / f64::from(BREATH_MS)).sin();
            let breath = breath(now);
            assert!((f64::from(breath) - sine).abs() < 0.01 && breath > 0.15, "{now} ms: {breath}");
        }
    }

    /// What micromath computes differs from machine to machine and from the control law's own functions.
    #[test]
    fn rough_mathematics_is_for_lights_alone() {
        fn look(folder: &std::path::Path, found: &mut Vec<std::string::String>) {
            for entry in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
                if entry.is_dir() {
                    look(&entry, found);
                } else if std::fs::read_to_string(&entry).unwrap().contains("micromath") {
                    found.push(entry.file_name().unwrap().to_string_lossy().into_owned());
                }
            }
        }
        let package = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut found = Vec::new();
        for folder in ["src", "../common/src", "../native/src", "../sim/src"] {
            look(&package.join(folder), &mut found);
        }
        assert_eq!(found, ["ring.rs"]);
    }

    #[test]
    fn every_state_has_its_colour_and_none_is_bright() {
        let ready = storage::State::Ready;
        let mut colours = Vec::new();
        for state in State::ALL {
            let seen = seen(state, |_| (), ready);
            let breathes = state == State::PreFlightPassed;
            assert_eq!(seen.len() > 1, breathes, "{}", state.name());
            let colour = *seen.last().unwrap();
            let hue = |c: &[u8; 3]| c.map(|part| part > 0);
            assert!(seen.iter().all(|c| hue(c) == hue(&colour)), "{}", state.name());
            assert!(colour.iter().all(|part| *part <= BRIGHT));
            colours.push((state, colour));
        }
        let of = |state| colours.iter().find(|(s, _)| *s == state).unwrap().1;
        assert_ne!(of(State::Flying), of(State::ReadyToFly));
        assert_ne!(of(State::Flying), of(State::Descending));
        assert_ne!(of(State::Crashed), of(State::PreFlightPassed));
        let tripped: fn(&mut Telemetry) = |t| t.guard = guard::Status::Tripped(guard::Trip::Tilt);
        assert_ne!(seen(State::Descending, tripped, ready), seen(State::Descending, |_| (), ready));
    }

    #[test]
    fn colours_come_from_parameters_and_from_the_memory() {
        let mut settings = crate::settings::Settings::new().ring;
        let (mut lights, mut memory) = (Lights::default(), LedMemory::default());
        let telemetry = Telemetry { battery_v: 4.0, ..Telemetry::default() };
        let mut at = |now_ms, settings: &RingSettings, memory: &LedMemory| {
            lights.picture(now_ms, settings, memory, &telemetry, storage::State::Ready)
        };
        assert_eq!(at(0, &settings, &memory), show(0, &telemetry, storage::State::Ready), "its state");
        (settings.effect, settings.solid) = (SOLID, Colour::new(1, 200, 3));
        assert_eq!(at(0, &settings, &memory), [Colour::new(1, 200, 3); LEDS]);
        settings.effect = MEMORY;
        assert!(
            memory.colours.write(2, &[0xF8, 0x00, 0x07, 0xE0]) && memory.colours.write(22, &[0x00, 0x1F])
        );
        assert!(!memory.colours.write(23, &[0, 0]) && !memory.colours.write(u32::MAX, &[0]), "outside");
        let picture = at(0, &settings, &memory);
        assert_eq!(picture[..3], [Colour::BLACK, Colour::new(255, 0, 0), Colour::new(0, 255, 0)]);
        assert_eq!(picture[11], Colour::new(0, 0, 255));
        (settings.effect, settings.fade_colour, settings.fade_time_s) = (FADE, 0x00C8_6400, 2.0);
        let mut fade = |now_ms, settings: &RingSettings| at(now_ms, settings, &memory)[0];
        assert_eq!(fade(1000, &settings), Colour::BLACK, "begins");
        assert_eq!(fade(2000, &settings), Colour::new(100, 50, 0), "half of the way");
        settings.fade_colour = 0;
        assert_eq!(fade(2000, &settings), Colour::new(100, 50, 0), "turns round without a jump");
        assert_eq!(fade(3000, &settings), Colour::new(50, 25, 0));
        assert_eq!(fade(9000, &settings), Colour::BLACK);
        settings.effect = OFF;
        assert_eq!(fade(9000, &settings), Colour::BLACK);
    }

    /// The bytes are those of cflib's `LEDTimingsDriverMemory`.
    #[test]
    fn a_show_plays_once_step_by_step() {
        let (red, green, dark) = (Colour::new(255, 0, 0), Colour::new(0, 255, 0), Colour::BLACK);
        let mut memory = LedMemory::default();
        let steps = [
            [25, 0xF8, 0x00, 0x00], // all red for a second
            [0, 0x07, 0xE0, 0x01],  // the first LED green, at once with the next
            [50, 0x07, 0xE0, 0x42], // the second too, for two seconds, one turn of the ring
            [25, 0x00, 0x00, 0x10], // all fade away in a second
            [0, 0, 0, 0],
            [25, 0xFF, 0xFF, 0x00], // behind the end
        ];
        assert!(memory.timings.write(0, &steps.concat()));
        assert!(!memory.timings.write(254, &[0; 3]), "outside");
        let settings = RingSettings { effect: TIMINGS, ..crate::settings::Settings::new().ring };
        let (mut lights, telemetry) = (Lights::default(), Telemetry::default());
        let mut at = |now_ms, settings: &RingSettings| {
            lights.picture(now_ms, settings, &memory, &telemetry, storage::State::Ready)
        };
        let began = 70_000;
        assert_eq!(at(began, &settings), [red; LEDS]);
        assert_eq!(at(began + 1000, &settings), [red; LEDS]);
        let two = |shift: usize| {
            let mut leds = [red; LEDS];
            (leds[shift % LEDS], leds[(shift + 1) % LEDS]) = (green, green);
            leds
        };
        assert_eq!(at(began + 1001, &settings)[1], green);
        assert_eq!(at(began + 1500, &settings), two(3), "a quarter of the turn");
        let between = at(began + 1500 + 2000 / 24, &settings);
        assert_eq!(
            (between[3].red, between[3].green),
            (127, 128),
            "half of the way from one LED to the next"
        );
        assert_eq!(between[4], green);
        assert_eq!(at(began + 3000, &settings), two(0), "round");
        assert_eq!(at(began + 3500, &settings)[5], Colour::new(128, 0, 0), "half faded");
        for now_ms in [began + 4000, began + 4001, began + 1_000_000] {
            assert_eq!(at(now_ms, &settings), [dark; LEDS]);
        }
        // Chosen again, it begins again.
        assert_eq!(at(began + 9000, &RingSettings { effect: OFF, ..settings }), [dark; LEDS]);
        assert_eq!(at(began + 9001, &settings), [red; LEDS]);
        // Whatever a client writes, there is a picture.
        memory.timings.0 = [0xFF; STEPS * STEP];
        for ms in [0, 1, 999, 700_000, u32::MAX] {
            memory.timings.picture(ms);
        }
    }

    #[test]
    fn battery_and_log_are_seen_in_every_state() {
        for state in State::ALL {
            let logging = seen(state, |_| (), storage::State::Logging);
            assert!(logging.contains(&[0, 0, BRIGHT]), "{}", state.name());
            let low = seen(state, |t| t.battery_v = 3.0, storage::State::Ready);
            assert!(low.contains(&[BRIGHT, 0, 0]), "{}", state.name());
        }
        let lit = |volts| {
            let telemetry =
                Telemetry { supervisor: State::PreFlightPassed, battery_v: volts, ..Telemetry::default() };
            let colours = show(0, &telemetry, storage::State::Ready);
            colours.iter().filter(|c| **c != Colour::BLACK).count()
        };
        assert_eq!([lit(4.2), lit(3.85), lit(3.5)], [12, 6, 1]);
    }
}
