//! SPI1 as a master: flags, overrun, and an SD card that answers.

use super::reg::{
    GPIOA_AFRL, GPIOA_MODER, GPIOC_BSRR, GPIOC_MODER, RCC_AHB1ENR, RCC_APB2ENR, SPI1_CR1, SPI1_CR2, SPI1_DR,
    SPI1_SR,
};
use super::trace::push;

const RXNE: u32 = 1;
const TXE: u32 = 1 << 1;
const BSY: u32 = 1 << 7;
/// The card's chip select, PC12.
const SELECT: u32 = 1 << 12;
/// CMD0, which makes the card listen to SPI, with its checksum.
pub(super) const GO_IDLE: [u8; 6] = [0x40, 0, 0, 0, 0, 0x95];

/// A master at 84 MHz / 64, chip select high.
pub(super) fn set_up() {
    RCC_AHB1ENR.set(1 << 2 | 1);
    RCC_APB2ENR.set(1 << 12);
    // PA5, PA6, PA7 are alternate function 5.
    GPIOA_AFRL.set(0x5550_0000);
    GPIOA_MODER.set(0xA800);
    deselect();
    GPIOC_MODER.set(1 << 24);
    SPI1_CR2.write(0);
    // MSTR, BR = 5, SSM and SSI, SPE.
    SPI1_CR1.write(1 << 2 | 5 << 3 | 1 << 8 | 1 << 9 | 1 << 6);
}

pub(super) fn select() {
    GPIOC_BSRR.write(SELECT << 16);
}

pub(super) fn deselect() {
    GPIOC_BSRR.write(SELECT);
}

pub(super) fn exchange(byte: u8) -> u8 {
    SPI1_SR.until(TXE);
    SPI1_DR.write_byte(byte);
    SPI1_SR.until(RXNE);
    SPI1_DR.read() as u8
}

/// The card wants 74 clocks before anything else.
pub(super) fn wake_card() {
    for _ in 0..10 {
        exchange(0xFF);
    }
}

pub(super) fn run() {
    set_up();
    push(SPI1_SR.read());
    // The first byte goes on to the shift register, the second waits behind it.
    SPI1_DR.write_byte(0xFF);
    push(SPI1_SR.read());
    SPI1_DR.write_byte(0xFF);
    push(SPI1_SR.read());
    // Nobody fetches the first: the second is lost.
    SPI1_SR.until_clear(BSY);
    push(SPI1_SR.read());
    push(SPI1_DR.read());
    // The overrun is cleared by that and a load of the status.
    let _ = SPI1_SR.read();
    push(SPI1_SR.read());

    push(0x5B01);
    wake_card();
    select();
    for byte in GO_IDLE {
        push(u32::from(exchange(byte)));
    }
    // In the idle state: within eight bytes.
    let answer = (0..8).map(|_| exchange(0xFF)).find(|byte| *byte != 0xFF);
    push(u32::from(answer.unwrap_or(0xFF)));
    deselect();
}
