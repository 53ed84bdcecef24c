//! How long a stretch of code takes: instructions and an estimate of Cortex-M4 cycles.
//!
//! Instruction counts are exact. Cycles follow the timing table of the Cortex-M4 technical reference
//! manual with typical operands and no flash wait states (the F405's accelerator hides most of them);
//! they are an estimate and were not calibrated against a board.

/// Cost of a block of straight code. Eight bytes: it is looked up millions of times a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Length in bytes; 0 marks an entry that was never filled.
    pub size: u16,
    /// Instructions.
    pub instructions: u16,
    /// Cycles, without the refill of the pipeline after a taken branch.
    pub cycles: u16,
    /// What else there is to it.
    pub traits: Traits,
    /// The block begins the function with this number, counted from 1; 0 is none.
    pub function: u8,
}

/// What a block does besides taking its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits(u8);

impl Traits {
    /// It sends an event (SEV).
    pub const SENDS_EVENT: Self = Self(1);
    /// It writes the interrupt mask (CPS, MSR PRIMASK).
    pub const WRITES_MASK: Self = Self(1 << 1);
    /// It writes BASEPRI, or a stack pointer in a way that could leave its low bits set.
    pub const SETS_SPECIAL: Self = Self(1 << 2);
    /// It contains floating-point instructions.
    pub const USES_FPU: Self = Self(1 << 3);
    /// It begins a function that is told apart.
    pub const BEGINS_FUNCTION: Self = Self(1 << 4);
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Something is to be done when it has run, whatever the machine is doing.
    pub const ENDS_SPECIAL: Self = Self(Self::SENDS_EVENT.0 | Self::WRITES_MASK.0 | Self::SETS_SPECIAL.0);

    /// All of both.
    #[inline]
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any of the others is among these.
    #[inline]
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn add(&mut self, other: Self, if_so: bool) {
        self.0 |= if if_so { other.0 } else { 0 };
    }
}

/// Cycles a taken branch waits for the pipeline to fill.
pub const BRANCH_REFILL: u64 = 2;
/// Cycles of an exception entry, and of a return.
pub const EXCEPTION_ENTRY: u64 = 12;
/// Cycles of an exception return.
pub const EXCEPTION_RETURN: u64 = 10;

/// True when a halfword begins a 32-bit instruction.
#[must_use]
pub fn is_wide(halfword: u16) -> bool {
    halfword >> 11 >= 0b11101
}

/// What one instruction does to the time.
struct Timing {
    cycles: u16,
    /// A load or store that the next one can overlap.
    is_memory: bool,
}

const fn plain(cycles: u16) -> Timing {
    Timing { cycles, is_memory: false }
}

const fn memory(cycles: u16) -> Timing {
    Timing { cycles, is_memory: true }
}

/// Decodes a block of `code` (little-endian halfwords) into its cost.
#[must_use]
pub fn of_block(code: &[u8]) -> Cost {
    let mut cost = Cost { size: u16::try_from(code.len()).unwrap_or(u16::MAX), ..Cost::default() };
    let mut halfwords = code.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let mut after_memory = false;
    while let Some(first) = halfwords.next() {
        let timing = if is_wide(first) {
            let second = halfwords.next().unwrap_or(0);
            let traits = &mut cost.traits;
            traits.add(Traits::USES_FPU, is_fpu(first));
            traits.add(Traits::WRITES_MASK, first & 0xFFF0 == 0xF380 && second & 0xF0FF == 0x8010);
            traits.add(Traits::SENDS_EVENT, (first, second) == (0xF3AF, 0x8004));
            traits.add(Traits::SETS_SPECIAL, sets_special(first, second));
            wide(first, second, after_memory)
        } else {
            let traits = &mut cost.traits;
            traits.add(Traits::SENDS_EVENT, first == 0xBF40);
            traits.add(Traits::WRITES_MASK, first & 0xFFEC == 0xB660);
            // MOV SP, Rm and ADD SP, Rm.
            traits.add(Traits::SETS_SPECIAL, matches!(first & 0xFF87, 0x4685 | 0x4485));
            narrow(first, after_memory)
        };
        after_memory = timing.is_memory;
        cost.instructions += 1;
        cost.cycles = cost.cycles.saturating_add(timing.cycles);
    }
    cost
}

fn load(after_memory: bool) -> Timing {
    memory(if after_memory { 1 } else { 2 })
}

fn narrow(h: u16, after_memory: bool) -> Timing {
    match h >> 11 {
        // LDR literal.
        0b01001 => load(after_memory),
        // Loads and stores with a register offset: op in bits 11..9, the first three are stores.
        0b01010 | 0b01011 => {
            if (h >> 9) & 7 < 3 {
                memory(1)
            } else {
                load(after_memory)
            }
        }
        0b01100 | 0b01110 | 0b10000 | 0b10010 => memory(1),
        0b01101 | 0b01111 | 0b10001 | 0b10011 => load(after_memory),
        // STM, LDM.
        0b11000 | 0b11001 => plain(1 + ones(h & 0xFF)),
        // PUSH, POP.
        0b10110 | 0b10111 if h & 0x0600 == 0x0400 => plain(1 + ones(h & 0x01FF)),
        _ => plain(1),
    }
}

fn ones(x: u16) -> u16 {
    x.count_ones() as u16
}

/// MSR to MSP, PSP, BASEPRI or BASEPRI_MAX; a load into SP; SP plus or minus what is no multiple of four.
fn sets_special(first: u16, second: u16) -> bool {
    let msr = first & 0xFFF0 == 0xF380 && second & 0xF000 == 0x8000;
    let load = first & 0xFF70 == 0xF850 && second >> 12 == 13;
    let add = matches!(first & 0xFBEF, 0xF10D | 0xF1AD | 0xF20D | 0xF2AD) && second >> 8 & 0xF == 13;
    msr && matches!(second & 0xFF, 8 | 9 | 17 | 18) || load || add && second & 3 != 0
}

fn is_fpu(first: u16) -> bool {
    matches!(first >> 8, 0xEC..=0xEE)
}

fn wide(first: u16, second: u16, after_memory: bool) -> Timing {
    match first >> 8 {
        // Coprocessor space: the floating-point unit.
        0xEC | 0xED => {
            let is_load = first & 0x10 != 0;
            // VLDM, VSTM, VPUSH, VPOP address with write-back or upwards from a base; VLDR, VSTR do not.
            let is_single = first & 0x0120 == 0x0100;
            if first & 0xFFE0 == 0xEC40 {
                plain(2) // two core registers at once
            } else if is_single {
                let double = second & 0x0100 != 0;
                let words = if double { 2 } else { 1 };
                if is_load { memory(1 + words) } else { memory(words) }
            } else {
                plain(1 + (second & 0xFF))
            }
        }
        0xEE => plain(float_cycles(first, second)),
        // LDM, STM, LDRD, STRD, LDREX, STREX, TBB.
        0xE8 | 0xE9 => {
            if first & 0x0040 == 0 {
                plain(1 + ones(second))
            } else if first & 0xFFF0 == 0xE8D0 && second & 0xFFE0 == 0xF000 {
                plain(2) // table branch; the refill is charged by the jump
            } else if first & 0x0120 == 0 {
                memory(2) // exclusive
            } else {
                memory(3)
            }
        }
        0xF8 | 0xF9 => {
            if first & 0x0010 != 0 {
                load(after_memory)
            } else {
                memory(1)
            }
        }
        // Divides take 2 to 12 cycles by their operands; 7 is the middle.
        0xFB if matches!(first & 0xFFF0, 0xFB90 | 0xFBB0) && second & 0x00F0 == 0x00F0 => plain(7),
        _ => plain(1),
    }
}

fn float_cycles(first: u16, second: u16) -> u16 {
    if second & 0x10 != 0 {
        return 1; // moves between core and floating-point registers
    }
    match first & 0x00B0 {
        // VMLA, VMLS, VNMLA, VNMLS; and the fused ones.
        0x0000 | 0x0010 | 0x0090 | 0x00A0 => 3,
        0x0080 => 14,                                                     // VDIV
        0x00B0 if first & 0x000F == 1 && second & 0x00C0 == 0x00C0 => 14, // VSQRT
        _ => 1,
    }
}

/// Costs of blocks by address: a flat table over a memory, filled when a block first runs.
#[derive(Debug)]
pub struct CostTable {
    base: u32,
    entries: Vec<Cost>,
    /// Where the functions begin that are told apart.
    functions: Vec<u32>,
}

impl CostTable {
    /// An empty table over `len` bytes from `base`.
    #[must_use]
    pub fn new(base: u32, len: usize) -> Self {
        Self { base, entries: vec![Cost::default(); len / 2], functions: Vec::new() }
    }

    /// The cost of the block of `size` bytes at `address` in `memory`, which begins at the base.
    #[inline]
    pub fn get(&mut self, memory: &[u8], address: u32, size: u32) -> Cost {
        let offset = address.wrapping_sub(self.base) as usize;
        let Some(entry) = self.entries.get_mut(offset / 2) else { return Cost::default() };
        if u32::from(entry.size) != size {
            *entry = Self::decode(memory, offset, size, &self.functions, address);
        }
        *entry
    }

    /// The cost of the block of `size` bytes at `address`, if it has run before.
    #[inline]
    #[must_use]
    pub fn known(&self, address: u32, size: u32) -> Option<Cost> {
        let entry = self.entries.get(address.wrapping_sub(self.base) as usize / 2)?;
        (u32::from(entry.size) == size).then_some(*entry)
    }

    #[cold]
    fn decode(memory: &[u8], offset: usize, size: u32, functions: &[u32], address: u32) -> Cost {
        let end = (offset + size as usize).min(memory.len());
        let function = functions.iter().position(|f| *f == address).map_or(0, |i| i as u8 + 1);
        let mut cost = Cost { function, ..of_block(memory.get(offset..end).unwrap_or_default()) };
        cost.traits.add(Traits::BEGINS_FUNCTION, function > 0);
        cost
    }

    /// Tells the blocks apart at which these functions begin.
    pub fn mark(&mut self, functions: &[u32]) {
        self.functions = functions.to_vec();
        self.clear();
    }

    /// Forgets everything: the code has changed.
    pub fn clear(&mut self) {
        self.entries.fill(Cost::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(halfwords: &[u16]) -> Cost {
        let code: Vec<u8> = halfwords.iter().flat_map(|h| h.to_le_bytes()).collect();
        of_block(&code)
    }

    #[test]
    fn instructions_are_counted_whatever_their_width() {
        // movs r0,#1; movw r1,#0x1234; sev; bx lr
        let cost = block(&[0x2001, 0xF241, 0x2134, 0xBF40, 0x4770]);
        assert_eq!((cost.instructions, cost.cycles), (4, 4));
        assert_eq!(cost.traits, Traits::SENDS_EVENT);
    }

    #[test]
    fn writes_of_some_special_registers_are_noticed() {
        assert!(block(&[0xF380, 0x8809]).traits.has(Traits::SETS_SPECIAL)); // msr psp, r0
        assert!(block(&[0xF383, 0x8811]).traits.has(Traits::SETS_SPECIAL)); // msr basepri, r3
        assert!(block(&[0xF1AD, 0x0D05]).traits.has(Traits::SETS_SPECIAL)); // sub.w sp, sp, #5
        assert!(!block(&[0xF1AD, 0x0D08]).traits.has(Traits::SETS_SPECIAL)); // sub.w sp, sp, #8
        assert!(block(&[0xF8D0, 0xD004]).traits.has(Traits::SETS_SPECIAL)); // ldr.w sp, [r0, #4]
        assert!(block(&[0x4685]).traits.has(Traits::SETS_SPECIAL)); // mov sp, r0
        assert!(!block(&[0x4668]).traits.has(Traits::SETS_SPECIAL)); // mov r0, sp
        assert!(!block(&[0xF380, 0x8814]).traits.has(Traits::SETS_SPECIAL)); // msr control, r0
        assert!(!block(&[0xF3EF, 0x8009]).traits.has(Traits::SETS_SPECIAL)); // mrs r0, psp
        assert!(block(&[0xF3AF, 0x8004]).traits.has(Traits::SENDS_EVENT)); // sev.w
    }

    #[test]
    fn loads_overlap_and_divisions_take_long() {
        assert_eq!(block(&[0x6800, 0x6801, 0x6802]).cycles, 2 + 1 + 1); // ldr r0..r2,[r0]
        assert_eq!(block(&[0xB5F0]).cycles, 1 + 5); // push {r4-r7,lr}
        assert_eq!(block(&[0xFBB0, 0xF0F1]).cycles, 7); // udiv r0,r0,r1
        assert_eq!(block(&[0xEE80, 0x0A20]).cycles, 14); // vdiv.f32 s0,s0,s1
        assert_eq!(block(&[0xEEB1, 0x0AC0]).cycles, 14); // vsqrt.f32 s0,s0
        assert_eq!(block(&[0xEE30, 0x0A20]).cycles, 1); // vadd.f32
        assert_eq!(block(&[0xEE00, 0x0A20]).cycles, 3); // vmla.f32
        assert_eq!(block(&[0xED90, 0x0A00]).cycles, 2); // vldr s0,[r0]
        assert_eq!(block(&[0xEC90, 0x0A04]).cycles, 5); // vldmia r0,{s0-s3}
    }
}
