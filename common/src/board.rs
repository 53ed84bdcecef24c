//! Which board it is: written by the factory into the STM32's one-time programmable memory, as `0;CF21`,
//! and told to clients by a name. Several boards have the same processor and bootloader, so each of them
//! accepts an image for another.

/// Bytes of a block of the one-time programmable memory.
pub const OTP_BLOCK_SIZE: usize = 32;
/// Blocks it has.
pub const OTP_BLOCKS: usize = 16;

/// A board.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Board {
    /// Crazyflie 2.0: other sensors. Its memory may be blank.
    Crazyflie20,
    /// Crazyflie 2.1 and 2.1+, which differ in their propellers only.
    #[default]
    Crazyflie21,
    /// Crazyflie 2.1 Brushless: another pin for M4, motor controllers instead of transistors.
    Brushless,
    /// Crazyflie Bolt: a controller without a frame.
    Bolt,
    /// Roadrunner and Tag: no motors.
    Tag,
    /// None of these.
    Unknown,
}

impl Board {
    /// Every board with the beginning of its text and the name that clients get, longer names first.
    const TEXTS: [(Self, &'static str, &'static str); 8] = [
        (Self::Brushless, "C21B", "Crazyflie 2.1 Brushless"),
        (Self::Crazyflie21, "CF21", "Crazyflie 2.1"),
        (Self::Crazyflie20, "CF20", "Crazyflie 2.0"),
        (Self::Bolt, "CB", "Crazyflie Bolt"),
        (Self::Bolt, "RZ", "Crazyflie Bolt"),
        (Self::Tag, "CT", "Crazyflie Tag"),
        (Self::Tag, "RR", "Roadrunner"),
        (Self::Unknown, "", "unknown board"),
    ];

    /// By the one-time programmable memory: its first block that was not struck out with a zero. Blank
    /// is a Crazyflie 2.0.
    #[must_use]
    pub fn from_otp(memory: &[u8]) -> Self {
        let text = Self::otp_text(memory);
        if text.is_empty() {
            return Self::Crazyflie20;
        }
        let Some(kind) = text.strip_prefix("0;") else { return Self::Unknown };
        let kind = kind.split(';').next().unwrap_or_default();
        let known = Self::TEXTS.iter().find(|(_, start, _)| kind.len() == 4 && kind.starts_with(start));
        known.map_or(Self::Unknown, |(board, ..)| *board)
    }

    /// The text in the one-time programmable memory; empty when it is blank, or is no text.
    #[must_use]
    pub fn otp_text(memory: &[u8]) -> &str {
        let block = memory.chunks(OTP_BLOCK_SIZE).find(|block| block.first() != Some(&0)).unwrap_or(&[]);
        let text = block.split(|byte| !byte.is_ascii_graphic()).next().unwrap_or(&[]);
        core::str::from_utf8(text).unwrap_or_default()
    }

    /// By the name that the official firmware and this one tell clients.
    #[must_use]
    pub fn from_device_name(name: &str) -> Self {
        if name == Self::Crazyflie21.device_name() {
            return Self::Crazyflie21;
        }
        let is_other = |board: Self| !matches!(board, Self::Crazyflie21 | Self::Unknown);
        let known = Self::TEXTS.iter().find(|(board, _, known)| is_other(*board) && name.starts_with(known));
        known.map_or(Self::Unknown, |(board, ..)| *board)
    }

    /// The name for clients.
    #[must_use]
    pub fn device_name(self) -> &'static str {
        let known = Self::TEXTS.iter().find(|(board, ..)| *board == self);
        known.map_or("unknown board", |(_, _, name)| *name)
    }

    /// True for the board this firmware can fly.
    #[must_use]
    pub fn is_supported(self) -> bool {
        self == Self::Crazyflie21
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn only_a_crazyflie_21_is_supported() {
        for (otp, board) in [
            (&b"0;CF21\0"[..], Board::Crazyflie21),
            (b"0;CF21;R=D\0", Board::Crazyflie21),
            (b"0;CF20\0", Board::Crazyflie20),
            (b"0;C21B\0", Board::Brushless),
            (b"0;CB10\0", Board::Bolt),
            (b"0;RZ10\0", Board::Bolt),
            (b"0;CT10\0", Board::Tag),
            (b"0;RR10\0", Board::Tag),
            (b"0;CF2\0", Board::Unknown),
            (b"0;CF210\0", Board::Unknown),
            (b"1;CF21\0", Board::Unknown),
            (b"CF21", Board::Unknown),
            (b"0;CF2\xB1", Board::Unknown),
            (&[0xFF; OTP_BLOCK_SIZE], Board::Crazyflie20),
            (&[], Board::Crazyflie20),
        ] {
            assert_eq!(Board::from_otp(otp), board, "{}", otp.escape_ascii());
            assert_eq!(board.is_supported(), board == Board::Crazyflie21);
            assert_eq!(Board::from_device_name(board.device_name()), board);
        }
        for (name, board) in [
            ("Crazyflie 2.1", Board::Crazyflie21),
            ("Crazyflie 2.1 Brushless", Board::Brushless),
            ("Crazyflie Bolt 1.1", Board::Bolt),
            ("Roadrunner 1.0", Board::Tag),
            ("Crazyflie 2.1 Something", Board::Unknown),
            ("", Board::Unknown),
        ] {
            assert_eq!(Board::from_device_name(name), board, "{name}");
        }
    }

    #[test]
    fn the_first_block_that_was_not_struck_out_counts() {
        let mut memory = [0xFF; OTP_BLOCK_SIZE * OTP_BLOCKS];
        memory[..7].copy_from_slice(b"\0;CF20\0");
        memory[OTP_BLOCK_SIZE..OTP_BLOCK_SIZE + 7].copy_from_slice(b"0;CF21\0");
        assert_eq!(Board::from_otp(&memory), Board::Crazyflie21);
        assert_eq!(Board::otp_text(&memory), "0;CF21");
        memory.fill(0);
        assert_eq!(Board::from_otp(&memory), Board::Crazyflie20);
    }
}
