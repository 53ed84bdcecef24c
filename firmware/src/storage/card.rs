//! What a logger needs of a card.

pub use embedded_sdmmc::Block;

/// What went wrong with a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardError {
    /// None, or it does not answer.
    Missing,
    /// Reading or writing failed.
    Device,
    /// No FAT32 in its first partition, or a damaged one.
    Format,
    /// No room.
    Full,
    /// All hundred names are taken.
    Names,
    /// There is no file open.
    Closed,
}

impl CardError {
    /// As a number, 1 and up.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Missing => 1,
            Self::Device => 2,
            Self::Format => 3,
            Self::Full => 4,
            Self::Names => 5,
            Self::Closed => 6,
        }
    }

    /// For people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Missing => "no card, or it does not answer",
            Self::Device => "reading or writing the card failed",
            Self::Format => "the card's first partition is not a usable FAT32",
            Self::Full => "the card is full",
            Self::Names => "all hundred file names are taken: delete some",
            Self::Closed => "no file is open",
        }
    }
}

/// A card with a file system and at most one open file, written from its start to its end.
pub trait Card {
    /// Looks for a card and its file system; forgets any open file.
    fn mount(&mut self) -> Result<(), CardError>;

    /// Reads `config.txt`: how many bytes it has, of which those that fit are in `into`; nothing
    /// when there is no such file.
    fn read_config(&mut self, into: &mut [u8]) -> Result<Option<usize>, CardError>;

    /// Looks for the first free name made of `base` and two digits: then creating the file is quick.
    fn find_name(&mut self, base: &str) -> Result<(), CardError>;

    /// Creates a file of size zero with a name from `base` and the first free two digits, and
    /// reserves a little room for it. Gives the digits.
    fn create(&mut self, base: &str) -> Result<u8, CardError>;

    /// Reserves some more room for the open file, in a few block writes; false once there is enough.
    fn reserve_more(&mut self) -> Result<bool, CardError>;

    /// Writes blocks of the file, the first of them being block number `first` of the file.
    fn write(&mut self, first: u32, blocks: &[Block]) -> Result<(), CardError>;

    /// Makes the file this long, in bytes. Everything written before stays after a power cut.
    fn commit(&mut self, size: u32) -> Result<(), CardError>;

    /// Makes the file this long, gives back the room it does not need, and closes it.
    fn close(&mut self, size: u32) -> Result<(), CardError>;
}
