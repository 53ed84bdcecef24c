//! DMA2 with SPI1: a circular stream beside one that ends, interrupts, stopping, and starting again.

use core::ptr::addr_of_mut;

use super::cpu;
use super::reg::{
    DMA2_LIFCR, DMA2_LISR, NVIC_IPR, NVIC_ISER1, RCC_AHB1ENR, Reg, SPI1_CR2, SPI1_DR, SPI1_SR, dma2_stream,
};
use super::spi;
use super::trace::push;
use super::vectors::{handler, on_interrupt};

const CR: u32 = 0;
const NDTR: u32 = 1;
const PAR: u32 = 2;
const M0AR: u32 = 3;
const FCR: u32 = 5;
const ENABLE: u32 = 1;
const HTIE: u32 = 1 << 3;
const TCIE: u32 = 1 << 4;
const TO_PERIPHERAL: u32 = 1 << 6;
const CIRCULAR: u32 = 1 << 8;
const MEMORY_INCREMENT: u32 = 1 << 10;
/// SPI1 is channel 3 of stream 0 (receive) and stream 3 (transmit): RM0090, table 43.
const CHANNEL_3: u32 = 3 << 25;
/// Stream 0 in the vector table.
const DMA2_STREAM0: u32 = 56;
/// Flags of streams 0 and 3: half transfer, transfer complete.
const FLAGS_0: u32 = 0x3D;
const FLAGS_3: u32 = 0x3D << 22;

#[repr(C, align(4))]
struct Buffers {
    out: [u8; 14],
    input: [u8; 16],
}

static mut BUFFERS: Buffers = Buffers { out: [0xFF; 14], input: [0; 16] };

extern "C" fn stream_body(_exc_return: u32, _sp: u32) {
    push(0x1000 | cpu::ipsr());
    push(DMA2_LISR.read() & FLAGS_0);
    DMA2_LIFCR.write(FLAGS_0);
    push(DMA2_LISR.read() & FLAGS_0);
    cpu::barrier();
}
handler!(stream, stream_body);

fn start_receiving(count: u32, more: u32) {
    // SAFETY: an address only.
    dma2_stream(0, M0AR).write(unsafe { addr_of_mut!(BUFFERS.input) } as u32);
    dma2_stream(0, PAR).write(SPI1_DR.0);
    dma2_stream(0, NDTR).write(count);
    dma2_stream(0, CR).write(CHANNEL_3 | MEMORY_INCREMENT | more | ENABLE);
}

fn start_sending(count: u32) {
    DMA2_LIFCR.write(FLAGS_3);
    // SAFETY: an address only.
    dma2_stream(3, M0AR).write(unsafe { addr_of_mut!(BUFFERS.out) } as u32);
    dma2_stream(3, PAR).write(SPI1_DR.0);
    dma2_stream(3, NDTR).write(count);
    dma2_stream(3, CR).write(CHANNEL_3 | MEMORY_INCREMENT | TO_PERIPHERAL | ENABLE);
}

/// All bytes are out and their answers in.
fn finish() {
    DMA2_LISR.until(1 << 27);
    SPI1_SR.until(2);
    SPI1_SR.until_clear(1 << 7);
    // The last answer has a few cycles to go yet.
    for _ in 0..10 {
        cpu::barrier();
    }
}

fn set_up() {
    on_interrupt(DMA2_STREAM0 as usize, stream);
    Reg(NVIC_IPR.0 + DMA2_STREAM0).write_byte(0x40);
    NVIC_ISER1.write(1 << (DMA2_STREAM0 - 32));
    RCC_AHB1ENR.set(1 << 22);
    spi::set_up();
    spi::wake_card();
    // SAFETY: no stream runs.
    unsafe { BUFFERS.out[..6].copy_from_slice(&spi::GO_IDLE) };
}

pub(super) fn run() {
    set_up();
    push(dma2_stream(0, CR).read());
    push(dma2_stream(0, FCR).read());

    // Fourteen bytes into a buffer of eight: six of them are overwritten, and the stream goes on.
    push(0xD001);
    start_receiving(8, CIRCULAR);
    spi::select();
    start_sending(14);
    SPI1_CR2.write(3);
    finish();
    push(dma2_stream(0, NDTR).read());
    push(dma2_stream(0, CR).read() & ENABLE);
    push(DMA2_LISR.read() & FLAGS_0);
    // The other has come to its end.
    push(dma2_stream(3, NDTR).read());
    push(dma2_stream(3, CR).read() & ENABLE);
    push((DMA2_LISR.read() & FLAGS_3) >> 22);
    // The card's answer is among the first eight or the six after them, and nothing is behind the buffer.
    // SAFETY: the streams move nothing now.
    let input = unsafe { addr_of_mut!(BUFFERS.input).read_volatile() };
    push(input[..8].iter().filter(|byte| **byte == 1).count() as u32);
    push(input[..8].iter().filter(|byte| **byte == 0xFF).count() as u32);
    push(input[8..].iter().filter(|byte| **byte == 0).count() as u32);
    spi::deselect();

    // Stopped by software: it says that it has ended, and what was left.
    push(0xD002);
    DMA2_LIFCR.write(FLAGS_0);
    push(DMA2_LISR.read() & FLAGS_0);
    dma2_stream(0, CR).clear(ENABLE);
    push(DMA2_LISR.read() & FLAGS_0);
    push(dma2_stream(0, NDTR).read());
    DMA2_LIFCR.write(FLAGS_0);

    // Half and whole as interrupts.
    push(0xD003);
    start_receiving(4, HTIE | TCIE);
    start_sending(4);
    finish();
    push(dma2_stream(0, CR).read() & ENABLE);
    push(dma2_stream(0, NDTR).read());
}

pub(super) fn stale_flags() {
    set_up();
    start_receiving(4, 0);
    start_sending(4);
    SPI1_CR2.write(3);
    finish();
    push(DMA2_LISR.read() & FLAGS_0);
    // Its flags are as the last transfer left them.
    start_receiving(4, 0);
    push(dma2_stream(0, CR).read() & ENABLE);
    start_sending(4);
    finish();
    push(dma2_stream(0, CR).read() & ENABLE);
    push(dma2_stream(0, NDTR).read());
    push(DMA2_LISR.read() & FLAGS_0);
}
