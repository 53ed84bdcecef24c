//! Start-up, and the program that the test has chosen.

mod context_switch;
mod cpu;
mod dma;
mod escalation;
mod exti;
mod flash;
mod floats;
mod i2c;
mod priorities;
mod reg;
mod ring;
mod sleep;
mod spi;
mod stack_pointer;
mod systick;
mod tail_chaining;
mod trace;
mod unmodelled;
mod vectors;
mod watchdog;

use architecture_image::{PANIC, TOPIC, Topic};

use self::reg::Reg;

#[cortex_m_rt::entry]
fn main() -> ! {
    vectors::install();
    let chosen = Reg(TOPIC).read();
    let Some(topic) = Topic::ALL.into_iter().find(|topic| *topic as u32 == chosen) else {
        panic!();
    };
    match topic {
        Topic::ContextSwitch => context_switch::run(),
        Topic::Priorities => priorities::run(),
        Topic::TailChaining => tail_chaining::run(),
        Topic::Floats => floats::run(),
        Topic::Escalation => escalation::run(),
        Topic::StackPointer => stack_pointer::run(),
        Topic::SysTick => systick::run(),
        Topic::Sleep => sleep::run(),
        Topic::Exti => exti::run(),
        Topic::Dma => dma::run(),
        Topic::DmaStaleFlags => dma::stale_flags(),
        Topic::I2c => i2c::run(),
        Topic::Spi => spi::run(),
        Topic::Flash => flash::run(),
        Topic::FlashLocked => flash::locked(),
        Topic::Watchdog => watchdog::run(),
        Topic::Ring => ring::run(),
        Topic::Unmodelled => unmodelled::run(),
    }
    trace::end()
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    trace::push(PANIC | info.location().map_or(0, |place| place.line() & 0xFFFF));
    trace::end()
}
