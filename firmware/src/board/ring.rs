//! The LED-ring deck: the chain's data line on PB5 (TIM3 channel 2), its headlights on PB4.
//!
//! Every bit is a pulse of a length of its own at 800 kHz. A DMA stream puts the next length into the
//! timer's compare register once a period; the register is preloaded, so that a length counts from the
//! next period on. The requests come from channel 3, whose stream is free (channel 2's belongs to the
//! EEPROM), which the HAL's DMA does not know. The last length is zero, so that the line stays low until the next colours.

use core::sync::atomic::{AtomicU16, Ordering};

use steady_firmware::ring::{BIT_PERIOD, Colour, LEDS, PULSES, pulses};

use stm32f4xx_hal::gpio::{Debugger, Output, PB4, PB5, Pull, Speed};
use stm32f4xx_hal::pac::TIM3;
use stm32f4xx_hal::prelude::*;
use stm32f4xx_hal::rcc::Rcc;

use super::dma::{Controller, Stream, Transfer};
use super::reg;

const STREAM: Stream = Stream { controller: Controller::One, number: 7, channel: 5 };

/// Lengths on their way out. In SRAM, where the DMA reaches.
static LENGTHS: [AtomicU16; PULSES] = [const { AtomicU16::new(0) }; PULSES];

/// The timer and the pins.
pub(crate) struct Port {
    pub(crate) timer: TIM3,
    pub(crate) data: PB5,
    pub(crate) headlights: PB4<Debugger>,
}

/// The ring.
pub(crate) struct Ring {
    headlights: PB4<Output>,
}

impl Ring {
    /// Starts the timer with the line low.
    pub(crate) fn start(port: Port, rcc: &mut Rcc) -> Self {
        let frequency = rcc.clocks.timclk1() / u32::from(BIT_PERIOD);
        let (_, (_, data, ..)) = port.timer.pwm_hz(frequency, rcc);
        let mut data = data.with(port.data.into_alternate::<2>().speed(Speed::Medium));
        data.set_duty(0);
        data.enable();
        reg::tim3().ccr3().write(|w| w.ccr().set(1));
        let headlights = port.headlights.into_push_pull_output().internal_resistor(Pull::None);
        Self { headlights }
    }

    /// Sends the colours; it takes a third of a millisecond, which nobody waits for. To be called less
    /// often than that.
    pub(crate) fn show(&mut self, colours: &[Colour; LEDS]) {
        let timer = reg::tim3();
        // A request that nobody has answered must not put out the first length twice.
        timer.dier().write(|w| w);
        STREAM.stop();
        LENGTHS.iter().zip(pulses(colours)).for_each(|(to, from)| to.store(from, Ordering::Relaxed));
        STREAM.start(Transfer {
            peripheral: timer.ccr2().as_ptr() as u32,
            memory: LENGTHS.as_ptr() as u32,
            length: PULSES as u16,
            wide: true,
            to_peripheral: true,
            advance: true,
            circular: false,
            interrupt: false,
        });
        timer.dier().write(|w| w.cc3de().set_bit());
    }

    /// Switches the headlights.
    pub(crate) fn set_headlights(&mut self, on: bool) {
        self.headlights.set_state(on.into());
    }
}
