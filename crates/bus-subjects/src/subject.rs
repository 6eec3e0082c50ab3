//! A concrete subject: where a frame is published.

use std::sync::Arc;

use crate::SubjectError;

/// A concrete NATS subject: levels between dots, no wildcards, white space or control characters.
///
/// Cloning shares the text. At most [`Subject::BYTES_MAX`] bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(Arc<str>);

impl Subject {
    /// The longest subject, in bytes.
    pub const BYTES_MAX: usize = 1024;

    /// Checks `text` as a concrete subject.
    ///
    /// # Errors
    /// A [`SubjectError`] with the field `subject` and the reason.
    pub fn parse(text: &str) -> Result<Self, SubjectError> {
        Self::check(text)?;
        Ok(Self(text.into()))
    }

    /// Checks `text` as [`parse`](Self::parse) does, and keeps nothing.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn check(text: &str) -> Result<(), SubjectError> {
        if check("subject", text)? == Wildcards::None {
            return Ok(());
        }
        for level in text.split('.') {
            if level == "*" || level == ">" {
                let wildcard = if level == "*" { '*' } else { '>' };
                return Err(SubjectError::Wildcard { field: "subject", wildcard });
            }
        }
        Ok(())
    }

    /// Takes a text that was put together from checked parts.
    pub(crate) fn trusted(text: String) -> Self {
        debug_assert!(Self::parse(&text).is_ok(), "not a subject: {text}");
        Self(text.into())
    }

    /// The text of the subject.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The levels between the dots; at least one, none empty.
    pub fn levels(&self) -> std::str::Split<'_, char> {
        self.0.split('.')
    }
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Subject({})", self.0)
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Subject {
    type Err = SubjectError;

    fn from_str(text: &str) -> Result<Self, SubjectError> {
        Self::parse(text)
    }
}

/// Whether a text may have wildcards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wildcards {
    /// It holds neither `*` nor `>`.
    None,
    /// It holds one, or what else takes a closer look.
    Perhaps,
}

/// What subjects and filters have in common: length, characters, no empty level.
pub(crate) fn check(field: &'static str, text: &str) -> Result<Wildcards, SubjectError> {
    if text.is_empty() {
        return Err(SubjectError::Empty { field });
    }
    if text.len() > Subject::BYTES_MAX {
        let (bytes, bytes_max) = (text.len(), Subject::BYTES_MAX);
        return Err(SubjectError::TooLong { field, bytes, bytes_max });
    }
    if is_plain(text) {
        return Ok(Wildcards::None);
    }
    let bad = text.char_indices().find(|(_, c)| c.is_whitespace() || c.is_control());
    if let Some((at, character)) = bad {
        let expected = "no white space and no control characters";
        return Err(SubjectError::Character { field, character, at, expected });
    }
    if text.split('.').any(str::is_empty) {
        return Err(SubjectError::EmptyLevel { field });
    }
    Ok(Wildcards::Perhaps)
}

/// Whether one look says that all is well: visible ASCII, no wildcard, no empty level. Most texts
/// are so; the others are looked at again, to say what is wrong.
fn is_plain(text: &str) -> bool {
    let (mut is_plain, mut before) = (true, b'.');
    for byte in text.bytes() {
        is_plain &= matches!(byte, 0x21..=0x7e) & (byte != b'*') & (byte != b'>');
        is_plain &= (byte != b'.') | (before != b'.');
        before = byte;
    }
    is_plain && before != b'.'
}
