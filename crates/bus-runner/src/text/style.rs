//! Colours and emphasis: `CSI m`, read in all its forms and written in one.

use vte::{Params, ParamsIter};

/// How characters look.
///
/// Concealed text is shown: whoever reads what others print wants to see all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    foreground: Colour,
    background: Colour,
    /// One bit for each of [`EMPHASIS`].
    emphasis: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Colour {
    #[default]
    Default,
    /// One of the sixteen that terminals name.
    Named(u8),
    /// One of the palette of 256.
    Index(u8),
    Rgb(u8, u8, u8),
}

/// What is switched on by which number: bold, dim, italic, underlined, blinking, reversed, struck
/// out, overlined.
const EMPHASIS: [u16; 8] = [1, 2, 3, 4, 5, 7, 9, 53];

/// Ends all colours and emphasis.
pub(super) const RESET: &str = "\u{1b}[0m";

impl Style {
    pub(super) fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// Changes the style as `CSI params m` says.
    pub(super) fn apply(&mut self, params: &Params) {
        let mut rest = params.iter();
        while let Some([code, details @ ..]) = rest.next() {
            match (code, details) {
                (0, _) => *self = Self::default(),
                (4, [0, ..]) => self.switch(&[4], false),
                (6, _) => self.switch(&[5], true),
                (21, _) => self.switch(&[4], true),
                (22, _) => self.switch(&[1, 2], false),
                (23, _) => self.switch(&[3], false),
                (24, _) => self.switch(&[4], false),
                (25, _) => self.switch(&[5], false),
                (27, _) => self.switch(&[7], false),
                (29, _) => self.switch(&[9], false),
                (55, _) => self.switch(&[53], false),
                (30..=37, _) => self.foreground = Colour::named(code - 30),
                (39, _) => self.foreground = Colour::Default,
                (40..=47, _) => self.background = Colour::named(code - 40),
                (49, _) => self.background = Colour::Default,
                (90..=97, _) => self.foreground = Colour::named(code - 90 + 8),
                (100..=107, _) => self.background = Colour::named(code - 100 + 8),
                (38, _) => self.foreground = Colour::read(details, &mut rest, self.foreground),
                (48, _) => self.background = Colour::read(details, &mut rest, self.background),
                // The colour of an underline: read over.
                (58, _) => _ = Colour::read(details, &mut rest, Colour::Default),
                (code, _) => self.switch(&[*code], true),
            }
        }
    }

    /// Adds the sequence that gives this style, whatever was before.
    pub(super) fn write(self, text: &mut String) {
        text.push_str("\u{1b}[0");
        let codes = EMPHASIS.iter().enumerate();
        for (_, code) in codes.filter(|(bit, _)| self.emphasis & (1 << bit) != 0) {
            text.push_str(&format!(";{code}"));
        }
        self.foreground.write(30, text);
        self.background.write(40, text);
        text.push('m');
    }

    fn switch(&mut self, codes: &[u16], is_on: bool) {
        let known = EMPHASIS.iter().enumerate().filter(|(_, code)| codes.contains(code));
        let bits = known.fold(0, |bits, (bit, _)| bits | 1 << bit);
        self.emphasis = if is_on { self.emphasis | bits } else { self.emphasis & !bits };
    }
}

impl Colour {
    fn named(code: u16) -> Self {
        u8::try_from(code).map_or(Self::Default, Self::Named)
    }

    /// The colour behind 38 or 48: in `details` (with colons), else in what follows (with
    /// semicolons). `before` stays where it says nothing that is known.
    fn read(details: &[u16], rest: &mut ParamsIter<'_>, before: Self) -> Self {
        let read = match details {
            [5, index, ..] => Self::index(*index),
            [2, red, green, blue] | [2, _, red, green, blue, ..] => Self::rgb(*red, *green, *blue),
            [] => Self::read_list(rest),
            _ => None,
        };
        read.unwrap_or(before)
    }

    fn read_list(rest: &mut ParamsIter<'_>) -> Option<Self> {
        let mut next = || rest.next().and_then(|param| param.first().copied());
        match next()? {
            5 => Self::index(next()?),
            2 => Self::rgb(next()?, next()?, next()?),
            _ => None,
        }
    }

    fn index(index: u16) -> Option<Self> {
        u8::try_from(index).ok().map(Self::Index)
    }

    fn rgb(red: u16, green: u16, blue: u16) -> Option<Self> {
        let part = |part: u16| u8::try_from(part).ok();
        Some(Self::Rgb(part(red)?, part(green)?, part(blue)?))
    }

    fn write(self, base: u16, text: &mut String) {
        let (base, extended) = (base, base + 8);
        let written = match self {
            Self::Default => return,
            Self::Named(code @ ..8) => format!(";{}", base + u16::from(code)),
            Self::Named(code) => format!(";{}", base + 60 + u16::from(code) - 8),
            Self::Index(index) => format!(";{extended};5;{index}"),
            Self::Rgb(red, green, blue) => format!(";{extended};2;{red};{green};{blue}"),
        };
        text.push_str(&written);
    }
}

#[cfg(test)]
mod tests {
    use super::super::escapes::{Escapes, Token};
    use super::*;

    /// The one form of the style that these sequences give.
    fn written(sequences: &str) -> String {
        let (mut style, mut text) = (Style::default(), String::new());
        Escapes::new().push(sequences.as_bytes(), &mut |token| {
            if let Token::Csi { params, last: 'm' } = token {
                style.apply(params);
            }
        });
        style.write(&mut text);
        text.replace('\u{1b}', "ESC")
    }

    #[test]
    fn sixteen_colours_keep_their_numbers() {
        assert_eq!(written("\u{1b}[31;102m"), "ESC[0;31;102m");
        assert_eq!(written("\u{1b}[97;40m"), "ESC[0;97;40m");
    }

    #[test]
    fn the_palette_and_true_colours_are_read_with_semicolons_and_with_colons() {
        for form in ["38;5;196", "38:5:196"] {
            assert_eq!(written(&format!("\u{1b}[{form}m")), "ESC[0;38;5;196m");
        }
        for form in ["48;2;1;2;3", "48:2:1:2:3", "48:2::1:2:3"] {
            assert_eq!(written(&format!("\u{1b}[{form}m")), "ESC[0;48;2;1;2;3m");
        }
    }

    #[test]
    fn what_follows_a_colour_counts() {
        assert_eq!(written("\u{1b}[38;5;1;1m"), "ESC[0;1;38;5;1m");
        assert_eq!(written("\u{1b}[58;2;9;9;9;3m"), "ESC[0;3m");
        assert_eq!(written("\u{1b}[58:5:9;3m"), "ESC[0;3m");
    }

    #[test]
    fn emphasis_is_switched_off_alone() {
        assert_eq!(written("\u{1b}[1;3;4;7m\u{1b}[22;27m"), "ESC[0;3;4m");
        assert_eq!(written("\u{1b}[4:3m"), "ESC[0;4m");
        assert_eq!(written("\u{1b}[4m\u{1b}[4:0m"), "ESC[0m");
        assert_eq!(written("\u{1b}[1;31m\u{1b}[m"), "ESC[0m");
    }

    #[test]
    fn a_number_out_of_its_range_changes_nothing() {
        assert_eq!(written("\u{1b}[31m\u{1b}[38;5;256m"), "ESC[0;31m");
        assert_eq!(written("\u{1b}[31m\u{1b}[38;2;1;2;300m"), "ESC[0;31m");
    }

    #[test]
    fn concealed_text_is_shown() {
        assert_eq!(written("\u{1b}[8m"), "ESC[0m");
    }
}
