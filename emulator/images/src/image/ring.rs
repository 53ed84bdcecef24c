//! A timer's compare register fed by DMA: TIM3 channel 2 sends a chain of LEDs its colours, as pulses of two lengths at
//! 800 kHz. The buffer has room for two LEDs; the interrupts at its half and its end bring the ones that follow.

use core::ptr::addr_of_mut;

use super::cpu;
use super::reg::{
    DEMCR, DMA1_HIFCR, DMA1_HISR, DWT_CTRL, DWT_CYCCNT, GPIOB_AFRL, GPIOB_MODER, NVIC_IPR, NVIC_ISER,
    RCC_AHB1ENR, RCC_APB1ENR, Reg, TIM3_ARR, TIM3_CCER, TIM3_CCMR1, TIM3_CCR2, TIM3_CR1, TIM3_DIER,
    dma1_stream,
};
use super::trace::push;
use super::vectors::{handler, on_interrupt};

const CR: u32 = 0;
const NDTR: u32 = 1;
const PAR: u32 = 2;
const M0AR: u32 = 3;
const ENABLE: u32 = 1;
const HTIE: u32 = 1 << 3;
const TCIE: u32 = 1 << 4;
/// TIM3_CH2 is channel 5 of DMA1's stream 5 (RM0090, table 42); half-words on both sides, in circles, with interrupts at
/// the half and at the end.
const CONTROL: u32 = 5 << 25 | 1 << 13 | 1 << 11 | 1 << 10 | 1 << 8 | 1 << 6 | TCIE | HTIE;
const DMA1_STREAM5: usize = 16;
/// Flags of stream 5 in HISR.
const SHIFT: u32 = 6;
const FLAGS: u32 = 0x3D << SHIFT;
const HALF: u32 = 1 << 4 << SHIFT;
/// Counts of a period at 84 MHz, and those that the line is high for a 0 and for a 1.
const PERIOD: u32 = 105;
const ZERO: u16 = 29;
const ONE: u16 = 75;
const LEDS: u32 = 12;
const BITS: usize = 24;

static mut LENGTHS: [u16; 2 * BITS] = [0; 2 * BITS];
/// The LED whose bits are brought next.
static mut NEXT: u32 = 0;
static mut DONE: bool = false;

/// The next LED's bits, or silence behind the last one, into one half of the buffer.
fn fill(half: usize) {
    // SAFETY: the thread fills before the stream starts, the handler afterwards, the half that the stream has left.
    unsafe {
        let led = NEXT;
        NEXT += 1;
        // Green, red, blue.
        let word = (led << 20) | (0xFF - led) << 8 | (0x80 | led);
        let lengths = addr_of_mut!(LENGTHS).cast::<u16>().add(half * BITS);
        for bit in 0..BITS {
            let is_one = word >> (BITS - 1 - bit) & 1 != 0;
            let length = if led >= LEDS {
                0
            } else if is_one {
                ONE
            } else {
                ZERO
            };
            lengths.add(bit).write_volatile(length);
        }
    }
}

extern "C" fn stream_body(_exc_return: u32, _sp: u32) {
    let flags = DMA1_HISR.read() & FLAGS;
    DMA1_HIFCR.write(flags);
    push(flags >> SHIFT);
    // SAFETY: the thread only looks.
    let led = unsafe { addr_of_mut!(NEXT).read_volatile() };
    if led < LEDS + 2 {
        fill(usize::from(flags & HALF == 0));
    } else {
        TIM3_CR1.write(0);
        // Stopping raises the flag of its end; without its interrupt it is only looked at.
        dma1_stream(5, CR).clear(ENABLE | TCIE | HTIE);
        push((DMA1_HISR.read() & FLAGS) >> SHIFT);
        DMA1_HIFCR.write(FLAGS);
        // SAFETY: as above.
        unsafe { addr_of_mut!(DONE).write_volatile(true) };
    }
    cpu::barrier();
}
handler!(stream, stream_body);

pub(super) fn run() {
    on_interrupt(DMA1_STREAM5, stream);
    Reg(NVIC_IPR.0 + DMA1_STREAM5 as u32).write_byte(0x40);
    NVIC_ISER.write(1 << DMA1_STREAM5);
    // GPIOB, DMA1 and TIM3 have their clocks; PB5 is TIM3's second channel.
    RCC_AHB1ENR.set(1 << 1 | 1 << 21);
    RCC_APB1ENR.set(1 << 1);
    GPIOB_AFRL.write(2 << 20);
    GPIOB_MODER.write(2 << 10);
    TIM3_ARR.write(PERIOD - 1);
    // PWM mode 1, preloaded.
    TIM3_CCMR1.write(6 << 12 | 1 << 11);
    TIM3_CCER.write(1 << 4);
    TIM3_CCR2.write(0);
    fill(0);
    fill(1);
    dma1_stream(5, PAR).write(TIM3_CCR2.0);
    dma1_stream(5, M0AR).write(addr_of_mut!(LENGTHS) as u32);
    dma1_stream(5, NDTR).write(2 * BITS as u32);
    dma1_stream(5, CR).write(CONTROL | ENABLE);
    DEMCR.set(1 << 24);
    DWT_CTRL.set(1);
    // The request of channel 2, and go.
    TIM3_DIER.write(1 << 10);
    let start = DWT_CYCCNT.read();
    TIM3_CR1.write(1);
    // SAFETY: the handler alone writes it.
    while !unsafe { addr_of_mut!(DONE).read_volatile() } {}
    // Two cycles of the core are a count of the timer; in LEDs, rounded.
    let led_cycles = 2 * PERIOD * BITS as u32;
    push((DWT_CYCCNT.read().wrapping_sub(start) + led_cycles / 2) / led_cycles);
    push(TIM3_CCR2.read());
    push(dma1_stream(5, CR).read() & ENABLE);
}
