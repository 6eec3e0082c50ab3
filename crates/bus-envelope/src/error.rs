//! Why an envelope, or bytes that should be one, is refused.

use std::borrow::Cow;

use bus_subjects::Shown;

/// The field that was refused and the reason.
///
/// Payloads never appear in the text, and a name that a stranger chose stands there escaped and
/// cut ([`Shown`]). Nothing was sent or stored when one of these is returned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// A field that every envelope has is not there.
    #[error("{field} is missing")]
    Missing {
        /// The attribute's name on the wire.
        field: &'static str,
    },
    /// A field stands twice.
    #[error("{} stands twice", Shown(.field))]
    Duplicate {
        /// The attribute's name on the wire.
        field: Cow<'static, str>,
    },
    /// A field breaks its rule.
    #[error("{} is refused: {reason}", Shown(.field))]
    Field {
        /// The attribute's name on the wire.
        field: Cow<'static, str>,
        /// What was expected.
        reason: Cow<'static, str>,
    },
    /// A field is longer than its limit.
    #[error("{} is {bytes} bytes long: at most {bytes_max} are allowed", Shown(.field))]
    TooLong {
        /// The attribute's name on the wire.
        field: Cow<'static, str>,
        /// Its length in bytes.
        bytes: usize,
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// There are more extensions than an envelope may carry.
    #[error("more than {count_max} extensions")]
    TooMany {
        /// The limit.
        count_max: usize,
    },
    /// Another version of `CloudEvents`, of the envelope or of the compact form.
    #[error("{field} is {found:?}: expected {expected:?}")]
    Version {
        /// The attribute's name on the wire.
        field: &'static str,
        /// What was found, cut to 16 characters.
        found: String,
        /// The one version this code reads.
        expected: &'static str,
    },
    /// The bytes are not of the form they were read as.
    #[error("not an envelope in {form} form: {reason}")]
    Malformed {
        /// `json`, `binary` or `compact`.
        form: &'static str,
        /// What the parser found, with its place.
        reason: String,
    },
    /// The bytes mean an envelope but are not the one way to write it.
    #[error("not the canonical {form} form: encoding it again gives other bytes")]
    NotCanonical {
        /// `json` or `compact`.
        form: &'static str,
    },
    /// The `content-type` header names a form that is not read here.
    #[error("content type {content_type:?} is not a form of an envelope")]
    UnknownForm {
        /// The header's value, cut to 64 characters.
        content_type: String,
    },
}

impl EnvelopeError {
    /// A broken rule of `field`.
    pub(crate) fn field(
        field: impl Into<Cow<'static, str>>,
        reason: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Field { field: field.into(), reason: reason.into() }
    }

    /// JSON that cannot be read. The parser quotes the value that it met, which may be a payload:
    /// only what it expected, and where, is kept.
    pub(crate) fn json(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let reason = match text.rsplit_once(", expected ") {
            Some((_value, expected)) => format!("expected {expected}"),
            None => text,
        };
        Self::Malformed { form: "json", reason }
    }

    /// The name of the field that was refused, where it was one field.
    #[must_use]
    pub fn field_name(&self) -> Option<&str> {
        match self {
            Self::Missing { field } | Self::Version { field, .. } => Some(field),
            Self::Duplicate { field } | Self::Field { field, .. } | Self::TooLong { field, .. } => {
                Some(field)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_line_break_does_not_break_the_line_of_the_error() {
        let field = || Cow::Borrowed("a\n\u{1b}[2Kb");
        let errors = [
            EnvelopeError::field(field(), "no"),
            EnvelopeError::Duplicate { field: field() },
            EnvelopeError::TooLong { field: field(), bytes: 2, bytes_max: 1 },
        ];
        for error in errors {
            let text = error.to_string();
            assert!(text.starts_with(r"a\n\u{1b}[2Kb "), "{text}");
        }
    }

    #[test]
    fn a_long_name_of_characters_that_are_escaped_does_not_make_a_long_error() {
        let field = || Cow::Owned("\u{7f}".repeat(200));
        let errors = [
            EnvelopeError::field(field(), "no"),
            EnvelopeError::Duplicate { field: field() },
            EnvelopeError::TooLong { field: field(), bytes: 2, bytes_max: 1 },
        ];
        for error in errors {
            let text = error.to_string();
            assert!(text.len() < 256 && text.contains('…'), "{} bytes: {text}", text.len());
        }
    }

    #[test]
    fn a_value_that_cannot_be_read_is_not_quoted() {
        let events = [br#""my secret, expected by none""#.as_slice(), br#"{"id":{"my secret":1}}"#];
        for json in events {
            let envelope = crate::wire::json::decode(json).unwrap_err().to_string();
            assert!(envelope.contains("expected a ") && !envelope.contains("secret"), "{envelope}");
            let event = crate::CloudEvent::from_json(json).unwrap_err().to_string();
            assert!(event.contains("expected a ") && !event.contains("secret"), "{event}");
        }
    }
}
