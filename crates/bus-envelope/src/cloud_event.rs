//! Events made elsewhere: any valid `CloudEvents` 1.0 event, without our lineage, seal and
//! signature.
//!
//! A gateway reads these; what is hashed and signed is always a
//! [`MessageEnvelope`](crate::MessageEnvelope), whose decoding is stricter.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::value::RawValue;

use crate::wire::{WireForm, binary, decode_value, encode_value};
use crate::{EnvelopeError, Headers, Timestamp, is_json_content_type};
use attribute::{put, scalar};
use members::Members;

pub use attribute::AttributeValue;

mod attribute;
mod members;

/// A valid event: every attribute keeps the rules of `CloudEvents` 1.0, and the required ones are
/// there.
///
/// ```
/// use bus_envelope::CloudEvent;
///
/// let event = CloudEvent::from_json(
///     br#"{"specversion":"1.0","type":"t","source":"/s","id":"1","data":{"a": 1}}"#,
/// )?;
/// assert_eq!(event.id(), "1");
/// assert_eq!(event.data_bytes().as_ref(), br#"{"a": 1}"#);
/// # Ok::<(), bus_envelope::EnvelopeError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct CloudEvent {
    attributes: BTreeMap<String, AttributeValue>,
    data: Option<EventData>,
}

/// The payload of a foreign event.
#[derive(Clone, PartialEq, Eq)]
pub enum EventData {
    /// One JSON value, as the text it was written in.
    Json(Box<str>),
    /// Text under a content type that is not JSON.
    Text(String),
    /// Bytes.
    Binary(Bytes),
}

impl CloudEvent {
    /// The longest attribute name that also fits a header, in bytes.
    pub const NAME_BYTES_MAX: usize = 61;

    /// The longest attribute value, in bytes.
    pub const VALUE_BYTES_MAX: usize = 2048;

    /// Reads one event in the JSON format.
    ///
    /// # Errors
    /// An [`EnvelopeError`] that names the attribute and the reason.
    pub fn from_json(json: &[u8]) -> Result<Self, EnvelopeError> {
        Self::from_members(
            serde_json::from_slice(json).map_err(|error| EnvelopeError::json(&error))?,
        )
    }

    /// Reads a batch in the JSON format: an array of events, all valid or none.
    ///
    /// # Errors
    /// An [`EnvelopeError`] for the first event refused.
    pub fn batch_from_json(json: &[u8]) -> Result<Vec<Self>, EnvelopeError> {
        let batch: Vec<Members<'_>> =
            serde_json::from_slice(json).map_err(|error| EnvelopeError::json(&error))?;
        batch.into_iter().map(Self::from_members).collect()
    }

    /// Reads a message of the NATS binding: JSON by its content type, else `ce-` headers. An empty
    /// body is no data.
    ///
    /// # Errors
    /// An [`EnvelopeError`] that names the attribute or the form, and the reason.
    pub fn from_message(headers: &Headers, body: &Bytes) -> Result<Self, EnvelopeError> {
        match WireForm::of(headers)? {
            WireForm::Json => return Self::from_json(body),
            WireForm::Compact => {
                let content_type = crate::wire::compact::CONTENT_TYPE.to_owned();
                return Err(EnvelopeError::UnknownForm { content_type });
            }
            WireForm::Binary => {}
        }
        let mut attributes = BTreeMap::new();
        for (header, value) in headers.iter() {
            let Some(name) = binary::attribute_of_header(header)? else { continue };
            let Some(value) = decode_value(value) else {
                let reason = "expected UTF-8 in percent encoding";
                return Err(EnvelopeError::field(name.into_owned(), reason));
            };
            put(&mut attributes, &name, AttributeValue::Text(value.into_owned()))?;
        }
        let data = (!body.is_empty()).then(|| EventData::Binary(body.clone()));
        Self::finish(attributes, data)
    }

    /// Writes the event in the JSON format. Reading it again gives an equal event.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = b"{".to_vec();
        for (name, value) in &self.attributes {
            push(&mut json, name);
            json.push(b':');
            match value {
                AttributeValue::Boolean(value) => push(&mut json, value),
                AttributeValue::Integer(value) => push(&mut json, value),
                AttributeValue::Text(value) => push(&mut json, value),
            }
            json.push(b',');
        }
        match &self.data {
            Some(EventData::Json(text)) => {
                json.extend_from_slice(b"\"data\":");
                json.extend_from_slice(text.as_bytes());
            }
            Some(EventData::Text(text)) => {
                json.extend_from_slice(b"\"data\":");
                push(&mut json, text);
            }
            Some(EventData::Binary(bytes)) => {
                json.extend_from_slice(b"\"data_base64\":");
                push(&mut json, &STANDARD.encode(bytes));
            }
            // The comma behind the last attribute.
            None => drop(json.pop()),
        }
        json.push(b'}');
        json
    }

    /// Writes the event as a message of the NATS binding in binary mode.
    #[must_use]
    pub fn to_message(&self) -> (Headers, Bytes) {
        let mut headers = Headers::with_capacity(self.attributes.len(), 512);
        for (name, value) in &self.attributes {
            // Names and values were checked against limits that leave room for the encoding.
            let _always_fits = headers.add(format!("ce-{name}"), encode_value(&value.to_string()));
        }
        (headers, self.data_bytes())
    }

    /// The id, unique within the source.
    #[must_use]
    pub fn id(&self) -> &str {
        self.text("id").unwrap_or_default()
    }

    /// Where the event was made: a URI-reference.
    #[must_use]
    pub fn source(&self) -> &str {
        self.text("source").unwrap_or_default()
    }

    /// The `type`.
    #[must_use]
    pub fn event_type(&self) -> &str {
        self.text("type").unwrap_or_default()
    }

    /// When the event was made. The attribute `time` keeps the text as it came.
    #[must_use]
    pub fn time(&self) -> Option<Timestamp> {
        Timestamp::parse_rfc3339(self.text("time")?).ok()
    }

    /// The media type of the data, where one is named.
    #[must_use]
    pub fn content_type(&self) -> Option<&str> {
        self.text("datacontenttype")
    }

    /// An attribute by its name.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&AttributeValue> {
        self.attributes.get(name)
    }

    /// All attributes in byte order of their names.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &AttributeValue)> {
        self.attributes.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The data; `None` when there is none, which differs from data of no bytes in the JSON format.
    #[must_use]
    pub const fn data(&self) -> Option<&EventData> {
        self.data.as_ref()
    }

    /// The data as bytes; none when there is no data.
    #[must_use]
    pub fn data_bytes(&self) -> Bytes {
        match &self.data {
            None => Bytes::new(),
            Some(EventData::Json(text)) => Bytes::copy_from_slice(text.as_bytes()),
            Some(EventData::Text(text)) => Bytes::copy_from_slice(text.as_bytes()),
            Some(EventData::Binary(bytes)) => bytes.clone(),
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.attributes.get(name)? {
            AttributeValue::Text(text) => Some(text),
            AttributeValue::Boolean(_) | AttributeValue::Integer(_) => None,
        }
    }

    fn from_members(members: Members<'_>) -> Result<Self, EnvelopeError> {
        let (mut attributes, mut data) = (BTreeMap::new(), None);
        for (name, raw) in &members.0 {
            let taken = match name.as_str() {
                "data" | "data_base64" => data.replace((name.as_str(), *raw)).is_some(),
                _ => {
                    if let Some(value) = scalar(name, raw)? {
                        put(&mut attributes, name, value)?;
                    }
                    false
                }
            };
            if taken {
                let reason = "expected data or data_base64, once";
                return Err(EnvelopeError::field(name.clone(), reason));
            }
        }
        let is_json = match attributes.get("datacontenttype") {
            Some(AttributeValue::Text(content_type)) => is_json_content_type(content_type),
            _ => true,
        };
        let data = match data {
            None => None,
            Some(("data_base64", raw)) => Some(base64_data(raw)?),
            Some((_, raw)) if is_json => Some(EventData::Json(raw.get().into())),
            Some((_, raw)) => match serde_json::from_str(raw.get()) {
                Ok(text) => Some(EventData::Text(text)),
                Err(_) => {
                    let reason = "expected a string under a content type that is not JSON";
                    return Err(EnvelopeError::field("data", reason));
                }
            },
        };
        Self::finish(attributes, data)
    }

    fn finish(
        attributes: BTreeMap<String, AttributeValue>,
        data: Option<EventData>,
    ) -> Result<Self, EnvelopeError> {
        for field in ["specversion", "id", "source", "type"] {
            if !attributes.contains_key(field) {
                return Err(EnvelopeError::Missing { field });
            }
        }
        Ok(Self { attributes, data })
    }
}

impl fmt::Debug for CloudEvent {
    // As in an envelope, only the length of the payload is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("CloudEvent");
        fields.field("attributes", &self.attributes).field("data", &self.data).finish()
    }
}

impl fmt::Debug for EventData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(text) => write!(f, "Json({} bytes)", text.len()),
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Binary(bytes) => write!(f, "Binary({} bytes)", bytes.len()),
        }
    }
}

fn push(json: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    // Writing a scalar into a vector cannot fail.
    let _infallible = serde_json::to_writer(json, value);
}

fn base64_data(raw: &RawValue) -> Result<EventData, EnvelopeError> {
    let text = serde_json::from_str::<String>(raw.get()).ok();
    let bytes = text.and_then(|text| STANDARD.decode(text).ok());
    bytes
        .map(|bytes| EventData::Binary(bytes.into()))
        .ok_or_else(|| EnvelopeError::field("data_base64", "expected padded base64"))
}
