//! Laws and helpers that several bodies share.

use std::fmt::Display;

use bus_envelope::wire::{self, WireForm};
use bus_envelope::{Headers, MessageEnvelope};
use bytes::Bytes;

/// Runs `read` and asserts that it never held more memory than the input justifies.
///
/// # Panics
/// When it held more.
pub fn bounded<T>(data: &[u8], read: impl FnOnce() -> T) -> T {
    bounded_above(MEMORY_FLOOR_BYTES, data, read)
}

/// As [`bounded`], for a reader that needs `floor_bytes` whatever it reads.
///
/// # Panics
/// When it held more.
pub fn bounded_above<T>(floor_bytes: u64, data: &[u8], read: impl FnOnce() -> T) -> T {
    let mut result = None;
    let held = allocation_counter::measure(|| result = Some(read())).bytes_max;
    let most = floor_bytes + MEMORY_FACTOR * data.len() as u64;
    assert!(held <= most, "{} bytes of input made the reader hold {held} bytes", data.len());
    result.expect("the reader has run")
}

/// Asserts that an error names its reason and does not hand a stranger's bytes on at length.
///
/// # Panics
/// When its text is empty, too long or holds a control character, which a terminal would obey.
pub fn error_is_brief(error: &impl Display) {
    let text = error.to_string();
    assert!(!text.is_empty(), "an error without a reason");
    assert!(text.len() <= ERROR_BYTES_MAX, "an error of {} bytes: {text:.80}", text.len());
    assert!(!text.chars().any(char::is_control), "an error with control characters: {text:?}");
}

/// Asserts that an envelope that was read keeps every rule, and that every wire form carries it
/// whole: equal fields, equal hashes.
///
/// # Panics
/// When it does not.
pub fn every_form_carries(envelope: &MessageEnvelope) {
    envelope.check().expect("an envelope that was read keeps the rules");
    let leaf = envelope.compute_hash();
    for form in [WireForm::Binary, WireForm::Json, WireForm::Compact] {
        let (headers, body) = wire::encode(form, envelope);
        assert_eq!(WireForm::of(&headers), Ok(form), "the form is not told from the headers");
        let read = wire::decode(&headers, &body)
            .unwrap_or_else(|error| panic!("{form:?} refuses what it wrote: {error}"));
        assert_eq!(read, *envelope, "{form:?} changes the envelope");
        assert_eq!(read.compute_hash(), leaf, "{form:?} changes the leaf");
        assert_eq!(read.aad(), envelope.aad(), "{form:?} changes what is sealed");
        let input = |envelope: &MessageEnvelope| envelope.signature_input(&leaf);
        assert_eq!(input(&read), input(envelope), "{form:?} changes what is signed");
    }
}

/// Reads a message as `name: value` lines, an empty line, and the body. `None` when a line is no
/// header or [`Headers`] refuses it.
#[must_use]
pub fn read_message(data: &[u8]) -> Option<(Headers, Bytes)> {
    let end = data.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = end.map_or((data, &[][..]), |at| (&data[..at], &data[at + 2..]));
    let mut headers = Headers::new();
    for line in std::str::from_utf8(head).ok()?.split('\n').filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ")?;
        headers.add(name, value).ok()?;
    }
    Some((headers, Bytes::copy_from_slice(body)))
}

/// Writes a message as [`read_message`] reads it.
#[must_use]
pub fn write_message(headers: &Headers, body: &[u8]) -> Vec<u8> {
    let head: String = headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    [head.as_bytes(), b"\n", body].concat()
}

/// The lines of a text input, at most 12 of them; `None` when it is not UTF-8.
#[must_use]
pub fn lines(data: &[u8]) -> Option<Vec<&str>> {
    Some(std::str::from_utf8(data).ok()?.split('\n').take(12).collect())
}

const MEMORY_FLOOR_BYTES: u64 = 32 * 1024;
/// Enough for a vector, just grown, with an entry of some fifty bytes for every two of the input.
const MEMORY_FACTOR: u64 = 128;
const ERROR_BYTES_MAX: usize = 1024;
