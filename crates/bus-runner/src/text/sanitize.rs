//! Others' text for a terminal: its colours stay, whatever else could steer the terminal goes.

use super::escapes::{Escapes, Token};
use super::style::{RESET, Style};
use super::width;

/// Keeps characters, line breaks, tabs, colours and emphasis; drops every other control.
///
/// Colours end with their line and begin again on the next one, so that nothing printed between
/// takes them.
///
/// ```
/// # use bus_runner::Sanitize;
/// let (mut sanitize, mut shown) = (Sanitize::new(), String::new());
/// sanitize.push(b"\x1b]0;title\x07\x1b[2J\x1b[31mred\nplain?", &mut shown);
/// sanitize.finish(&mut shown);
/// assert_eq!(shown, "\x1b[0;31mred\x1b[0m\n\x1b[0;31mplain?\x1b[0m");
/// ```
#[derive(Debug)]
pub struct Sanitize {
    escapes: Escapes,
    shower: Shower,
}

/// What is to be shown, and how.
#[derive(Debug, Default)]
struct Shower {
    /// The style that the text asks for.
    style: Style,
    /// The style that the terminal has.
    shown: Style,
    is_one_line: bool,
}

impl Sanitize {
    /// Begins a text.
    #[must_use]
    pub fn new() -> Self {
        Self { escapes: Escapes::new(), shower: Shower::default() }
    }

    /// All of `bytes` as one line: line breaks and tabs become blanks.
    #[must_use]
    pub fn line(bytes: &[u8]) -> String {
        let mut line = Self::new();
        line.shower.is_one_line = true;
        let mut shown = String::new();
        line.push(bytes, &mut shown);
        line.finish(&mut shown);
        shown
    }

    /// Adds what is left of `bytes` to `shown`.
    pub fn push(&mut self, bytes: &[u8], shown: &mut String) {
        let Self { escapes, shower } = self;
        escapes.push(bytes, &mut |token| shower.show(token, shown));
    }

    /// Ends the colours that are open; they begin again with the next character.
    pub fn end_line(&mut self, shown: &mut String) {
        self.shower.end_line(shown);
    }

    /// Ends the text: an unfinished character becomes a mark, and colours end.
    pub fn finish(mut self, shown: &mut String) {
        let Self { escapes, shower } = &mut self;
        escapes.finish(&mut |token| shower.show(token, shown));
        shower.end_line(shown);
    }
}

impl Default for Sanitize {
    fn default() -> Self {
        Self::new()
    }
}

impl Shower {
    fn show(&mut self, token: Token<'_>, shown: &mut String) {
        match token {
            Token::Text(text) => self.print(text, shown),
            Token::Control(b'\n' | b'\t' | b'\r') if self.is_one_line => self.print(" ", shown),
            Token::Control(b'\t') => self.print("\t", shown),
            Token::Control(b'\n') => {
                self.end_line(shown);
                shown.push('\n');
            }
            Token::Csi { params, last: 'm' } => self.style.apply(params),
            Token::Control(_) | Token::Csi { .. } | Token::Esc { .. } => {}
        }
    }

    fn print(&mut self, text: &str, shown: &mut String) {
        if self.style != self.shown {
            self.style.write(shown);
            self.shown = self.style;
        }
        if text.is_ascii() {
            shown.push_str(text);
        } else {
            shown.extend(text.chars().filter(|c| width::columns(*c).is_some()));
        }
    }

    fn end_line(&mut self, shown: &mut String) {
        if !self.shown.is_plain() {
            shown.push_str(RESET);
            self.shown = Style::default();
        }
    }
}
