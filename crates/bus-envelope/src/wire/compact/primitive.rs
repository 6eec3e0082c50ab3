//! The few postcard primitives that the compact form is made of, read where they lie.
//!
//! Postcard itself reads numbers that are longer than they need to be; here each such number is
//! remembered, because the form has one way to write everything. A law in the tests holds every
//! byte against postcard.

/// What is left to read, and whether everything so far was written in the one way.
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
    pub(super) is_canonical: bool,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, is_canonical: true }
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (array, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(array)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        // Nearly every length is below 128 and then one byte.
        let bytes = match self.rest.split_first() {
            Some((length, rest)) if *length < MORE => {
                self.rest = rest;
                usize::from(*length)
            }
            _ => usize::try_from(self.number()?).ok()?,
        };
        let (text, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        std::str::from_utf8(text).ok()
    }

    /// Whether what follows is there.
    pub(super) fn is_some(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.is_some()? { read(self).map(Some) } else { Some(None) }
    }

    /// An unsigned number of at most 64 bits.
    pub(super) fn number(&mut self) -> Option<u64> {
        self.wide(u64::BITS)?.try_into().ok()
    }

    /// A signed number: zigzag puts the sign into the lowest bit.
    pub(super) fn signed(&mut self) -> Option<i128> {
        let wide = self.wide(u128::BITS)?;
        // Both halves of the shift keep the value within its type.
        Some((wide >> 1) as i128 ^ -((wide & 1) as i128))
    }

    /// Seven bits a byte, the lowest first.
    fn wide(&mut self, bits_max: u32) -> Option<u128> {
        let mut low = 0_u64;
        for (at, byte) in self.rest.iter().take(LOW_BYTES).enumerate() {
            low |= u64::from(byte & !MORE) << (7 * at);
            if byte & MORE == 0 {
                self.is_canonical &= at == 0 || *byte != 0;
                self.rest = self.rest.get(at + 1..)?;
                return Some(u128::from(low));
            }
        }
        self.rest = self.rest.get(LOW_BYTES..)?;
        let (mut value, mut shift) = (u128::from(low), 7 * LOW_BYTES as u32);
        loop {
            let byte = self.byte()?;
            let digit = u128::from(byte & !MORE);
            // Bits beyond the type would be lost.
            if shift >= bits_max || digit.leading_zeros() < u128::BITS - (bits_max - shift) {
                return None;
            }
            value |= digit << shift;
            if byte & MORE == 0 {
                self.is_canonical &= byte != 0;
                return Some(value);
            }
            shift += 7;
        }
    }
}

pub(super) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    match u8::try_from(text.len()) {
        Ok(length) if length < MORE => bytes.push(length),
        _ => put_number(bytes, text.len() as u128),
    }
    bytes.extend_from_slice(text.as_bytes());
}

pub(super) fn put_optional<T>(
    bytes: &mut Vec<u8>,
    value: Option<T>,
    put: impl FnOnce(&mut Vec<u8>, T),
) {
    match value {
        Some(value) => {
            bytes.push(1);
            put(bytes, value);
        }
        None => bytes.push(0),
    }
}

pub(super) fn put_signed(bytes: &mut Vec<u8>, value: i128) {
    put_number(bytes, ((value << 1) ^ (value >> 127)) as u128);
}

pub(super) fn put_number(bytes: &mut Vec<u8>, value: u128) {
    let mut rest = value;
    while rest >= u128::from(MORE) {
        bytes.push(rest as u8 | MORE);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// The bit that says that another byte follows.
const MORE: u8 = 0x80;

/// As many bytes of seven bits as surely fit into 64.
const LOW_BYTES: usize = 9;
