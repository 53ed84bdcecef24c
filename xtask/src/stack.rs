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

/// Functions after which nothing continues: they end in a reset, and their stack does not matter.
const ENDS: [&str; 5] = [
    "core::panicking::",
    "rust_begin_unwind",
    "core::cell::panic_already",
    "core::option::expect_failed",
    "core::result::unwrap_failed",
];

/// Whom formatting may call through a pointer.
const FORMATTERS: &[&str] = &[" as core::fmt::", "core::fmt::num", "defmt"];
/// Whom a waker may call.
const WAKERS: &[&str] = &["embassy_executor::raw::waker", "__pender"];
/// Whom users of the parameters' and log variables' tables may call: an entry's own functions.
const ENTRIES: &[&str] = &["steady_firmware::toc::"];
/// Who uses the tables: the radio services, and the log's sampler in the flight task.
const ENTRY_USERS: &[&str] =
    &["steady_firmware::services", "steady_firmware::toc", "image::radio", "image::flight"];
/// Whom the radio services may call beside: the way to the flight task, and the gain tables' flash.
const CONTEXT: &[&str] = &["image::radio::Tables as", "<steady_firmware::image::radio::Radio>"];
/// Who is a radio service.
const CONTEXT_USERS: &[&str] = &["steady_firmware::services", "image::radio"];

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
    wakers: Vec<u64>,
    formatters: Vec<u64>,
    entry_functions: Vec<u64>,
    context: Vec<u64>,
}

impl<'a> Graph<'a> {
    pub(crate) fn new(calls: &'a Calls, level: &Level) -> Result<Self> {
        let matching = |parts: &[&str]| -> Vec<u64> {
            let any = |name: &str| parts.iter().any(|part| name.contains(part));
            calls.0.iter().filter(|(_, f)| any(&f.name)).map(|(address, _)| *address).collect()
        };
        let is_task = |name: &str, task: &str| name.contains("TaskStorage") && name.contains(task);
        let mut tasks = Vec::new();
        for task in level.tasks {
            let found: Vec<u64> =
                calls.0.iter().filter(|(_, f)| is_task(&f.name, task)).map(|(a, _)| *a).collect();
            if found.is_empty() {
                bail!("the image has no task `{task}`");
            }
            tasks.extend(found);
        }
        let entries = level.entries;
        Ok(Self {
            calls,
            entries,
            tasks,
            wakers: matching(WAKERS),
            formatters: matching(FORMATTERS),
            entry_functions: matching(ENTRIES),
            context: matching(CONTEXT),
        })
    }

    /// Whom a function may call.
    fn callees(&self, address: u64) -> BTreeSet<u64> {
        let Some(function) = self.calls.0.get(&address) else { return BTreeSet::new() };
        let mut callees = function.calls.clone();
        if function.indirect {
            let name = &function.name;
            let is_executor = name.contains("Executor>::run") || name.contains("Executor>::poll");
            if is_executor || self.entries.contains(&name.as_str()) {
                callees.extend(self.tasks.iter().chain(&self.wakers));
            } else if name.contains("core::fmt") || name.contains("defmt") || name.ends_with("shared::say") {
                callees.extend(&self.formatters);
            } else {
                callees.extend(&self.wakers);
                let is_one_of = |users: &[&str]| users.iter().any(|user| name.contains(user));
                if is_one_of(ENTRY_USERS) {
                    callees.extend(self.entry_functions.iter().filter(|entry| **entry != address));
                }
                if is_one_of(CONTEXT_USERS) {
                    callees.extend(self.context.iter().filter(|entry| **entry != address));
                }
            }
        }
        callees
    }

    fn is_end(&self, address: u64) -> bool {
        self.calls.0.get(&address).is_none_or(|f| ENDS.iter().any(|end| f.name.contains(end)))
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
        let function = &self.calls.0[&at];
        if open.contains(&at) {
            // Formatting calls itself only through pointers, one value inside another: once is what
            // our texts do.
            if self.formatters.contains(&at) || function.name.contains("core::fmt") {
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
        self.calls.0.get(&address).map_or("?", |f| &f.name)
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
        for address in worst.path.iter().filter(|a| calls.0.get(a).is_some_and(|f| f.stack >= 200)) {
            println!("    {:>6}  {}", calls.0[address].stack, graph.name(*address));
        }
    }
    println!("  {:<16} {total:>6}", "all nested");
    Ok(total)
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
