//! What single functions take of the processor: everything from the call to the return, with what they
//! call, without what interrupts them.

use super::ProcessorTime;

/// The work of all calls so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Calls that returned.
    pub calls: u64,
    /// Instructions of all calls.
    pub instructions: u64,
    /// Cycles of all calls (an estimate).
    pub cycles: u64,
    /// Most instructions of a call.
    pub max_instructions: u64,
    /// Most cycles of a call.
    pub max_cycles: u64,
}

/// A call that has not returned yet.
#[derive(Clone, Copy, Debug)]
struct Call {
    function: usize,
    /// Where the caller goes on.
    back: u32,
    /// Exceptions that were running: only code at this depth belongs to the call.
    depth: usize,
    instructions: u64,
    cycles: u64,
}

/// Counts the work of some functions.
#[derive(Clone, Debug, Default)]
pub struct Meters {
    calls: Vec<Call>,
    work: Vec<Work>,
    /// Instructions and cycles of the core up to which the calls were charged.
    charged: (u64, u64),
    /// Exceptions that are running.
    depth: usize,
}

impl Meters {
    /// For so many functions.
    #[must_use]
    pub fn new(functions: usize) -> Self {
        Self { work: vec![Work::default(); functions], ..Self::default() }
    }

    /// What a function has done.
    #[must_use]
    pub fn work(&self, function: usize) -> Work {
        self.work.get(function).copied().unwrap_or_default()
    }

    /// Where the innermost call returns to.
    #[must_use]
    pub fn back(&self) -> Option<u32> {
        self.calls.last().map(|call| call.back)
    }

    /// From now on so many exceptions are running.
    pub fn at_depth(&mut self, depth: usize, effort: ProcessorTime) {
        self.settle(effort);
        self.depth = depth;
    }

    /// Cycles that are no function's.
    pub fn leave_out(&mut self, cycles: u64) {
        self.charged.1 += cycles;
    }

    /// Charges the calls with what the core has done since.
    fn settle(&mut self, effort: ProcessorTime) {
        let now = (effort.instructions, effort.cycles);
        let before = std::mem::replace(&mut self.charged, now);
        for call in self.calls.iter_mut().filter(|c| c.depth == self.depth) {
            call.instructions += now.0 - before.0;
            call.cycles += now.1 - before.1;
        }
    }

    /// A block is about to run.
    pub fn block(&mut self, address: u32, effort: ProcessorTime) {
        if self.back() != Some(address) {
            return;
        }
        self.settle(effort);
        while let Some(call) = self.calls.last()
            && call.back == address
            && call.depth == self.depth
        {
            if let Some(work) = self.work.get_mut(call.function) {
                work.calls += 1;
                work.instructions += call.instructions;
                work.cycles += call.cycles;
                work.max_instructions = work.max_instructions.max(call.instructions);
                work.max_cycles = work.max_cycles.max(call.cycles);
            }
            self.calls.pop();
        }
    }

    /// A function is about to run, and will return to `back`.
    pub fn enter(&mut self, function: usize, back: u32, effort: ProcessorTime) {
        self.settle(effort);
        // A call of the same function that never came back (a reset) is forgotten.
        self.calls.retain(|c| c.function != function);
        self.calls.push(Call { function, back, depth: self.depth, instructions: 0, cycles: 0 });
    }
}

/// How long interrupts were off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locks {
    /// Since when they are, and where that was done.
    since: Option<(u64, u32)>,
    /// The mask has been written since it was looked at last: when and where the block began.
    pub(super) written: Option<(u64, u32)>,
    /// Longest time so far, ticks, from the block that switches them off to the end of the one that
    /// switches them on.
    pub longest: u64,
    /// The block that switched them off for that long.
    pub longest_at: u32,
}

impl Locks {
    /// The mask was written and is this now.
    pub(super) fn look(&mut self, is_off: bool, now: u64) {
        let Some(began) = self.written.take() else { return };
        if is_off {
            self.since.get_or_insert(began);
        } else if let Some((since, place)) = self.since.take()
            && now - since > self.longest
        {
            (self.longest, self.longest_at) = (now - since, place);
        }
    }

    /// The chip starts anew.
    pub(super) fn reset(&mut self) {
        (self.since, self.written) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_with_interrupts_off_is_kept() {
        let mut locks = Locks::default();
        for (block, is_off, now) in [(10, true, 15), (40, true, 42), (90, false, 100), (200, true, 205)] {
            locks.written = Some((block, block as u32));
            locks.look(is_off, now);
        }
        locks.look(false, 5000); // nothing was written
        assert_eq!((locks.longest, locks.longest_at), (90, 10));
        locks.reset();
        locks.written = Some((6000, 6000));
        locks.look(false, 6001);
        assert_eq!(locks.longest, 90, "what a reset cuts short does not count");
    }

    #[test]
    fn calls_are_counted_without_what_interrupts_them() {
        let mut m = Meters::new(2);
        let mut effort = ProcessorTime { instructions: 1000, cycles: 2000, asleep: 0 };
        let mut work = |instructions, cycles| {
            effort.instructions += instructions;
            effort.cycles += cycles;
            effort
        };
        m.at_depth(1, work(3, 3));
        m.enter(0, 100, work(0, 0));
        m.enter(1, 200, work(5, 7)); // called by the first
        m.at_depth(2, work(10, 20)); // an interrupt
        m.block(200, work(1000, 1000)); // which happens to pass there
        m.at_depth(1, work(0, 0));
        work(0, 10); // its return
        m.leave_out(10);
        m.block(200, work(0, 0));
        m.block(100, work(1, 1));
        assert_eq!(m.back(), None);
        let work = |calls, instructions, cycles| Work {
            calls,
            instructions,
            cycles,
            max_instructions: instructions,
            max_cycles: cycles,
        };
        assert_eq!((m.work(0), m.work(1)), (work(1, 16, 28), work(1, 10, 20)));
    }
}
