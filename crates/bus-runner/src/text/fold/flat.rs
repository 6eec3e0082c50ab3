//! Text with its colours, written from left to right.

use std::borrow::Cow;

use super::super::style::{RESET, Style};
use super::Line;

/// A row that nothing was overwritten in: text, and where its style changes.
#[derive(Debug, Default)]
pub(super) struct Flat {
    text: String,
    /// Where each style begins; before the first one there is none.
    runs: Vec<Run>,
    columns: usize,
    /// Marks on the last character.
    marks: usize,
}

/// A style that begins somewhere.
#[derive(Debug)]
struct Run {
    /// In bytes.
    at: usize,
    style: Style,
}

/// The most marks that join one character.
pub(super) const MARKS_MAX: usize = 8;

impl Flat {
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn is_blank(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.runs.clear();
        (self.columns, self.marks) = (0, 0);
    }

    /// Adds `text`, which takes `columns` of them.
    pub(super) fn push(&mut self, text: &str, columns: usize, style: Style) {
        if self.style() != style {
            self.runs.push(Run { at: self.text.len(), style });
        }
        self.text.push_str(text);
        self.columns += columns;
        self.marks = 0;
    }

    /// Adds a mark to the last character; what is too many is dropped.
    pub(super) fn mark(&mut self, mark: char) {
        if self.marks < MARKS_MAX {
            self.text.push(mark);
            self.marks += 1;
        }
    }

    /// Fills up with blanks.
    pub(super) fn pad(&mut self, columns: usize) {
        let missing = columns.saturating_sub(self.columns);
        if missing > 0 {
            self.push("", 0, Style::default());
            self.text.extend(std::iter::repeat_n(' ', missing));
            self.columns = columns;
        }
    }

    /// Each character with its style.
    pub(super) fn styled_chars(&self) -> impl Iterator<Item = (char, Style)> {
        let mut runs = self.runs.iter().peekable();
        let mut style = Style::default();
        self.text.char_indices().map(move |(at, c)| {
            while let Some(run) = runs.next_if(|run| run.at <= at) {
                style = run.style;
            }
            (c, style)
        })
    }

    pub(super) fn line(&self, is_cut: bool) -> Line<'_> {
        let text = if is_cut { &self.text } else { self.text.trim_end_matches(' ') };
        let styled = match self.runs.is_empty() {
            true => Cow::Borrowed(text),
            false => Cow::Owned(self.styled(is_cut)),
        };
        Line { text: Cow::Borrowed(text), styled, is_cut }
    }

    pub(super) fn into_line(self, is_cut: bool) -> Line<'static> {
        let Line { text, styled, .. } = self.line(is_cut);
        Line { text: text.into_owned().into(), styled: styled.into_owned().into(), is_cut }
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.text.capacity() + self.runs.capacity() * size_of::<Run>()
    }

    fn style(&self) -> Style {
        self.runs.last().map_or_else(Style::default, |run| run.style)
    }

    /// The text with its colours, closed at the end.
    fn styled(&self, is_cut: bool) -> String {
        let mut styled = String::with_capacity(self.text.len() + 16 * self.runs.len());
        let end = if is_cut { self.text.len() } else { self.shown_end() };
        let mut from = 0;
        let mut shown = Style::default();
        for run in self.runs.iter().take_while(|run| run.at < end) {
            styled.push_str(self.text.get(from..run.at).unwrap_or_default());
            if run.style.is_plain() {
                styled.push_str(RESET);
            } else {
                run.style.write(&mut styled);
            }
            (from, shown) = (run.at, run.style);
        }
        styled.push_str(self.text.get(from..end).unwrap_or_default());
        if !shown.is_plain() {
            styled.push_str(RESET);
        }
        styled
    }

    /// Where the blanks at the end begin: those that no colour shows.
    fn shown_end(&self) -> usize {
        let last = self.runs.last().filter(|run| !run.style.is_plain());
        match last {
            Some(last) if last.at < self.text.len() => self.text.len(),
            _ => {
                let from = self.runs.last().map_or(0, |run| run.at);
                let blanks = self.text.get(from..).unwrap_or_default();
                from + blanks.trim_end_matches(' ').len()
            }
        }
    }
}
