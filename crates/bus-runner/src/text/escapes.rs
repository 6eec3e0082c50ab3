//! Cuts text into plain runs, control characters and whole escape sequences.

use std::fmt;

use vte::{Params, Parser, Perform};

use super::utf8_view::Utf8View;

/// Reads bytes that come in pieces; an unfinished sequence waits for its rest.
///
/// Plain runs are found without the state machine. It sees sequences alone, and never the 8-bit
/// controls (U+0080 to U+009F): each comes to it as the `ESC` sequence that it stands for.
pub(super) struct Escapes {
    view: Utf8View,
    /// Without a place for the contents of strings, which nobody here reads.
    parser: Parser<1>,
    state: State,
}

/// What a command wrote.
#[derive(Clone, Copy)]
pub(super) enum Token<'a> {
    /// Characters, no control among them.
    Text(&'a str),
    /// A control character below U+0020 other than `ESC`.
    Control(u8),
    /// A control sequence with neither a private mark nor intermediate characters.
    Csi { params: &'a Params, last: char },
    /// An escape sequence with at most one intermediate character.
    Esc { intermediate: Option<u8>, last: u8 },
}

/// Where the parser is, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Between sequences, for sure.
    Ground,
    /// In a sequence, or after one that was ignored.
    Sequence,
    /// In a device control string, which only `ESC`, `CAN` and `SUB` end.
    DeviceString,
}

impl Escapes {
    pub(super) fn new() -> Self {
        let parser = Parser::new_with_size();
        Self { view: Utf8View::default(), parser, state: State::Ground }
    }

    /// Gives `take` what `bytes` completes.
    pub(super) fn push(&mut self, bytes: &[u8], take: &mut impl FnMut(Token<'_>)) {
        let Self { view, parser, state } = self;
        view.each(bytes, |text| read(parser, state, text, take));
    }

    /// Ends the input: an unfinished character becomes a mark, an unfinished sequence nothing.
    pub(super) fn finish(&mut self, take: &mut impl FnMut(Token<'_>)) {
        let Self { view, parser, state } = self;
        view.finish_each(|text| read(parser, state, text, take));
    }

    /// Whether nothing waits for its rest.
    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Ground && self.view.held() == 0
    }
}

impl fmt::Debug for Escapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Escapes").field("is_idle", &self.is_idle()).finish_non_exhaustive()
    }
}

const ESC: u8 = 0x1b;
const DEL: u8 = 0x7f;
const CANCEL: u8 = 0x18;
const SUBSTITUTE: u8 = 0x1a;

/// The first byte of U+0080 to U+00BF in UTF-8, 8-bit controls among them.
const LATIN_LEAD: u8 = 0xc2;

/// How many bytes are looked at in one step.
const STEP: usize = 32;

fn read(parser: &mut Parser<1>, state: &mut State, text: &str, take: &mut impl FnMut(Token<'_>)) {
    let mut rest = text;
    while !rest.is_empty() {
        if *state != State::Ground {
            rest = read_sequence(parser, state, rest, take);
            continue;
        }
        let (plain, special) = rest.split_at(plain_len(rest.as_bytes()));
        if !plain.is_empty() {
            take(Token::Text(plain));
        }
        let mut characters = special.chars();
        match characters.next() {
            None => {}
            Some(c) if !c.is_ascii() || c == char::from(ESC) => {
                *state = State::Sequence;
                feed(parser, state, c, take);
            }
            Some(c) if c == char::from(DEL) => {}
            Some(c) => take(Token::Control(c as u8)),
        }
        rest = characters.as_str();
    }
}

/// Reads on to the end of a sequence; returns what stands behind it.
fn read_sequence<'a>(
    parser: &mut Parser<1>,
    state: &mut State,
    text: &'a str,
    take: &mut impl FnMut(Token<'_>),
) -> &'a str {
    let mut characters = text.chars();
    while *state != State::Ground
        && let Some(c) = characters.next()
    {
        feed(parser, state, c, take);
    }
    characters.as_str()
}

fn feed(parser: &mut Parser<1>, state: &mut State, c: char, take: &mut impl FnMut(Token<'_>)) {
    let mut reader = Reader { state, take };
    match c {
        '\u{80}'..='\u{9f}' => parser.advance(&mut reader, &[ESC, (c as u8).wrapping_sub(0x40)]),
        // The parser looks at bytes there: a character could hold one that ends the string.
        c if *reader.state == State::DeviceString && !c.is_ascii() => {}
        c => parser.advance(&mut reader, c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// How many bytes of `text`, which is UTF-8, come before the first control character.
fn plain_len(text: &[u8]) -> usize {
    let is_special = |byte: u8| byte < b' ' || byte == DEL || byte == LATIN_LEAD;
    let mut at = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let is_plain = |step: &&[u8]| !step.iter().fold(false, |any, b| any | is_special(*b));
        let plain = STEP * rest.chunks_exact(STEP).take_while(is_plain).count();
        let rest = rest.get(plain..).unwrap_or_default();
        let Some(found) = rest.iter().position(|byte| is_special(*byte)) else {
            return text.len();
        };
        at += plain + found;
        match rest.get(found..) {
            // A printable character that begins like an 8-bit control.
            Some([LATIN_LEAD, next, ..]) if *next >= 0xa0 => at += 2,
            _ => return at,
        }
    }
}

/// Makes tokens of what the parser finds, and notes where it is after that.
struct Reader<'a, F> {
    state: &'a mut State,
    take: &'a mut F,
}

impl<F: FnMut(Token<'_>)> Perform for Reader<'_, F> {
    fn print(&mut self, c: char) {
        // It only prints behind a sequence that it ignored; that it was at its end shows here.
        *self.state = State::Ground;
        if c == char::from(DEL) {
            return;
        }
        (self.take)(Token::Text(c.encode_utf8(&mut [0; 4])));
    }

    fn execute(&mut self, byte: u8) {
        if matches!(byte, CANCEL | SUBSTITUTE) {
            *self.state = State::Ground;
        }
        if byte < b' ' {
            (self.take)(Token::Control(byte));
        }
    }

    fn hook(&mut self, _: &Params, _: &[u8], _: bool, _: char) {
        *self.state = State::DeviceString;
    }

    fn unhook(&mut self) {
        *self.state = State::Sequence;
    }

    fn osc_dispatch(&mut self, _: &[&[u8]], is_ended_by_bell: bool) {
        if is_ended_by_bell {
            *self.state = State::Ground;
        }
    }

    fn csi_dispatch(&mut self, params: &Params, marks: &[u8], is_ignored: bool, last: char) {
        *self.state = State::Ground;
        if marks.is_empty() && !is_ignored {
            (self.take)(Token::Csi { params, last });
        }
    }

    fn esc_dispatch(&mut self, marks: &[u8], is_ignored: bool, last: u8) {
        *self.state = State::Ground;
        if marks.len() < 2 && !is_ignored {
            (self.take)(Token::Esc { intermediate: marks.first().copied(), last });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of `output`, with a dot for each control character.
    fn text(output: &str) -> String {
        let mut text = String::new();
        Escapes::new().push(output.as_bytes(), &mut |token| match token {
            Token::Text(run) => text.push_str(run),
            Token::Control(_) => text.push('.'),
            Token::Csi { .. } | Token::Esc { .. } => {}
        });
        text
    }

    #[test]
    fn text_behind_a_sequence_that_is_ignored_is_there() {
        assert_eq!(text("\u{1b}[1;<mdé\u{7f}f\n\u{7f}g"), "déf.g");
    }

    #[test]
    fn an_eight_bit_control_is_the_sequence_that_it_stands_for() {
        assert_eq!(text("a\u{9b}31mb\u{9d}0;title\u{9c}c\u{90}q\u{9c}d"), "abcd");
    }

    #[test]
    fn no_character_ends_a_string() {
        // The last byte of the first is that of an 8-bit terminator.
        assert_eq!(text("a\u{1b}P1Üx✔y\u{1b}\\b"), "ab");
        assert_eq!(text("a\u{1b}]0;Üx✔y\u{7}b"), "ab");
    }

    #[test]
    fn controls_inside_a_sequence_are_obeyed() {
        assert_eq!(text("a\u{1b}[3\n1mb"), "a.b");
    }

    #[test]
    fn printable_latin_is_text() {
        assert_eq!(text("10\u{a0}°·"), "10\u{a0}°·");
    }
}
