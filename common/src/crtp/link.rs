//! Port 15: echo, source and sink for testing the link.

use super::{Builder, Packet, Port};

/// Channel whose packets come back as they are.
pub const ECHO: u8 = 0;
/// Channel that answers anything with [`source`].
pub const SOURCE: u8 = 1;
/// Channel that discards everything.
pub const SINK: u8 = 2;

/// Text by which clients recognise a Crazyflie.
const IDENTITY: &[u8] = b"Bitcraze Crazyflie";

/// The answer on [`SOURCE`]: 30 bytes, text and zeros.
#[must_use]
pub fn source() -> Packet {
    let mut builder = Builder::new(Port::Link, SOURCE);
    builder.put(IDENTITY);
    while builder.room() > 0 {
        builder.put(&[0]);
    }
    builder.packet()
}

/// True for the answer of a Crazyflie on [`SOURCE`].
#[must_use]
pub fn is_crazyflie(packet: &Packet) -> bool {
    packet.expect(Port::Link, SOURCE).is_ok_and(|r| r.rest().starts_with(IDENTITY))
}
