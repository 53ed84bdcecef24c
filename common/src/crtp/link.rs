//! Port 15: echo, source and sink for testing the link; and safelink, by which a client and the radio
//! processor number their packets with one bit each way, so that a repeated one is not taken twice.

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

/// Second byte of the packet that switches safelink.
const SAFELINK: u8 = 0x05;

/// Switches safelink on or off. The radio processor answers with the same packet, and keeps it so until
/// it is told otherwise or restarts, whoever talks to it.
#[must_use]
pub fn safelink(on: bool) -> Packet {
    let mut builder = Builder::with_header(Packet::NULL.header(), Packet::MAX_BYTES);
    builder.put(&[SAFELINK, u8::from(on)]);
    builder.packet()
}

/// What such a packet asks for or confirms; `None` for every other packet.
#[must_use]
pub fn is_safelink(packet: &Packet) -> Option<bool> {
    match packet.data() {
        [SAFELINK, on] if packet.is_null() => Some(*on != 0),
        _ => None,
    }
}
