//! The worst case of the stack, and whether the flight task can panic; both from the image's calls.
//!
//! All code shares one stack, and interrupt handlers nest by priority. The worst case is therefore the
//! thread's deepest call, plus for each priority the deepest handler of that priority and the frame the
//! processor pushes for it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

use crate::calls::Calls;

/// What the processor pushes when it takes an interrupt: 26 words with the floating-point registers,
/// and one to align.
const EXCEPTION_FRAME: u64 = 27 * 4;

/// One priority: handlers that do not interrupt each other.
pub(crate) struct Level {
    pub(crate) name: &'static str,
    /// Functions the hardware starts.
    pub(crate) entries: &'static [&'static str],
    /// Tasks that run in them (parts of their names).
    pub(crate) tasks: &'static [&'static str],
}

/// The schedule of `firmware/src/board/irq.rs`, most urgent first; the thread last.
pub(crate) const LEVELS: [Level; 8] = [
    Level { name: "flow control", entries: &["EXTI4"], tasks: &[] },
    Level { name: "radio line idle", entries: &["USART6"], tasks: &[] },
    Level {
        name: "sensors, clock",
        entries: &["EXTI15_10", "I2C3_EV", "I2C3_ER", "DMA1_STREAM2", "TIM5"],
        tasks: &[],
    },
    Level { name: "flight", entries: &["UART4"], tasks: &["image::flight::__run_task"] },
    Level { name: "radio line", entries: &["DMA2_STREAM1", "DMA2_STREAM7"], tasks: &[] },
    Level { name: "radio", entries: &["UART5"], tasks: &["image::radio::__run_task"] },
    Level {
        name: "card, EEPROM",
        entries: &["I2C1_EV", "I2C1_ER", "DMA1_STREAM5", "DMA2_STREAM0"],
        tasks: &[],
    },
    Level { name: "thread", entries: &["main"], tasks: &["image::__boot_task"] },
];

/// Functions after which nothing continues: they end in a reset, and their stack does not matter. Should it not
/// suffice, the hard fault's handler starts at the stack's top.
const ENDS: [&str; 6] = [
    "board::fault::flight_is_late",
    "core::panicking::",
    "rust_begin_unwind",
    "core::cell::panic_already",
    "core::option::expect_failed",
    "core::result::unwrap_failed",
];

/// Who calls through pointers, and whom (parts of their names). What an executor calls is its level's tasks.
/// [`pointers_are_known`] checks that nothing is missing here.
struct Pointers {
    callers: &'static [&'static str],
    targets: &'static [&'static str],
}

const POINTERS: [Pointers; 7] = [
    // Formatting: the values' own functions, and the formatter's.
    Pointers {
        callers: &["core::fmt", "defmt", "shared::say"],
        targets: &[" as core::fmt::", "core::fmt::num", "<core::fmt::Formatter>::", "defmt"],
    },
    // Wakers: of embassy's futures and of our drivers that wake them.
    Pointers {
        callers: &["steady_firmware::board::", "steady_firmware::image::", "embassy_"],
        targets: &["embassy_executor::raw::waker", "__pender"],
    },
    // The tables of parameters and log variables: an entry's own functions.
    Pointers {
        callers: &[
            "steady_firmware::services",
            "steady_firmware::toc",
            "steady_firmware::eeprom",
            "steady_firmware::storage::queue",
            "steady_firmware::image::",
        ],
        targets: &["steady_firmware::toc::"],
    },
    // The radio services: the way to the flight task, and the gain tables' flash.
    Pointers {
        callers: &["steady_firmware::services", "steady_firmware::image::radio"],
        targets: &["image::radio::Tables as", "<steady_firmware::image::radio::Radio>::with"],
    },
    // The cable: the device asks its classes, of which there is one, and writes descriptors and strings.
    Pointers {
        callers: &["usb_device::", "steady_firmware::usb", "steady_firmware::image::radio"],
        targets: &[
            " as usb_device::class::UsbClass<",
            "usb_device::device::UsbDevice<",
            "usb_device::descriptor::",
        ],
    },
    // The kinds of pieces.
    Pointers {
        callers: &["<steady_common::planner::Planner>::request"],
        targets: &["steady_common::planner::smooth", "steady_common::planner::line"],
    },
    // Requests about one parameter, made by their constructors.
    Pointers {
        callers: &["steady_common::crtp::param", "steady_firmware::services"],
        targets: &["steady_common::crtp::param::Request::"],
    },
];

/// Functions whose address is in the image although no rule above calls them: executors' tasks, and how
/// values behind a `dyn` are dropped.
const OTHERS_TAKEN: [&str; 2] = ["embassy_executor::raw::TaskStorage<", "core::ptr::drop_in_place"];

fn is_one_of(name: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| name.contains(part))
}

fn is_executor(name: &str) -> bool {
    name.contains("Executor>::run") || name.contains("Executor>::poll")
}

/// One way the analysis can go deep.
pub(crate) struct Deepest {
    pub(crate) bytes: u64,
    /// From the entry on.
    pub(crate) path: Vec<u64>,
}

/// The call graph of one level, with its tasks put in.
pub(crate) struct Graph<'a> {
    calls: &'a Calls,
    entries: &'static [&'static str],
    tasks: Vec<u64>,
    /// The targets of [`POINTERS`], in its order.
    targets: Vec<Vec<u64>>,
}

impl<'a> Graph<'a> {
    pub(crate) fn new(calls: &'a Calls, level: &Level) -> Result<Self> {
        let matching = |pointers: &Pointers| -> Vec<u64> {
            let all = calls.functions.iter().filter(|(_, f)| is_one_of(&f.name, pointers.targets));
            all.map(|(address, _)| *address).collect()
        };
        let is_task = |name: &str, task: &str| name.contains("TaskStorage") && name.contains(task);
        let mut tasks = Vec::new();
        for task in level.tasks {
            let found: Vec<u64> =
                calls.functions.iter().filter(|(_, f)| is_task(&f.name, task)).map(|(a, _)| *a).collect();
            if found.is_empty() {
                bail!("the image has no task `{task}`");
            }
            tasks.extend(found);
        }
        Ok(Self { calls, entries: level.entries, tasks, targets: POINTERS.iter().map(matching).collect() })
    }

    /// Whom a function may call.
    fn callees(&self, address: u64) -> BTreeSet<u64> {
        let Some(function) = self.calls.functions.get(&address) else { return BTreeSet::new() };
        let mut callees = function.calls.clone();
        if function.indirect {
            let name = &function.name;
            if is_executor(name) || self.entries.contains(&name.as_str()) {
                callees.extend(&self.tasks);
            }
            for (pointers, targets) in POINTERS.iter().zip(&self.targets) {
                if is_one_of(name, pointers.callers) || is_executor(name) {
                    callees.extend(targets.iter().filter(|target| **target != address));
                }
            }
        }
        callees
    }

    fn is_end(&self, address: u64) -> bool {
        self.calls.functions.get(&address).is_none_or(|f| ENDS.iter().any(|end| f.name.contains(end)))
    }

    /// The deepest path from a function.
    pub(crate) fn deepest(&self, entry: u64) -> Result<Deepest> {
        let mut known = BTreeMap::new();
        let bytes = self.depth(entry, &mut known, &mut Vec::new())?;
        let (mut path, mut at) = (vec![entry], entry);
        loop {
            let ahead = self.callees(at).into_iter().filter(|c| known.contains_key(c) && !path.contains(c));
            let Some(next) = ahead.max_by_key(|c| known[c]) else { break };
            path.push(next);
            at = next;
        }
        Ok(Deepest { bytes, path })
    }

    fn depth(&self, at: u64, known: &mut BTreeMap<u64, u64>, open: &mut Vec<u64>) -> Result<u64> {
        if let Some(bytes) = known.get(&at) {
            return Ok(*bytes);
        }
        if self.is_end(at) {
            return Ok(0);
        }
        let function = &self.calls.functions[&at];
        if open.contains(&at) {
            // Formatting calls itself only through pointers, one value inside another: once is what
            // our texts do.
            if function.name.contains("core::fmt") || function.name.contains("defmt") {
                return Ok(0);
            }
            bail!("`{}` calls itself: its stack has no bound", function.name);
        }
        if function.dynamic {
            bail!("`{}` takes an amount of stack that is not in the code", function.name);
        }
        open.push(at);
        let mut below = 0;
        for callee in self.callees(at) {
            below = below.max(self.depth(callee, known, open)?);
        }
        open.pop();
        let bytes = function.stack + below;
        known.insert(at, bytes);
        Ok(bytes)
    }

    /// Every function that can be reached, each with who calls it.
    pub(crate) fn reachable(&self, entries: &[u64]) -> BTreeMap<u64, u64> {
        let mut from: BTreeMap<u64, u64> = entries.iter().map(|entry| (*entry, *entry)).collect();
        let mut open: Vec<u64> = entries.to_vec();
        while let Some(at) = open.pop() {
            if self.is_end(at) {
                continue;
            }
            for callee in self.callees(at) {
                from.entry(callee).or_insert_with(|| {
                    open.push(callee);
                    at
                });
            }
        }
        from
    }

    pub(crate) fn name(&self, address: u64) -> &str {
        self.calls.functions.get(&address).map_or("?", |f| &f.name)
    }

    pub(crate) fn tasks(&self) -> &[u64] {
        &self.tasks
    }
}

/// Prints the worst case of every level and their sum.
pub(crate) fn worst_case(calls: &Calls) -> Result<u64> {
    println!("\nworst case of the stack, bytes");
    let mut total = 0;
    for level in &LEVELS {
        let graph = Graph::new(calls, level)?;
        let mut worst = Deepest { bytes: 0, path: Vec::new() };
        for entry in level.entries {
            let deepest = graph.deepest(calls.find(entry)?)?;
            if deepest.bytes >= worst.bytes {
                worst = deepest;
            }
        }
        let frame = if level.name == "thread" { 0 } else { EXCEPTION_FRAME };
        total += worst.bytes + frame;
        println!("  {:<16} {:>6} + {frame:>3}", level.name, worst.bytes);
        for address in worst.path.iter().filter(|a| calls.functions.get(a).is_some_and(|f| f.stack >= 200)) {
            println!("    {:>6}  {}", calls.functions[address].stack, graph.name(*address));
        }
    }
    println!("  {:<16} {total:>6}", "all nested");
    Ok(total)
}

/// Fails when a function can be called through a pointer and [`POINTERS`] does not know it, or when
/// somebody calls through a pointer of whom it says nothing.
pub(crate) fn pointers_are_known(calls: &Calls) -> Result<()> {
    let name = |address: &u64| calls.functions.get(address).map(|f| f.name.as_str());
    let is_target = |name: &str| {
        is_one_of(name, &OTHERS_TAKEN) || POINTERS.iter().any(|pointers| is_one_of(name, pointers.targets))
    };
    let unknown: Vec<&str> = calls.taken.iter().filter_map(name).filter(|name| !is_target(name)).collect();
    if !unknown.is_empty() {
        bail!(
            "called through pointers, but not in the list of `xtask/src/stack.rs`:\n  {}",
            unknown.join("\n  ")
        );
    }
    let mut callers = BTreeSet::new();
    for level in &LEVELS {
        let graph = Graph::new(calls, level)?;
        let entries = level.entries.iter().map(|entry| calls.find(entry)).collect::<Result<Vec<u64>>>()?;
        let reachable = graph.reachable(&entries);
        let indirect = reachable.keys().filter(|a| calls.functions.get(a).is_some_and(|f| f.indirect));
        callers.extend(indirect.filter_map(name).filter(|name| !level.entries.contains(name)));
    }
    let is_caller =
        |name: &str| is_executor(name) || POINTERS.iter().any(|pointers| is_one_of(name, pointers.callers));
    let unknown: Vec<&str> = callers.iter().copied().filter(|name| !is_caller(name)).collect();
    if !unknown.is_empty() {
        bail!(
            "call through pointers, but `xtask/src/stack.rs` does not say whom:\n  {}",
            unknown.join("\n  ")
        );
    }
    println!(
        "\ncalls through pointers: {} functions make them, {} can be their target, all of them known",
        callers.len(),
        calls.taken.len()
    );
    Ok(())
}

/// The flight task itself, apart from what it calls.
const FLIGHT_TASK: &str = "TaskStorage<steady_firmware::image::flight::__run_task";

/// Panics that are in the code of the flight task but cannot happen: the panic, and the only function
/// that may name it.
const IMPOSSIBLE: [(&str, &str); 4] = [
    // A future that is polled after its end; the compiler's own code for `await` does not do that, and
    // the flight task is a loop without an end.
    ("panic_const_async_fn_resumed", ""),
    // A timer polled by another executor's waker; there are only embassy's.
    ("core::panicking::panic_fmt", "<embassy_time::timer::Timer as core::future::future::Future>::poll"),
    // The queues' sizes are behind their references, where the compiler does not see that they are
    // constants above zero.
    ("panic_const_rem_by_zero", FLIGHT_TASK),
    // embassy's time plus a duration, beyond 64 bits of microseconds. Our own code has no `expect`
    // (clippy refuses it), and no other library that the flight task uses has.
    ("core::option::expect_failed", ""),
];

/// Fails when the flight task can reach a panic.
pub(crate) fn flight_cannot_panic(calls: &Calls) -> Result<()> {
    let Some(level) = LEVELS.iter().find(|level| level.name == "flight") else {
        bail!("there is no flight level")
    };
    let graph = Graph::new(calls, level)?;
    let reachable = graph.reachable(graph.tasks());
    let mut paths = Vec::new();
    for address in reachable.keys().filter(|a| graph.is_end(**a)) {
        let name = graph.name(*address);
        // Each of its callers counts, not only the one that was found first.
        for caller in reachable.keys().filter(|a| !graph.is_end(**a) && graph.callees(**a).contains(address))
        {
            let from = graph.name(*caller);
            if IMPOSSIBLE.iter().any(|(panic, by)| name.contains(panic) && from.contains(by)) {
                continue;
            }
            let mut path = vec![name.to_owned(), from.to_owned()];
            let mut at = *caller;
            while reachable[&at] != at {
                at = reachable[&at];
                path.push(graph.name(at).to_owned());
            }
            paths.push(path.join("\n      from "));
        }
    }
    println!(
        "\nfunctions the flight task can reach: {}, panics among them: {}",
        reachable.len(),
        paths.len()
    );
    if !paths.is_empty() {
        bail!("the flight task can panic:\n  {}", paths.join("\n  "));
    }
    Ok(())
}
