//! The binary form: one `ce-` header for every attribute, and the raw payload as the body.
//!
//! This is the `CloudEvents` NATS binding. Headers without the prefix are none of the event's.

use std::borrow::Cow;

use bytes::Bytes;

use super::attributes::{self, Attributes};
use super::{decode_value, encode_value};
use crate::{EnvelopeError, Headers, MessageEnvelope, rules};

/// Writes `envelope` as headers and body; the body shares the payload.
#[must_use]
pub fn encode(envelope: &MessageEnvelope) -> (Headers, Bytes) {
    let mut headers = Headers::with_capacity(20 + envelope.extensions.len(), 1024);
    attributes::each(envelope, |name, value| {
        if !headers.add_encoded(PREFIX, name, &encode_value(value)) {
            // Only a value over every limit comes here, from an envelope that `check` refuses. The
            // mark is no attribute name, so every decoder refuses the whole.
            let _always_fits = headers.add_encoded(PREFIX, "-refused", "");
        }
    });
    (headers, envelope.payload.clone())
}

/// Reads an envelope from headers and body; the payload shares the body.
///
/// # Errors
/// An [`EnvelopeError`] that names the attribute and the reason.
pub fn decode(headers: &Headers, body: &Bytes) -> Result<MessageEnvelope, EnvelopeError> {
    let mut attributes = Attributes::default();
    for (header, value) in headers.iter() {
        let Some(name) = attribute_of_header(header)? else { continue };
        let Some(value) = decode_value(value) else {
            let reason = "expected UTF-8 in percent encoding";
            return Err(EnvelopeError::field(name.into_owned(), reason));
        };
        attributes.put(&name, &value)?;
    }
    attributes.finish(body.clone())
}

/// The attribute that a header carries, read without regard to case; `None` when it carries none.
///
/// # Errors
/// [`EnvelopeError::Field`] when the header has the prefix `ce-` but what follows is no attribute
/// name.
pub fn attribute_of_header(header: &str) -> Result<Option<Cow<'_, str>>, EnvelopeError> {
    let Some((prefix, name)) = header.split_at_checked(PREFIX.len()) else { return Ok(None) };
    if !prefix.eq_ignore_ascii_case(PREFIX) {
        return Ok(None);
    }
    if name.bytes().all(|c| c.is_ascii_alphanumeric()) && !name.is_empty() {
        let is_lower = !name.bytes().any(|c| c.is_ascii_uppercase());
        let name = if is_lower { name.into() } else { name.to_ascii_lowercase().into() };
        return Ok(Some(name));
    }
    let field: String = name.chars().take(rules::NAME_BYTES_MAX).collect();
    Err(EnvelopeError::field(field, "expected a name of a-z and 0-9 behind ce-"))
}

const PREFIX: &str = "ce-";
