//! I2C1 as a master: nobody at an address, recovery from that, and the EEPROM of the board.

use super::reg::{
    GPIOB_AFRL, GPIOB_MODER, GPIOB_OTYPER, I2C1_CCR, I2C1_CR1, I2C1_CR2, I2C1_DR, I2C1_SR1, I2C1_SR2,
    I2C1_TRISE, RCC_AHB1ENR, RCC_APB1ENR,
};
use super::trace::push;

const PE: u32 = 1;
const START: u32 = 1 << 8;
const STOP: u32 = 1 << 9;
const ACK: u32 = 1 << 10;
const SB: u32 = 1;
const ADDR: u32 = 1 << 1;
const BTF: u32 = 1 << 2;
const RXNE: u32 = 1 << 6;
const TXE: u32 = 1 << 7;
const AF: u32 = 1 << 10;
/// The EEPROM, and an address where nothing is.
const EEPROM: u32 = 0x50;
const NOBODY: u32 = 0x42;

/// A start and an address; the status with either ADDR or AF.
fn address(device: u32, is_read: bool) -> u32 {
    I2C1_CR1.set(START);
    I2C1_SR1.until(SB);
    I2C1_DR.write(device << 1 | u32::from(is_read));
    I2C1_SR1.until(ADDR | AF)
}

/// Ends the transfer and clears the error.
fn give_up() {
    I2C1_CR1.set(STOP);
    I2C1_CR1.until_clear(STOP);
    I2C1_SR1.write(!AF & 0xFFFF);
}

/// Addresses the EEPROM as often as it takes; how often it did not answer.
fn address_when_ready() -> u32 {
    let mut refusals = 0;
    while address(EEPROM, false) & AF != 0 {
        give_up();
        refusals += 1;
    }
    refusals
}

fn send(byte: u32) {
    I2C1_SR1.until(TXE);
    I2C1_DR.write(byte);
}

pub(super) fn run() {
    RCC_AHB1ENR.set(1 << 1);
    RCC_APB1ENR.set(1 << 21);
    // PB6 and PB7, open drain, alternate function 4.
    GPIOB_AFRL.set(0x4400_0000);
    GPIOB_OTYPER.set(0xC0);
    GPIOB_MODER.set(0xA000);
    // 42 MHz, 100 kHz.
    I2C1_CR2.write(42);
    I2C1_CCR.write(210);
    I2C1_TRISE.write(43);
    I2C1_CR1.write(PE);
    push(I2C1_SR1.read());
    push(I2C1_SR2.read());

    push(0x2C01);
    I2C1_CR1.set(START);
    push(I2C1_SR1.until(SB));
    // Master, and the bus is busy.
    push(I2C1_SR2.read());
    I2C1_DR.write(NOBODY << 1);
    push(I2C1_SR1.until(ADDR | AF));
    // The master holds the bus until it gives it up.
    push(I2C1_SR2.read() & 3);
    give_up();
    push(I2C1_SR1.read());
    push(I2C1_SR2.read());

    // Three bytes into the EEPROM, which then is deaf for a while.
    push(0x2C02);
    push(address(EEPROM, false));
    push(I2C1_SR2.read());
    push(I2C1_SR1.read());
    for byte in [0x00, 0x10, 0xA1, 0xA2, 0xA3] {
        send(byte);
    }
    push(I2C1_SR1.until(BTF));
    give_up();
    push(address(EEPROM, false));
    give_up();
    push(u32::from(address_when_ready() > 0));

    // And back: three bytes by the procedure for N > 2 (RM0090, 27.3.3).
    push(0x2C03);
    I2C1_SR2.read();
    send(0x00);
    send(0x10);
    I2C1_SR1.until(BTF);
    I2C1_CR1.set(ACK);
    push(address(EEPROM, true));
    push(I2C1_SR2.read());
    // Two bytes have come, the clock is stretched.
    push(I2C1_SR1.until(BTF));
    I2C1_CR1.clear(ACK);
    push(I2C1_DR.read());
    I2C1_CR1.set(STOP);
    push(I2C1_DR.read());
    I2C1_SR1.until(RXNE);
    push(I2C1_DR.read());
    I2C1_CR1.until_clear(STOP);
    push(I2C1_SR1.read());
    push(I2C1_SR2.read());
}
