//! The rules of single fields: length, alphabet, and the names that are taken.

use crate::{EnvelopeError, is_uri, is_uri_reference};

/// Whether data of this content type is JSON: `…/json` or `…/…+json`, in any case.
#[must_use]
pub fn is_json_content_type(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim_end_matches([' ', '\t']);
    let Some((_, subtype)) = essence.split_once('/') else { return false };
    let ends_with = |end: &str| {
        let at = subtype.len().checked_sub(end.len());
        at.and_then(|at| subtype.get(at..)).is_some_and(|tail| tail.eq_ignore_ascii_case(end))
    };
    subtype.eq_ignore_ascii_case("json") || ends_with("+json")
}

/// Longest `id`, in bytes.
pub(crate) const ID_BYTES_MAX: usize = 128;
/// Longest `source`, in bytes.
pub(crate) const SOURCE_BYTES_MAX: usize = 256;
/// Longest `type`, in bytes.
pub(crate) const TYPE_BYTES_MAX: usize = 128;
/// Longest `datacontenttype` and `sealedtype`, in bytes.
pub(crate) const CONTENT_TYPE_BYTES_MAX: usize = 256;
/// Longest `keyid`, in bytes.
pub(crate) const KEY_ID_BYTES_MAX: usize = 256;
/// Longest `keyalg`, in bytes.
pub(crate) const ALGORITHM_BYTES_MAX: usize = 32;
/// Longest `signer`, in bytes.
pub(crate) const SIGNER_BYTES_MAX: usize = 128;
/// Longest extension name, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 20;
/// Longest extension value, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 1024;
/// Most extensions of one envelope.
pub(crate) const EXTENSIONS_MAX: usize = 64;
/// Largest sequence number: the largest integer that every JSON reader keeps.
pub(crate) const SEQ_MAX: u64 = (1 << 53) - 1;

/// Names that no extension may take: fields of the envelope and members of the JSON form.
const RESERVED: [&str; 24] = [
    "specversion",
    "id",
    "source",
    "type",
    "time",
    "subject",
    "datacontenttype",
    "data",
    "vakversion",
    "workspace",
    "session",
    "agent",
    "incarnation",
    "seq",
    "prevhash",
    "cause",
    "traceparent",
    "tracestate",
    "sealedtype",
    "keyid",
    "keyalg",
    "nonce",
    "signer",
    "signature",
];

/// 1 to `bytes_max` bytes of visible ASCII.
pub(crate) fn visible(
    field: &'static str,
    text: &str,
    bytes_max: usize,
) -> Result<(), EnvelopeError> {
    fits(field, text, bytes_max)?;
    // To the end in any case: without an early way out this takes many bytes at a time.
    if text.bytes().fold(true, |all, c| all & matches!(c, 0x21..=0x7e)) {
        Ok(())
    } else {
        Err(EnvelopeError::field(field, "expected visible ASCII without blanks"))
    }
}

/// A URI-reference of visible ASCII.
pub(crate) fn source(text: &str) -> Result<(), EnvelopeError> {
    visible("source", text, SOURCE_BYTES_MAX)?;
    if is_own_source(text) || is_uri_reference(text) {
        Ok(())
    } else {
        Err(EnvelopeError::field("source", "expected a URI or a relative reference"))
    }
}

/// Whether `text` is written as our own sources are, which are URIs: seen at one look.
fn is_own_source(text: &str) -> bool {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() | matches!(c, b'_' | b'~' | b'-' | b'/');
    let rest = text.strip_prefix("vak://");
    rest.is_some_and(|rest| rest.bytes().fold(true, |all, c| all & is_plain(c)))
}

/// A media type with optional parameters.
pub(crate) fn content_type(field: &'static str, text: &str) -> Result<(), EnvelopeError> {
    fits(field, text, CONTENT_TYPE_BYTES_MAX)?;
    if is_media_type(text) {
        Ok(())
    } else {
        Err(EnvelopeError::field(field, "expected a media type such as application/json"))
    }
}

/// A free extension name and a value that may stand under it.
pub(crate) fn extension(name: &str, value: &str) -> Result<(), EnvelopeError> {
    if !is_attribute_name(name) {
        let name: String = name.chars().take(NAME_BYTES_MAX).collect();
        return Err(EnvelopeError::field(name, "expected a name of 1 to 20 of a-z and 0-9"));
    }
    if RESERVED.contains(&name) {
        return Err(EnvelopeError::field(name.to_owned(), "the name is reserved"));
    }
    if value.len() > VALUE_BYTES_MAX {
        let (bytes, bytes_max) = (value.len(), VALUE_BYTES_MAX);
        return Err(EnvelopeError::TooLong { field: name.to_owned().into(), bytes, bytes_max });
    }
    if !is_printable(value) {
        return Err(EnvelopeError::field(name.to_owned(), "expected no control characters"));
    }
    // The one optional attribute of CloudEvents that is carried without a field of its own.
    if name == "dataschema" && !is_uri(value) {
        return Err(EnvelopeError::field("dataschema", "expected a URI"));
    }
    Ok(())
}

/// 1 to 20 bytes of `[a-z0-9]`.
pub(crate) fn is_attribute_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
}

/// Whether `CloudEvents` allows `text` as a string: no control characters, no noncharacters.
pub(crate) fn is_printable(text: &str) -> bool {
    let is_plain = text.bytes().fold(true, |all, c| all & matches!(c, 0x20..=0x7e));
    is_plain
        || text.chars().all(|c| {
            let code = u32::from(c);
            !c.is_control() && !matches!(code, 0xfdd0..=0xfdef) && code & 0xfffe != 0xfffe
        })
}

/// `type/subtype` and parameters, as RFC 2045 writes them.
pub(crate) fn is_media_type(text: &str) -> bool {
    let Some((kind, rest)) = text.split_once('/') else { return false };
    let at = rest.find([';', ' ', '\t']).unwrap_or(rest.len());
    let Some((subtype, mut parameters)) = rest.split_at_checked(at) else { return false };
    if !is_mime_token(kind) || !is_mime_token(subtype) {
        return false;
    }
    while !parameters.is_empty() {
        let Some(parameter) = blanks(parameters).strip_prefix(';').map(blanks) else {
            return false;
        };
        let Some((name, value)) = parameter.split_once('=') else { return false };
        let Some(rest) = after_parameter_value(value) else { return false };
        if !is_mime_token(name) {
            return false;
        }
        parameters = rest;
    }
    true
}

/// Some characters of ASCII, one bit each.
#[derive(Clone, Copy)]
pub(crate) struct AsciiSet(u128);

impl AsciiSet {
    /// Letters, digits and `others`.
    pub(crate) const fn alphanumeric_and(others: &[u8]) -> Self {
        let (mut set, mut c) = (0, 0_u8);
        while c < 128 {
            if c.is_ascii_alphanumeric() {
                set |= 1 << c;
            }
            c += 1;
        }
        let mut rest = others;
        while let [c, others @ ..] = rest {
            set |= 1 << *c;
            rest = others;
        }
        Self(set)
    }

    pub(crate) const fn holds(self, c: u8) -> bool {
        c < 128 && self.0 >> c & 1 == 1
    }
}

const MIME_TOKEN: AsciiSet = AsciiSet::alphanumeric_and(b"!#$%&'*+-.^_`|~");

fn fits(field: &'static str, text: &str, bytes_max: usize) -> Result<(), EnvelopeError> {
    if text.is_empty() {
        return Err(EnvelopeError::field(field, "expected at least one character"));
    }
    if text.len() > bytes_max {
        let bytes = text.len();
        return Err(EnvelopeError::TooLong { field: field.into(), bytes, bytes_max });
    }
    Ok(())
}

fn blanks(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

fn is_mime_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| MIME_TOKEN.holds(c))
}

/// What stands behind a token or a quoted string; `None` when there is neither.
fn after_parameter_value(value: &str) -> Option<&str> {
    let Some(quoted) = value.strip_prefix('"') else {
        let at = value.find([';', ' ', '\t']).unwrap_or(value.len());
        let (token, rest) = value.split_at_checked(at)?;
        return is_mime_token(token).then_some(rest);
    };
    let mut escaped = false;
    for (at, c) in quoted.char_indices() {
        match c {
            _ if !(c == '\t' || matches!(c, ' '..='~')) => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return quoted.get(at + 1..),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_source_as_ours_are_written_is_a_uri_reference(rest in "[A-Za-z0-9_~/.:@%-]{0,20}") {
            let text = format!("vak://{rest}");
            prop_assert!(!is_own_source(&text) || is_uri_reference(&text));
        }
    }
}
