//! Programs of our own against the architecture: each leaves a trace, which has to be the one that the manuals
//! prescribe. Sections are those of the ARMv7-M Architecture Reference Manual (DDI 0403) and of the STM32F405's
//! reference manual (RM0090). The programs are in `emulator/images`.
#![allow(clippy::unwrap_used)]

use architecture_image::{COUNT, DONE, TOPIC, TRACE, Topic};
use virtual_crazyflie::board::card::Card;
use virtual_crazyflie::board::eeprom::Eeprom;
use virtual_crazyflie::board::nrf::Nrf;
use virtual_crazyflie::board::{Stop, TICKS_PER_MS};
use virtual_crazyflie::chip::rcc::ResetCause;
use virtual_crazyflie::outside::Nothing;
use virtual_crazyflie::{Board, Image, Machine};

/// What came of a program.
struct Run {
    trace: Vec<u32>,
    stop: Option<Stop>,
    is_done: bool,
    machine: Machine,
    image: Image,
}

impl Run {
    /// It has come to its end with this trace.
    #[track_caller]
    fn expect(&self, expected: &[u32]) {
        let text = |words: &[u32]| words.iter().map(|word| format!("{word:#x}\n")).collect::<String>();
        let same = self.trace.iter().zip(expected).take_while(|(a, b)| a == b).count();
        assert_eq!(
            text(&self.trace),
            text(expected),
            "differs from word {same} on; at {}, stop {:?}, faults {:?}",
            self.image.place(self.machine.pc()),
            self.stop,
            self.machine.faults.iter().take(5).collect::<Vec<_>>()
        );
        assert!(self.is_done && self.stop.is_none(), "stop {:?}", self.stop);
    }
}

/// Runs a program for at most `ms`; `None` when there is no image.
#[track_caller]
fn run(topic: Topic, is_strict: bool, ms: u64) -> Option<Run> {
    let image = Image::load(&steady_test_support::architecture_image()?).unwrap();
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    let mut board = Board::new(Card::new(Some(file)), Eeprom::default(), Nrf::new(true), Box::new(Nothing));
    board.set_strict(is_strict);
    let mut machine = Machine::new(board, &image).unwrap();
    let (_, mut memory) = machine.parts();
    for (address, word) in [(TOPIC, topic as u32), (DONE, 0), (COUNT, 0)] {
        assert!(memory.set_word(address, word));
    }
    let mut stop = None;
    let mut is_done = false;
    let begin = machine.look().now;
    while stop.is_none() && !is_done && machine.look().now < begin + ms * TICKS_PER_MS {
        let until = machine.look().now + TICKS_PER_MS;
        stop = machine.run_until(until);
        is_done = machine.parts().1.word(DONE) == Some(1);
    }
    let (_, memory) = machine.parts();
    let count = memory.word(COUNT).unwrap();
    let trace = (0..count).map(|i| memory.word(TRACE + 4 * i).unwrap()).collect();
    Some(Run { trace, stop, is_done, machine, image })
}

/// B1.4.4 (CONTROL), B1.5.6 (entry), B1.5.8 (return, EXC_RETURN), B1.5.10 (SVCall and PendSV).
#[test]
fn tasks_switch_on_process_stacks() {
    let Some(run) = run(Topic::ContextSwitch, true, 5) else { return };
    let switch = |exc_return, size| [0x9E00, exc_return, 0, size];
    let trace = [
        // PendSV's priority has four bits.
        &[0x00F0_0000][..],
        // Thread mode, privileged, main stack.
        &[0, 0],
        // SVC 0 from there; in its handler CONTROL is 0 and IPSR 11.
        &[0x5C00, 0xFFFF_FFF9, 0, 11, 0x20],
        // The first task: its stack is empty, SPSEL is set, MSP is where the handler left it.
        &[0xA001, 0, 2, 0, 0],
        &switch(0xFFFF_FFFD, 0x20),
        // The second task, which makes itself unprivileged and calls SVC 1. In the handler SPSEL is 0 and
        // nPRIV is as it was, which does not make the handler unprivileged: it pends PendSV, which comes at once.
        &[0xB001, 0, 2, 3],
        &[0x5C01, 0xFFFF_FFFD, 1, 11, 0x20],
        &[0x9E00, 0xFFFF_FFFD, 1, 0x20],
        // nPRIV belongs to no task; an unprivileged one cannot change it, its SVC 2 does.
        &[0xA002, 3, 3],
        &[0x5C02, 0xFFFF_FFFD, 1, 11, 0x20],
        &[2],
        // With floats in use the frame is longer and bit 4 of EXC_RETURN is clear.
        &switch(0xFFFF_FFED, 0x68),
        &[0xB002, 2],
        &switch(0xFFFF_FFED, 0x68),
        // FPCA is set again; all 32 registers and FPSCR are the task's own.
        &[0xA003, 6, 32, 0x8040_0000],
        &switch(0xFFFF_FFED, 0x68),
        &[0xB003, 32, 0x4080_0000],
    ];
    run.expect(&trace.concat());
}

/// B1.5.4 (priorities and groups), B5.2.3 (MSR), B3.2.4 (ICSR), B3.2.6 (AIRCR), B3.4 (NVIC).
#[test]
fn priorities_have_four_bits_masks_and_groups() {
    let Some(run) = run(Topic::Priorities, true, 5) else { return };
    let handler = |irq: u32| 0x1000 | (16 + irq);
    run.expect(&[
        0x50,
        // BASEPRI 0x5F is 0x50, and holds 0x50 back: pending, and ISRPENDING; VECTPENDING does not count what
        // BASEPRI holds back.
        0xBA01,
        0x50,
        1,
        1 << 22,
        0xBA02,
        handler(0),
        // BASEPRI 0x0F is 0, which is off.
        0xBA03,
        0,
        handler(0),
        // BASEPRI_MAX only makes it stricter, and 0 means nothing.
        0xBA04,
        0x40,
        0x40,
        0x40,
        // PRIMASK holds back, and what is pending comes when it is cleared; FAULTMASK does too, and what is
        // no longer pending does not come.
        0xBA05,
        1,
        handler(0),
        1,
        0,
        // Not enabled: nowhere in ICSR.
        0xBA06,
        0,
        0,
        // Groups of 0x40: 0x60 is interrupted by 0x30 but not by 0x40 and 0x50, which come after it in their order.
        0xBA07,
        0xFA05_0500,
        handler(0),
        1,
        handler(2),
        0x2010,
        handler(3),
        handler(1),
        0xBA08,
        handler(2),
        0xBA09,
        handler(3),
        // No groups: none interrupts the first, and they come by priority.
        0xBA0A,
        handler(0),
        1,
        0x2010,
        handler(2),
        handler(3),
        handler(1),
        // The same priority: by number.
        0xBA0B,
        handler(1),
        handler(2),
        handler(3),
    ]);
}

/// B1.5.6 (frames and their alignment), B1.5.8 (EXC_RETURN), B1.5.12 (tail chaining).
#[test]
fn handlers_follow_each_other_on_one_frame() {
    let Some(run) = run(Topic::TailChaining, true, 5) else { return };
    let thread = 0xFFFF_FFF9;
    // Bit 9 of the stacked xPSR tells that the frame was moved by four bytes.
    let round = |size: u32, moved: u32| {
        let trace = [
            &[0x1010, thread, size, 1, 1 << 24 | moved << 9][..],
            // R0 to R3, R12.
            &[0x10, 0x11, 0x12, 0x13, 0x1C],
            // The nested one: from handler mode, on the main stack, and not the last one active.
            &[0x1013, 0xFFFF_FFF1, 1, 0, 16],
            &[0x2010],
            // The more urgent one first; each has the thread's frame, at its old place.
            &[0x1011, thread, size, 1, 0x10],
            &[0x1012, thread, size, 1, 0x10],
            // R0 is the thread's own again.
            &[0x10],
        ];
        trace.concat()
    };
    run.expect(&[round(0x20, 0), vec![0xCA00], round(0x24, 1)].concat());
}

/// B1.5.7 (floating-point state on entry), B1.5.8 (return), B3.2.21 and B3.2.22 (FPCCR, FPCAR), A2.5.
#[test]
fn floats_are_stacked_lazily_and_come_back() {
    let Some(run) = run(Topic::Floats, true, 5) else { return };
    let fpscr = 0xB280_0000;
    run.expect(&[
        0b11,
        // No floating-point context: the short frame. FPCA stays clear.
        0xF001,
        0x1010,
        0xFFFF_FFF9,
        0x20,
        0,
        0,
        0,
        // A context, and a handler that leaves it alone: room for it, LSPACT, FPCA clear in the handler; after the
        // return FPCA is set, LSPACT clear, FPSCR and the 32 registers are as they were.
        0xF002,
        0x1010,
        0xFFFF_FFE9,
        0x68,
        0,
        1,
        4,
        fpscr,
        32,
        0,
        // A handler that uses it: FPCAR points to the room.
        0xF003,
        0x1010,
        0xFFFF_FFE9,
        0x68,
        0,
        1,
        0x20,
        // Its first floating-point instruction sets FPCA and the modes of FPDSCR, and the old state is in the frame.
        4,
        0,
        0,
        0x4100_0000,
        0x4100_000F,
        fpscr,
        // A nested handler saves the outer one's.
        0x1011,
        0xFFFF_FFE1,
        0x68,
        0,
        1,
        4,
        0x5555_5555,
        4,
        fpscr,
        32,
        0,
    ]);
}

/// B1.5.4 (escalation), B1.5.14 (faults), B3.2.15 and B3.2.16 (CFSR, HFSR).
#[test]
fn what_cannot_interrupt_becomes_a_hard_fault() {
    let Some(run) = run(Topic::Escalation, true, 5) else { return };
    let (thread, handler, forced) = (0xFFFF_FFF9, 0xFFFF_FFF1, 1 << 30);
    // PRECISERR and BFARVALID; UNDEFINSTR.
    let (bus, undefined) = (1 << 9 | 1 << 15, 1 << 16);
    let trace = [
        &[0xE501][..],
        &[0x1003, thread, bus, forced, 0x6000_0000, 0],
        &[0x1003, thread, undefined, forced, 0],
        // With handlers of their own.
        &[0xE502],
        &[0x1005, thread, bus, 0, 0x6000_0000, 0],
        &[0x1006, thread, undefined, 0, 0],
        &[0x100B],
        // Under PRIMASK nothing of a configurable priority can interrupt.
        &[0xE503],
        &[0x1003, thread, bus, forced, 0x6000_0000, 0],
        &[0x1003, thread, 0, forced, 0],
        // Nor in a handler of the same priority.
        &[0xE504, 0x1010],
        &[0x1003, handler, 0, forced, 0],
        &[0x1003, handler, bus, forced, 0x6000_0000, 0],
    ];
    run.expect(&trace.concat());
}

/// B1.4.1: "SP bits[1:0]: RAZ/WI".
#[test]
fn the_low_bits_of_stack_pointers_are_zero() {
    let Some(run) = run(Topic::StackPointer, true, 5) else { return };
    run.expect(&[0x2000_0000, 0x2000_0004, 0xFFFF_FFFC, 0, 0, 8, 0]);
}

/// B3.3 (SysTick), C1.8.3 (cycle counter).
#[test]
fn systick_counts_cycles() {
    let Some(run) = run(Topic::SysTick, true, 10) else { return };
    run.expect(&[
        // 24 bits of reload; the counter is cleared by any write and does not count while it is off.
        0x00FF_FFFF,
        0,
        0,
        0,
        // The first time after the reload value plus one; reading clears COUNTFLAG; nothing is pending.
        8000,
        0,
        0,
        // Writing the counter clears COUNTFLAG.
        0,
        // Stopped half-way (in units of 128 cycles), it stands still and goes on from there.
        31,
        1,
        0,
        // The new reload value holds from the next period on.
        16000,
        // Eight periods of the interrupt, one by one and together.
        8000,
        8000,
        8000,
        8000,
        8000,
        8000,
        8000,
        8000,
        64000,
        // HCLK / 8.
        8000,
    ]);
}

/// B1.5.17 (WFE and its events), B1.5.18 (WFI), B3.2.7 (SCR).
#[test]
fn what_wakes_the_core_and_what_does_not() {
    let Some(run) = run(Topic::Sleep, true, 5) else { return };
    let tick = 0x100F;
    run.expect(&[
        0x5E01,
        tick,
        0x5E02,
        // Under PRIMASK: awake, pending, not taken before the mask is cleared.
        1 << 26 | 15 << 12,
        0x5E03,
        tick,
        0x5E04,
        // What BASEPRI holds back stays pending; the timer woke.
        tick,
        0x5E05,
        1 << 22,
        0x1010,
        0x5E06,
        // SEV; a handler's entry and return.
        0x5E07,
        0x1010,
        0x5E08,
        // Pending but disabled: no event without SEVONPEND.
        tick,
        0x5E09,
        // An event with it.
        0x5E0A,
        2,
        // Only when it becomes pending.
        tick,
        0x5E0B,
        // With SEVONPEND, WFE wakes under PRIMASK.
        0x5E0C,
        1 << 26,
        tick,
        // 32-bit encodings.
        0x5E0D,
        tick,
        0x5E0E,
        tick,
        0x5E0F,
        0x5E10,
        // SLEEPONEXIT: the first handler returns into sleep, the second switches it off.
        0x1011,
        tick,
        0x5E11,
    ]);
}

/// RM0090, 12.2.3 (wake-up events), 12.2.5 and 12.3 (EXTI), 8.3.10 (an output's level is read at the pin).
#[test]
fn pins_interrupt_and_wake() {
    let Some(run) = run(Topic::Exti, true, 5) else { return };
    let line = 1 << 1;
    let trace = [
        // Masked: nothing.
        &[0xE701, 0][..],
        // PR and SWIER are set, and are cleared together.
        &[0x1017, line, line, 0],
        &[0xE702],
        // Two lines with one vector.
        &[0x1038, 1 << 10 | 1 << 12, 1 << 10 | 1 << 12, 0],
        // The rising edge only.
        &[0xE703, 2 << 4],
        &[0x1017, line, 0, 0],
        &[line],
        // The falling edge only.
        &[0xE704],
        &[0x1017, line, 0, 0],
        // Another port.
        &[0xE705],
        // An event: nothing pending.
        &[0xE706, 0],
    ];
    run.expect(&trace.concat());
}

/// RM0090, 10.3.8 (circular mode), 10.3.14 (transfer completion), 10.3.18 (suspension), 10.5 (registers).
#[test]
fn dma_runs_in_circles_and_stops() {
    let Some(run) = run(Topic::Dma, true, 10) else { return };
    let (half, complete) = (1 << 4, 1 << 5);
    run.expect(&[
        // After a reset.
        0,
        0x21,
        // Circular: 14 bytes of 8 leave 2, and the stream is on. The other one has ended.
        0xD001,
        2,
        1,
        half | complete,
        0,
        0,
        half | complete,
        // The card's answer, silence, and what is behind the buffer.
        1,
        7,
        8,
        // Stopped by software.
        0xD002,
        0,
        complete,
        2,
        // Interrupts at half and at the end, cleared in LIFCR.
        0xD003,
        0x1048,
        half,
        0,
        0x1048,
        complete,
        0,
        0,
        0,
    ]);
}

/// RM0090, 10.3.17: the flags "should be cleared before the stream can be re-enabled". The chip does not check.
#[test]
fn dma_with_stale_flags_runs_on_the_chip_and_is_a_mistake_in_strict_mode() {
    let Some(lenient) = run(Topic::DmaStaleFlags, false, 10) else { return };
    let (half, complete) = (1 << 4, 1 << 5);
    lenient.expect(&[half | complete, 1, 0, 0, half | complete]);

    let Some(strict) = run(Topic::DmaStaleFlags, true, 10) else { return };
    assert_eq!(strict.trace, [half | complete]);
    let text = strict.machine.explain(strict.stop.as_ref().unwrap(), &strict.image);
    assert!(text.contains("DMA2 stream 0 was started with its flags set"), "{text}");
}

/// RM0090, 18.3.9 and 18.4.4 (PWM mode, CC2DE), 10.3.3 (TIM3_CH2 is channel 5 of DMA1's stream 5), 10.3.8 (circular mode).
#[test]
fn a_timer_sends_the_led_ring_its_colours() {
    let Some(run) = run(Topic::Ring, true, 5) else { return };
    let (half, complete) = (1 << 4, 1 << 5);
    // Half and end in turn: twelve LEDs, of which two are there from the start, and two of silence; then the stop.
    let mut trace = [half, complete].repeat(6);
    trace.extend([half, complete]);
    // 13 LEDs' time at the last interrupt but one; what is in the compare register is silence.
    trace.extend([13, 0, 0]);
    run.expect(&trace);
    let ring = &run.machine.look().ring;
    let expected: Vec<[u8; 3]> = (0..12).map(|led| [0xFF - led, led << 4, 0x80 | led]).collect();
    assert_eq!(ring.colours().as_slice(), expected);
    assert_eq!((ring.pictures, ring.bad_pulses), (1, 0));
}

#[test]
fn what_is_not_modelled_is_named_with_address_function_and_what_to_do() {
    let Some(run) = run(Topic::Unmodelled, false, 5) else { return };
    let text = run.machine.explain(run.stop.as_ref().unwrap(), &run.image);
    assert!(text.contains("load from 0x40012c00 (SDIO)"), "{text}");
    assert!(text.contains("ask_the_card_interface"), "{text}");
    assert!(text.contains("without that part"), "{text}");
}

/// RM0090, 27.3.3 (master), 27.3.4 (acknowledge failure), 27.6.6 and 27.6.7 (SR1, SR2).
#[test]
fn i2c_recovers_from_a_slave_that_does_not_answer() {
    let Some(run) = run(Topic::I2c, true, 50) else { return };
    let (sb, addr, btf, rxne, txe, af) = (1, 1 << 1, 1 << 2, 1 << 6, 1 << 7, 1 << 10);
    // MSL and BUSY, TRA.
    let (master, sender) = (0b011, 0b111);
    run.expect(&[
        0,
        0,
        0x2C01,
        sb,
        master,
        af,
        master,
        0,
        0,
        // Addressed as a sender; the data register is empty once ADDR is cleared.
        0x2C02,
        addr,
        sender,
        txe,
        txe | btf,
        // Busy writing, then not.
        af,
        1,
        0x2C03,
        addr,
        master,
        rxne | btf,
        0xA1,
        0xA2,
        0xA3,
        0,
        0,
    ]);
}

/// RM0090, 28.3.7 (flags), 28.3.10 (overrun), 28.5.3 (SR).
#[test]
fn spi_exchanges_bytes_and_tells_of_an_overrun() {
    let Some(run) = run(Topic::Spi, true, 10) else { return };
    let (rxne, txe, ovr, bsy) = (1, 1 << 1, 1 << 6, 1 << 7);
    run.expect(&[
        txe,
        txe | bsy,
        bsy,
        txe | rxne | ovr,
        0xFF,
        txe,
        // The SD card is silent during the command, and idle then.
        0x5B01,
        0xFF,
        0xFF,
        0xFF,
        0xFF,
        0xFF,
        0xFF,
        1,
    ]);
}

/// RM0090, 2.4 (boot memory at address 0), 3.6 (erase and program), 3.9 (registers).
#[test]
fn an_image_programs_its_own_flash() {
    for is_strict in [true, false] {
        let Some(run) = run(Topic::Flash, is_strict, 4000) else { return };
        let lock = 1 << 31;
        run.expect(&[
            1,
            0x0800_0000,
            0xF101,
            lock,
            lock,
            0,
            // 1 to 0 only; a byte; no error.
            0xF102,
            0xFFFF_00F0,
            0xFFFF_0030,
            0xFFFF_5AFF,
            0,
            // PGPERR, and nothing programmed.
            0xF103,
            1 << 6,
            u32::MAX,
            0,
            // The sector is blank, its neighbour is not. STRT has cleared itself.
            0xF104,
            0,
            2 << 8 | 11 << 3 | 2,
            0,
            u32::MAX,
            u32::MAX,
            u32::MAX,
            // EOP with EOPIE.
            1,
            0,
            0xF105,
            lock,
            0,
            lock,
            // After the reset it can be unlocked again, and the flash is as it was.
            0xF106,
            lock,
            0,
            0,
        ]);
        assert!(matches!(run.machine.resets[..], [(_, ResetCause::Software)]), "{:?}", run.machine.resets);
    }
}

/// RM0090, 3.9.4: PGSERR "when a write access to the flash memory is performed by the code while the control
/// register has not been correctly configured". A mistake, so that strict mode makes a bus fault of it.
#[test]
fn a_store_into_locked_flash_does_nothing_on_the_chip_and_is_a_fault_in_strict_mode() {
    let Some(lenient) = run(Topic::FlashLocked, false, 10) else { return };
    let pgserr = 1 << 7;
    lenient.expect(&[0xF201, u32::MAX, pgserr, u32::MAX, pgserr]);
    let Some(strict) = run(Topic::FlashLocked, true, 10) else { return };
    strict.expect(&[0xF201, 0x1003, 1 << 30, 1 << 9 | 1 << 15, 0x080E_0100]);
}

/// RM0090, 21.3 and 21.4 (IWDG), 7.3.21 (RCC_CSR).
#[test]
fn the_watchdog_resets_and_says_so() {
    let Some(run) = run(Topic::Watchdog, true, 1000) else { return };
    let (power, brown_out, pin, watchdog) = (1 << 27, 1 << 25, 1 << 26, 1 << 29);
    run.expect(&[
        power | brown_out | pin,
        0,
        0,
        0xFFF,
        0xFFF,
        2,
        99,
        2,
        0x1D01,
        0x1D02,
        0x1D03,
        watchdog | pin,
        0,
    ]);
    assert!(matches!(run.machine.resets[..], [(_, ResetCause::Watchdog)]), "{:?}", run.machine.resets);
}
