//! The quick way to read the canonical form: one pass, no escapes, one comparison.
//!
//! It accepts only what is canonical to the byte, and gives up on everything else; the way through
//! `serde_json` then finds out what the bytes are.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::{DATA, DATA_BASE64, is_data_type, plain};
use crate::MessageEnvelope;
use crate::wire::attributes::{self, Attributes};

/// Reads an envelope whose JSON has no escapes outside of the payload; `None` is no verdict.
pub(super) fn decode(json: &[u8]) -> Option<MessageEnvelope> {
    let text = std::str::from_utf8(json).ok()?;
    let mut attributes = Attributes::default();
    let mut at = 1;
    let (payload, is_data) = loop {
        let after_comma = text.get(at..)?;
        if let Some(data) = after_comma.strip_prefix(DATA) {
            let data = data.strip_suffix('}')?;
            if !plain::is_value(data) {
                return None;
            }
            break (Bytes::copy_from_slice(data.as_bytes()), true);
        }
        if let Some(data) = after_comma.strip_prefix(DATA_BASE64) {
            let data = data.strip_suffix("\"}")?;
            break (STANDARD.decode(data).ok()?.into(), false);
        }
        let (name, after) = string(text, at)?;
        let after = after + text.get(after..)?.strip_prefix(':').map(|_| 1)?;
        let (value, after) = string(text, after)?;
        attributes.put(name, value).ok()?;
        at = after + text.get(after..)?.strip_prefix(',').map(|_| 1)?;
    };
    let envelope = attributes.finish(payload).ok()?;
    // What was read has to be what is written: the attributes to the byte, the payload in the
    // form it would get. Padded base64 is read in its one form only.
    let form =
        if is_data { is_data_type(&envelope) } else { super::data_text(&envelope).is_none() };
    (form && begins(text.get(..at)?, &envelope)).then_some(envelope)
}

/// The string at `at`, quotes left out, and where it is over.
fn string(text: &str, at: usize) -> Option<(&str, usize)> {
    let inner = text.get(at..)?.strip_prefix('"')?;
    let bytes = plain::string_bytes(inner.as_bytes())?;
    Some((inner.get(..bytes)?, at + bytes + 2))
}

/// Whether the JSON of `envelope` begins with `text`, which goes up to the payload.
fn begins(text: &str, envelope: &MessageEnvelope) -> bool {
    let mut rest = text.strip_prefix('{');
    attributes::each(envelope, |name, value| {
        rest = rest
            .and_then(|rest| rest.strip_prefix('"')?.strip_prefix(name)?.strip_prefix("\":\""))
            .and_then(|rest| rest.strip_prefix(value)?.strip_prefix("\","));
    });
    rest == Some("")
}
