//! A stranger's text as errors and logs show it.

use std::fmt::{self, Write as _};

/// A text that somebody else chose, shown escaped and cut, so that it can neither write lines of
/// its own into a log nor fill it.
///
/// At most [`Shown::BYTES_MAX`] bytes of the escaped text are shown, and `…` when there is more.
///
/// # Examples
/// ```
/// use bus_subjects::Shown;
///
/// assert_eq!(Shown("plain").to_string(), "plain");
/// assert_eq!(Shown("two\nlines").to_string(), r"two\nlines");
/// assert!(Shown(&"x".repeat(1000)).to_string().len() < 200);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown<'a>(pub &'a str);

impl Shown<'_> {
    /// How much of a text is shown, in bytes; names that follow their rules are shown whole.
    pub const BYTES_MAX: usize = 128;
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = 0;
        for c in self.0.escape_debug() {
            bytes += c.len_utf8();
            if bytes > Self::BYTES_MAX {
                return f.write_char('…');
            }
            f.write_char(c)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_text_of_characters_that_are_escaped_is_cut_after_escaping() {
        let shown = Shown(&"\u{7f}".repeat(200)).to_string();
        assert!(shown.len() <= Shown::BYTES_MAX + '…'.len_utf8(), "{} bytes", shown.len());
        assert!(shown.ends_with('…'));
    }

    proptest! {
        #[test]
        fn no_text_shows_a_control_character_or_goes_beyond_the_limit(text: String) {
            let shown = Shown(&text).to_string();
            prop_assert!(!shown.chars().any(char::is_control));
            prop_assert!(shown.len() <= Shown::BYTES_MAX + '…'.len_utf8());
        }
    }
}
