//! The processor itself: Unicorn's Cortex-M4F behind a safe interface.
//!
//! This is the only module with `unsafe` code. Guest memory lives in boxes that are made here, never
//! move, and outlive the engine; everybody else sees them as slices ([`Memory`]). Callbacks from
//! Unicorn borrow the bus only for as long as they run, and nothing else borrows it meanwhile: the
//! engine runs only inside [`Cpu::run`], which holds the processor exclusively.

use std::ffi::c_void;
use std::ptr;

use anyhow::{Result, bail};
use unicorn_engine_sys::{
    Arch, ArmCpuModel, ControlType, HookType, MemType, Mode, Prot, RegisterARM, TlbEntry, TlbType,
    uc_cb_mmio_read_t, uc_cb_mmio_write_t, uc_close, uc_ctl, uc_emu_start, uc_emu_stop, uc_engine, uc_error,
    uc_hook, uc_hook_add, uc_mem_map_ptr, uc_mem_protect, uc_mmio_map, uc_open, uc_reg_read, uc_reg_write,
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

/// The core's mask registers, and its link register.
#[derive(Clone, Copy, Debug, Default)]
pub struct Masks {
    /// PRIMASK.
    pub primask: bool,
    /// BASEPRI.
    pub basepri: u8,
    /// FAULTMASK.
    pub faultmask: bool,
    /// The link register, which is the return address where a function begins.
    pub link: u32,
}

/// What surrounds the core.
pub trait Bus {
    /// A block of code is about to run, and nothing else happens; false when that is not so, and then nothing
    /// was changed: [`Self::block`] follows.
    fn plain_block(&mut self, address: u32, size: u32) -> bool;
    /// A block of code is about to run; true stops before it. `masks` reads the mask registers.
    fn block(&mut self, memory: &mut Memory<'_>, address: u32, size: u32, masks: &dyn Fn() -> Masks) -> bool;
    /// True when the block that has just run may have set bits of BASEPRI or a stack pointer that do not exist.
    fn has_set_special(&self) -> bool;
    /// A load from a register.
    fn read(&mut self, memory: &mut Memory<'_>, address: u32, size: u32, masks: &dyn Fn() -> Masks) -> u32;
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
        let mut cpu = Self { engine: ptr::null_mut(), shared };
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
            self.hook(HookType::BLOCK, block::<B> as *mut c_void, (1, 0))?;
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
    fn hook(&mut self, kind: HookType, callback: *mut c_void, (begin, end): (u64, u64)) -> Result<()> {
        let mut handle: uc_hook = 0;
        let (kind, user) = (i32::try_from(kind.0)?, self.shared.cast::<c_void>());
        // SAFETY: the callback has the signature of its kind, and `shared` outlives the engine.
        check(unsafe { uc_hook_add(self.engine, &raw mut handle, kind, callback, user, begin, end) })
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
            // No address ends the run: this one does not exist.
            uc_emu_start(self.engine, u64::from(pc | 1), u64::MAX, 0, 0)
        };
        self.why(error)
    }

    fn why(&mut self, error: uc_error) -> Exit {
        // SAFETY: the engine has stopped; plain copies out of `shared`.
        let (asked, interrupt, bad) =
            unsafe { ((*self.shared).asked, (*self.shared).interrupt, (*self.shared).bad_access) };
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
        if asked {
            return Exit::Asked;
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
        let mut value = 0u32;
        // SAFETY: the engine is open, and every register named is read as 32 bits.
        unsafe { uc_reg_read(self.engine, register as i32, (&raw mut value).cast()) };
        value
    }

    /// Sets a 32-bit register.
    pub fn set(&mut self, register: Register, value: u32) {
        // SAFETY: as in `get`.
        unsafe { uc_reg_write(self.engine, register as i32, (&raw const value).cast()) };
    }

    /// Floating-point registers S0 to S15.
    #[must_use]
    pub fn floats(&self) -> [u32; 16] {
        let mut values = [0u32; 16];
        for (i, pair) in values.chunks_exact_mut(2).enumerate() {
            let mut double = 0u64;
            // SAFETY: D registers are 64 bits; D0..D7 are consecutive numbers.
            unsafe { uc_reg_read(self.engine, RegisterARM::D0 as i32 + i as i32, (&raw mut double).cast()) };
            pair.copy_from_slice(&[double as u32, (double >> 32) as u32]);
        }
        values
    }

    /// Sets the floating-point registers S0 to S15.
    pub fn set_floats(&mut self, values: &[u32; 16]) {
        for (i, pair) in values.chunks_exact(2).enumerate() {
            let double = u64::from(pair[0]) | u64::from(pair[1]) << 32;
            // SAFETY: as in `floats`.
            unsafe {
                uc_reg_write(self.engine, RegisterARM::D0 as i32 + i as i32, (&raw const double).cast())
            };
        }
    }

    /// The core's mask registers.
    #[must_use]
    pub fn masks(&self) -> Masks {
        read_masks(self.engine)
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

fn read_masks(engine: *mut uc_engine) -> Masks {
    let read = |register: Register| {
        let mut value = 0u32;
        // SAFETY: called with an open engine, also from callbacks, where Unicorn allows reading.
        unsafe { uc_reg_read(engine, register as i32, (&raw mut value).cast()) };
        value
    };
    Masks {
        primask: read(Register::PRIMASK) & 1 != 0,
        basepri: read(Register::BASEPRI) as u8,
        faultmask: read(Register::FAULTMASK) & 1 != 0,
        link: read(Register::LR),
    }
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
    if shared.bus.plain_block(address as u32, size) {
        return;
    }
    if shared.bus.has_set_special() {
        tidy_special(engine);
    }
    let (bus, mut memory) = shared.parts();
    if bus.block(&mut memory, address as u32, size, &|| read_masks(engine)) {
        shared.asked = true;
        // SAFETY: stopping is what callbacks may do.
        unsafe { uc_emu_stop(engine) };
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
    let value = bus.read(&mut memory, BASE + offset as u32, size, &|| read_masks(engine));
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
