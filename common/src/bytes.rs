//! Little-endian fields in byte slices, without a way to panic.

/// Reads fields from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the slice's first byte.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes that are left.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `N` bytes; `None` when fewer are left.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next four bytes as a float.
    pub fn f32(&mut self) -> Option<f32> {
        self.array().map(f32::from_le_bytes)
    }
}

/// Writes fields one after the other into a slice. Fields that do not fit are dropped; see [`Writer::len`].
#[derive(Debug)]
pub struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
    overflowed: bool,
}

impl<'a> Writer<'a> {
    /// Starts at the slice's first byte.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0, overflowed: false }
    }

    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) -> &mut Self {
        // In two steps, so that the compiler can prove that the lengths agree and emits no panic.
        let room = self.bytes.get_mut(self.at..).and_then(|rest| rest.get_mut(..bytes.len()));
        match room {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.at += bytes.len();
            }
            None => self.overflowed = true,
        }
        self
    }

    /// Bytes written so far; `None` when a field did not fit.
    #[must_use]
    pub fn len(&self) -> Option<usize> {
        (!self.overflowed).then_some(self.at)
    }

    /// True when nothing has been written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive_the_round_trip() {
        let mut bytes = [0; 19];
        let mut w = Writer::new(&mut bytes);
        w.put(&[7]).put(&513_u16.to_le_bytes()).put(&1.5_f32.to_le_bytes()).put(&9_u32.to_le_bytes());
        w.put(&11_u64.to_le_bytes());
        assert_eq!(w.len(), Some(19));
        let mut r = Reader::new(&bytes);
        assert_eq!((r.u8(), r.u16(), r.f32(), r.u32()), (Some(7), Some(513), Some(1.5), Some(9)));
        assert_eq!((r.u64(), r.u8()), (Some(11), None));
    }

    #[test]
    fn too_much_is_noticed() {
        let mut bytes = [0; 3];
        let mut w = Writer::new(&mut bytes);
        w.put(&[1, 2]).put(&[3, 4]);
        assert_eq!(w.len(), None);
        assert_eq!(bytes, [1, 2, 0]);
    }
}
