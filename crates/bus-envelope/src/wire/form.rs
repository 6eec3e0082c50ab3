//! Which wire form is used, and how a receiver tells them apart.

use bytes::Bytes;

use super::{binary, compact, json};
use crate::{EnvelopeError, Headers, MessageEnvelope};

/// A way to write an envelope as headers and a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum WireForm {
    /// `ce-` headers and the raw payload: what any `CloudEvents` client over NATS reads.
    #[default]
    Binary,
    /// One JSON object: `application/cloudevents+json`.
    Json,
    /// Versioned postcard: for journals and high rates.
    Compact,
}

impl WireForm {
    /// The `content-type` header of this form; the binary form has none.
    #[must_use]
    pub const fn content_type(self) -> Option<&'static str> {
        match self {
            Self::Binary => None,
            Self::Json => Some(json::CONTENT_TYPE),
            Self::Compact => Some(compact::CONTENT_TYPE),
        }
    }

    /// The headers of a frame in this form, but for those that hold attributes.
    #[must_use]
    pub fn headers(self) -> Headers {
        let Some(content_type) = self.content_type() else { return Headers::new() };
        let mut headers = Headers::with_capacity(1, 48);
        // A constant that keeps the rules of headers.
        let _always_fits = headers.add("content-type", content_type);
        headers
    }

    /// Tells the form from the headers. Names and media types are compared without regard to case.
    ///
    /// # Errors
    /// [`EnvelopeError::UnknownForm`] for a batch or a format that is not read here, and
    /// [`EnvelopeError::Duplicate`] for two `content-type` headers.
    pub fn of(headers: &Headers) -> Result<Self, EnvelopeError> {
        let mut values = headers.get_all("content-type");
        let Some(value) = values.next() else { return Ok(Self::Binary) };
        if values.next().is_some() {
            return Err(EnvelopeError::Duplicate { field: "content-type".into() });
        }
        let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_other_event = ["application/cloudevents+", "application/cloudevents-batch"];
        match essence.as_str() {
            // Without a suffix the format is JSON, the one that every receiver must read.
            json::CONTENT_TYPE | "application/cloudevents" => Ok(Self::Json),
            compact::CONTENT_TYPE => Ok(Self::Compact),
            other if is_other_event.iter().any(|prefix| other.starts_with(prefix)) => {
                let content_type = value.chars().take(64).collect();
                Err(EnvelopeError::UnknownForm { content_type })
            }
            _ => Ok(Self::Binary),
        }
    }
}

/// Writes `envelope` in the given form.
///
/// An envelope that [`MessageEnvelope::check`] refuses is written too, as bytes that every decoder
/// refuses.
#[must_use]
pub fn encode(form: WireForm, envelope: &MessageEnvelope) -> (Headers, Bytes) {
    let body = match form {
        WireForm::Binary => return binary::encode(envelope),
        WireForm::Json => json::encode(envelope),
        WireForm::Compact => compact::encode(envelope),
    };
    (form.headers(), body.into())
}

/// Reads an envelope in whatever form the headers name.
///
/// # Errors
/// An [`EnvelopeError`] that names the field or the form, and the reason.
pub fn decode(headers: &Headers, body: &Bytes) -> Result<MessageEnvelope, EnvelopeError> {
    match WireForm::of(headers)? {
        WireForm::Binary => binary::decode(headers, body),
        WireForm::Json => json::decode(body),
        WireForm::Compact => compact::decode_shared(body),
    }
}
