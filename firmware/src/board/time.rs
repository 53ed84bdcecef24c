//! Time: TIM5 counts microseconds since start; embassy's timers wake from its first compare register, and the
//! second one watches the flight loop.
//!
//! Own, because the HAL has no time driver for embassy, and because fault handlers read the clock too.

use core::cell::{Cell, RefCell};
use core::task::Waker;

use critical_section::{CriticalSection, Mutex};
use embassy_time_driver::Driver;
use embassy_time_queue_utils::Queue;
use stm32f4xx_hal::pac::tim5::sr;
use stm32f4xx_hal::pac::{TIM5, interrupt};
use stm32f4xx_hal::rcc::{Enable, Rcc};

use super::{fault, reg};

/// The counter has 32 bits and wraps every 71.6 minutes; its overflows are counted here.
struct Clock {
    overflows: Mutex<Cell<u32>>,
    queue: Mutex<RefCell<Queue>>,
}

embassy_time_driver::time_driver_impl!(static CLOCK: Clock = Clock {
    overflows: Mutex::new(Cell::new(0)),
    queue: Mutex::new(RefCell::new(Queue::new())),
});

/// Starts the counter. The interrupt is enabled with the others, in [`super::irq`].
pub(crate) fn init(tim: TIM5, rcc: &mut Rcc) {
    TIM5::enable(rcc);
    let divider = rcc.clocks.timclk1().to_MHz() - 1;
    tim.psc().write(|w| w.psc().set(divider as u16));
    tim.arr().write(|w| w.arr().set(u32::MAX));
    // Only a real overflow raises the update flag, not the reload that makes the divider valid.
    tim.cr1().write(|w| w.urs().set_bit());
    tim.egr().write(|w| w.ug().set_bit());
    // Zeros clear all flags.
    tim.sr().reset();
    tim.dier().write(|w| w.uie().set_bit());
    tim.cr1().write(|w| w.urs().set_bit().cen().set_bit());
}

/// Clears a flag: writing 0 does, writing 1 leaves it.
fn clear(flag: impl FnOnce(&mut sr::W) -> &mut sr::W) {
    // SAFETY: all other flags are written 1, which leaves them.
    reg::tim5().sr().write(|w| flag(unsafe { w.bits(u32::MAX) }));
}

/// From now on [`postpone`] must be called again and again, or [`fault::flight_is_late`] ends it all.
pub(crate) fn watch(patience_us: u32) {
    postpone(patience_us);
    critical_section::with(|_| {
        clear(|w| w.cc2if().clear_bit());
        reg::tim5().dier().modify(|_, w| w.cc2ie().set_bit());
    });
}

/// Moves the moment of compare 2, whose interrupt must never come.
pub(crate) fn postpone(patience_us: u32) {
    reg::tim5().ccr2().write(|w| w.ccr().set(now_us_low().wrapping_add(patience_us)));
}

/// Microseconds since start.
pub(crate) fn now_us() -> u64 {
    CLOCK.now()
}

/// The counter's low 32 bits, for durations; safe in every state of the machine.
pub(crate) fn now_us_low() -> u32 {
    reg::tim5().cnt().read().bits()
}

impl Clock {
    /// Sets the compare register; false when that moment has passed.
    fn set_alarm(&self, _cs: CriticalSection<'_>, at: u64) -> bool {
        let tim = reg::tim5();
        if at == u64::MAX {
            tim.dier().modify(|_, w| w.cc1ie().clear_bit());
            return true;
        }
        // A moment beyond the counter's period matches early; the handler then sets it again.
        tim.ccr1().write(|w| w.ccr().set(at as u32));
        tim.dier().modify(|_, w| w.cc1ie().set_bit());
        at > self.now()
    }

    fn wake_expired(&self, cs: CriticalSection<'_>) {
        // It is never borrowed across a wake; if it were, there would be nothing better to do.
        let Ok(mut queue) = self.queue.borrow(cs).try_borrow_mut() else { return };
        let mut next = queue.next_expiration(self.now());
        while !self.set_alarm(cs, next) {
            next = queue.next_expiration(self.now());
        }
    }

    fn on_interrupt(&self) {
        critical_section::with(|cs| {
            let tim = reg::tim5();
            let flags = tim.sr().read();
            if flags.cc2if().bit_is_set() && tim.dier().read().cc2ie().bit_is_set() {
                fault::flight_is_late();
            }
            if flags.uif().bit_is_set() {
                clear(|w| w.uif().clear_bit());
                let overflows = self.overflows.borrow(cs);
                overflows.set(overflows.get().wrapping_add(1));
            }
            if flags.cc1if().bit_is_set() {
                clear(|w| w.cc1if().clear_bit());
                self.wake_expired(cs);
            }
        });
    }
}

impl Driver for Clock {
    fn now(&self) -> u64 {
        critical_section::with(|cs| {
            let tim = reg::tim5();
            let mut overflows = self.overflows.borrow(cs).get();
            let count = tim.cnt().read().bits();
            // An overflow whose interrupt has not run yet: the flag is read after the counter, so
            // a counter still near its end was read before the overflow.
            if tim.sr().read().uif().bit_is_set() && count < u32::MAX / 2 {
                overflows = overflows.wrapping_add(1);
            }
            (u64::from(overflows) << 32) | u64::from(count)
        })
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        critical_section::with(|cs| {
            let queue = self.queue.borrow(cs).try_borrow_mut();
            if queue.is_ok_and(|mut queue| queue.schedule_wake(at, waker)) {
                self.wake_expired(cs);
            }
        });
    }
}

#[interrupt]
fn TIM5() {
    CLOCK.on_interrupt();
}

defmt::timestamp!("{=u64:us}", now_us());
