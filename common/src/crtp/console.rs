//! Port 0: text from the drone.

use super::{Builder, Malformed, Packet, Port};

/// Maximum bytes of text in one packet.
pub const MAX_TEXT: usize = Packet::MAX_DATA;

/// The first packet of a text and the rest of the text. Characters are never split over packets,
/// because clients decode every packet as UTF-8 by itself.
#[must_use]
pub fn encode(text: &str) -> (Packet, &str) {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let (head, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    (Builder::new(Port::Console, 0).put(head.as_bytes()).packet(), rest)
}

/// The text of a packet; the bytes as they are, since old firmware splits characters.
pub fn decode(packet: &Packet) -> Result<&[u8], Malformed> {
    packet.expect(Port::Console, 0).map(|r| r.rest())
}
