//! Headers of a frame: checked names and values in the order they were added.
//!
//! All text stands in one buffer, so that a frame's headers cost two allocations, not two each, and
//! constant ones none.

use std::{borrow::Cow, fmt};

/// An ordered list of header names and values.
///
/// Names are 1 to 64 bytes of `[A-Za-z0-9-]`, compared without regard to case; values hold no CR,
/// LF or NUL and at most 8,192 bytes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers {
    text: Cow<'static, str>,
    entries: Cow<'static, [Entry]>,
}

/// Why a header was refused; nothing was added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The name is empty, too long or holds another character than `[A-Za-z0-9-]`.
    #[error("header name {name:?} is refused: expected 1 to 64 of letters, digits and '-'")]
    Name {
        /// The name as given, cut to 64 characters.
        name: String,
    },
    /// The value holds CR, LF or NUL.
    #[error("value of header {name} holds a line break or NUL at byte {at}")]
    Value {
        /// The header's name.
        name: String,
        /// Where the character stands.
        at: usize,
    },
    /// The value is too long.
    #[error("value of header {name} is {bytes} bytes long: at most 8192 are allowed")]
    TooLong {
        /// The header's name.
        name: String,
        /// The value's length in bytes.
        bytes: usize,
    },
}

impl Headers {
    /// The longest name, in bytes.
    pub const NAME_BYTES_MAX: usize = 64;

    /// The longest value, in bytes.
    pub const VALUE_BYTES_MAX: usize = 8192;

    /// No headers.
    #[must_use]
    pub const fn new() -> Self {
        Self { text: Cow::Borrowed(""), entries: Cow::Borrowed(&[]) }
    }

    /// No headers yet, with room for `entries` of them and `bytes` of text.
    #[must_use]
    pub fn with_capacity(entries: usize, bytes: usize) -> Self {
        Self {
            text: Cow::Owned(String::with_capacity(bytes)),
            entries: Cow::Owned(Vec::with_capacity(entries)),
        }
    }

    /// Constant headers, whose clones cost nothing: the names and values of `entries` stand in
    /// `text` one after the other, and keep the rules.
    pub(crate) const fn constant(text: &'static str, entries: &'static [Entry]) -> Self {
        Self { text: Cow::Borrowed(text), entries: Cow::Borrowed(entries) }
    }

    /// Adds a header; names may repeat.
    ///
    /// # Errors
    /// A [`HeaderError`] that names the header and the reason; nothing was added.
    pub fn add(
        &mut self,
        name: impl AsRef<str>,
        value: impl AsRef<str>,
    ) -> Result<(), HeaderError> {
        let (name, value) = (name.as_ref(), value.as_ref());
        if !is_name(name) {
            let name = name.chars().take(Self::NAME_BYTES_MAX).collect();
            return Err(HeaderError::Name { name });
        }
        if value.len() > Self::VALUE_BYTES_MAX {
            return Err(HeaderError::TooLong { name: name.to_owned(), bytes: value.len() });
        }
        if let Some(at) = value.bytes().position(|c| matches!(c, b'\r' | b'\n' | 0)) {
            return Err(HeaderError::Value { name: name.to_owned(), at });
        }
        let text = self.text.to_mut();
        text.push_str(name);
        text.push_str(value);
        let entry = Entry { name_bytes: name.len(), value_bytes: value.len() };
        self.entries.to_mut().push(entry);
        Ok(())
    }

    /// Adds a header that needs no look at its characters: the name is `prefix` and an attribute
    /// name, the value is percent-encoded. Returns whether both are short enough.
    #[must_use]
    pub(crate) fn add_encoded(&mut self, prefix: &str, name: &str, value: &str) -> bool {
        let name_bytes = prefix.len() + name.len();
        if name_bytes > Self::NAME_BYTES_MAX || value.len() > Self::VALUE_BYTES_MAX {
            return false;
        }
        let text = self.text.to_mut();
        for part in [prefix, name, value] {
            text.push_str(part);
        }
        self.entries.to_mut().push(Entry { name_bytes, value_bytes: value.len() });
        true
    }

    /// The first value under `name`, compared without regard to case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// All values under `name` in order, compared without regard to case.
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// All names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut rest = &*self.text;
        self.entries.iter().filter_map(move |entry| {
            let (name, tail) = rest.split_at_checked(entry.name_bytes)?;
            let (value, tail) = tail.split_at_checked(entry.value_bytes)?;
            rest = tail;
            Some((name, value))
        })
    }

    /// How many headers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all names and values together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.text.len()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Where one header ends; it begins where the one before it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    name_bytes: usize,
    value_bytes: usize,
}

impl Entry {
    /// An entry of so many bytes.
    pub(crate) const fn new(name_bytes: usize, value_bytes: usize) -> Self {
        Self { name_bytes, value_bytes }
    }
}

fn is_name(name: &str) -> bool {
    (1..=Headers::NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::new();
        for (name, value) in list {
            headers.add(name, value).unwrap();
        }
        headers
    }

    #[test]
    fn headers_come_back_in_the_order_they_were_added() {
        let list = [("b", "2"), ("a", ""), ("b", "3 ü")];
        assert!(headers(&list).iter().eq(list));
    }

    #[test]
    fn a_name_is_found_without_regard_to_case() {
        assert_eq!(headers(&[("Ce-Id", "7")]).get("ce-id"), Some("7"));
    }

    #[test]
    fn get_all_gives_every_value_of_a_name() {
        let headers = headers(&[("a", "1"), ("b", "x"), ("A", "2")]);
        assert!(headers.get_all("a").eq(["1", "2"]));
    }

    #[test]
    fn moving_a_byte_between_name_and_value_makes_other_headers() {
        assert_ne!(headers(&[("ab", "c")]), headers(&[("a", "bc")]));
    }

    #[test]
    fn a_line_break_in_a_value_is_refused() {
        let refused = Headers::new().add("a", "b\r\nc: d").unwrap_err();
        assert_eq!(refused, HeaderError::Value { name: "a".into(), at: 1 });
    }

    #[test]
    fn a_name_with_an_underscore_is_refused() {
        let refused = Headers::new().add("a_b", "c").unwrap_err();
        assert_eq!(refused, HeaderError::Name { name: "a_b".into() });
    }

    #[test]
    fn a_value_over_the_limit_is_refused_and_nothing_is_added() {
        let mut headers = Headers::new();
        let refused = headers.add("a", "x".repeat(Headers::VALUE_BYTES_MAX + 1)).unwrap_err();
        assert_eq!(refused, HeaderError::TooLong { name: "a".into(), bytes: 8193 });
        assert!(headers.is_empty());
    }
}
