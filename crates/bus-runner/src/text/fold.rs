//! Output as lines: what a terminal would show of it in the end.

mod cursor;
mod edit;
mod flat;
mod row;
mod screen;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::num::{NonZeroU16, NonZeroUsize};

use self::screen::Screen;
use super::escapes::Escapes;

/// Folds carriage returns, cursor moves and erasures into the lines that are left of them.
///
/// The model is a terminal of some rows. A row that leaves it at the top is finished: nothing can
/// change it any more. Colours and emphasis are kept; every other control is obeyed or dropped.
/// Scroll regions and the alternate screen are none of its business: their controls are dropped.
///
/// ```
/// # use bus_runner::{Fold, FoldLimits};
/// let mut fold = Fold::new(FoldLimits::one_row());
/// let mut lines = Vec::new();
/// fold.push(b"10%\r50%\r\x1b[32m100%\x1b[0m\nnext", &mut |line| {
///     lines.push((line.text.into_owned(), line.styled.into_owned()));
/// });
/// assert_eq!(lines, [("100%".to_owned(), "\x1b[0;32m100%\x1b[0m".to_owned())]);
/// assert_eq!(fold.lines().next().unwrap().text, "next");
/// ```
#[derive(Debug)]
pub struct Fold {
    escapes: Escapes,
    screen: Screen,
}

/// How much may still change, and where rows end.
#[derive(Clone, Copy, Debug)]
pub struct FoldLimits {
    /// How many rows the cursor can move in.
    pub rows: NonZeroUsize,
    /// How wide a row is; none for as wide as it needs.
    pub columns: Option<NonZeroU16>,
    /// A row wider than this is finished where it is full, whatever `columns` says.
    pub columns_max: NonZeroUsize,
    /// Whether a line feed also returns to the left, as in the output of a pipe. In that of a
    /// terminal the kernel has written the carriage return.
    pub is_newline_cr: bool,
}

/// A line of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The characters alone, without blanks at the end.
    pub text: Cow<'a, str>,
    /// The same with colours and emphasis, which end with it.
    pub styled: Cow<'a, str>,
    /// Whether it goes on in the next line: its row was full.
    pub is_cut: bool,
}

/// The widest row unless the caller says otherwise.
const COLUMNS_MAX: NonZeroUsize = NonZeroUsize::new(16 * 1024).unwrap();

/// The rows that a whole text is folded in.
const TEXT_ROWS: NonZeroUsize = NonZeroUsize::new(64).unwrap();

impl FoldLimits {
    /// For output that is shown as it comes: a line is finished at its line feed.
    #[must_use]
    pub fn one_row() -> Self {
        Self { rows: NonZeroUsize::MIN, ..Self::text() }
    }

    /// For whole texts: the cursor can move up and change what it wrote before.
    #[must_use]
    pub fn text() -> Self {
        Self { rows: TEXT_ROWS, columns: None, columns_max: COLUMNS_MAX, is_newline_cr: true }
    }
}

impl Fold {
    /// Begins an output.
    #[must_use]
    pub fn new(limits: FoldLimits) -> Self {
        Self { escapes: Escapes::new(), screen: Screen::new(limits) }
    }

    /// Takes the next bytes; gives `finished` the lines that nothing can change any more.
    pub fn push(&mut self, bytes: &[u8], finished: &mut impl FnMut(Line<'_>)) {
        let Self { escapes, screen } = self;
        escapes.push(bytes, &mut |token| screen.take(token, finished));
    }

    /// What may still change, top first; blank lines at the end are left out.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.screen.lines()
    }

    /// Whether it is as new: nothing is open, neither text nor a colour nor a sequence.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.escapes.is_idle() && self.screen.is_idle()
    }

    /// Ends the output: everything left is finished.
    pub fn finish(mut self, finished: &mut impl FnMut(Line<'_>)) {
        let Self { escapes, screen } = &mut self;
        escapes.finish(&mut |token| screen.take(token, finished));
        screen.lines().for_each(finished);
    }
}
