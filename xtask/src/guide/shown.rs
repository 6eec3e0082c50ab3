//! What a page says that its commands print, held against what they did print.

/// The first line that was not printed, in the order shown, with where it stands in its page. `…`
/// stands for anything within a line, alone for any lines; empty lines say nothing.
pub(super) fn missing<'a>(shown: &'a [(usize, String)], printed: &str) -> Option<(usize, &'a str)> {
    let mut printed = printed.lines();
    let says_something = |line: &str| !["", "…"].contains(&line.trim());
    shown
        .iter()
        .map(|(number, line)| (*number, line.as_str()))
        .filter(|(_, line)| says_something(line))
        .find(|(_, line)| !printed.any(|printed| fits(line, printed.trim_end())))
}

fn fits(shown: &str, printed: &str) -> bool {
    let mut pieces = shown.split('…');
    let Some(mut rest) = pieces.next().and_then(|first| printed.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing_in(shown: &str, printed: &str) -> Option<usize> {
        let shown: Vec<_> = (1..).zip(shown.lines().map(str::to_owned)).collect();
        missing(&shown, printed).map(|(number, _)| number)
    }

    #[test]
    fn a_shown_line_is_printed_whole() {
        assert_eq!(missing_in("one", "zero\none\n"), None);
        assert_eq!(missing_in("one", "one more\n"), Some(1));
        assert_eq!(missing_in("one", "not one\n"), Some(1));
    }

    #[test]
    fn lines_are_printed_in_the_order_shown() {
        assert_eq!(missing_in("one\ntwo", "one\nmore\ntwo\n"), None);
        assert_eq!(missing_in("two\none", "one\ntwo\n"), Some(2));
        assert_eq!(missing_in("one\none", "one\n"), Some(2));
    }

    #[test]
    fn dots_stand_for_anything_within_a_line() {
        assert_eq!(missing_in("done in … s", "done in 5.7 s\n"), None);
        assert_eq!(missing_in("…: a … of …", "x: a b of c\n"), None);
        assert_eq!(missing_in("done in … s", "done in\n5.7 s\n"), Some(1));
        assert_eq!(missing_in("done in … s", "done in 5.7 ms, late\n"), Some(1));
        assert_eq!(missing_in("a…a", "a\n"), Some(1));
    }

    #[test]
    fn dots_alone_and_empty_lines_say_nothing() {
        assert_eq!(missing_in("one\n\n…\ntwo", "one\ntwo\n"), None);
        assert_eq!(missing_in("…", ""), None);
    }
}
