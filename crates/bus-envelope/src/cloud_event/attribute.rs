//! Attributes of foreign events: their values, and the rules they keep.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::value::RawValue;

use crate::{CloudEvent, EnvelopeError, Timestamp, is_uri, is_uri_reference, rules};

/// The value of an attribute. Headers carry text only, so a number may be one or its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeValue {
    /// A boolean.
    Boolean(bool),
    /// A number.
    Integer(i32),
    /// Any other type, as its text.
    Text(String),
}

impl AttributeValue {
    /// The number, also from its canonical text: 32 bits, no sign but `-`, no leading zeros.
    #[must_use]
    pub fn as_integer(&self) -> Option<i32> {
        match self {
            Self::Integer(value) => Some(*value),
            Self::Text(text) => text.parse().ok().filter(|value: &i32| value.to_string() == *text),
            Self::Boolean(_) => None,
        }
    }

    /// The boolean, also from its canonical text.
    #[must_use]
    pub fn as_boolean(&self) -> Option<bool> {
        match self {
            Self::Boolean(value) => Some(*value),
            Self::Text(text) => text.parse().ok(),
            Self::Integer(_) => None,
        }
    }

    /// The bytes that stand as padded base64.
    #[must_use]
    pub fn as_binary(&self) -> Option<Bytes> {
        match self {
            Self::Text(text) => STANDARD.decode(text).ok().map(Bytes::from),
            Self::Boolean(_) | Self::Integer(_) => None,
        }
    }

    /// The instant that stands as an RFC 3339 time.
    #[must_use]
    pub fn as_time(&self) -> Option<Timestamp> {
        match self {
            Self::Text(text) => Timestamp::parse_rfc3339(text).ok(),
            Self::Boolean(_) | Self::Integer(_) => None,
        }
    }
}

impl fmt::Display for AttributeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// An attribute's value in JSON; `None` for `null`, which means unset.
pub(super) fn scalar(name: &str, raw: &RawValue) -> Result<Option<AttributeValue>, EnvelopeError> {
    let text = raw.get();
    let value = match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str(text).ok().map(AttributeValue::Text),
        Some(b't' | b'f') => text.parse().ok().map(AttributeValue::Boolean),
        Some(b'n') => return Ok(None),
        _ => text.parse().ok().map(AttributeValue::Integer),
    };
    let reason = "expected a string, a boolean or an integer of 32 bits";
    value.map(Some).ok_or_else(|| EnvelopeError::field(name.to_owned(), reason))
}

/// Takes one attribute in, once and only if it keeps its rule.
pub(super) fn put(
    attributes: &mut BTreeMap<String, AttributeValue>,
    name: &str,
    value: AttributeValue,
) -> Result<(), EnvelopeError> {
    let field = || name.chars().take(CloudEvent::NAME_BYTES_MAX).collect::<String>();
    let is_name = (1..=CloudEvent::NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name != "data";
    if !is_name {
        return Err(EnvelopeError::field(field(), "expected a name of 1 to 61 of a-z and 0-9"));
    }
    check(name, &value)?;
    match attributes.insert(name.to_owned(), value) {
        Some(_) => Err(EnvelopeError::Duplicate { field: field().into() }),
        None => Ok(()),
    }
}

fn check(name: &str, value: &AttributeValue) -> Result<(), EnvelopeError> {
    let refused = |reason: &'static str| Err(EnvelopeError::field(name.to_owned(), reason));
    let AttributeValue::Text(text) = value else {
        let is_core = matches!(
            name,
            "specversion"
                | "id"
                | "source"
                | "type"
                | "subject"
                | "time"
                | "datacontenttype"
                | "dataschema"
        );
        return if is_core { refused("expected a string") } else { Ok(()) };
    };
    if text.len() > CloudEvent::VALUE_BYTES_MAX {
        let (bytes, bytes_max) = (text.len(), CloudEvent::VALUE_BYTES_MAX);
        return Err(EnvelopeError::TooLong { field: name.to_owned().into(), bytes, bytes_max });
    }
    if !rules::is_printable(text) {
        return refused("expected no control characters and no noncharacters");
    }
    match name {
        "specversion" if text != "1.0" => {
            let found = text.chars().take(16).collect();
            Err(EnvelopeError::Version { field: "specversion", found, expected: "1.0" })
        }
        "id" | "type" | "subject" if text.is_empty() => refused("expected at least one character"),
        "source" if text.is_empty() || !is_uri_reference(text) => {
            refused("expected a URI or a relative reference")
        }
        "time" if Timestamp::parse_rfc3339(text).is_err() => refused("expected an RFC 3339 time"),
        "datacontenttype" if !rules::is_media_type(text) => refused("expected a media type"),
        "dataschema" if !is_uri(text) => refused("expected a URI"),
        _ => Ok(()),
    }
}
