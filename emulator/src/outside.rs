//! The world outside the board, as the board sees it: one step every millisecond.

use crate::board::Board;
use crate::cortex::unicorn::Memory;

/// Everything that is not on the board.
pub trait Outside {
    /// A millisecond has passed. The board may be looked at and acted upon.
    fn step(&mut self, board: &mut Board, memory: &mut Memory<'_>);
}

/// An outside where nothing happens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Outside for Nothing {
    fn step(&mut self, _board: &mut Board, _memory: &mut Memory<'_>) {}
}
