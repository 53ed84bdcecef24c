//! The machine: core and board together, with exceptions, sleep, faults and resets.

use std::ops::Range;

use anyhow::{Result, ensure};

use crate::board::{Board, Stop};
use crate::chip::rcc::ResetCause;
use crate::cortex::map;
use crate::cortex::nvic::exception;
use crate::cortex::unicorn::{Cpu, Exit, Memory, Register};
use crate::image::Image;
use steady_common::board::OTP_BLOCK_SIZE;

/// Time from a reset to the firmware's first instruction: the bootloader looks at its pins.
const BOOT_TICKS: u64 = 2 * crate::board::TICKS_PER_MS;
/// SRAM that the bootloader uses for itself, so that nothing in it survives a reset.
const BOOTLOADER_SRAM: usize = 16 * 1024;

/// So many exits of the core in a row without any time passing are one too many.
const MAX_IDLE_EXITS: u32 = 100_000;

/// Bits of CONTROL.
const UNPRIVILEGED: u32 = 1;
const PROCESS_STACK: u32 = 1 << 1;
const FLOATS_ACTIVE: u32 = 1 << 2;
/// EXC_RETURN by what was interrupted, and its bit that tells of a frame without floating-point registers.
const FROM_HANDLER: u32 = 0xFFFF_FFF1;
const FROM_THREAD: u32 = 0xFFFF_FFF9;
const FROM_PROCESS: u32 = 0xFFFF_FFFD;
const WITHOUT_FLOATS: u32 = 1 << 4;

/// What the core waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sleep {
    Awake,
    ForInterrupt,
    ForEvent,
}

/// Time that one exception handler took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandlerStats {
    /// How often it ran.
    pub runs: u64,
    /// Instructions of all runs, without what interrupted them.
    pub instructions: u64,
    /// Cycles of all runs (an estimate), without what interrupted them.
    pub cycles: u64,
    /// Cycles of the longest run.
    pub longest: u64,
    /// When the longest run ended, ticks.
    pub longest_at: u64,
    /// Instructions of the longest run, by instructions.
    pub max_instructions: u64,
}

/// A handler that is running: what had been done when it began, and what interrupted it since.
#[derive(Clone, Copy, Debug)]
struct Running {
    number: u8,
    instructions: u64,
    cycles: u64,
    nested_instructions: u64,
    nested_cycles: u64,
}

/// The registers that a called function may find something in; it gives the others back as they were.
const CALL_REGISTERS: [Register; 8] = [
    Register::R0,
    Register::R1,
    Register::R2,
    Register::R3,
    Register::R12,
    Register::SP,
    Register::LR,
    Register::PC,
];

/// A call of a function: registers and memories at its first instruction.
pub struct Call {
    registers: [u32; CALL_REGISTERS.len()],
    /// S0 to S15, and FPSCR.
    floats: ([u32; 16], u32),
    sram: Vec<u8>,
    ccm: Vec<u8>,
}

/// The machine.
pub struct Machine {
    cpu: Cpu<Board>,
    sleep: Sleep,
    is_halted: bool,
    /// A debugger holds the core.
    is_debugged: bool,
    /// The bootloader runs and looks at its pins then.
    boots_at: Option<u64>,
    /// The STM32 is in the bootloader of its ROM, which waits for USB: only a power cycle helps.
    pub is_in_rom: bool,
    stalled_until: u64,
    running: Vec<Running>,
    /// Time by exception number.
    pub handlers: Vec<HandlerStats>,
    /// Resets so far and their causes.
    pub resets: Vec<(u64, ResetCause)>,
    /// Faults delivered to the firmware: time, program counter, what.
    pub faults: Vec<(u64, u32, String)>,
    /// Power is off.
    pub is_off: bool,
}

impl Machine {
    /// A machine with an image in flash, at the firmware's first instruction.
    ///
    /// # Errors
    /// If the engine cannot be made.
    pub fn new(board: Board, image: &Image) -> Result<Self> {
        Self::build(board, |flash| image.write(flash))
    }

    /// A machine whose flash holds these bytes, bootloader and all.
    ///
    /// # Errors
    /// If the engine cannot be made.
    pub fn with_flash(board: Board, bytes: &[u8]) -> Result<Self> {
        Self::build(board, |flash| {
            flash.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
        })
    }

    fn build(board: Board, fill: impl FnOnce(&mut [u8])) -> Result<Self> {
        let mut machine = Self {
            cpu: Cpu::new(board)?,
            sleep: Sleep::Awake,
            is_halted: false,
            is_debugged: false,
            boots_at: None,
            is_in_rom: false,
            stalled_until: 0,
            running: Vec::new(),
            handlers: vec![HandlerStats::default(); crate::cortex::nvic::EXCEPTIONS],
            resets: Vec::new(),
            faults: Vec::new(),
            is_off: false,
        };
        let (_, mut memory) = machine.cpu.parts();
        fill(memory.flash);
        let id: [u8; 12] = *b"\x42\x00\x31\x00\x10VIRTUAL";
        let at = (map::UNIQUE_ID - map::SYSTEM) as usize;
        memory.system[at..at + 12].copy_from_slice(&id);
        let at = (map::FLASH_SIZE - map::SYSTEM) as usize;
        memory.system[at..at + 2].copy_from_slice(&1024u16.to_le_bytes());
        scramble(&mut memory);
        machine.set_otp("0;CF21");
        machine.board().now += BOOT_TICKS;
        machine.start();
        Ok(machine)
    }

    /// Writes what the factory writes: which board this is. Only the first block's size counts.
    pub fn set_otp(&mut self, text: &str) {
        let (_, memory) = self.cpu.parts();
        let at = (map::OTP - map::SYSTEM) as usize;
        let block = &mut memory.system[at..at + OTP_BLOCK_SIZE];
        block.fill(0xFF);
        block.iter_mut().zip(text.bytes().chain([0])).for_each(|(to, from)| *to = from);
    }

    /// Core and board.
    pub fn parts(&mut self) -> (&mut Board, Memory<'_>) {
        self.cpu.parts()
    }

    /// The board.
    pub fn board(&mut self) -> &mut Board {
        self.cpu.bus()
    }

    /// The board, to look at.
    #[must_use]
    pub fn look(&self) -> &Board {
        self.cpu.look()
    }

    /// The program counter, or the start of the block it is in.
    #[must_use]
    pub fn pc(&self) -> u32 {
        self.cpu.get(Register::PC)
    }

    /// Loads stack pointer and program counter from the vector table; stays put when there is none.
    fn start(&mut self) {
        let (board, memory) = self.cpu.parts();
        board.choose_strictness(memory.flash);
        let vectors = (memory.word(map::FIRMWARE), memory.word(map::FIRMWARE + 4));
        let (Some(sp), Some(entry)) = vectors else { return };
        if sp == u32::MAX {
            // Blank flash: the STM32 stays in its bootloader.
            board.nrf.cold_boot(&mut *memory.flash, board.now);
            board.nrf.take_request();
            self.is_halted = true;
            return;
        }
        for register in
            [Register::R0, Register::R1, Register::R2, Register::R3, Register::R12, Register::CONTROL]
        {
            self.cpu.set(register, 0);
        }
        self.cpu.set(Register::PRIMASK, 0);
        self.cpu.set(Register::BASEPRI, 0);
        self.cpu.set(Register::FAULTMASK, 0);
        self.cpu.set(Register::XPSR, 1 << 24);
        // Again: in handler mode the first one does not choose the stack.
        self.cpu.set(Register::CONTROL, 0);
        self.cpu.set(Register::LR, u32::MAX);
        // The two low bits of a stack pointer are always 0.
        self.cpu.set(Register::PSP, 0);
        self.cpu.set(Register::SP, sp & !3);
        self.cpu.set(Register::PC, entry | 1);
        self.cpu.set(Register::APSR_NZCV, 0);
    }

    /// Resets the chip.
    pub fn reset(&mut self, cause: ResetCause) {
        let (board, mut memory) = self.cpu.parts();
        let now = board.now;
        board.reset(cause);
        board.forget_costs();
        if matches!(cause, ResetCause::PowerOn | ResetCause::BrownOut) {
            scramble(&mut memory);
        }
        memory.sram[..BOOTLOADER_SRAM].fill(0xB0);
        self.cpu.forget_code();
        self.resets.push((now, cause));
        self.running.clear();
        self.sleep = Sleep::Awake;
        (self.is_halted, self.is_debugged, self.stalled_until) = (false, false, 0);
        self.is_in_rom = false;
        self.boots_at = Some(now + BOOT_TICKS);
    }

    /// What the bootloader does once it has looked at its two lines from the radio processor.
    fn boot(&mut self) {
        let (board, memory) = self.cpu.parts();
        match board.boot_lines() {
            (true, false) => self.start(),
            // Both low: it takes the radio processor for missing. A byte on its way looks like that too.
            (false, false) => (self.is_in_rom, self.is_halted) = (true, true),
            (_, true) => {
                board.nrf.cold_boot(memory.flash, board.now);
                board.nrf.take_request();
                self.is_halted = true;
            }
        }
    }

    /// A debugger holds the core, or lets it go on. A reset lets it go too.
    pub fn debug_halt(&mut self, halted: bool) {
        self.is_debugged = halted;
        let board = self.board();
        board.settle(None);
        board.debug_halt(halted);
    }

    /// The processor meets an instruction that it does not know.
    pub fn hard_fault(&mut self) {
        self.board().settle(None);
        self.sleep = Sleep::Awake;
        self.fault(1 << 16, 0, "undefined instruction, put there".to_owned());
    }

    /// Power goes away and comes back after some time.
    pub fn power_cycle(&mut self) {
        self.is_off = false;
        let (board, memory) = self.cpu.parts();
        board.nrf.power_cut(memory.flash, board.now);
        self.reset(ResetCause::PowerOn);
    }

    /// Runs until a time, or until something makes going on impossible. Resets happen on the way.
    pub fn run_until(&mut self, time: u64) -> Option<Stop> {
        self.board().set_limit(time);
        let (mut last, mut idle) = (self.look().now, 0);
        loop {
            let now = self.look().now;
            idle = if now == last { idle + 1 } else { 0 };
            last = now;
            if idle > MAX_IDLE_EXITS {
                return Some(Stop::NoProgress);
            }
            match self.board().stop.take() {
                Some(Stop::Reset(cause)) => self.reset(cause),
                Some(Stop::Halt) => {
                    // Its peripherals stop too: motors, and the watchdog, which would start the firmware.
                    let board = self.board();
                    board.settle(None);
                    board.reset(ResetCause::Pin);
                    self.running.clear();
                    self.sleep = Sleep::Awake;
                    (self.is_halted, self.boots_at) = (true, None);
                }
                Some(Stop::Stall(until)) => {
                    self.stalled_until = until;
                    if std::mem::take(&mut self.board().flash_changed) {
                        self.cpu.forget_code();
                        self.board().forget_costs();
                    }
                }
                Some(Stop::PowerCut) => self.power_cycle(),
                Some(Stop::PowerOff) => {
                    self.is_off = true;
                    return Some(Stop::PowerOff);
                }
                Some(stop) => return Some(stop),
                None => {}
            }
            if self.look().now >= time {
                return None;
            }
            if let Some(at) = self.boots_at {
                let (board, mut memory) = self.cpu.parts();
                if board.now < at {
                    let next = board.deadline().min(at);
                    board.sleep_until(&mut memory, next);
                } else {
                    self.boots_at = None;
                    self.boot();
                }
                continue;
            }
            if self.is_halted || self.is_debugged || self.look().now < self.stalled_until {
                self.pass_time();
                continue;
            }
            if let Some(number) = self.next_exception() {
                self.sleep = Sleep::Awake;
                self.enter(number);
                continue;
            }
            if self.sleep != Sleep::Awake {
                self.doze();
                continue;
            }
            let exit = self.cpu.run();
            self.handle(exit);
        }
    }

    /// The exception to take now.
    fn next_exception(&self) -> Option<u8> {
        let nvic = &self.look().nvic;
        // The mask registers are asked only when it depends on them.
        nvic.wants().then(|| self.cpu.masks()).and_then(|m| nvic.next(m.primask, m.basepri, m.faultmask))
    }

    /// Nothing runs until the next event.
    fn pass_time(&mut self) {
        let (board, mut memory) = self.cpu.parts();
        let next = board.deadline();
        board.sleep_until(&mut memory, next);
    }

    fn doze(&mut self) {
        let nvic = &self.look().nvic;
        let wakes = match self.sleep {
            // Something pending wakes even when PRIMASK keeps it from being taken, but not when BASEPRI does.
            Sleep::ForInterrupt => {
                nvic.wants() && {
                    let masks = self.cpu.masks();
                    nvic.next(false, masks.basepri, masks.faultmask).is_some()
                }
            }
            _ => self.take_event(),
        };
        if wakes {
            self.sleep = Sleep::Awake;
            return;
        }
        self.pass_time();
    }

    /// Whether there was an event; then there is none any more.
    fn take_event(&mut self) -> bool {
        let board = self.board();
        let (seen, pended) = (std::mem::take(&mut board.event), std::mem::take(&mut board.nvic.event));
        seen || pended
    }

    fn handle(&mut self, exit: Exit) {
        if exit != Exit::Asked {
            self.board().settle(None);
        }
        match exit {
            Exit::Asked => {}
            Exit::WaitForInterrupt => self.sleep = Sleep::ForInterrupt,
            Exit::WaitForEvent => {
                if !self.take_event() {
                    self.sleep = Sleep::ForEvent;
                }
            }
            Exit::SupervisorCall if self.preempts(exception::SV_CALL) => self.enter(exception::SV_CALL),
            Exit::SupervisorCall => {
                self.fault(0, 1 << 30, "supervisor call where it cannot interrupt".to_owned());
            }
            Exit::ExceptionReturn(value) => self.leave(value),
            Exit::Undefined => self.fault(1 << 16, 0, "undefined instruction".to_owned()),
            Exit::NoCoprocessor => self.fault(1 << 19, 0, "instruction of a coprocessor".to_owned()),
            Exit::Breakpoint => self.fault(0, 1 << 31, "breakpoint without a debugger".to_owned()),
            Exit::BusError { address, is_write, .. } => {
                let what = if is_write { "store to" } else { "load from" };
                self.board().system.bfar = address;
                self.fault(1 << 9 | 1 << 15, 0, format!("{what} {address:#010x}"));
            }
            Exit::FetchError(address) => self.fault(1 << 8, 0, format!("no code at {address:#010x}")),
            Exit::Other(number) => self.board().stop = Some(Stop::Unexpected(number)),
        }
    }

    /// True when an exception can interrupt what is running.
    fn preempts(&self, number: u8) -> bool {
        let masks = self.cpu.masks();
        self.look().nvic.preempts(number, masks.primask, masks.basepri, masks.faultmask)
    }

    /// A fault: a hard fault, unless its own handler is enabled and can interrupt what is running.
    fn fault(&mut self, cfsr: u32, hfsr: u32, what: String) {
        let pc = self.pc();
        let own = match cfsr {
            0 => None,
            1..=0xFF => Some(exception::MEM_MANAGE),
            0x100..=0xFFFF => Some(exception::BUS_FAULT),
            _ => Some(exception::USAGE_FAULT),
        };
        let own = own.filter(|number| self.preempts(*number));
        let locks_up = !self.preempts(exception::HARD_FAULT);
        let board = self.board();
        let now = board.now;
        board.system.cfsr |= cfsr;
        // Core exceptions are pended as enabled only when SHCSR says so; the reset value disables them.
        let number = own.filter(|n| board.system.is_fault_enabled(*n)).unwrap_or(exception::HARD_FAULT);
        if number == exception::HARD_FAULT {
            board.system.hfsr |= if hfsr == 0 { 1 << 30 } else { hfsr };
        }
        if locks_up {
            board.stop = Some(Stop::Lockup);
            return;
        }
        self.faults.push((now, pc, what));
        self.enter(number);
    }

    /// Enters an exception: stacks the frame, finds the handler.
    fn enter(&mut self, number: u8) {
        let [r0, r1, r2, r3, r12, lr, pc, xpsr, sp, control] = self.cpu.get_all([
            Register::R0,
            Register::R1,
            Register::R2,
            Register::R3,
            Register::R12,
            Register::LR,
            Register::PC,
            Register::XPSR,
            Register::SP,
            Register::CONTROL,
        ]);
        let has_floats = control & FLOATS_ACTIVE != 0;
        let sp = sp & !3;
        let words: u32 = if has_floats { 26 } else { 8 };
        // The frame is aligned to eight bytes; bit 9 of the stacked xPSR tells of the padding.
        let frame = sp.wrapping_sub(4 * words) & !7;
        let padding = sp.wrapping_sub(4 * words) & 4 != 0;
        let basic = [r0, r1, r2, r3, r12, lr, pc, (xpsr & !(1 << 9)) | u32::from(padding) << 9];
        let floats = has_floats.then(|| self.cpu.floats());
        let (board, mut memory) = self.cpu.parts();
        let mut is_good = memory.set_words(frame, &basic);
        if let Some((floats, fpscr)) = floats {
            is_good &= memory.set_words(frame.wrapping_add(32), &floats);
            is_good &= memory.set_words(frame.wrapping_add(96), &[fpscr, 0]);
        }
        if !is_good {
            // The stack is not in memory: a stacking error, whose own handler has no frame to trust.
            board.system.cfsr |= 1 << 12;
            if !matches!(number, exception::HARD_FAULT | exception::BUS_FAULT) {
                return self.fault(1 << 12, 0, format!("no stack at {frame:#010x}"));
            }
        }
        let thread = board.nvic.depth() == 0;
        let on_process_stack = thread && control & PROCESS_STACK != 0;
        if has_floats {
            board.system.reserve_floats(frame.wrapping_add(0x20));
        }
        board.enter_exception(number);
        let handler = memory.word(board.system.vtor + 4 * u32::from(number)).unwrap_or(0);
        let effort = board.effort;
        self.running.push(Running {
            number,
            instructions: effort.instructions,
            cycles: effort.cycles,
            nested_instructions: 0,
            nested_cycles: 0,
        });
        let from = match (thread, on_process_stack) {
            (true, true) => FROM_PROCESS,
            (true, false) => FROM_THREAD,
            (false, _) => FROM_HANDLER,
        };
        let exc_return = if has_floats { from & !WITHOUT_FLOATS } else { from };
        // The stack pointer in use is the interrupted code's until CONTROL chooses the main stack for handlers,
        // and xPSR makes this one.
        self.cpu.set(Register::SP, frame);
        if thread && control & UNPRIVILEGED != 0 {
            // An unprivileged thread cannot change CONTROL, and a handler cannot choose the stack: it becomes a
            // privileged thread first.
            self.cpu.set_all([
                (Register::XPSR_NZCVQG, u32::from(number) | 1 << 24),
                (Register::CONTROL, 0),
                (Register::XPSR_NZCVQG, 1 << 24),
            ]);
        }
        if control & (FLOATS_ACTIVE | PROCESS_STACK) != 0 {
            self.cpu.set(Register::CONTROL, control & !(FLOATS_ACTIVE | PROCESS_STACK));
        }
        self.cpu.set_all([
            (Register::XPSR_NZCVQG, u32::from(number) | 1 << 24),
            (Register::LR, exc_return),
            (Register::PC, handler | 1),
            // Last: this path makes the engine look at the mode again.
            (Register::APSR_NZCV, 0),
        ]);
    }

    /// Returns from an exception.
    fn leave(&mut self, exc_return: u32) {
        let to_process_stack = exc_return & 0xF == FROM_PROCESS & 0xF;
        let frame = self.cpu.get(if to_process_stack { Register::PSP } else { Register::SP }) & !3;
        let has_floats = exc_return & WITHOUT_FLOATS == 0;
        let (board, memory) = self.cpu.parts();
        let basic = memory.words::<8>(frame);
        let floats =
            if has_floats { memory.words::<17>(frame.wrapping_add(32)).map(Some) } else { Some(None) };
        let (Some([r0, r1, r2, r3, r12, lr, pc, xpsr]), Some(floats)) = (basic, floats) else {
            return self.fault(1 << 11, 0, format!("no stack at {frame:#010x}"));
        };
        if has_floats {
            board.system.forget_lazy_state();
        }
        board.leave_exception();
        let thread = board.nvic.depth() == 0;
        let sleeps = thread && board.system.sleeps_on_exit();
        let effort = board.effort;
        self.account(effort.instructions, effort.cycles);
        let used = if has_floats { 26 } else { 8 };
        let padding = if xpsr & (1 << 9) != 0 { 4 } else { 0 };
        let sp = frame.wrapping_add(4 * used + padding);
        if let Some([floats @ .., fpscr]) = &floats {
            self.cpu.set_floats(floats, *fpscr);
        }
        let control = self.cpu.get(Register::CONTROL);
        let mut next_control = control & UNPRIVILEGED;
        if has_floats {
            next_control |= FLOATS_ACTIVE;
        }
        if to_process_stack {
            next_control |= PROCESS_STACK;
        }
        if control & UNPRIVILEGED != 0 {
            // An unprivileged thread could not change CONTROL any more: it becomes one last.
            self.cpu.set(Register::CONTROL, control & !UNPRIVILEGED);
        }
        self.cpu.set_all([
            (Register::R0, r0),
            (Register::R1, r1),
            (Register::R2, r2),
            (Register::R3, r3),
            (Register::R12, r12),
            (Register::LR, lr),
            (Register::XPSR_NZCVQG, xpsr & !(1 << 9)),
        ]);
        if next_control != control {
            self.cpu.set(Register::CONTROL, next_control);
        }
        self.cpu.set_all([
            (Register::SP, sp),
            (Register::PC, pc | 1),
            (Register::APSR_NZCV, xpsr & 0xF000_0000),
        ]);
        if sleeps {
            self.sleep = Sleep::ForInterrupt;
        }
    }

    fn account(&mut self, instructions: u64, cycles: u64) {
        let now = self.look().now;
        let Some(running) = self.running.pop() else { return };
        let (all_instructions, all_cycles) = (instructions - running.instructions, cycles - running.cycles);
        let own_instructions = all_instructions - running.nested_instructions;
        let own_cycles = all_cycles - running.nested_cycles;
        if let Some(stats) = self.handlers.get_mut(usize::from(running.number)) {
            stats.runs += 1;
            stats.instructions += own_instructions;
            stats.cycles += own_cycles;
            if own_cycles > stats.longest {
                (stats.longest, stats.longest_at) = (own_cycles, now);
            }
            stats.max_instructions = stats.max_instructions.max(own_instructions);
        }
        if let Some(outer) = self.running.last_mut() {
            outer.nested_instructions += all_instructions;
            outer.nested_cycles += all_cycles;
        }
    }

    /// What a call that is about to begin depends on, at a function's first instruction.
    pub fn call(&mut self) -> Call {
        let registers = self.cpu.get_all(CALL_REGISTERS);
        let floats = self.cpu.floats();
        let (_, memory) = self.cpu.parts();
        Call { registers, floats, sram: memory.sram.to_vec(), ccm: memory.ccm.to_vec() }
    }

    /// Repeats a call with the engine alone: nothing is counted, no time passes on the board, and every repetition finds
    /// the same registers and memories. The machine must be at the begin of another call of the same function, and is
    /// good for nothing else afterwards.
    ///
    /// # Errors
    /// If the call does not return: it waits for something on the board.
    pub fn repeat_uncounted(&mut self, call: &Call, repetitions: u32) -> Result<()> {
        let [.., back, entry] = call.registers;
        let (_, memory) = self.cpu.parts();
        let mut changed = [changes(memory.sram, &call.sram), changes(memory.ccm, &call.ccm)];
        for repetition in 0..repetitions {
            let (_, memory) = self.cpu.parts();
            for ((to, from), ranges) in
                [(memory.sram, &call.sram), (memory.ccm, &call.ccm)].into_iter().zip(&changed)
            {
                ranges.iter().for_each(|range| to[range.clone()].copy_from_slice(&from[range.clone()]));
            }
            self.cpu.set_floats(&call.floats.0, call.floats.1);
            for (register, value) in CALL_REGISTERS.into_iter().zip(call.registers) {
                self.cpu.set(register, if register == Register::PC { value | 1 } else { value });
            }
            let returned = self.cpu.run_uncounted(back);
            ensure!(returned, "the function at {entry:#010x} does not return to {back:#010x}");
            if repetition == 0 {
                // From now on only what the call itself changes.
                let (_, memory) = self.cpu.parts();
                changed = [changes(memory.sram, &call.sram), changes(memory.ccm, &call.ccm)];
            }
        }
        Ok(())
    }

    /// Why a run stopped, for people.
    #[must_use]
    pub fn explain(&self, stop: &Stop, image: &Image) -> String {
        let board = self.look();
        let at =
            format!("at {} in the block at {}", image.place(self.pc()), image.place(board.block_address));
        match stop {
            Stop::Unmodelled { address, is_write } => {
                let what = if *is_write { "store to" } else { "load from" };
                let part = crate::chip::name_of(*address).unwrap_or("no peripheral of this chip");
                format!(
                    "{what} {address:#010x} ({part}), which is not modelled, {at}: use a firmware without that part \
                     (docs/virtual-crazyflie.md has what is modelled)"
                )
            }
            Stop::Dma(misuse) => format!(
                "DMA{} stream {} {} ({:#010x}), {at}: mend it there; what a chip puts up with passes with --lenient",
                misuse.controller, misuse.stream, misuse.what, misuse.address
            ),
            Stop::NoProgress => format!(
                "no time passes any more, {at}: a mistake of the virtual Crazyflie, please report it with the image"
            ),
            Stop::FpuOff => format!(
                "floating-point instruction while the unit is off, {at}: switch it on before (CPACR), or build without it"
            ),
            Stop::Lockup => {
                let faults: Vec<String> = self
                    .faults
                    .iter()
                    .map(|(_, pc, what)| format!("{what} at {}", image.place(*pc)))
                    .collect();
                format!(
                    "fault within the fault handler, {at}; look at the first fault: {}",
                    faults.join("; ")
                )
            }
            other => format!(
                "{other:?}, {at}: a mistake of the virtual Crazyflie, please report it with the image"
            ),
        }
    }
}

/// Pieces of a memory that are not what they were.
fn changes(memory: &[u8], before: &[u8]) -> Vec<Range<usize>> {
    const PIECE: usize = 64;
    (0..memory.len().min(before.len()))
        .step_by(PIECE)
        .map(|at| at..at + PIECE)
        .filter(|range| memory.get(range.clone()) != before.get(range.clone()))
        .collect()
}

/// Memory after power-on holds noise, always the same here.
fn scramble(memory: &mut Memory<'_>) {
    let mut state = 0x1234_5678_u32;
    for byte in memory.sram.iter_mut().chain(memory.ccm.iter_mut()) {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = (state >> 24) as u8;
    }
}
