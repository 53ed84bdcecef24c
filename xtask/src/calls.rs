//! Who calls whom in the image, and how much stack each function takes, read from its instructions.
//!
//! A sweep over the Thumb-2 code of every function finds what moves the stack pointer down and what
//! calls or jumps out of the function. That is all that is decoded; everything else is skipped by its
//! length. Calls through pointers have no target here: the caller of this module knows them. What it
//! knows can be checked, because a function that can be called through a pointer has its address
//! somewhere: in a constant, in a variable's first value, or put together by two instructions.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

/// A function of the image.
#[derive(Debug, Default)]
pub(crate) struct Function {
    /// Readable name.
    pub(crate) name: String,
    /// Bytes of stack it takes itself.
    pub(crate) stack: u64,
    /// Functions it calls or jumps to, by address.
    pub(crate) calls: BTreeSet<u64>,
    /// It calls through pointers.
    pub(crate) indirect: bool,
    /// It moves the stack pointer by an amount that is not in the code.
    pub(crate) dynamic: bool,
}

/// All functions by address.
pub(crate) struct Calls {
    pub(crate) functions: BTreeMap<u64, Function>,
    /// Functions whose address the image has somewhere: nobody else is called through a pointer.
    pub(crate) taken: BTreeSet<u64>,
}

impl Calls {
    /// Reads the image.
    pub(crate) fn read(file: &object::File<'_>) -> Result<Self> {
        let text = file.section_by_name(".text").context("the image has no .text")?;
        let (base, bytes) = (text.address(), text.data()?);
        let mut extents: BTreeMap<u64, (u64, String)> = BTreeMap::new();
        // Where data begins (true) and code begins (false) inside the text.
        let mut marks: BTreeMap<u64, bool> = BTreeMap::new();
        for symbol in file.symbols() {
            let name = symbol.name().unwrap_or_default();
            match name.as_bytes() {
                [b'$', b'd', ..] => _ = marks.insert(symbol.address(), true),
                [b'$', b't', ..] => _ = marks.insert(symbol.address(), false),
                _ if symbol.kind() == SymbolKind::Text && symbol.size() > 0 => {
                    let readable = format!("{:#}", rustc_demangle::demangle(name));
                    extents.insert(symbol.address() & !1, (symbol.size(), readable));
                }
                _ => {}
            }
        }
        let (mut functions, mut constants) = (BTreeMap::new(), BTreeSet::new());
        for (start, (size, name)) in extents {
            let offset = start.checked_sub(base).map(|o| o as usize);
            let Some(code) = offset.and_then(|o| bytes.get(o..o + size as usize)) else { continue };
            let is_data = |address: u64| marks.range(..=address).next_back().is_some_and(|(_, data)| *data);
            constants.extend(built_constants(code));
            functions.insert(start, decode(name, start, code, is_data)?);
        }
        for section in [".text", ".rodata", ".data"] {
            let bytes = file.section_by_name(section).map(|s| s.data()).transpose()?.unwrap_or_default();
            constants.extend(bytes.as_chunks().0.iter().map(|word| u64::from(u32::from_le_bytes(*word))));
        }
        // A pointer to code is odd.
        let taken = constants.iter().filter(|c| *c & 1 == 1).map(|c| c - 1);
        let taken = taken.filter(|address| functions.contains_key(address)).collect();
        Ok(Self { functions, taken })
    }

    /// Address of the function with this name.
    pub(crate) fn find(&self, name: &str) -> Result<u64> {
        let mut found = self.functions.iter().filter(|(_, f)| f.name == name).map(|(address, _)| *address);
        found.next().with_context(|| format!("the image has no function `{name}`"))
    }
}

/// What one instruction does, as far as it matters.
#[derive(Debug, PartialEq, Eq)]
enum Effect {
    Nothing,
    /// Takes so many bytes of stack.
    Take(u64),
    /// Moves the stack pointer by a register.
    Dynamic,
    /// Calls or jumps so many bytes from the instruction's address.
    Branch(i64),
    /// Calls or jumps through a register.
    Indirect,
}

fn decode(name: String, start: u64, code: &[u8], is_data: impl Fn(u64) -> bool) -> Result<Function> {
    let mut function = Function { name, ..Function::default() };
    let end = start + code.len() as u64;
    let half = |at: usize| -> Option<u16> { Some(u16::from_le_bytes([*code.get(at)?, *code.get(at + 1)?])) };
    let mut at = 0;
    while let Some(first) = half(at) {
        let address = start + at as u64;
        if is_data(address) {
            at += 2;
            continue;
        }
        let wide = first >> 11 >= 0b11101;
        let effect = if wide {
            let second =
                half(at + 2).with_context(|| format!("`{}` ends inside an instruction", function.name))?;
            wide_effect(first, second)
        } else {
            narrow_effect(first)
        };
        match effect {
            Effect::Nothing => {}
            Effect::Take(bytes) => function.stack += bytes,
            Effect::Dynamic => function.dynamic = true,
            Effect::Indirect => function.indirect = true,
            Effect::Branch(by) => {
                let target = address.checked_add_signed(by).context("a branch leaves the memory")?;
                if !(start..end).contains(&target) {
                    function.calls.insert(target);
                }
            }
        }
        at += if wide { 4 } else { 2 };
    }
    if at < code.len() {
        bail!("`{}` ends inside an instruction", function.name);
    }
    Ok(function)
}

/// Constants of 32 bits that code puts together by MOVW and then MOVT: the other way round MOVW would clear the upper
/// half again. Between the two a register may be set by something else, which gives constants too many and never too few.
fn built_constants(code: &[u8]) -> Vec<u64> {
    let mut low = [None; 16];
    let mut constants = Vec::new();
    // The second half of an instruction may look like the first of one: too many again.
    for (a, b) in code.as_chunks::<2>().0.iter().zip(code.as_chunks::<2>().0.iter().skip(1)) {
        let (a, b) = (u32::from(u16::from_le_bytes(*a)), u32::from(u16::from_le_bytes(*b)));
        let imm16 = (a & 0xF) << 12 | ((a >> 10) & 1) << 11 | ((b >> 12) & 7) << 8 | (b & 0xFF);
        let register = (b as usize >> 8) & 0xF;
        match (a & 0xFBF0, b & 0x8000) {
            (0xF240, 0) => low[register] = Some(imm16),
            (0xF2C0, 0) => constants.extend(low[register].map(|low| u64::from(imm16 << 16 | low))),
            _ => {}
        }
    }
    constants
}

/// Extends a number of so many bits by its sign.
fn signed(value: u32, bits: u32) -> i64 {
    i64::from((value << (32 - bits)).cast_signed() >> (32 - bits))
}

/// Instructions of 16 bits (Arm ARM, A5.2).
fn narrow_effect(i: u16) -> Effect {
    let low = u32::from(i);
    if i & 0xFE00 == 0xB400 {
        Effect::Take(4 * u64::from((i & 0x1FF).count_ones())) // PUSH
    } else if i & 0xFF80 == 0xB080 {
        Effect::Take(4 * u64::from(i & 0x7F)) // SUB SP, #
    } else if i & 0xFF87 == 0x4780 {
        Effect::Indirect // BLX register
    } else if i & 0xFF87 == 0x4700 {
        if (i >> 3) & 0xF == 14 { Effect::Nothing } else { Effect::Indirect } // BX: return or jump
    } else if i & 0xFF87 == 0x4485 {
        Effect::Dynamic // ADD SP, register
    } else if i & 0xF800 == 0xE000 {
        Effect::Branch(4 + 2 * signed(low & 0x7FF, 11)) // B
    } else if i & 0xF000 == 0xD000 && (i >> 8) & 0xF < 14 {
        Effect::Branch(4 + 2 * signed(low & 0xFF, 8)) // B with a condition
    } else {
        Effect::Nothing
    }
}

/// Instructions of 32 bits (Arm ARM, A5.3).
fn wide_effect(a: u16, b: u16) -> Effect {
    let (high, low) = (u32::from(a), u32::from(b));
    let imm12 = ((high >> 10) & 1) << 11 | ((low >> 12) & 7) << 8 | (low & 0xFF);
    if a & 0xF800 == 0xF000 && matches!(b & 0xD000, 0xD000 | 0x9000) {
        // BL and B: 24 bits, two of them stored as their sum with the sign.
        let s = (high >> 10) & 1;
        let (i1, i2) = (!((low >> 13) ^ s) & 1, !((low >> 11) ^ s) & 1);
        let offset = s << 23 | i1 << 22 | i2 << 21 | (high & 0x3FF) << 11 | (low & 0x7FF);
        Effect::Branch(4 + 2 * signed(offset, 24))
    } else if a & 0xF800 == 0xF000 && b & 0xD000 == 0x8000 && (a >> 6) & 0xF < 14 {
        // B with a condition: 20 bits.
        let (j1, j2) = ((low >> 13) & 1, (low >> 11) & 1);
        let offset = ((high >> 10) & 1) << 19 | j2 << 18 | j1 << 17 | (high & 0x3F) << 11 | (low & 0x7FF);
        Effect::Branch(4 + 2 * signed(offset, 20))
    } else if a == 0xE92D {
        Effect::Take(4 * u64::from(b.count_ones())) // PUSH
    } else if a == 0xF84D && b & 0x0F00 == 0x0D00 {
        Effect::Take(u64::from(b & 0xFF)) // STR register, [SP, #-imm]!
    } else if a == 0xE96D || (a & 0xFFBF == 0xED2D && matches!(b & 0x0F00, 0x0A00 | 0x0B00)) {
        // STRD two registers, [SP, #-imm]! and VPUSH.
        Effect::Take(4 * u64::from(b & 0xFF))
    } else if a & 0xFBE0 == 0xF1A0 && a & 0xF == 13 && b & 0x8F00 == 0x0D00 {
        Effect::Take(u64::from(expanded(imm12))) // SUB SP, SP, #constant
    } else if a & 0xFBFF == 0xF2AD && b & 0x8F00 == 0x0D00 {
        Effect::Take(u64::from(imm12)) // SUBW SP, SP, #
    } else if a & 0xFFEF == 0xEBAD && b & 0x0F00 == 0x0D00 {
        Effect::Dynamic // SUB SP, SP, register
    } else if a & 0xFF70 == 0xF850 && b >> 12 == 15 && a & 0xF != 13 {
        Effect::Indirect // LDR PC, not from the stack
    } else {
        Effect::Nothing
    }
}

/// A constant of 12 bits as the processor expands it (Arm ARM, ThumbExpandImm).
fn expanded(imm12: u32) -> u32 {
    let byte = imm12 & 0xFF;
    match imm12 >> 8 {
        0 => byte,
        1 => byte << 16 | byte,
        2 => byte << 24 | byte << 8,
        3 => byte << 24 | byte << 16 | byte << 8 | byte,
        _ => (0x80 | (imm12 & 0x7F)).rotate_right(imm12 >> 7),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_read_as_the_assembler_writes_them() {
        use Effect::{Branch, Dynamic, Indirect, Nothing, Take};
        for (code, effect) in [
            (0xB5F0, Take(20)),  // push {r4-r7, lr}
            (0xB082, Take(8)),   // sub sp, #8
            (0xB002, Nothing),   // add sp, #8
            (0x4798, Indirect),  // blx r3
            (0x4770, Nothing),   // bx lr
            (0x4718, Indirect),  // bx r3
            (0xE7FE, Branch(0)), // b .
            (0xD0FE, Branch(0)), // beq .
            (0xDF01, Nothing),   // svc 1
        ] {
            assert_eq!(narrow_effect(code), effect, "{code:04x}");
        }
        for (a, b, effect) in [
            (0xF7FF, 0xFFFE, Branch(0)),   // bl .
            (0xF000, 0xF800, Branch(4)),   // bl .+4
            (0xF7FF, 0xBFFE, Branch(0)),   // b.w .
            (0xF43F, 0xAFFE, Branch(0)),   // beq.w .
            (0xE92D, 0x4FF0, Take(36)),    // push.w {r4-r11, lr}
            (0xF84D, 0xED04, Take(4)),     // str lr, [sp, #-4]!
            (0xED2D, 0x8B10, Take(64)),    // vpush {d8-d15}
            (0xF5AD, 0x7D00, Take(512)),   // sub.w sp, sp, #512
            (0xF6AD, 0x5D04, Take(0xD04)), // subw sp, sp, #0xd04
            (0xEBAD, 0x0D04, Dynamic),     // sub.w sp, sp, r4
            (0xF8DF, 0xF004, Indirect),    // ldr.w pc, [pc, #4]
            (0xF85D, 0xFB04, Nothing),     // ldr pc, [sp], #4
            (0xF3AF, 0x8000, Nothing),     // nop.w
        ] {
            assert_eq!(wide_effect(a, b), effect, "{a:04x} {b:04x}");
        }
        // movw r3, #0x4321; movt r3, #0x0800
        let code = [0x44, 0xF2, 0x21, 0x33, 0xC0, 0xF6, 0x00, 0x03];
        assert_eq!(built_constants(&code), [0x0800_4321]);
        // The other way round the upper half is cleared again.
        let (movw, movt) = code.split_at(4);
        assert_eq!(built_constants(&[movt, movw].concat()), [0_u64; 0]);
        assert_eq!((expanded(0x0FF), expanded(0x3AB), expanded(0xC80)), (0xFF, 0xABAB_ABAB, 0x4000));
    }
}
