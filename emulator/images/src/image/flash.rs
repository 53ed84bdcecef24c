//! The image programs and erases sectors of its own flash, and runs from the flash's other address.

use core::arch::asm;

use super::cpu;
use super::reg::{AIRCR, BFAR, CFSR, FLASH_CR, FLASH_KEYR, FLASH_SR, HFSR, RCC_CSR, Reg};
use super::trace::{end, push};
use super::vectors::{handler, on};

const KEYS: [u32; 2] = [0x4567_0123, 0xCDEF_89AB];
const PG: u32 = 1;
const SER: u32 = 1 << 1;
const WORDS: u32 = 2 << 8;
const BYTES: u32 = 0;
const STRT: u32 = 1 << 16;
const EOPIE: u32 = 1 << 24;
const LOCK: u32 = 1 << 31;
const BSY: u32 = 1 << 16;
const ERRORS: u32 = 0xF2;
/// In sector 11, which the image does not use.
const PLACE: Reg = Reg(0x080E_0100);
/// The last word of sector 10, the first of sector 11.
const BEFORE: Reg = Reg(0x080D_FFFC);
const FIRST: Reg = Reg(0x080E_0000);
const LAST: Reg = Reg(0x080F_FFFC);

fn unlock() {
    for key in KEYS {
        FLASH_KEYR.write(key);
    }
}

fn wait() {
    cpu::barrier();
    FLASH_SR.until_clear(BSY);
}

fn program(place: Reg, word: u32) {
    FLASH_CR.write(WORDS | PG);
    place.write(word);
    wait();
    FLASH_CR.write(0);
}

/// Where this very function runs.
#[inline(never)]
extern "C" fn here() -> u32 {
    let pc;
    // SAFETY: reads the program counter.
    unsafe { asm!("mov {}, pc", out(reg) pc, options(nomem, nostack)) };
    pc
}

pub(super) fn run() {
    // SFTRSTF: this is the second time.
    if RCC_CSR.read() & 1 << 28 != 0 {
        return after_reset();
    }
    // The flash is at address 0 too, to read and to run.
    push(u32::from(Reg(0x0000_4000).read() == Reg(0x0800_4000).read()));
    let normal = here();
    let alias = here as *const () as u32 - 0x0800_0000;
    // SAFETY: the same function, whose address is 0x0800_0000 less.
    let alias: extern "C" fn() -> u32 = unsafe { core::mem::transmute(alias as usize) };
    push(normal - alias());

    push(0xF101);
    push(FLASH_CR.read());
    // Locked: the register does not take anything.
    FLASH_CR.write(WORDS | PG);
    push(FLASH_CR.read());
    unlock();
    push(FLASH_CR.read());

    push(0xF102);
    program(PLACE, 0xFFFF_00F0);
    push(PLACE.read());
    // Bits become 0 only.
    program(PLACE, 0xFFFF_FF3C);
    push(PLACE.read());
    FLASH_CR.write(BYTES | PG);
    Reg(PLACE.0 + 5).write_byte(0x5A);
    wait();
    push(Reg(PLACE.0 + 4).read());
    push(FLASH_SR.read());
    for place in [BEFORE, FIRST, LAST] {
        program(place, 0);
    }

    // Wrong width: nothing is programmed, and a flag tells why. It stays until 1 is written to it.
    push(0xF103);
    FLASH_CR.write(WORDS | PG);
    Reg(PLACE.0 + 8).write_half(0);
    wait();
    push(FLASH_SR.read() & ERRORS);
    push(Reg(PLACE.0 + 8).read());
    FLASH_SR.write(ERRORS);
    push(FLASH_SR.read());
    FLASH_CR.write(0);

    // A sector and no other; EOP tells only when its interrupt is enabled.
    push(0xF104);
    FLASH_CR.write(WORDS | SER | 11 << 3);
    FLASH_CR.set(STRT);
    wait();
    push(FLASH_SR.read());
    push(FLASH_CR.read());
    for place in [BEFORE, FIRST, PLACE, LAST] {
        push(place.read());
    }
    FLASH_CR.write(EOPIE | WORDS | SER | 11 << 3);
    FLASH_CR.set(STRT);
    wait();
    push(FLASH_SR.read());
    FLASH_SR.write(1);
    push(FLASH_SR.read());
    FLASH_CR.write(0);

    // Locked by software; then a wrong key keeps it locked, whatever comes after.
    push(0xF105);
    FLASH_CR.write(LOCK);
    push(FLASH_CR.read());
    unlock();
    push(FLASH_CR.read());
    FLASH_CR.write(LOCK);
    FLASH_KEYR.write(KEYS[1]);
    unlock();
    push(FLASH_CR.read());
    // Until the next reset.
    AIRCR.write(0x05FA_0004);
    loop {
        cpu::barrier();
    }
}

fn after_reset() {
    push(0xF106);
    push(FLASH_CR.read());
    unlock();
    push(FLASH_CR.read());
    push(BEFORE.read());
}

/// The store was a fault.
extern "C" fn fault_body(_exc_return: u32, _sp: u32) {
    push(0x1000 | cpu::ipsr());
    push(HFSR.read());
    push(CFSR.read());
    push(BFAR.read());
    end()
}
handler!(fault, fault_body);

pub(super) fn locked() {
    on(3, fault);
    push(0xF201);
    PLACE.write(0);
    wait();
    push(PLACE.read());
    push(FLASH_SR.read());
    // Unlocked, but PG is not set.
    FLASH_SR.write(ERRORS);
    unlock();
    PLACE.write(0);
    wait();
    push(PLACE.read());
    push(FLASH_SR.read());
}
