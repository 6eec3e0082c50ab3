//! The JSON form: one object in canonical form, `application/cloudevents+json`.
//!
//! Members stand in one order without white space between them. A plain payload that is JSON, by
//! its content type and its bytes, stands verbatim under `data`, never printed anew; every other
//! one stands as `data_base64`. An event without both has no payload and is refused.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::attributes::{self, Attributes};
use crate::{EnvelopeError, MessageEnvelope, is_json_content_type};

mod plain;
mod quick;
#[cfg(test)]
mod tests;

/// The `content-type` of this form.
pub const CONTENT_TYPE: &str = "application/cloudevents+json";

/// Writes `envelope` as one JSON object.
#[must_use]
pub fn encode(envelope: &MessageEnvelope) -> Vec<u8> {
    let mut json = Vec::with_capacity(1024 + envelope.payload.len() / 3 * 4);
    json.push(b'{');
    attributes::each(envelope, |name, value| {
        // Every name is plain: a letter, a digit, or the mark of one that is refused.
        json.push(b'"');
        json.extend_from_slice(name.as_bytes());
        json.extend_from_slice(b"\":");
        push_text(&mut json, value);
        json.push(b',');
    });
    if let Some(data) = data_text(envelope) {
        json.extend_from_slice(DATA.as_bytes());
        json.extend_from_slice(data.as_bytes());
        json.push(b'}');
    } else {
        json.extend_from_slice(DATA_BASE64.as_bytes());
        json.extend_from_slice(STANDARD.encode(&envelope.payload).as_bytes());
        json.extend_from_slice(b"\"}");
    }
    json
}

/// Reads an envelope from its canonical JSON and nothing else.
///
/// # Errors
/// An [`EnvelopeError`] that names the member and the reason;
/// [`NotCanonical`](EnvelopeError::NotCanonical) when [`encode`] would write the same envelope as
/// other bytes.
pub fn decode(json: &[u8]) -> Result<MessageEnvelope, EnvelopeError> {
    match quick::decode(json) {
        Some(envelope) => Ok(envelope),
        None => decode_thoroughly(json),
    }
}

/// Reads any JSON, to take what is canonical and to say what is wrong with the rest.
fn decode_thoroughly(json: &[u8]) -> Result<MessageEnvelope, EnvelopeError> {
    let mut event = Event::default();
    let mut reader = serde_json::Deserializer::from_slice(json);
    let read = EventSeed(&mut event).deserialize(&mut reader).and_then(|()| reader.end());
    if let Some(refused) = event.refused {
        return Err(refused);
    }
    read.map_err(|error| EnvelopeError::json(&error))?;
    let payload = event.payload.ok_or(EnvelopeError::Missing { field: "data" })?;
    let envelope = event.attributes.finish(payload)?;
    if encode(&envelope) == json {
        Ok(envelope)
    } else {
        Err(EnvelopeError::NotCanonical { form: "json" })
    }
}

/// The payload as JSON text, when it may stand under `data`.
fn data_text(envelope: &MessageEnvelope) -> Option<&str> {
    if !is_data_type(envelope) {
        return None;
    }
    let text = std::str::from_utf8(&envelope.payload).ok()?;
    // White space round the value would be lost, so such a payload travels as base64.
    let is_bare = text.trim_matches([' ', '\t', '\r', '\n']).len() == text.len();
    (is_bare && is_json(text)).then_some(text)
}

/// Whether the payload is said to be JSON for everybody to read.
fn is_data_type(envelope: &MessageEnvelope) -> bool {
    envelope.seal.is_none() && envelope.content_type.as_deref().is_some_and(is_json_content_type)
}

fn is_json(text: &str) -> bool {
    plain::is_value(text) || serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn push_text(json: &mut Vec<u8>, text: &str) {
    if plain::needs_no_escape(text) {
        json.push(b'"');
        json.extend_from_slice(text.as_bytes());
        json.push(b'"');
        return;
    }
    // Writing a string into a vector cannot fail.
    let _infallible = serde_json::to_writer(json, text);
}

const DATA: &str = "\"data\":";
const DATA_BASE64: &str = "\"data_base64\":\"";

#[derive(Default)]
struct Event {
    attributes: Attributes,
    payload: Option<Bytes>,
    refused: Option<EnvelopeError>,
}

impl Event {
    fn put_payload(&mut self, field: &'static str, payload: Bytes) -> Result<(), EnvelopeError> {
        match self.payload.replace(payload) {
            Some(_) => Err(EnvelopeError::field(field, "expected data or data_base64, once")),
            None => Ok(()),
        }
    }
}

/// Reads the members into an event; a refusal is kept there, because the reader's own error type
/// holds only text.
struct EventSeed<'e>(&'e mut Event);

impl<'de> DeserializeSeed<'de> for EventSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EventSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let event = self.0;
        while let Some(Text(name)) = map.next_key()? {
            let taken = match name.as_ref() {
                "data" => {
                    let data: &RawValue = map.next_value()?;
                    event.put_payload("data", Bytes::copy_from_slice(data.get().as_bytes()))
                }
                "data_base64" => {
                    let Text(text) = map.next_value()?;
                    match STANDARD.decode(text.as_bytes()) {
                        Ok(payload) => event.put_payload("data_base64", payload.into()),
                        Err(_) => {
                            Err(EnvelopeError::field("data_base64", "expected padded base64"))
                        }
                    }
                }
                name => {
                    let Text(value) = map.next_value()?;
                    event.attributes.put(name, &value)
                }
            };
            if let Err(refused) = taken {
                event.refused = Some(refused);
                return Err(A::Error::custom("refused"));
            }
        }
        Ok(())
    }
}

/// A string, borrowed from the input where it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}
