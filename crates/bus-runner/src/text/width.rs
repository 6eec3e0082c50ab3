//! How many columns a character takes.

use unicode_width::UnicodeWidthChar;

/// The columns of `c`: two for wide ones, none for marks that join the character before. `None`
/// for what is not shown at all.
///
/// Not shown are byte order marks, and the characters that turn the direction of the text around
/// them: left open, one would turn what others print on the same line.
pub(super) fn columns(c: char) -> Option<usize> {
    match c {
        ' '..='~' => Some(1),
        '\u{feff}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => None,
        c => c.width(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_narrow_and_joining_characters_differ() {
        assert_eq!(["a", "é", "日", "👍", "\u{301}", "\u{200b}"].map(first), [1, 1, 2, 2, 0, 0]);
    }

    #[test]
    fn what_turns_the_direction_of_a_line_is_not_shown() {
        assert_eq!(columns('\u{202e}'), None);
        assert_eq!(columns('\u{2066}'), None);
        assert_eq!(columns('\u{feff}'), None);
    }

    fn first(text: &str) -> usize {
        text.chars().next().and_then(columns).unwrap()
    }
}
