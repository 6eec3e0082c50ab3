//! One level of a registered subject: its alphabet and length.

use std::sync::Arc;

use crate::SubjectError;

/// A text that is safe as one level of a subject: 1 to 64 bytes of `[A-Za-z0-9_~-]`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(Arc<str>);

impl Token {
    /// The longest token, in bytes.
    pub const BYTES_MAX: usize = 64;

    /// Checks `text` and names `field` when it is refused.
    ///
    /// # Errors
    /// [`SubjectError::Empty`], [`SubjectError::TooLong`] or [`SubjectError::Character`].
    pub fn parse(field: &'static str, text: &str) -> Result<Self, SubjectError> {
        Self::check(field, text)?;
        Ok(Self(text.into()))
    }

    /// Checks `text` as [`parse`](Self::parse) does, and keeps nothing.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn check(field: &'static str, text: &str) -> Result<(), SubjectError> {
        if text.is_empty() {
            return Err(SubjectError::Empty { field });
        }
        if text.len() > Self::BYTES_MAX {
            let (bytes, bytes_max) = (text.len(), Self::BYTES_MAX);
            return Err(SubjectError::TooLong { field, bytes, bytes_max });
        }
        if text.bytes().all(|byte| TOKEN_CHARACTERS >> byte.min(127) & 1 == 1) {
            return Ok(());
        }
        let bad = text.char_indices().find(|(_, c)| !is_token_character(*c));
        bad.map_or(Ok(()), |(at, character)| {
            let expected = "letters, digits, '-', '_' or '~'";
            Err(SubjectError::Character { field, character, at, expected })
        })
    }

    /// Turns any outside name (a person, a path) into a token that [`Token::unescape`] turns back.
    ///
    /// ASCII letters, digits, `_` and `-` stand for themselves, every other byte becomes `~` and
    /// two lower-case hex digits, and the empty name becomes `~`. Two names never give one token.
    /// Nothing is cut or hashed: a name whose escaped form is longer than [`Token::BYTES_MAX`] is
    /// refused, so that a token always tells the whole name.
    ///
    /// # Errors
    /// [`SubjectError::TooLong`] with the length of the escaped form.
    pub fn escape(field: &'static str, any: &str) -> Result<Self, SubjectError> {
        if any.is_empty() {
            return Ok(Self("~".into()));
        }
        let bytes = any.bytes().map(|byte| if is_plain(byte) { 1 } else { 3 }).sum();
        if bytes > Self::BYTES_MAX {
            return Err(SubjectError::TooLong { field, bytes, bytes_max: Self::BYTES_MAX });
        }
        let mut escaped = String::with_capacity(bytes);
        for byte in any.bytes() {
            if is_plain(byte) {
                escaped.push(char::from(byte));
            } else {
                escaped.push('~');
                escaped.extend([hex_digit(byte >> 4), hex_digit(byte & 15)]);
            }
        }
        Ok(Self(escaped.into()))
    }

    /// The name that [`Token::escape`] was given to make this token.
    ///
    /// # Errors
    /// [`SubjectError::Escape`] when no name gives this token: an escape that is cut short, in
    /// upper case or not needed, or bytes that are not UTF-8.
    pub fn unescape(&self, field: &'static str) -> Result<String, SubjectError> {
        if self.as_str() == "~" {
            return Ok(String::new());
        }
        let refused = || SubjectError::Escape { field };
        let mut name = Vec::with_capacity(self.0.len());
        let mut bytes = self.0.bytes();
        while let Some(byte) = bytes.next() {
            if byte != b'~' {
                name.push(byte);
                continue;
            }
            let high = bytes.next().and_then(hex_value).ok_or_else(refused)?;
            let low = bytes.next().and_then(hex_value).ok_or_else(refused)?;
            let escaped = high << 4 | low;
            if is_plain(escaped) {
                return Err(refused());
            }
            name.push(escaped);
        }
        String::from_utf8(name).map_err(|_| refused())
    }

    /// The text of the token.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.0, f)
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Token {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn hex_digit(value: u8) -> char {
    char::from_digit(u32::from(value), 16).unwrap_or('0')
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

fn is_token_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '~' | '-')
}

/// The alphabet as a set of bits, one for each character of ASCII; the last is not in it.
const TOKEN_CHARACTERS: u128 = {
    let (mut set, mut byte) = (0, 0_u8);
    while byte < 127 {
        if is_plain(byte) || byte == b'~' {
            set |= 1 << byte;
        }
        byte += 1;
    }
    set
};

#[cfg(test)]
mod tests;
