//! The processor itself: Unicorn's Cortex-M4F behind a safe interface.
//!
//! This is the only module with `unsafe` code. Guest memory lives in boxes that are made here, never
//! move, and outlive the engine; everybody else sees them as slices ([`Memory`]). Callbacks from
//! Unicorn borrow the bus only for as long as they run, and nothing else borrows it meanwhile: the
//! engine runs only inside [`Cpu::run`], which holds the processor exclusively.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;

use anyhow::{Result, bail};
use unicorn_engine_sys::{
    Arch, ArmCpuModel, ControlType, HookType, MemType, Mode, Prot, RegisterARM, TlbEntry, TlbType,
    uc_cb_mmio_read_t, uc_cb_mmio_write_t, uc_close, uc_ctl, uc_emu_start, uc_emu_stop, uc_engine, uc_error,
    uc_hook, uc_hook_add, uc_hook_del, uc_mem_map_ptr, uc_mem_protect, uc_mmio_map, uc_open, uc_reg_read,
    uc_reg_read_batch, uc_reg_write, uc_reg_write_batch,
};

use super::map;

/// The memories of the chip, as seen by devices and by the debugger.
#[derive(Debug)]
pub struct Memory<'a> {
    /// Flash from 0x0800_0000.
    pub flash: &'a mut [u8],
    /// SRAM from 0x2000_0000.
    pub sram: &'a mut [u8],
    /// Core-coupled memory from 0x1000_0000: out of reach for DMA.
    pub ccm: &'a mut [u8],
    /// System memory from 0x1FFF_0000: one-time programmable area, unique id.
    pub system: &'a mut [u8],
}

impl Memory<'_> {
    /// The slice that begins at an address, if it is in a memory.
    #[must_use]
    pub fn at(&self, address: u32) -> Option<&[u8]> {
        let within = |base: u32, memory: &[u8]| {
            address.checked_sub(base).map(|o| o as usize).filter(|&o| o < memory.len())
        };
        within(map::FLASH, self.flash)
            .map(|o| &self.flash[o..])
            .or_else(|| within(map::SRAM, self.sram).map(|o| &self.sram[o..]))
            .or_else(|| within(map::CCM, self.ccm).map(|o| &self.ccm[o..]))
            .or_else(|| within(map::SYSTEM, self.system).map(|o| &self.system[o..]))
            .or_else(|| within(map::FLASH_ALIAS, self.flash).map(|o| &self.flash[o..]))
    }

    /// The writable slice that begins at an address in SRAM or core-coupled memory.
    pub fn at_mut(&mut self, address: u32) -> Option<&mut [u8]> {
        let within =
            |base: u32, len: usize| address.checked_sub(base).map(|o| o as usize).filter(|&o| o < len);
        if let Some(o) = within(map::SRAM, self.sram.len()) {
            return Some(&mut self.sram[o..]);
        }
        within(map::CCM, self.ccm.len()).map(|o| &mut self.ccm[o..])
    }

    /// The word at an address in any memory.
    #[must_use]
    pub fn word(&self, address: u32) -> Option<u32> {
        self.at(address)?.first_chunk().map(|b| u32::from_le_bytes(*b))
    }

    /// Words from an address in any memory on.
    #[must_use]
    pub fn words<const N: usize>(&self, address: u32) -> Option<[u32; N]> {
        let bytes = self.at(address)?.get(..4 * N)?;
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Some(words)
    }

    /// Writes words into SRAM or core-coupled memory; false elsewhere.
    pub fn set_words(&mut self, address: u32, words: &[u32]) -> bool {
        let Some(bytes) = self.at_mut(address).and_then(|m| m.get_mut(..4 * words.len())) else {
            return false;
        };
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        true
    }

    /// Writes a word into SRAM or core-coupled memory; false elsewhere.
    pub fn set_word(&mut self, address: u32, word: u32) -> bool {
        match self.at_mut(address).and_then(|m| m.first_chunk_mut()) {
            Some(bytes) => {
                *bytes = word.to_le_bytes();
                true
            }
            None => false,
        }
    }
}

/// The core's mask registers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Masks {
    /// PRIMASK.
    pub primask: bool,
    /// BASEPRI.
    pub basepri: u8,
    /// FAULTMASK.
    pub faultmask: bool,
}

/// Registers of a core that may be running, for what it calls: only read when somebody wants to know.
#[derive(Clone, Copy)]
pub struct Registers<'a> {
    engine: *mut uc_engine,
    /// The engine is open for as long as this is looked at.
    alive: PhantomData<&'a ()>,
}

impl Registers<'_> {
    fn of(engine: *mut uc_engine) -> Self {
        Self { engine, alive: PhantomData }
    }

    fn get(self, register: Register) -> u32 {
        read_one(self.engine, register)
    }

    /// PRIMASK.
    #[must_use]
    pub fn primask(self) -> bool {
        self.get(Register::PRIMASK) & 1 != 0
    }

    /// The link register, which is the return address where a function begins.
    #[must_use]
    pub fn link(self) -> u32 {
        self.get(Register::LR)
    }

    /// The mask registers.
    #[must_use]
    pub fn masks(self) -> Masks {
        let [primask, basepri, faultmask] =
            read_all(self.engine, [Register::PRIMASK, Register::BASEPRI, Register::FAULTMASK]);
        Masks { primask: primask & 1 != 0, basepri: basepri as u8, faultmask: faultmask & 1 != 0 }
    }
}

/// What surrounds the core.
pub trait Bus {
    /// A block of code is about to run, and nothing else happens; false when that is not so, and then nothing
    /// was changed: [`Self::block`] follows.
    fn plain_block(&mut self, address: u32, size: u32) -> bool;
    /// A block of code is about to run; true stops before it.
    fn block(&mut self, memory: &mut Memory<'_>, address: u32, size: u32, registers: Registers<'_>) -> bool;
    /// The core is about to run again; anything may have happened since.
    fn resume(&mut self);
    /// True when the block that has just run may have set bits of BASEPRI or a stack pointer that do not exist.
    fn has_set_special(&self) -> bool;
    /// A load from a register.
    fn read(&mut self, memory: &mut Memory<'_>, address: u32, size: u32, registers: Registers<'_>) -> u32;
    /// A store into a register.
    fn write(&mut self, memory: &mut Memory<'_>, address: u32, size: u32, value: u32);
    /// True when the access just made must end the run at once, never to go on: the engine would make it again.
    fn must_stop(&self) -> bool;
    /// A store into flash, `offset` from its beginning; false makes it a bus error.
    fn store_to_flash(&mut self, memory: &mut Memory<'_>, offset: usize, size: u32, value: u32) -> bool;
}

/// Why the core stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The bus asked for it.
    Asked,
    /// WFI.
    WaitForInterrupt,
    /// WFE.
    WaitForEvent,
    /// SVC.
    SupervisorCall,
    /// A branch to an EXC_RETURN value, which this is.
    ExceptionReturn(u32),
    /// An instruction that does not exist, UDF above all.
    Undefined,
    /// An instruction of a coprocessor that does not exist.
    NoCoprocessor,
    /// BKPT.
    Breakpoint,
    /// An access to an address where nothing is, or a store into flash.
    BusError {
        /// The address.
        address: u32,
        /// True for a store.
        is_write: bool,
        /// What was to be stored.
        value: u32,
        /// Width in bytes.
        size: u8,
    },
    /// Code was to be fetched from where there is none.
    FetchError(u32),
    /// Anything else, by Unicorn's number.
    Other(u32),
}

struct Shared<B> {
    bus: B,
    flash: Box<[u8]>,
    sram: Box<[u8]>,
    ccm: Box<[u8]>,
    system: Box<[u8]>,
    asked: bool,
    interrupt: Option<u32>,
    bad_access: Option<(u32, bool, u32, u8)>,
}

impl<B> Shared<B> {
    fn parts(&mut self) -> (&mut B, Memory<'_>) {
        let memory = Memory {
            flash: &mut self.flash,
            sram: &mut self.sram,
            ccm: &mut self.ccm,
            system: &mut self.system,
        };
        (&mut self.bus, memory)
    }
}

/// The processor with its bus.
pub struct Cpu<B: Bus> {
    engine: *mut uc_engine,
    /// Made by `Box::into_raw`, freed in `drop`. A raw pointer, because callbacks use it too.
    shared: *mut Shared<B>,
    /// The callback before every block of code.
    block_hook: Option<uc_hook>,
}

/// Registers by name.
pub type Register = RegisterARM;

fn check(error: uc_error) -> Result<()> {
    if error != uc_error::OK {
        bail!("the processor emulator reports: {error}");
    }
    Ok(())
}

impl<B: Bus> Cpu<B> {
    /// A core with blank memories.
    ///
    /// # Errors
    /// If the engine cannot be made.
    pub fn new(bus: B) -> Result<Self> {
        let filled = |len: usize, byte: u8| vec![byte; len].into_boxed_slice();
        let shared = Box::into_raw(Box::new(Shared {
            bus,
            flash: filled(map::FLASH_LEN, 0xFF),
            sram: filled(map::SRAM_LEN, 0),
            ccm: filled(map::CCM_LEN, 0),
            system: filled(map::SYSTEM_LEN, 0xFF),
            asked: false,
            interrupt: None,
            bad_access: None,
        }));
        let mut cpu = Self { engine: ptr::null_mut(), shared, block_hook: None };
        cpu.open()?;
        Ok(cpu)
    }

    fn open(&mut self) -> Result<()> {
        // SAFETY: the pointers are valid for the calls. The memories are boxes inside `shared`, which
        // lives until `drop` closes the engine first; they are never reallocated. The callbacks have
        // the signatures Unicorn documents for their kinds, and get `shared` as their user data.
        unsafe {
            // `Mode::MCLASS` would silently choose a Cortex-M33; thumb with the model set is an M4.
            check(uc_open(Arch::ARM, Mode::THUMB, &raw mut self.engine))?;
            let set_model = ControlType::CPU_MODEL.0 | (1 << 26) | (1 << 30);
            check(uc_ctl(self.engine, ControlType(set_model), ArmCpuModel::CORTEX_M4 as i32))?;
            // Addresses are physical; the table is ours only to say that data are no code, without which
            // every store would look for code to throw away.
            let set_table = ControlType::TLB_TYPE.0 | (1 << 26) | (1 << 30);
            check(uc_ctl(self.engine, ControlType(set_table), TlbType::VIRTUAL as i32))?;
            self.hook(HookType::TLB_FILL, translate as *mut c_void, (1, 0))?;
            let shared = &mut *self.shared;
            let code = Prot::READ.0 | Prot::EXEC.0;
            let data = Prot::READ.0 | Prot::WRITE.0;
            let place = |memory: &mut [u8]| (memory.as_mut_ptr().cast::<c_void>(), memory.len() as u64);
            let flash = place(&mut shared.flash);
            for (base, (pointer, len), protection) in [
                (map::FLASH, flash, code),
                (map::FLASH_ALIAS, flash, code),
                (map::SRAM, place(&mut shared.sram), data),
                (map::CCM, place(&mut shared.ccm), data),
                (map::SYSTEM, place(&mut shared.system), code),
            ] {
                check(uc_mem_map_ptr(self.engine, u64::from(base), len, protection, pointer))?;
                // Only this makes the engine throw away what is stored into read-only memory.
                check(uc_mem_protect(self.engine, u64::from(base), len, protection))?;
            }
            let user = self.shared.cast::<c_void>();
            for (base, len) in map::REGISTERS {
                // Offsets are counted from the region's base, so each region has its own callback base.
                let (read, write): (uc_cb_mmio_read_t, uc_cb_mmio_write_t) = match base {
                    map::PERIPHERALS => {
                        (Some(read::<B, { map::PERIPHERALS }>), Some(write::<B, { map::PERIPHERALS }>))
                    }
                    map::SRAM_BITS => {
                        (Some(read::<B, { map::SRAM_BITS }>), Some(write::<B, { map::SRAM_BITS }>))
                    }
                    _ => (Some(read::<B, { map::CORE }>), Some(write::<B, { map::CORE }>)),
                };
                check(uc_mmio_map(self.engine, u64::from(base), len, read, user, write, user))?;
            }
            self.block_hook = Some(self.hook(HookType::BLOCK, block::<B> as *mut c_void, (1, 0))?);
            self.hook(HookType::INTR, interrupt::<B> as *mut c_void, (1, 0))?;
            let bad = HookType::MEM_READ_UNMAPPED
                | HookType::MEM_WRITE_UNMAPPED
                | HookType::MEM_WRITE_PROT
                | HookType::MEM_FETCH_UNMAPPED
                | HookType::MEM_FETCH_PROT;
            // A hook over a memory would put every store to it on a slow path.
            for range in map::NOT_MEMORY {
                self.hook(bad, bad_access::<B> as *mut c_void, range)?;
            }
        }
        Ok(())
    }

    /// Installs a callback for a range of addresses, all of them when its end is before its begin.
    fn hook(&mut self, kind: HookType, callback: *mut c_void, (begin, end): (u64, u64)) -> Result<uc_hook> {
        let mut handle: uc_hook = 0;
        let (kind, user) = (i32::try_from(kind.0)?, self.shared.cast::<c_void>());
        // SAFETY: the callback has the signature of its kind, and `shared` outlives the engine.
        check(unsafe { uc_hook_add(self.engine, &raw mut handle, kind, callback, user, begin, end) })?;
        Ok(handle)
    }

    /// The bus and the memories.
    pub fn parts(&mut self) -> (&mut B, Memory<'_>) {
        // SAFETY: the pointer is valid until `drop`; callbacks run only inside `run`, which borrows
        // the processor exclusively, so no other reference exists now.
        unsafe { (*self.shared).parts() }
    }

    /// The bus.
    pub fn bus(&mut self) -> &mut B {
        self.parts().0
    }

    /// The bus, to look at.
    #[must_use]
    pub fn look(&self) -> &B {
        // SAFETY: as in `parts`; a shared borrow of the processor excludes `run`.
        unsafe { &(*self.shared).bus }
    }

    /// Runs from the present program counter until something stops the core.
    pub fn run(&mut self) -> Exit {
        let pc = self.get(Register::PC);
        // SAFETY: exclusive access, and no reference into `shared` is alive across `uc_emu_start`,
        // during which the callbacks make their own.
        let error = unsafe {
            (*self.shared).asked = false;
            (*self.shared).interrupt = None;
            (*self.shared).bad_access = None;
            (*self.shared).bus.resume();
            // No address ends the run: this one does not exist.
            uc_emu_start(self.engine, u64::from(pc | 1), u64::MAX, 0, 0)
        };
        self.why(error)
    }

    fn why(&mut self, error: uc_error) -> Exit {
        // SAFETY: the engine has stopped; plain copies out of `shared`.
        let (asked, interrupt, bad) =
            unsafe { ((*self.shared).asked, (*self.shared).interrupt, (*self.shared).bad_access) };
        if asked && interrupt.is_none() && bad.is_none() {
            return Exit::Asked;
        }
        let pc = self.get(Register::PC);
        if let Some(code) = interrupt {
            return match code {
                2 => Exit::SupervisorCall,
                7 => Exit::Breakpoint,
                8 => Exit::ExceptionReturn(pc | 1),
                3 => Exit::FetchError(pc),
                17 => Exit::NoCoprocessor,
                other => Exit::Other(other),
            };
        }
        if let Some((address, is_write, value, size)) = bad {
            return match error {
                uc_error::FETCH_UNMAPPED | uc_error::FETCH_PROT => Exit::FetchError(address),
                _ => Exit::BusError { address, is_write, value, size },
            };
        }
        match (error, self.hint_before(pc)) {
            (uc_error::OK, Some(3)) => Exit::WaitForInterrupt,
            (uc_error::INSN_INVALID, Some(2)) => Exit::WaitForEvent,
            // YIELD, at which the engine stops too, does nothing.
            (uc_error::INSN_INVALID, Some(1)) => Exit::Asked,
            (uc_error::INSN_INVALID, _) => Exit::Undefined,
            (uc_error::OK, _) => Exit::Asked,
            // With its virtual TLB the engine reports a fetch from memory without code as an exception.
            (uc_error::FETCH_PROT | uc_error::FETCH_UNMAPPED | uc_error::EXCEPTION, _) => {
                Exit::FetchError(pc)
            }
            (other, _) => Exit::Other(other as u32 + 1000),
        }
    }

    /// The number of the hint (1 YIELD, 2 WFE, 3 WFI) that ends before an address, in either width.
    fn hint_before(&mut self, pc: u32) -> Option<u16> {
        let (_, memory) = self.parts();
        let half = |address: u32| memory.at(address)?.first_chunk().copied().map(u16::from_le_bytes);
        match (half(pc.wrapping_sub(4)), half(pc.wrapping_sub(2))?) {
            (_, narrow) if narrow & 0xFF0F == 0xBF00 => Some(narrow >> 4 & 0xF),
            (Some(0xF3AF), wide) if wide & 0xFF00 == 0x8000 => Some(wide & 0xFF),
            _ => None,
        }
    }

    /// A 32-bit register.
    #[must_use]
    pub fn get(&self, register: Register) -> u32 {
        read_one(self.engine, register)
    }

    /// Some 32-bit registers.
    #[must_use]
    pub fn get_all<const N: usize>(&self, registers: [Register; N]) -> [u32; N] {
        read_all(self.engine, registers)
    }

    /// Sets a 32-bit register.
    pub fn set(&mut self, register: Register, value: u32) {
        self.set_all([(register, value)]);
    }

    /// Sets some 32-bit registers, in this order.
    pub fn set_all<const N: usize>(&mut self, values: [(Register, u32); N]) {
        let numbers = values.map(|(register, _)| register as i32);
        let places = values.each_ref().map(|(_, value)| ptr::from_ref(value).cast::<c_void>().cast_mut());
        // SAFETY: the engine is open, every register named has 32 bits, and the values are only read.
        unsafe { uc_reg_write_batch(self.engine, numbers.as_ptr(), places.as_ptr(), N as i32) };
    }

    /// Floating-point registers S0 to S15, and FPSCR.
    #[must_use]
    pub fn floats(&self) -> ([u32; 16], u32) {
        let (mut values, mut fpscr) = ([0u32; 16], 0u32);
        let (base, status) = (values.as_mut_ptr(), &raw mut fpscr);
        // SAFETY: four registers of 128 bits, which are S0 to S15 in their order, and one of 32 bits.
        unsafe {
            let mut places = [
                base.cast::<c_void>(),
                base.add(4).cast(),
                base.add(8).cast(),
                base.add(12).cast(),
                status.cast(),
            ];
            uc_reg_read_batch(self.engine, FLOATS.as_ptr(), places.as_mut_ptr(), FLOATS.len() as i32);
        }
        (values, fpscr)
    }

    /// Sets the floating-point registers S0 to S15, and FPSCR.
    pub fn set_floats(&mut self, values: &[u32; 16], fpscr: u32) {
        let base = values.as_ptr().cast_mut();
        // SAFETY: as in `floats`; the values are only read.
        unsafe {
            let places = [
                base.cast::<c_void>(),
                base.add(4).cast(),
                base.add(8).cast(),
                base.add(12).cast(),
                (&raw const fpscr).cast_mut().cast(),
            ];
            uc_reg_write_batch(self.engine, FLOATS.as_ptr(), places.as_ptr(), FLOATS.len() as i32);
        }
    }

    /// The core's mask registers.
    #[must_use]
    pub fn masks(&self) -> Masks {
        Registers::of(self.engine).masks()
    }

    /// Runs from the present program counter to `until` with the engine alone: nothing is counted and no time
    /// passes, so nothing interrupts. This is the floor of what [`Self::run`] can reach. False when the core stopped
    /// elsewhere.
    ///
    /// After the first call the processor is good for nothing else.
    pub fn run_uncounted(&mut self, until: u32) -> bool {
        // SAFETY: as in `run`; the handle is the block hook's, and is given up once.
        unsafe {
            if let Some(handle) = self.block_hook.take() {
                uc_hook_del(self.engine, handle);
                self.forget_code();
            }
            let pc = self.get(Register::PC);
            let error = uc_emu_start(self.engine, u64::from(pc | 1), u64::from(until & !1), 0, 0);
            error == uc_error::OK && self.get(Register::PC) == until & !1
        }
    }

    /// Throws translated code away: the flash has changed.
    pub fn forget_code(&mut self) {
        // SAFETY: flushing takes no argument and is allowed while the engine stands still.
        unsafe { uc_ctl(self.engine, ControlType(ControlType::TB_FLUSH.0 | (1 << 30))) };
    }
}

impl<B: Bus> Drop for Cpu<B> {
    fn drop(&mut self) {
        // SAFETY: closed first, so that no callback or mapping outlives `shared`; both pointers are
        // ours alone and are used nowhere after this.
        unsafe {
            if !self.engine.is_null() {
                uc_close(self.engine);
            }
            drop(Box::from_raw(self.shared));
        }
    }
}

/// What an exception may save of the floating-point unit.
const FLOATS: [i32; 5] = [
    RegisterARM::Q0 as i32,
    RegisterARM::Q1 as i32,
    RegisterARM::Q2 as i32,
    RegisterARM::Q3 as i32,
    RegisterARM::FPSCR as i32,
];

fn read_one(engine: *mut uc_engine, register: Register) -> u32 {
    let mut value = 0u32;
    // SAFETY: the engine is open, and every register named is read as 32 bits. Callbacks may read too.
    unsafe { uc_reg_read(engine, register as i32, (&raw mut value).cast()) };
    value
}

fn read_all<const N: usize>(engine: *mut uc_engine, registers: [Register; N]) -> [u32; N] {
    let mut values = [0u32; N];
    let numbers = registers.map(|register| register as i32);
    let mut places = values.each_mut().map(|value| ptr::from_mut(value).cast::<c_void>());
    // SAFETY: as in `read_one`; every place is a value of its own.
    unsafe { uc_reg_read_batch(engine, numbers.as_ptr(), places.as_mut_ptr(), N as i32) };
    values
}

/// Clears bits that the F405's special registers do not have and the engine's do: the two low ones of stack
/// pointers, the four low ones of BASEPRI.
#[cold]
fn tidy_special(engine: *mut uc_engine) {
    for (register, bits) in [(Register::MSP, !3), (Register::PSP, !3), (Register::BASEPRI, 0xF0)] {
        let mut value = 0u32;
        // SAFETY: 32-bit registers of the engine that called.
        unsafe {
            uc_reg_read(engine, register as i32, (&raw mut value).cast());
            if value & !bits != 0 {
                value &= bits;
                uc_reg_write(engine, register as i32, (&raw const value).cast());
            }
        }
    }
}

extern "C" fn block<B: Bus>(engine: *mut uc_engine, address: u64, size: u32, user: *mut c_void) {
    // SAFETY: `user` is the `shared` of a live processor; see the module's note on borrows.
    let shared = unsafe { &mut *user.cast::<Shared<B>>() };
    if !shared.bus.plain_block(address as u32, size) {
        special_block(engine, address as u32, size, shared);
    }
}

#[inline(never)]
fn special_block<B: Bus>(engine: *mut uc_engine, address: u32, size: u32, shared: &mut Shared<B>) {
    if shared.bus.has_set_special() {
        tidy_special(engine);
    }
    let (bus, mut memory) = shared.parts();
    if bus.block(&mut memory, address, size, Registers::of(engine)) {
        shared.asked = true;
        let pc = address | 1;
        // SAFETY: stopping is what callbacks may do. The program counter is what it was, but written here it need
        // not be looked up among all translated code.
        unsafe {
            uc_reg_write(engine, Register::PC as i32, (&raw const pc).cast());
            uc_emu_stop(engine);
        }
    }
}

extern "C" fn translate(
    engine: *mut uc_engine,
    address: u64,
    kind: MemType,
    result: *mut TlbEntry,
    _user: *mut c_void,
) -> bool {
    let is_code = address < u64::from(map::CCM) || address >= 0xF000_0000;
    let data = Prot::READ.0 | Prot::WRITE.0;
    // SAFETY: Unicorn gives a valid place for the result.
    unsafe {
        // Pages of the M profile have 1 KiB.
        (*result).paddr = address & !0x3FF;
        (*result).perms = Prot(if is_code { data | Prot::EXEC.0 } else { data });
    }
    if kind != MemType::FETCH {
        forget_conditional(engine);
    }
    true
}

/// Before it calls back from a load or store, Unicorn restores the state of conditional execution (IT) within the
/// block, but the block goes on and counts on that state being clear at its end.
fn forget_conditional(engine: *mut uc_engine) {
    let thumb = 1u32 << 24;
    // SAFETY: a 32-bit register of the engine that called.
    unsafe { uc_reg_write(engine, Register::EPSR as i32, (&raw const thumb).cast()) };
}

extern "C" fn interrupt<B: Bus>(engine: *mut uc_engine, code: u32, user: *mut c_void) {
    // SAFETY: as in `block`.
    unsafe {
        (*user.cast::<Shared<B>>()).interrupt = Some(code);
        uc_emu_stop(engine);
    }
}

extern "C" fn bad_access<B: Bus>(
    engine: *mut uc_engine,
    kind: MemType,
    address: u64,
    size: i32,
    value: i64,
    user: *mut c_void,
) -> bool {
    let is_write = matches!(kind, MemType::WRITE_UNMAPPED | MemType::WRITE_PROT);
    // SAFETY: as in `block`.
    let shared = unsafe { &mut *user.cast::<Shared<B>>() };
    let flash = [map::FLASH, map::FLASH_ALIAS].into_iter().find_map(|base| {
        let offset = (address as u32).checked_sub(base)? as usize;
        (kind == MemType::WRITE_PROT && offset < map::FLASH_LEN).then_some(offset)
    });
    if let Some(offset) = flash {
        let (bus, mut memory) = shared.parts();
        // The engine itself throws stores into read-only memory away. Stopped here, it would make this one again:
        // a stop waits for the next block.
        if bus.store_to_flash(&mut memory, offset, size as u32, value as u32) {
            forget_conditional(engine);
            return true;
        }
    }
    shared.bad_access = Some((address as u32, is_write, value as u32, size as u8));
    false
}

extern "C" fn read<B: Bus, const BASE: u32>(
    engine: *mut uc_engine,
    offset: u64,
    size: u32,
    user: *mut c_void,
) -> u64 {
    // SAFETY: as in `block`.
    let shared = unsafe { &mut *user.cast::<Shared<B>>() };
    let (bus, mut memory) = shared.parts();
    let value = bus.read(&mut memory, BASE + offset as u32, size, Registers::of(engine));
    if bus.must_stop() {
        shared.asked = true;
        // SAFETY: as in `block`.
        unsafe { uc_emu_stop(engine) };
    }
    u64::from(value)
}

extern "C" fn write<B: Bus, const BASE: u32>(
    engine: *mut uc_engine,
    offset: u64,
    size: u32,
    value: u64,
    user: *mut c_void,
) {
    // SAFETY: as in `block`.
    let shared = unsafe { &mut *user.cast::<Shared<B>>() };
    let (bus, mut memory) = shared.parts();
    bus.write(&mut memory, BASE + offset as u32, size, value as u32);
    if bus.must_stop() {
        shared.asked = true;
        // SAFETY: as in `block`.
        unsafe { uc_emu_stop(engine) };
    }
}
