//! Faults as input: what goes wrong, and when.
//!
//! Written `TIME:KIND` or `TIME:KIND=VALUE`, with the time in seconds since power-on:
//! `6.5:motor-dies=1`, `8:mocap-lost`, `8.3:mocap-back`, `5:card-slow=80`.

use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use steady_sim::suggest::did_you_mean;

use crate::board::{Board, Stop, TICKS_PER_MS};
use crate::chip::rcc::ResetCause;
use crate::cortex::map;
use crate::cortex::unicorn::Memory;
use crate::scene::Scene;

/// How far a propeller that has lost a piece is out of balance, g mm.
const BROKEN_G_MM: f32 = 0.05;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// The card is taken out of its holder.
    CardPulled,
    /// The card is put back.
    CardBack,
    /// The card is busy for so many ms after every block.
    CardSlow(u64),
    /// The card refuses to be written, as a worn-out card does.
    CardReadOnly,
    /// The sensor bus hangs: transfers never end.
    ImuStuck,
    /// The sensors do not answer any more.
    ImuDead,
    /// The sensors acknowledge a transfer only at its third attempt.
    ImuShy,
    /// Every transfer of the sensor bus sees a start or stop that nobody sent.
    ImuNoisy,
    /// The sensors answer again.
    ImuBack,
    /// Motion capture loses the drone.
    MocapLost,
    /// Motion capture finds the drone.
    MocapBack,
    /// The radio hears nothing.
    RadioSilent,
    /// The radio hears again.
    RadioBack,
    /// The radio processor takes no bytes for so many ms.
    FlowBlocked(u64),
    /// A motor (1 to 4) stops.
    MotorDies(usize),
    /// The propeller of a motor (1 to 4) loses a piece and shakes.
    Unbalanced(usize),
    /// Looking for decks takes so many ms.
    DeckScan(u64),
    /// All motors give only this part of their power.
    MotorsWeak(f32),
    /// The battery's voltage falls by so many volts.
    BatterySag(f32),
    /// The supply dips: the STM32 resets.
    BrownOut,
    /// The reset line is pulled.
    Reset,
    /// The power goes off and comes back at once. Takes effect between two instructions.
    PowerCut,
    /// The processor does nothing for so many ms, as with interrupts off.
    Stall(u64),
    /// A debugger halts the processor.
    DebugHalt,
    /// The debugger lets the processor go on.
    DebugGo,
    /// A bit of a memory changes: address and bit.
    BitFlip(u32, u8),
    /// The power button is pressed.
    Button,
    /// The drone is switched on with its button held: the STM32 stays in its bootloader.
    ColdBoot,
    /// The power goes off and comes back when so many more radio packets have arrived.
    CutAtPacket(u64),
    /// The same after so many words that the next bootloader programs.
    CutAtWord(u64),
    /// The same in the next bootloader's first erase, when this part of it is done.
    CutInErase(f64),
}

/// A fault at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// When, µs since power-on.
    pub time_us: u64,
    /// The fault.
    pub kind: Kind,
}

/// The words and what they mean, for help and messages.
pub const HELP: &str = "card-pulled card-back card-slow=MS card-read-only imu-stuck imu-dead imu-shy imu-noisy imu-back \
     mocap-lost mocap-back radio-silent radio-back flow-blocked=MS motor-dies=1..4 unbalanced=1..4 motors-weak=PART \
     deck-scan=MS battery-sag=V brown-out reset power-cut stall=MS debug-halt debug-go bit-flip=ADDRESS.BIT button \
     cold-boot cut-at-packet=N cut-at-word=N cut-in-erase=PART";

impl FromStr for Fault {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (time, rest) =
            text.split_once(':').with_context(|| format!("`{text}` lacks its time: TIME:KIND"))?;
        let seconds: f64 =
            time.trim().parse().with_context(|| format!("`{time}` is not a time in seconds"))?;
        ensure!((0.0..1e6).contains(&seconds), "`{time}` is not a time in seconds");
        let (word, value) = rest.split_once('=').map_or((rest, None), |(word, value)| (word, Some(value)));
        let number = || -> Result<f64> {
            let value = value.with_context(|| format!("`{word}` needs a value: {word}=…"))?;
            let number: f64 = value.parse().with_context(|| format!("`{value}` is not a number"))?;
            ensure!(number.is_finite() && number >= 0.0, "`{value}` is out of range");
            Ok(number)
        };
        let kind = match word.trim() {
            "card-pulled" => Kind::CardPulled,
            "card-back" => Kind::CardBack,
            "card-slow" => Kind::CardSlow(number()? as u64),
            "card-read-only" => Kind::CardReadOnly,
            "imu-stuck" => Kind::ImuStuck,
            "imu-dead" => Kind::ImuDead,
            "imu-shy" => Kind::ImuShy,
            "imu-noisy" => Kind::ImuNoisy,
            "imu-back" => Kind::ImuBack,
            "mocap-lost" => Kind::MocapLost,
            "mocap-back" => Kind::MocapBack,
            "radio-silent" => Kind::RadioSilent,
            "radio-back" => Kind::RadioBack,
            "flow-blocked" => Kind::FlowBlocked(number()? as u64),
            "motor-dies" => Kind::MotorDies(motor(number()?)?),
            "unbalanced" => Kind::Unbalanced(motor(number()?)?),
            "deck-scan" => Kind::DeckScan(number()? as u64),
            "motors-weak" => Kind::MotorsWeak(number()?.min(1.0) as f32),
            "battery-sag" => Kind::BatterySag(number()? as f32),
            "brown-out" => Kind::BrownOut,
            "reset" => Kind::Reset,
            "power-cut" => Kind::PowerCut,
            "stall" => Kind::Stall(number()? as u64),
            "debug-halt" => Kind::DebugHalt,
            "debug-go" => Kind::DebugGo,
            "bit-flip" => bit_flip(value.context("`bit-flip` needs ADDRESS.BIT")?)?,
            "button" => Kind::Button,
            "cold-boot" => Kind::ColdBoot,
            "cut-at-packet" => Kind::CutAtPacket(number()? as u64),
            "cut-at-word" => Kind::CutAtWord(number()? as u64),
            "cut-in-erase" => Kind::CutInErase(number()?.min(1.0)),
            other => {
                let names = HELP.split_whitespace().filter_map(|word| word.split('=').next());
                bail!("no fault `{other}`{}; there are: {HELP}", did_you_mean(other, names))
            }
        };
        Ok(Self { time_us: (seconds * 1e6) as u64, kind })
    }
}

fn motor(number: f64) -> Result<usize> {
    let motor = number as usize;
    ensure!((1..=4).contains(&motor), "there is no motor {motor}");
    Ok(motor)
}

fn bit_flip(value: &str) -> Result<Kind> {
    let (address, bit) = value.split_once('.').context("a bit is written ADDRESS.BIT, as 0x20000010.3")?;
    let digits = address.trim_start_matches("0x").replace('_', "");
    let address =
        u32::from_str_radix(&digits, 16).with_context(|| format!("`{address}` is not an address"))?;
    let bit: u8 = bit.parse().with_context(|| format!("`{bit}` is not a bit"))?;
    ensure!(bit < 8, "a byte has bits 0 to 7");
    Ok(Kind::BitFlip(address, bit))
}

/// Faults in the order of their times.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    left: Vec<Fault>,
}

impl Faults {
    /// Faults in any order.
    #[must_use]
    pub fn new(mut faults: Vec<Fault>) -> Self {
        // Latest first: the next one is popped off the end.
        faults.sort_by_key(|fault| std::cmp::Reverse(fault.time_us));
        Self { left: faults }
    }

    /// Takes out the faults that strike between any two instructions, first one first; the others
    /// strike on the next millisecond.
    #[must_use]
    pub fn take_exact(&mut self) -> Vec<Fault> {
        let is_exact = |f: &Fault| {
            matches!(
                f.kind,
                Kind::PowerCut
                    | Kind::ImuStuck
                    | Kind::ImuBack
                    | Kind::FlowBlocked(_)
                    | Kind::DebugHalt
                    | Kind::DebugGo
            )
        };
        let mut exact: Vec<Fault> = self.left.iter().copied().filter(is_exact).collect();
        self.left.retain(|f| !is_exact(f));
        exact.sort_by_key(|f| f.time_us);
        exact
    }

    /// Applies what is due.
    pub fn apply(&mut self, now_us: u64, scene: &mut Scene, board: &mut Board, memory: &mut Memory<'_>) {
        while self.left.last().is_some_and(|fault| fault.time_us <= now_us) {
            if let Some(fault) = self.left.pop() {
                apply(fault.kind, scene, board, memory);
            }
        }
    }
}

fn apply(kind: Kind, scene: &mut Scene, board: &mut Board, memory: &mut Memory<'_>) {
    match kind {
        Kind::CardPulled => board.card.is_pulled = true,
        Kind::CardBack => {
            board.card.power_off();
            board.card.is_pulled = false;
        }
        Kind::CardSlow(ms) => board.card.timing.write_us = 1000 * ms,
        Kind::CardReadOnly => board.card.is_write_protected = true,
        Kind::ImuShy => board.sensors.is_shy = true,
        Kind::ImuNoisy => board.i2c3.is_noisy = true,
        Kind::ImuDead => board.sensors.is_dead = true,
        Kind::MocapLost => scene.is_mocap_lost = true,
        Kind::MocapBack => scene.is_mocap_lost = false,
        Kind::RadioSilent => board.nrf.is_deaf = true,
        Kind::RadioBack => board.nrf.is_deaf = false,
        Kind::MotorDies(motor) => {
            if let Some(health) = scene.plant.motor_health.get_mut(motor - 1) {
                *health = 0.0;
            }
        }
        Kind::Unbalanced(motor) => {
            if let Some(imbalance) = scene.plant.imbalance_g_mm.get_mut(motor - 1) {
                *imbalance = BROKEN_G_MM;
            }
        }
        Kind::DeckScan(ms) => board.nrf.scan_ticks = ms * TICKS_PER_MS,
        Kind::MotorsWeak(part) => scene.plant.motor_health = [part; 4],
        Kind::BatterySag(volts) => scene.plant.voltage_drop_v = volts,
        Kind::BrownOut => board.stop = Some(Stop::Reset(ResetCause::BrownOut)),
        Kind::Reset => board.stop = Some(Stop::Reset(ResetCause::Pin)),
        // The session does these, between two instructions.
        Kind::PowerCut
        | Kind::ImuStuck
        | Kind::ImuBack
        | Kind::FlowBlocked(_)
        | Kind::DebugHalt
        | Kind::DebugGo => {}
        Kind::Stall(ms) => board.stop = Some(Stop::Stall(board.now + ms * TICKS_PER_MS)),
        Kind::BitFlip(address, bit) => flip(address, bit, memory),
        Kind::Button => board.nrf.press_button(board.now),
        Kind::ColdBoot => board.nrf.cold_boot(memory.flash, board.now),
        Kind::CutAtPacket(packets) => board.nrf.cut_after_packets = Some(packets),
        Kind::CutAtWord(words) => board.nrf.cut_after_words = Some(words),
        Kind::CutInErase(part) => board.nrf.cut_in_erase = Some(part),
    }
}

fn flip(address: u32, bit: u8, memory: &mut Memory<'_>) {
    let in_flash = address.checked_sub(map::FLASH).and_then(|o| memory.flash.get_mut(o as usize));
    if let Some(byte) = in_flash {
        *byte ^= 1 << bit;
    } else if let Some(byte) = memory.at_mut(address).and_then(|m| m.first_mut()) {
        *byte ^= 1 << bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_and_nonsense_is_named() {
        let fault: Fault = "6.5:motor-dies=2".parse().unwrap();
        assert_eq!(fault, Fault { time_us: 6_500_000, kind: Kind::MotorDies(2) });
        let flip: Fault = "1:bit-flip=0x2000_0010.3".parse().unwrap();
        assert_eq!(flip.kind, Kind::BitFlip(0x2000_0010, 3));
        for (text, word) in [
            ("motor-dies=1", "lacks its time"),
            ("x:reset", "not a time"),
            ("1:mocap-lots", "did you mean `mocap-lost`"),
            ("1:motor-dies=5", "no motor 5"),
            ("1:card-slow", "needs a value"),
            ("1:bit-flip=0x20.9", "bits 0 to 7"),
        ] {
            let error = format!("{:#}", text.parse::<Fault>().unwrap_err());
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
