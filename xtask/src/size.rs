//! `cargo xtask size`: what the image needs of each memory, and whether that is within its budget.

use std::fs;

use anyhow::{Context, Result, bail};
use clap::Args;
use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, SectionKind};

use crate::calls::Calls;
use crate::{compiler, firmware, stack};

/// Flash, RAM and CCM of the firmware by section and by largest symbols, against their budgets.
///
/// Builds the firmware first. The exit status is 1 when a budget is passed.
#[derive(Args)]
pub(crate) struct Cmd {
    /// Largest symbols shown for each memory.
    #[arg(long, default_value_t = 12, value_name = "COUNT")]
    symbols: usize,
    /// Build profile: `firmware` for drones, `release` for a debug probe.
    #[arg(long, default_value = firmware::PROFILE)]
    profile: String,
}

/// A memory and how much of it the firmware may use.
struct Memory {
    name: &'static str,
    start: u64,
    end: u64,
    budget: u64,
}

const KIB: u64 = 1024;
const MEMORIES: [Memory; 3] = [
    Memory { name: "flash", start: 0x0800_4000, end: 0x080C_0000, budget: 320 * KIB },
    Memory { name: "SRAM", start: 0x2000_0000, end: 0x2002_0000, budget: 112 * KIB },
    Memory { name: "CCM", start: 0x1000_0000, end: 0x1001_0000, budget: 60 * KIB },
];

impl Memory {
    fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// A named piece of memory.
struct Piece {
    name: String,
    bytes: u64,
}

impl Cmd {
    /// Builds, prints the tables, and fails when a budget is passed.
    pub(crate) fn run(self) -> Result<()> {
        compiler::note();
        let elf = if self.profile == firmware::PROFILE {
            firmware::build()?.elf
        } else {
            firmware::compile(firmware::PACKAGE, &self.profile)?
        };
        let bytes = fs::read(&elf).context("cannot read the firmware")?;
        let file = object::File::parse(&*bytes).context("the firmware's ELF cannot be read")?;
        let mut passed = Vec::new();
        for memory in &MEMORIES {
            let sections = sections(&file, memory);
            let used: u64 = sections.iter().map(|piece| piece.bytes).sum();
            println!(
                "\n{}: {} of {} ({:.0} % of the budget)",
                memory.name,
                kib(used),
                kib(memory.budget),
                100.0 * used as f64 / memory.budget as f64
            );
            print("section", &sections);
            print("largest", &symbols(&file, memory, self.symbols));
            if used > memory.budget {
                passed.push(format!("{} by {}", memory.name, kib(used - memory.budget)));
            }
        }
        let calls = Calls::read(&file)?;
        let worst = stack::worst_case(&calls)?;
        let room = stack_size(&file).context("the image has no stack")?;
        println!("  {:<16} {room:>6}", "room");
        if worst > room {
            passed.push(format!("stack by {}", kib(worst - room)));
        }
        stack::pointers_are_known(&calls)?;
        stack::flight_cannot_panic(&calls)?;
        if !passed.is_empty() {
            bail!("over budget: {}", passed.join(", "));
        }
        Ok(())
    }
}

fn kib(bytes: u64) -> String {
    format!("{:.1} KiB", bytes as f64 / KIB as f64)
}

fn print(title: &str, pieces: &[Piece]) {
    for piece in pieces {
        println!("  {title:<8} {:>8}  {}", piece.bytes, piece.name);
    }
}

/// The sections in a memory, and the stack. Initialised variables count twice: in RAM, and in flash
/// where their first values wait.
fn sections(file: &object::File<'_>, memory: &Memory) -> Vec<Piece> {
    let mut found = Vec::new();
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
        if section.size() == 0 || sh_flags & u64::from(object::elf::SHF_ALLOC) == 0 {
            continue;
        }
        let name = section.name().unwrap_or("?").to_owned();
        let initialised = section.kind() == SectionKind::Data && memory.name == "flash";
        if memory.holds(section.address()) {
            found.push(Piece { name, bytes: section.size() });
        } else if initialised {
            found.push(Piece { name: format!("{name} (first values)"), bytes: section.size() });
        }
    }
    if let Some(bytes) = stack_size(file)
        && memory.name == "CCM"
    {
        found.push(Piece { name: "stack".to_owned(), bytes });
    }
    found
}

/// Bytes set aside for the stack.
fn stack_size(file: &object::File<'_>) -> Option<u64> {
    let symbol = |name: &str| file.symbols().find(|s| s.name() == Ok(name)).map(|s| s.address());
    symbol("_stack_start")?.checked_sub(symbol("_stack_end")?)
}

/// The largest symbols of a memory, with readable names.
fn symbols(file: &object::File<'_>, memory: &Memory, count: usize) -> Vec<Piece> {
    let mut found: Vec<Piece> = file
        .symbols()
        .filter(|symbol| symbol.size() > 0 && memory.holds(symbol.address()))
        .map(|symbol| Piece {
            name: format!("{:#}", rustc_demangle::demangle(symbol.name().unwrap_or("?"))),
            bytes: symbol.size(),
        })
        .collect();
    found.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    found.dedup_by(|a, b| a.name == b.name && a.bytes == b.bytes);
    found.truncate(count);
    found
}
