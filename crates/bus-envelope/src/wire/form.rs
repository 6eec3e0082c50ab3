//! Which wire form is used, and how a receiver tells them apart.

use bytes::Bytes;

use super::{binary, compact, json};
use crate::{EnvelopeError, Headers, MessageEnvelope, headers::Entry};

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
    pub const fn headers(self) -> Headers {
        match self {
            Self::Binary => Headers::new(),
            Self::Json => Headers::constant(JSON_HEADER, JSON_ENTRY),
            Self::Compact => Headers::constant(COMPACT_HEADER, COMPACT_ENTRY),
        }
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
        let essence = value.split(';').next().unwrap_or_default().trim();
        let is = |other: &str| essence.eq_ignore_ascii_case(other);
        if is(compact::CONTENT_TYPE) {
            return Ok(Self::Compact);
        }
        // Without a suffix the format is JSON, the one that every receiver must read.
        if is(json::CONTENT_TYPE) || is("application/cloudevents") {
            return Ok(Self::Json);
        }
        let begins = |prefix: &str| {
            let head = essence.get(..prefix.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(prefix))
        };
        if begins("application/cloudevents+") || begins("application/cloudevents-batch") {
            let content_type = value.chars().take(64).collect();
            return Err(EnvelopeError::UnknownForm { content_type });
        }
        Ok(Self::Binary)
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

/// The one header of each form; the compiler holds the texts to their lengths.
const JSON_HEADER: &str = "content-typeapplication/cloudevents+json";
const JSON_ENTRY: &[Entry] = &[Entry::new(NAME_BYTES, json::CONTENT_TYPE.len())];
const COMPACT_HEADER: &str = "content-typeapplication/vnd.vakbus.envelope";
const COMPACT_ENTRY: &[Entry] = &[Entry::new(NAME_BYTES, compact::CONTENT_TYPE.len())];
const NAME_BYTES: usize = "content-type".len();
const _: () = assert!(JSON_HEADER.len() == NAME_BYTES + json::CONTENT_TYPE.len());
const _: () = assert!(COMPACT_HEADER.len() == NAME_BYTES + compact::CONTENT_TYPE.len());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_of_each_form_are_its_content_type() {
        for form in [WireForm::Binary, WireForm::Json, WireForm::Compact] {
            let mut added = Headers::new();
            if let Some(content_type) = form.content_type() {
                added.add("content-type", content_type).unwrap();
            }
            assert_eq!(form.headers(), added);
            assert_eq!(WireForm::of(&added), Ok(form));
        }
    }

    #[test]
    fn a_header_beside_the_content_type_leaves_the_constant_as_it_is() {
        let mut headers = WireForm::Json.headers();
        headers.add("a", "b").unwrap();
        assert!(headers.iter().eq([("content-type", json::CONTENT_TYPE), ("a", "b")]));
        assert_eq!(WireForm::Json.headers().len(), 1);
    }
}
