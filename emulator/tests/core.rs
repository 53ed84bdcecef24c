//! The core alone, with programs assembled by hand: time, exceptions, sleep, faults, strictness.
#![allow(clippy::unwrap_used)]

use virtual_crazyflie::board::card::Card;
use virtual_crazyflie::board::eeprom::Eeprom;
use virtual_crazyflie::board::nrf::Nrf;
use virtual_crazyflie::board::{Stop, TICKS_PER_MS};
use virtual_crazyflie::chip::rcc::ResetCause;
use virtual_crazyflie::outside::Nothing;
use virtual_crazyflie::{Board, Image, Machine};

const CODE: u32 = 0x0800_4200;
/// Where programs leave their results.
const RESULT: u32 = 0x2000_8000;

/// An image: vector table with the given handlers (exception number, offset in halfwords into the code).
fn image(handlers: &[(usize, u32)], code: &[u16]) -> Image {
    let mut words = [CODE | 1; 128];
    words[0] = 0x2002_0000;
    for (number, offset) in handlers {
        words[*number] = (CODE + 2 * offset) | 1;
    }
    let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    bytes.extend(code.iter().flat_map(|h| h.to_le_bytes()));
    Image::parse(bytes).unwrap()
}

fn machine(handlers: &[(usize, u32)], code: &[u16]) -> Machine {
    let mut board = Board::new(Card::new(None), Eeprom::default(), Nrf::new(false), Box::new(Nothing));
    board.set_strict(true);
    Machine::new(board, &image(handlers, code)).unwrap()
}

fn result(machine: &mut Machine, index: u32) -> u32 {
    machine.parts().1.word(RESULT + 4 * index).unwrap()
}

/// `ldr rN, =word` is a literal load; here as movw/movt.
fn load(register: u16, word: u32) -> [u16; 4] {
    let half = |op: u16, h: u16| {
        [op | (h >> 12) | (h >> 1 & 0x0400), (h & 0x00FF) | (h << 4 & 0x7000) | register << 8]
    };
    let [a, b] = half(0xF240, word as u16);
    let [c, d] = half(0xF2C0, (word >> 16) as u16);
    [a, b, c, d]
}

fn program(parts: &[&[u16]]) -> Vec<u16> {
    parts.concat()
}

#[test]
fn a_loop_takes_its_time_and_its_result_is_right() {
    // r0 = 1000; r1 = 0; do { r1 += 3; r0 -= 1 } while r0 != 0; store r1; wait for ever.
    let code =
        program(&[&load(0, 1000), &load(1, 0), &load(2, RESULT), &[0x3103, 0x3801, 0xD1FC, 0x6011, 0xE7FE]]);
    let mut m = machine(&[], &code);
    let before = m.look().effort;
    assert_eq!(m.run_until(3 * TICKS_PER_MS), None);
    assert_eq!(result(&mut m, 0), 3000);
    let spent = m.look().effort;
    assert!(spent.instructions - before.instructions > 3000);
    // The whole time was spent computing.
    assert_eq!(spent.asleep, 0);
    assert!(m.look().now - 3 * TICKS_PER_MS < 100);
}

#[test]
fn systick_interrupts_and_wfi_sleeps_in_between() {
    // Thread: reload = 16799 (10 kHz), control = 7; loop: wfi; b loop.
    // Handler: ++RESULT; bx lr.
    let thread = program(&[
        &load(0, 0xE000_E010),
        &load(1, 16_799),
        &load(2, RESULT),
        &[0x2300, 0x6013, 0x6041, 0x2107, 0x6001, 0xBF30, 0xE7FD],
    ]);
    let handler = thread.len() as u32;
    let code = program(&[&thread, &load(2, RESULT), &[0x6813, 0x3301, 0x6013, 0x4770]]);
    let mut m = machine(&[(15, handler)], &code);
    assert_eq!(m.run_until(12 * TICKS_PER_MS), None);
    let ticks = result(&mut m, 0);
    assert!((99..=100).contains(&ticks), "{ticks}");
    let effort = m.look().effort;
    assert!(effort.asleep > 9 * TICKS_PER_MS, "{effort:?}");
    assert_eq!(m.handlers[15].runs, u64::from(ticks));
    assert_eq!(m.handlers[15].instructions, 6 * u64::from(ticks));
}

#[test]
fn an_urgent_interrupt_comes_through_and_a_masked_one_waits() {
    // Interrupt 0 (priority 0x80) pends interrupt 1 (0x40), which must run inside it: the log is
    // 1 (begin of 0), 2 (in 1), 3 (end of 0). The thread pends 0 under PRIMASK and writes 9 first.
    let log = |value: u16| vec![0x2600 | value, 0xF847, 0x6B04]; // movs r6,#value; str r6,[r7],#4
    let thread = program(&[
        &load(7, RESULT),
        &load(0, 0xE000_E100),
        &[0x2103, 0x6001], // enable both
        &load(0, 0xE000_E400),
        &load(1, 0x4080),
        &[0x6001],
        &load(0, 0xE000_E200),
        &[0xB672, 0x2101, 0x6001], // cpsid i; pend 0
        &log(9),
        &[0xB662, 0xBF00], // cpsie i
        &log(8),
        &[0xE7FE],
    ]);
    let first = thread.len() as u32;
    let zero =
        program(&[&log(1), &load(0, 0xE000_E200), &[0x2102, 0x6001, 0xF3BF, 0x8F6F], &log(3), &[0x4770]]);
    let second = first + zero.len() as u32;
    let one = program(&[&log(2), &[0x4770]]);
    let code = program(&[&thread, &zero, &one]);
    let mut m = machine(&[(16, first), (17, second)], &code);
    assert_eq!(m.run_until(3 * TICKS_PER_MS), None);
    let log: Vec<u32> = (0..5).map(|i| result(&mut m, i)).collect();
    assert_eq!(log, [9, 1, 2, 3, 8]);
    assert_eq!(m.look().nvic.deepest, 2);
}

#[test]
fn floats_survive_an_interrupt_that_uses_them() {
    // CPACR on; s0 = 1.0; loop { s0 += 1.0 } with SysTick clobbering s0..: after 100 ticks it stops.
    let thread = program(&[
        &load(0, 0xE000_ED88),
        &load(1, 0x00F0_0000),
        &[0x6001, 0xF3BF, 0x8F6F], // str; isb
        &load(2, RESULT),
        &[0x2300, 0x6013],
        &load(0, 0xE000_E010),
        &load(1, 1_679),
        &[0x6041, 0x2107, 0x6001],
        &[0xEEB7, 0x0A00, 0xEEF7, 0x0A00], // vmov s0,#1.0; vmov s1,#1.0
        &load(4, 100_000),
        // loop: vadd s0,s0,s1; subs r4,#1; bne loop; vstr s0,[r2,#4]; b .
        &[0xEE30, 0x0A20, 0x3C01, 0xD1FB, 0xED82, 0x0A01, 0xE7FE],
    ]);
    let handler = thread.len() as u32;
    let code = program(&[
        &thread,
        &load(2, RESULT),
        // vmov s0,#31; vmov s1,s0; ldr; adds; str; bx lr
        &[0xEEB3, 0x0A0F, 0xEEF0, 0x0A40, 0x6813, 0x3301, 0x6013, 0x4770],
    ]);
    let mut m = machine(&[(15, handler)], &code);
    assert_eq!(m.run_until(10 * TICKS_PER_MS), None);
    assert!(result(&mut m, 0) > 100);
    assert_eq!(f32::from_bits(result(&mut m, 1)), 100_001.0);
}

#[test]
fn a_bad_load_reaches_the_hard_fault_handler_with_its_address() {
    let thread = program(&[&load(0, 0x6000_0000), &[0x6801, 0xE7FE]]);
    let handler = thread.len() as u32;
    // r1 = HFSR, r2 = BFAR, r3 = stacked pc.
    let code = program(&[
        &thread,
        &load(0, 0xE000_ED2C),
        &load(4, RESULT),
        &[0x6801, 0x6883, 0x6021, 0x6063, 0x9B06, 0x60A3, 0xE7FE],
    ]);
    let mut m = machine(&[(3, handler)], &code);
    assert_eq!(m.run_until(3 * TICKS_PER_MS), None);
    assert_eq!(result(&mut m, 0), 1 << 30);
    assert_eq!(result(&mut m, 1), 0x6000_0000);
    assert_eq!(result(&mut m, 2), CODE + 8);
    assert_eq!(m.faults.len(), 1);
}

#[test]
fn running_data_is_a_hard_fault() {
    // r0 = SRAM | 1; bx r0
    let code = program(&[&load(0, 0x2000_1001), &[0x4700, 0xE7FE]]);
    let mut m = machine(&[(3, 5)], &code);
    assert_eq!(m.run_until(3 * TICKS_PER_MS), None);
    assert_eq!((m.faults.len(), m.faults[0].1), (1, 0x2000_1000), "{:?}", m.faults);
}

#[test]
fn an_undefined_instruction_is_a_hard_fault_and_a_second_one_locks_up() {
    let mut m = machine(&[(3, 1)], &[0xDE00, 0xDE01]);
    let stop = m.run_until(3 * TICKS_PER_MS);
    assert_eq!(stop, Some(Stop::Lockup));
    assert_eq!(m.faults[0].1, CODE, "{:?}", m.faults);
}

#[test]
fn a_register_that_is_not_modelled_is_named() {
    let code = program(&[&load(0, 0x4001_2C00), &[0x6801, 0xE7FE]]);
    let mut m = machine(&[], &code);
    let stop = m.run_until(3 * TICKS_PER_MS).unwrap();
    assert_eq!(stop, Stop::Unmodelled { address: 0x4001_2C00, is_write: false });
    let text = m.explain(&stop, &image(&[], &code));
    assert!(text.contains("load from 0x40012c00 (SDIO)"), "{text}");
}

#[test]
fn a_peripheral_without_its_clock_is_dumb_and_the_access_is_remembered() {
    // r1 = GPIOA_MODER; store it.
    let code = program(&[&load(0, 0x4002_0000), &load(2, RESULT), &[0x6801, 0x6011, 0xE7FE]]);
    let mut m = machine(&[], &code);
    assert_eq!(m.run_until(3 * TICKS_PER_MS), None);
    assert_eq!(result(&mut m, 0), 0);
    assert_eq!(m.look().unclocked.values().collect::<Vec<_>>(), [&0x4002_0000]);
}

#[test]
fn a_software_reset_starts_again_and_keeps_the_memory() {
    // ++RESULT2 (at +8 in CCM); if it is 3 stay, else reset by AIRCR.
    let code = program(&[
        &load(2, 0x1000_0100),
        &load(0, 0xE000_ED0C),
        &load(1, 0x05FA_0004),
        // ldr r3,[r2]; adds r3,#1; str r3,[r2]; and 3; beq .; str r1,[r0]; b .
        &[0x6813, 0x3301, 0x6013, 0xF013, 0x0F03, 0xD0FE, 0x6001, 0xE7FE],
    ]);
    let mut m = machine(&[], &code);
    assert_eq!(m.run_until(50 * TICKS_PER_MS), None);
    assert!((1..=4).contains(&m.resets.len()), "{:?}", m.resets);
    assert!(m.resets.iter().all(|(_, cause)| *cause == ResetCause::Software));
    assert_eq!(m.parts().1.word(0x1000_0100).unwrap() & 3, 0);
}

#[test]
fn wfe_returns_at_once_after_sev() {
    // sev; wfe; (store 1); wfe (sleeps); store 2
    let code = program(&[
        &load(2, RESULT),
        &[0x2300, 0x6013, 0xBF40, 0xBF20, 0x2301, 0x6013, 0xBF20, 0x2302, 0x6013, 0xE7FE],
    ]);
    let mut m = machine(&[], &code);
    assert_eq!(m.run_until(5 * TICKS_PER_MS), None);
    assert_eq!(result(&mut m, 0), 1);
    assert!(m.look().effort.asleep > 2 * TICKS_PER_MS);
}

#[test]
fn a_call_can_be_repeated_by_the_engine_alone() {
    // sp and r2 are set; loop: bl f; b loop. f: ++RESULT; bx lr.
    let thread = program(&[&load(2, RESULT), &[0x2300, 0x6013, 0xF000, 0xF801, 0xE7FC]]);
    let function = CODE + 2 * thread.len() as u32;
    let mut m = machine(&[], &program(&[&thread, &[0x6813, 0x3301, 0x6013, 0x4770]]));
    let to_call = |m: &mut Machine| {
        for _ in 0..100 {
            assert_eq!(m.run_until(m.look().now + 1), None);
            if m.pc() == function {
                return;
            }
        }
        panic!("the function is not called");
    };
    to_call(&mut m);
    to_call(&mut m);
    let (before, call) = (result(&mut m, 0), m.call());
    to_call(&mut m);
    let effort = m.look().effort;
    m.repeat_uncounted(&call, 10).unwrap();
    assert_eq!(result(&mut m, 0), before + 1, "every repetition begins with the same memory");
    assert_eq!(m.look().effort, effort, "nothing is counted");
}

#[test]
fn a_call_that_sleeps_is_not_repeated() {
    // f: wfi; b f
    let thread = program(&[&load(2, RESULT), &[0xF000, 0xF801, 0xE7FC, 0xBF30, 0xE7FD]]);
    let function = CODE + 2 * (thread.len() as u32 - 2);
    let mut m = machine(&[], &thread);
    while m.pc() != function {
        assert_eq!(m.run_until(m.look().now + 1), None);
    }
    let call = m.call();
    let error = m.repeat_uncounted(&call, 1).unwrap_err().to_string();
    assert!(error.contains("does not return"), "{error}");
}

#[test]
fn two_runs_are_the_same_to_the_tick() {
    let run = || {
        let thread = program(&[
            &load(0, 0xE000_E010),
            &load(1, 16_799),
            &load(2, RESULT),
            &[0x2300, 0x6013, 0x6041, 0x2107, 0x6001, 0x3401, 0xE7FD],
        ]);
        let handler = thread.len() as u32;
        let code = program(&[&thread, &load(2, RESULT), &[0x6813, 0x3301, 0x6013, 0x4770]]);
        let mut m = machine(&[(15, handler)], &code);
        m.run_until(9 * TICKS_PER_MS);
        (m.look().now, m.look().effort, m.handlers[15])
    };
    assert_eq!(run(), run());
}

/// Enables every peripheral's clock.
fn clocks() -> Vec<u16> {
    let enable = |address| program(&[&load(0, address), &load(1, 0x7FFF_FFFF), &[0x6001]]);
    [0x4002_3830, 0x4002_3840, 0x4002_3844].map(enable).concat()
}

/// Stores words at addresses, then waits for ever.
fn stores(list: &[(u32, u32)]) -> Vec<u16> {
    let mut code = clocks();
    for (address, value) in list {
        code.extend(program(&[&load(0, *address), &load(1, *value), &[0x6001]]));
    }
    code.push(0xE7FE);
    code
}

#[test]
fn a_call_to_nowhere_is_a_fault() {
    for target in [1, 0, 0xFFFF_FFF0, 0xF000_0001, 0x2000_0000] {
        let mut m = machine(&[(3, 5)], &program(&[&load(0, target), &[0x4700, 0xE7FE]]));
        assert_eq!(m.run_until(3 * TICKS_PER_MS), None, "{target:#x}");
        assert_eq!((m.faults.len(), m.faults[0].1), (1, target & !1), "{:?}", m.faults);
    }
}

#[test]
fn without_a_stack_a_bus_fault_has_no_frame_but_its_handler_runs() {
    // SHCSR.BUSFAULTENA; sp = 0; svc. The handler stores CFSR.
    let thread = program(&[
        &load(0, 0xE000_ED24),
        &load(1, 1 << 17),
        &[0x6001],
        &load(2, RESULT),
        &load(0, 0),
        &[0x4685, 0xDF00, 0xE7FE],
    ]);
    let handler = thread.len() as u32;
    let code = program(&[&thread, &load(0, 0xE000_ED28), &[0x6801, 0x6011, 0xE7FE]]);
    let mut m = machine(&[(5, handler)], &code);
    assert_eq!(m.run_until(3 * TICKS_PER_MS), None);
    // STKERR.
    assert_eq!(result(&mut m, 0), 1 << 12, "{:?}", m.faults);
}

#[test]
fn a_coprocessor_that_is_not_there_is_a_usage_fault() {
    // SHCSR.USGFAULTENA; mcr2 p1. The handler stores CFSR.
    let thread = program(&[
        &load(0, 0xE000_ED24),
        &load(1, 1 << 18),
        &[0x6001],
        &load(2, RESULT),
        &[0xFE00, 0x0110, 0xE7FE],
    ]);
    let handler = thread.len() as u32;
    let code = program(&[&thread, &load(0, 0xE000_ED28), &[0x6801, 0x6011, 0xE7FE]]);
    let mut m = machine(&[(6, handler)], &code);
    assert_eq!(m.run_until(3 * TICKS_PER_MS), None);
    // NOCP.
    assert_eq!(result(&mut m, 0), 1 << 19, "{:?}", m.faults);
}

#[test]
fn the_slowest_clock_is_no_end_of_time() {
    // 8 MHz / 63 * 2 / 8 / 512 for the core, / 16 for the bus; TIM2 as slow as it gets, with its interrupt; SPI1.
    let tim2 = [(0x2C, u32::MAX), (0x34, 0xFFFF_FFF0), (0x28, 0xFFFF), (0x14, 1), (0x0C, 2), (0x00, 1)];
    let mut list =
        vec![(0x4002_3804, 1 << 22 | 3 << 16 | 2 << 6 | 63), (0x4002_3808, 7 << 13 | 7 << 10 | 15 << 4 | 2)];
    list.extend(tim2.map(|(offset, value)| (0x4000_0000 + offset, value)));
    list.extend([(0x4001_3000, 0x37C), (0x4001_300C, 1)]);
    for pll in [list[0].1, 0, u32::MAX] {
        list[0].1 = pll;
        let mut m = machine(&[], &stores(&list));
        assert_eq!(m.run_until(500 * TICKS_PER_MS), None);
        assert!(m.look().now >= 500 * TICKS_PER_MS);
    }
}

/// Random numbers, always the same.
fn random(state: &mut u64) -> u32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 32) as u32
}

#[test]
fn no_image_makes_it_panic_or_stand_still() {
    let bases = [
        0x4000_0000,
        0x4000_0400,
        0x4000_0800,
        0x4000_2800,
        0x4000_3000,
        0x4000_5400,
        0x4000_5C00,
        0x4000_7000,
        0x4001_1400,
        0x4001_3000,
        0x4001_3800,
        0x4001_3C00,
        0x4002_0000,
        0x4002_0400,
        0x4002_0800,
        0x4002_3800,
        0x4002_3C00,
        0x4002_6000,
        0x4002_6400,
        0xE000_E010,
        0xE000_E100,
        0xE000_E400,
        0xE000_ED00,
        0xE000_1000,
        0xE000_EF30_u32,
    ];
    for seed in 0..600u64 {
        let mut state = seed;
        let registers: Vec<(u32, u32)> = (0..8)
            .map(|_| {
                let base = bases[random(&mut state) as usize % bases.len()];
                let value = match random(&mut state) % 4 {
                    0 => 0,
                    1 => u32::MAX,
                    2 => 1 << (random(&mut state) % 32) | 1,
                    _ => random(&mut state),
                };
                (base + ((random(&mut state) % 0xD0) & !3), value)
            })
            .collect();
        let code: Vec<u16> = (0..64).map(|_| random(&mut state) as u16).collect();
        for code in [stores(&registers), code] {
            let board = Board::new(Card::new(None), Eeprom::default(), Nrf::new(false), Box::new(Nothing));
            let mut m = Machine::new(board, &image(&[(3, 60), (5, 60), (6, 60)], &code)).unwrap();
            let stop = m.run_until(5 * TICKS_PER_MS);
            let is_known = !matches!(stop, Some(Stop::NoProgress | Stop::Unexpected(_)));
            assert!(is_known, "image {seed}: {stop:?} at {:#x}", m.pc());
        }
    }
}
