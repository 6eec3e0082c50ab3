//! Frames as NATS messages, and back.
//!
//! A live frame keeps its subject; its id is the header `vak-id`. A stored one carries its id as
//! `Nats-Msg-Id`, so that the server drops repeats, and when its placement is not the usual one it
//! is stored under `vakp.<level>.<key>.<subject>`: that way urgent and keyed messages are found
//! without reading what waits before them.
//!
//! The client's header map forgets the order of names and the server trims values. Headers
//! therefore stand under their own names when they can be restored from that, with a list of names
//! in `vak-order` unless they are sorted, and as JSON in `vak-headers` otherwise.

use std::{borrow::Cow, fmt::Write};

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use bus_core::{Error, ErrorKind, Frame, FrameId, OrderKey, Placement, Priority, Result};
use bus_envelope::Timestamp;
use bus_subjects::{Filter, Subject};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use self::headers::{read_headers, write_headers};
pub(crate) use self::packed::{FRAMES_MAX, Packable, UNKEPT, is_packed, unpack_live};

mod headers;
mod packed;

/// A frame as a live message.
///
/// # Errors
/// `Invalid` when a header cannot be written; the codec's own rules leave no such frame.
pub(crate) fn encode_live(frame: &Frame) -> Result<(HeaderMap, Bytes)> {
    let mut map = HeaderMap::new();
    set(&mut map, FRAME_ID, frame.id.as_str())?;
    write_headers(&frame.headers, &mut map)?;
    Ok((map, frame.body.clone()))
}

/// A frame as a message to be stored: the subject it is kept under, headers and body.
///
/// # Errors
/// As [`encode_live`].
pub(crate) fn encode_stored(frame: &Frame) -> Result<(Cow<'_, str>, HeaderMap, Bytes)> {
    let map = stored_headers(frame, MESSAGE_ID)?;
    Ok((kept_subject(&frame.subject, frame.placement.as_deref()), map, frame.body.clone()))
}

/// A stored frame as a record of the board holds it. Its id stands under another name there: the
/// same frame may come to the board twice.
///
/// # Errors
/// As [`encode_live`].
pub(crate) fn encode_held(frame: &Frame) -> Result<(HeaderMap, Bytes)> {
    let mut map = stored_headers(frame, FRAME_ID)?;
    set(&mut map, KEPT_UNDER, &kept_subject(&frame.subject, frame.placement.as_deref()))?;
    Ok((map, frame.body.clone()))
}

fn stored_headers(frame: &Frame, id: &'static str) -> Result<HeaderMap> {
    let mut map = HeaderMap::new();
    set(&mut map, id, frame.id.as_str())?;
    if let Some(reply) = &frame.reply {
        set(&mut map, REPLY, reply.as_str())?;
    }
    if let Some(placement) = frame.placement.as_deref() {
        if let Some(time) = placement.not_before {
            set(&mut map, NOT_BEFORE, &time.unix_ns().to_string())?;
        }
        if let Some(key) = &placement.key {
            set(&mut map, ORDER_KEY, key.as_str())?;
        }
    }
    write_headers(&frame.headers, &mut map)?;
    Ok(map)
}

/// The frame that a live message carries.
///
/// # Errors
/// `Corrupt` when it is none: no id, a header that no frame has, or too large.
pub(crate) fn decode_live(
    subject: Subject,
    reply: Option<&str>,
    map: &HeaderMap,
    body: Bytes,
) -> Result<Frame> {
    let id = live_id(map).ok_or_else(|| corrupt("has no id").at(&subject))?;
    let mut frame = Frame::new(subject, parse_id(id)?, body);
    frame.reply = reply.map(parse_subject).transpose()?;
    frame.headers = read_headers(map)?;
    checked(frame)
}

/// The frame that a stored message carries.
///
/// # Errors
/// As [`decode_live`], and for a subject that no frame has or a damaged placement.
pub(crate) fn decode_stored(subject: &str, map: &HeaderMap, body: Bytes) -> Result<Frame> {
    decode_kept((subject, get(map, MESSAGE_ID)), map, body)
}

/// The frame that a record of the board holds.
///
/// # Errors
/// As [`decode_stored`], and for one that does not say where it is kept.
pub(crate) fn decode_held(map: &HeaderMap, body: Bytes) -> Result<Frame> {
    let kept = get(map, KEPT_UNDER).ok_or_else(|| corrupt("says not where it is kept"))?;
    decode_kept((kept, get(map, FRAME_ID)), map, body)
}

fn decode_kept((subject, id): (&str, Option<&str>), map: &HeaderMap, body: Bytes) -> Result<Frame> {
    let id = id.ok_or_else(|| corrupt("has no id").at(subject))?;
    let placed = subject.strip_prefix(PLACED).map(split_placed).transpose()?;
    let plain = placed.as_ref().map_or(subject, |placed| placed.subject);
    let mut frame = Frame::new(parse_subject(plain)?, parse_id(id)?, body);
    frame.reply = get(map, REPLY).map(parse_subject).transpose()?;
    frame.headers = read_headers(map)?;
    if let Some(placed) = placed {
        let placement = read_placement(&placed, map).map_err(|error| error.at(subject))?;
        frame = frame.placed(placement);
    }
    checked(frame)
}

/// The id of a live message with headers.
fn live_id(map: &HeaderMap) -> Option<&str> {
    // Who publishes CloudEvents without knowing this bus has named the message as well.
    get(map, FRAME_ID).or_else(|| get(map, EVENT_ID))
}

/// Whether a message has the id of a live one, and neither that of one which came from an append
/// (core subscribers hear those as well) nor the marks of one that was read from a stream.
pub(crate) fn is_live(map: &HeaderMap) -> bool {
    // One walk through the few headers there are is quicker than to look each name up.
    let mut has_id = false;
    for (name, _) in map.iter() {
        let name: &str = name.as_ref();
        // A stored message that was read bears where it is kept: somebody had the server send it.
        if name == MESSAGE_ID || name == STORED_IN || name == STORED_UNDER {
            return false;
        }
        has_id |= name == FRAME_ID || name == EVENT_ID;
    }
    has_id
}

/// The filter of everything placed that `filter` covers.
pub(crate) fn placed_filter(filter: &Filter) -> String {
    format!("{PLACED}*.*.{filter}")
}

/// Where a stream keeps a message of `subject`.
pub(crate) fn kept_subject<'a>(
    subject: &'a Subject,
    placement: Option<&Placement>,
) -> Cow<'a, str> {
    let Some(placement) = placement.filter(|held| **held != Placement::default()) else {
        return Cow::Borrowed(subject.as_str());
    };
    let key = placement.key.as_ref().map_or_else(|| NO_KEY.to_owned(), key_token);
    let mut kept = String::with_capacity(PLACED.len() + key.len() + subject.as_str().len() + 3);
    // Writing into a text cannot fail.
    let _done = write!(kept, "{PLACED}{}.{key}.{subject}", placement.priority.level());
    Cow::Owned(kept)
}

/// The level of a subject that stands for `key`: half of its SHA-256.
pub(crate) fn key_token(key: &OrderKey) -> String {
    let digest = Sha256::digest(key.as_str().as_bytes());
    HEXLOWER.encode(digest.get(..KEY_BYTES).unwrap_or(&digest))
}

/// Sets a header of ours. What comes from outside never reaches the client's own conversions,
/// which panic on a line break.
pub(crate) fn set(map: &mut HeaderMap, name: &'static str, value: &str) -> Result<()> {
    let value: HeaderValue = value.parse().map_err(|_| cannot_write(name))?;
    map.insert(HeaderName::from_static(name), value);
    Ok(())
}

/// The first value under a name of ours or of the server's.
pub(crate) fn get<'a>(map: &'a HeaderMap, name: &'static str) -> Option<&'a str> {
    map.get(HeaderName::from_static(name)).map(HeaderValue::as_str)
}

/// What stands before the subject of a placed message.
struct Placed<'a> {
    level: Priority,
    key: &'a str,
    subject: &'a str,
}

fn split_placed(rest: &str) -> Result<Placed<'_>> {
    let damaged = || corrupt("is kept under a damaged subject");
    let (level, rest) = rest.split_once('.').ok_or_else(damaged)?;
    let (key, subject) = rest.split_once('.').ok_or_else(damaged)?;
    let level = level.parse().ok().filter(|_| level.len() == 1).ok_or_else(damaged)?;
    Ok(Placed { level: Priority::new(level)?, key, subject })
}

fn read_placement(placed: &Placed<'_>, map: &HeaderMap) -> Result<Placement> {
    let not_before = get(map, NOT_BEFORE).map(read_time).transpose()?;
    let key = get(map, ORDER_KEY).map(OrderKey::parse).transpose();
    let key = key.map_err(|error| corrupt("has a damaged order key").because(error))?;
    if key.as_ref().map_or_else(|| NO_KEY.to_owned(), key_token) != placed.key {
        return Err(corrupt("is kept under another order key than it names"));
    }
    Ok(Placement { not_before, priority: placed.level, key })
}

fn read_time(text: &str) -> Result<Timestamp> {
    let unix_ns: i128 = text.parse().map_err(|_| corrupt("has a damaged time"))?;
    let time = Timestamp::from_unix_ns(unix_ns);
    if time.unix_ns() == unix_ns { Ok(time) } else { Err(corrupt("has a time of no calendar")) }
}

fn checked(frame: Frame) -> Result<Frame> {
    match frame.check_size("decode") {
        Ok(()) => Ok(frame),
        Err(_) => Err(corrupt("is larger than any frame").at(&frame.subject)),
    }
}

/// The subject of a message.
///
/// # Errors
/// `Corrupt` when no frame has it.
pub(crate) fn parse_subject(text: &str) -> Result<Subject> {
    Subject::parse(text).map_err(|error| corrupt("has a subject of no frame").because(error))
}

fn parse_id(text: &str) -> Result<FrameId> {
    FrameId::parse(text).map_err(|error| corrupt("has an id of no frame").because(error))
}

fn corrupt(why: &'static str) -> Error {
    Error::new(ErrorKind::Corrupt, "decode message", why)
}

fn cannot_write(name: &str) -> Error {
    Error::new(ErrorKind::Invalid, "encode message", format!("header {name} cannot be written"))
}

/// The header with the id of a stored message, which the server knows.
pub(crate) const MESSAGE_ID: &str = "Nats-Msg-Id";

/// Headers that the server adds to a stored message when it is read.
const STORED_IN: &str = "Nats-Stream";
const STORED_UNDER: &str = "Nats-Subject";

/// The header with the id of a live frame.
const FRAME_ID: &str = "vak-id";
/// The id of a CloudEvent, for messages of strangers.
const EVENT_ID: &str = "ce-id";
const REPLY: &str = "vak-reply";
const NOT_BEFORE: &str = "vak-not-before";
const ORDER_KEY: &str = "vak-key";
/// Where the stream of a frame on the board keeps it.
const KEPT_UNDER: &str = "vak-kept";

/// Before the subjects of placed messages.
pub(crate) const PLACED: &str = "vakp.";
/// Where no key stands.
const NO_KEY: &str = "_";
/// How much of the hash of a key stands in a subject.
const KEY_BYTES: usize = 16;

#[cfg(test)]
mod tests;
