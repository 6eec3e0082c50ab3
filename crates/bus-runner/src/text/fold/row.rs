//! One row of the screen.

use super::super::style::Style;
use super::super::width;
use super::Line;
use super::flat::{Flat, MARKS_MAX};

/// A row: text until something is written left of its end, then cells.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// The text; when there are cells, only the marks before the first of them.
    flat: Flat,
    cells: Option<Vec<Cell>>,
    /// Whether it goes on in the next row, because it was full.
    pub(super) is_cut: bool,
}

/// A column.
#[derive(Debug, Default)]
struct Cell {
    /// The character; none in the second column of a wide one.
    character: Option<char>,
    style: Style,
    marks: Option<Box<Marks>>,
}

/// Marks that join a character.
#[derive(Debug, Default)]
struct Marks(String);

impl Row {
    /// How many columns are taken.
    pub(super) fn columns(&self) -> usize {
        self.cells.as_ref().map_or_else(|| self.flat.columns(), Vec::len)
    }

    /// Whether nothing is written in it.
    pub(super) fn is_blank(&self) -> bool {
        self.cells.is_none() && self.flat.is_blank()
    }

    pub(super) fn clear(&mut self) {
        self.flat.clear();
        self.cells = None;
        self.is_cut = false;
    }

    pub(super) fn line(&self) -> Line<'_> {
        let Some(cells) = &self.cells else { return self.flat.line(self.is_cut) };
        let mut flat = Flat::default();
        self.flat.styled_chars().for_each(|(mark, _)| flat.mark(mark));
        for cell in cells {
            if let Some(c) = cell.character {
                flat.push(c.encode_utf8(&mut [0; 4]), width::columns(c).unwrap_or(1), cell.style);
            }
            let marks = cell.marks.iter().flat_map(|marks| marks.0.chars());
            marks.for_each(|mark| flat.mark(mark));
        }
        flat.into_line(self.is_cut)
    }

    /// Writes `text`, which takes `columns` of them, over what is there from the column `at` on.
    pub(super) fn put(&mut self, at: usize, text: &str, columns: usize, style: Style) {
        if self.cells.is_none() && at >= self.flat.columns() {
            self.flat.pad(at);
            self.flat.push(text, columns, style);
            return;
        }
        let cells = self.cells();
        if cells.len() < at + columns {
            cells.resize_with(at + columns, Cell::blank);
        }
        halve(cells, at);
        halve(cells, at + columns);
        let mut places = cells.iter_mut().skip(at);
        for c in text.chars() {
            let wide = width::columns(c).unwrap_or(1);
            for column in 0..wide {
                if let Some(place) = places.next() {
                    *place = Cell { character: (column == 0).then_some(c), style, marks: None };
                }
            }
        }
    }

    /// Joins `mark` to the character before the column `at`.
    pub(super) fn mark(&mut self, at: usize, mark: char) {
        if self.cells.is_none() && at >= self.flat.columns() {
            self.flat.pad(at);
            self.flat.mark(mark);
            return;
        }
        let cells = self.cells();
        if cells.len() < at {
            cells.resize_with(at, Cell::blank);
        }
        let before = cells.iter_mut().take(at).rfind(|cell| cell.character.is_some());
        let Some(before) = before else { return self.flat.mark(mark) };
        let marks = before.marks.get_or_insert_default();
        if marks.0.chars().count() < MARKS_MAX {
            marks.0.push(mark);
        }
    }

    /// Takes away everything from the column `at` on.
    pub(super) fn truncate(&mut self, at: usize) {
        self.is_cut = false;
        if at >= self.columns() {
            return;
        }
        if at == 0 {
            return self.clear();
        }
        let cells = self.cells();
        halve(cells, at);
        cells.truncate(at);
    }

    /// Makes the columns from `at` on blank, `count` of them.
    pub(super) fn blank(&mut self, at: usize, count: usize) {
        let end = at.saturating_add(count).min(self.columns());
        if at >= end {
            return;
        }
        let cells = self.cells();
        halve(cells, at);
        halve(cells, end);
        cells.iter_mut().take(end).skip(at).for_each(|cell| *cell = Cell::blank());
    }

    /// Takes `count` columns out; what stands behind them moves left.
    pub(super) fn delete(&mut self, at: usize, count: usize) {
        let end = at.saturating_add(count).min(self.columns());
        if at >= end {
            return;
        }
        let cells = self.cells();
        halve(cells, at);
        halve(cells, end);
        cells.drain(at..end);
    }

    /// Puts `count` blanks in; what stands behind them moves right, up to `width`.
    pub(super) fn insert(&mut self, at: usize, count: usize, width: usize) {
        if at >= self.columns() {
            return;
        }
        let cells = self.cells();
        halve(cells, at);
        let count = count.min(width.saturating_sub(at));
        cells.splice(at..at, std::iter::repeat_with(Cell::blank).take(count));
        halve(cells, width);
        cells.truncate(width);
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        let cells = self.cells.iter().map(|cells| cells.capacity() * size_of::<Cell>());
        let marks = self.cells.iter().flatten().filter_map(|cell| cell.marks.as_ref());
        let marks = marks.map(|marks| size_of::<Marks>() + marks.0.capacity());
        self.flat.held() + cells.sum::<usize>() + marks.sum::<usize>()
    }

    /// The cells, made of the text when there were none.
    fn cells(&mut self) -> &mut Vec<Cell> {
        let Self { flat, cells, .. } = self;
        cells.get_or_insert_with(|| {
            let mut cells: Vec<Cell> = Vec::with_capacity(flat.columns());
            let mut before = Flat::default();
            for (c, style) in flat.styled_chars() {
                let wide = width::columns(c).unwrap_or(1);
                let last = cells.iter_mut().rfind(|cell| cell.character.is_some());
                match (wide, last) {
                    (0, None) => before.mark(c),
                    (0, Some(last)) => last.marks.get_or_insert_default().0.push(c),
                    _ => {
                        cells.push(Cell { character: Some(c), style, marks: None });
                        let second = || Cell { character: None, style, marks: None };
                        cells.extend(std::iter::repeat_with(second).take(wide - 1));
                    }
                }
            }
            *flat = before;
            cells
        })
    }
}

impl Cell {
    fn blank() -> Self {
        Self { character: Some(' '), ..Self::default() }
    }
}

/// Makes both columns blank of a wide character that the border before `at` cuts.
fn halve(cells: &mut [Cell], at: usize) {
    if let Some((before, [second, ..])) = cells.split_at_mut_checked(at)
        && second.character.is_none()
    {
        *second = Cell::blank();
        if let Some(first) = before.last_mut() {
            *first = Cell::blank();
        }
    }
}
