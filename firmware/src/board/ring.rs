//! The LED-ring deck: the chain's data line on PB5 (TIM3 channel 2), its headlights on PB4.
//!
//! Every bit is a pulse of a length of its own at 800 kHz. A DMA stream puts the next length into the
//! timer's compare register once a period; the register is preloaded, so that a length counts from the
//! next period on. The requests come from channel 3, whose stream is free (channel 2's belongs to the
//! EEPROM). The last length is zero, so that the line stays low until the next colours.

use core::cell::UnsafeCell;

use steady_firmware::ring::{BIT_PERIOD, Colour, LEDS, PULSES, pulses};

use super::dma::{Controller, Stream, Transfer};
use super::gpio::{Drive, Pin, Port, Pull};
use super::reg;

const DATA: Pin = Pin(Port::B, 5);
const HEADLIGHTS: Pin = Pin(Port::B, 4);
const STREAM: Stream = Stream { controller: Controller::One, number: 7, channel: 5 };

/// Lengths on their way out. In SRAM, where the DMA reaches.
struct Lengths(UnsafeCell<[u16; PULSES]>);

// SAFETY: only `Ring` writes it, of which there is one, and the DMA reads it.
unsafe impl Sync for Lengths {}

static LENGTHS: Lengths = Lengths(UnsafeCell::new([0; PULSES]));

/// The ring.
pub(crate) struct Ring(());

impl Ring {
    /// Starts the timer with the line low. To be called once.
    pub(crate) fn start() -> Self {
        reg::rcc().apb1enr().modify(|_, w| w.tim3en().set_bit());
        let timer = reg::tim3();
        timer.psc().write(|w| w.psc().set(0));
        timer.arr().write(|w| w.arr().set(BIT_PERIOD - 1));
        timer.ccmr1_output().write(|w| w.oc2m().pwm_mode1().oc2pe().enabled());
        timer.ccr2().write(|w| w.ccr().set(0));
        timer.ccr3().write(|w| w.ccr().set(1));
        timer.egr().write(|w| w.ug().set_bit());
        timer.ccer().write(|w| w.cc2e().set_bit());
        timer.cr1().write(|w| w.cen().set_bit());
        DATA.alternate(2, Drive::PushPull, Pull::None);
        HEADLIGHTS.set(false);
        HEADLIGHTS.output(Drive::PushPull);
        Self(())
    }

    /// Sends the colours; it takes a third of a millisecond, which nobody waits for. To be called less
    /// often than that.
    pub(crate) fn show(&mut self, colours: &[Colour; LEDS]) {
        let timer = reg::tim3();
        // A request that nobody has answered must not put out the first length twice.
        timer.dier().write(|w| w);
        STREAM.stop();
        // SAFETY: the stream stands still, and this is the only writer.
        pulses(colours, unsafe { &mut *LENGTHS.0.get() });
        STREAM.start(Transfer {
            peripheral: timer.ccr2().as_ptr() as u32,
            memory: LENGTHS.0.get() as u32,
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
        HEADLIGHTS.set(on);
    }
}
