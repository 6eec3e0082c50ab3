//! The byte form of frames that engines share: the journal on disk and the socket carry it.
//!
//! All numbers are little-endian and of a fixed width, every length stands before what it counts,
//! and every frame has exactly one form. The form has no checksum and does not say where it ends:
//! whoever carries it does both.
//!
//! ```text
//! version u8 = 1 · flags u8 (1 reply, 2 placement)
//! subject, id [, reply]                 each u16 length, text
//! [ flags u8 (1 time, 2 key) · priority u8 [· time i128, ns since 1970] [· u8 length, key] ]
//! headers u32 count, u32 bytes of text  then each: u8 length, u16 length, name, value
//! body u32 length, bytes                nothing after it
//! ```

use bus_envelope::{Headers, Timestamp};
use bus_subjects::Subject;
use bytes::Bytes;

use crate::{Error, ErrorKind, Frame, FrameId, OrderKey, Placement, Priority, Result};

/// Appends the packed form of `frame` to `out`.
///
/// A frame that [`Frame::check_size`] refuses is written, but [`unpack_frame`] refuses it. A
/// placement that says nothing is left out.
pub fn pack_frame(frame: &Frame, out: &mut Vec<u8>) {
    let placement = frame.placement.as_deref().filter(|held| **held != Placement::default());
    out.reserve(packed_bytes_max(frame));
    let reply = if frame.reply.is_some() { HAS_REPLY } else { 0 };
    out.push(VERSION);
    out.push(reply | if placement.is_some() { HAS_PLACEMENT } else { 0 });
    pack_text(frame.subject.as_str(), out);
    pack_text(frame.id.as_str(), out);
    if let Some(reply) = &frame.reply {
        pack_text(reply.as_str(), out);
    }
    if let Some(placement) = placement {
        pack_placement(placement, out);
    }
    pack_headers(&frame.headers, out);
    out.extend_from_slice(&count(frame.body.len()).to_le_bytes());
    out.extend_from_slice(&frame.body);
}

/// Reads a packed frame, which must be all of `packed`; the body is a part of it, not a copy.
///
/// # Errors
/// `Corrupt`, not done: another version, a length beyond the end or over a limit, a text that is
/// no subject, id, key or header, a second form of the same frame, or bytes left over.
pub fn unpack_frame(packed: &Bytes) -> Result<Frame> {
    let mut reader = Unpacker::new(packed);
    if reader.u8()? != VERSION {
        return Err(corrupt("packed frame is of another version: expected 1"));
    }
    let flags = reader.u8()?;
    if flags & !(HAS_REPLY | HAS_PLACEMENT) != 0 {
        return Err(corrupt("packed frame has unknown flags"));
    }
    let subject = reader.subject()?;
    let id = FrameId::parse(reader.text(FrameId::BYTES_MAX)?).map_err(refused)?;
    let reply = if flags & HAS_REPLY != 0 { Some(reader.subject()?) } else { None };
    let placement = if flags & HAS_PLACEMENT != 0 {
        Some(Box::new(unpack_placement(&mut reader)?))
    } else {
        None
    };
    let headers = unpack_headers(&mut reader)?;
    let bytes = reader.u32()? as usize;
    if bytes > Frame::BYTES_MAX.saturating_sub(headers.bytes()) || bytes != reader.left() {
        return Err(corrupt("packed body has another length than it says, or is too large"));
    }
    let body = packed.slice(packed.len() - bytes..);
    Ok(Frame { subject, id, reply, headers, body, placement })
}

/// Reads numbers and texts from the front of packed bytes; what is not there is `Corrupt`.
#[derive(Debug, Clone)]
pub struct Unpacker<'a> {
    rest: &'a [u8],
}

impl<'a> Unpacker<'a> {
    /// Reads `packed` from its first byte on.
    #[must_use]
    pub const fn new(packed: &'a [u8]) -> Self {
        Self { rest: packed }
    }

    /// How many bytes are left.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next `bytes` bytes.
    ///
    /// # Errors
    /// `Corrupt` when fewer are left.
    pub fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(bytes).ok_or_else(cut_short)?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// `Corrupt` when fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk().ok_or_else(cut_short)?;
        self.rest = rest;
        Ok(*head)
    }

    /// The next byte.
    ///
    /// # Errors
    /// `Corrupt` when none is left.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// The next number of two bytes.
    ///
    /// # Errors
    /// `Corrupt` when fewer are left.
    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// The next number of four bytes.
    ///
    /// # Errors
    /// `Corrupt` when fewer are left.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next number of eight bytes.
    ///
    /// # Errors
    /// `Corrupt` when fewer are left.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// The next time: sixteen bytes, nanoseconds since 1970.
    ///
    /// # Errors
    /// `Corrupt` when fewer are left, or the time is outside the years 0000 to 9999.
    pub fn time(&mut self) -> Result<Timestamp> {
        let unix_ns = i128::from_le_bytes(self.array()?);
        let time = Timestamp::from_unix_ns(unix_ns);
        if time.unix_ns() != unix_ns {
            return Err(corrupt("packed time is outside the calendar"));
        }
        Ok(time)
    }

    /// The next text of at most `bytes_max` bytes, its length before it in two.
    ///
    /// # Errors
    /// `Corrupt` when it is longer, cut short or not UTF-8.
    pub fn text(&mut self, bytes_max: usize) -> Result<&'a str> {
        let bytes = usize::from(self.u16()?);
        if bytes > bytes_max {
            return Err(corrupt("packed text is longer than allowed"));
        }
        self.utf8(bytes)
    }

    fn subject(&mut self) -> Result<Subject> {
        Subject::parse(self.text(Subject::BYTES_MAX)?).map_err(|why| refused(why.into()))
    }

    fn utf8(&mut self, bytes: usize) -> Result<&'a str> {
        std::str::from_utf8(self.take(bytes)?).map_err(|_| corrupt("packed text is not UTF-8"))
    }

    /// Nothing is left.
    ///
    /// # Errors
    /// `Corrupt` when something is.
    pub fn end(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(corrupt("bytes are left over")) }
    }
}

/// Appends `text` as [`Unpacker::text`] reads it: at most 65,535 bytes, the rest is cut.
pub fn pack_text(text: &str, out: &mut Vec<u8>) {
    let text = text.get(..text.floor_char_boundary(usize::from(u16::MAX))).unwrap_or_default();
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Appends `time` as [`Unpacker::time`] reads it.
pub fn pack_time(time: Timestamp, out: &mut Vec<u8>) {
    out.extend_from_slice(&time.unix_ns().to_le_bytes());
}

fn pack_placement(placement: &Placement, out: &mut Vec<u8>) {
    let time = if placement.not_before.is_some() { HAS_TIME } else { 0 };
    out.push(time | if placement.key.is_some() { HAS_KEY } else { 0 });
    out.push(placement.priority.level());
    if let Some(time) = placement.not_before {
        pack_time(time, out);
    }
    if let Some(key) = &placement.key {
        // A key has at most 128 bytes.
        out.push(key.as_str().len() as u8);
        out.extend_from_slice(key.as_str().as_bytes());
    }
}

fn unpack_placement(reader: &mut Unpacker<'_>) -> Result<Placement> {
    let flags = reader.u8()?;
    if flags & !(HAS_TIME | HAS_KEY) != 0 {
        return Err(corrupt("packed placement has unknown flags"));
    }
    let priority = Priority::new(reader.u8()?).map_err(refused)?;
    let not_before = if flags & HAS_TIME != 0 { Some(reader.time()?) } else { None };
    let key = if flags & HAS_KEY != 0 {
        let bytes = usize::from(reader.u8()?);
        Some(OrderKey::parse(reader.utf8(bytes)?).map_err(refused)?)
    } else {
        None
    };
    let placement = Placement { not_before, priority, key };
    if placement == Placement::default() {
        return Err(corrupt("packed placement says nothing"));
    }
    Ok(placement)
}

fn pack_headers(headers: &Headers, out: &mut Vec<u8>) {
    out.extend_from_slice(&count(headers.len()).to_le_bytes());
    out.extend_from_slice(&count(headers.bytes()).to_le_bytes());
    for (name, value) in headers.iter() {
        // A name has at most 64 bytes and a value at most 8,192.
        out.push(name.len() as u8);
        out.extend_from_slice(&(value.len() as u16).to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(value.as_bytes());
    }
}

fn unpack_headers(reader: &mut Unpacker<'_>) -> Result<Headers> {
    let (entries, bytes) = (reader.u32()? as usize, reader.u32()? as usize);
    let least = entries.saturating_mul(HEADER_LENGTHS).saturating_add(bytes);
    if bytes > Frame::BYTES_MAX || least > reader.left() {
        return Err(corrupt("packed headers are longer than what is left, or too large"));
    }
    let mut headers = Headers::with_capacity(entries, bytes);
    for _ in 0..entries {
        let (name, value) = (usize::from(reader.u8()?), usize::from(reader.u16()?));
        let (name, value) = (reader.utf8(name)?, reader.utf8(value)?);
        headers.add(name, value).map_err(|why| refused(why.into()))?;
    }
    if headers.bytes() != bytes {
        return Err(corrupt("packed headers have another length than they say"));
    }
    Ok(headers)
}

/// No less than the packed form takes.
fn packed_bytes_max(frame: &Frame) -> usize {
    let texts = frame.subject.as_str().len() + frame.id.as_str().len();
    let reply = frame.reply.as_ref().map_or(0, |reply| 2 + reply.as_str().len());
    let placement = if frame.placement.is_some() { 19 + OrderKey::BYTES_MAX } else { 0 };
    let headers = HEADER_LENGTHS * frame.headers.len() + frame.headers.bytes();
    18 + texts + reply + placement + headers + frame.body.len()
}

/// A length in four bytes; one that does not fit is over every limit, and stays so.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn cut_short() -> Error {
    corrupt("packed bytes end too early")
}

fn refused(why: Error) -> Error {
    corrupt("packed value is refused").because(why)
}

fn corrupt(why: &'static str) -> Error {
    Error::new(ErrorKind::Corrupt, "unpack", why)
}

const VERSION: u8 = 1;
const HAS_REPLY: u8 = 1;
const HAS_PLACEMENT: u8 = 2;
const HAS_TIME: u8 = 1;
const HAS_KEY: u8 = 2;

/// Bytes of the two lengths before a header.
const HEADER_LENGTHS: usize = 3;

#[cfg(test)]
mod tests;
