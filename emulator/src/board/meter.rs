//! What single functions take of the processor: everything from the call to the return, with what they
//! call, without what interrupts them.

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
}

impl Meters {
    /// For so many functions.
    #[must_use]
    pub fn new(functions: usize) -> Self {
        Self { calls: Vec::new(), work: vec![Work::default(); functions] }
    }

    /// What a function has done.
    #[must_use]
    pub fn work(&self, function: usize) -> Work {
        self.work.get(function).copied().unwrap_or_default()
    }

    /// True when nothing is to be counted.
    #[inline]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    /// A block has run at a depth of exceptions.
    pub fn charge(&mut self, depth: usize, instructions: u64, cycles: u64) {
        for call in self.calls.iter_mut().filter(|c| c.depth == depth) {
            call.instructions += instructions;
            call.cycles += cycles;
        }
    }

    /// A block is about to run.
    pub fn block(&mut self, address: u32, depth: usize) {
        while let Some(call) = self.calls.last()
            && call.back == address
            && call.depth == depth
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
    pub fn enter(&mut self, function: usize, back: u32, depth: usize) {
        // A call of the same function that never came back (a reset) is forgotten.
        self.calls.retain(|c| c.function != function);
        self.calls.push(Call { function, back, depth, instructions: 0, cycles: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_without_what_interrupts_them() {
        let mut m = Meters::new(2);
        m.enter(0, 100, 1);
        m.charge(1, 5, 7);
        m.enter(1, 200, 1); // called by the first
        m.charge(1, 10, 20);
        m.charge(2, 1000, 1000); // an interrupt
        m.block(200, 2); // which happens to pass there
        m.block(200, 1);
        m.charge(1, 1, 1);
        m.block(100, 1);
        assert!(m.is_idle());
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
