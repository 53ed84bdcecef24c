//! What others may know of the SD card.

use super::card::CardError;

/// What the storage is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// No card, or none that can be used.
    #[default]
    NoCard = 0,
    /// A card is there, nothing is written.
    Ready = 1,
    /// A log is being written.
    Logging = 2,
    /// The card has no room left.
    Full = 3,
    /// The card failed while a log was being written.
    Failed = 4,
}

/// What others may know of the SD card. Counters run since boot:
/// `produced = written + lost_in_queue + lost_on_card + pending`, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// What it is doing.
    pub state: State,
    /// A log can be started.
    pub can_log: bool,
    /// Records that should have been logged.
    pub produced: u32,
    /// Records that are on the card, file size included.
    pub written: u32,
    /// Records that found the queue full.
    pub lost_in_queue: u32,
    /// Records that were taken from the queue and did not reach the card.
    pub lost_on_card: u32,
    /// The last thing that went wrong.
    pub error: Option<CardError>,
    /// Number of the present or last file, the two digits of its name.
    pub file_number: u8,
    /// Bytes of the present or last file.
    pub file_bytes: u32,
}

impl Status {
    /// Records lost for good.
    #[must_use]
    pub fn lost(&self) -> u32 {
        self.lost_in_queue.wrapping_add(self.lost_on_card)
    }

    /// Records still on their way to the card.
    #[must_use]
    pub fn pending(&self) -> u32 {
        self.produced.wrapping_sub(self.written).wrapping_sub(self.lost())
    }

    /// The last error as a number, 0 for none.
    #[must_use]
    pub fn error_code(&self) -> u8 {
        self.error.map_or(0, CardError::code)
    }
}
