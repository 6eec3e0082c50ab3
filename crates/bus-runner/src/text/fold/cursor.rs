//! The cursor is moved.

use vte::Params;

use super::row::Row;
use super::screen::{Cursor, Screen};

/// Where rows have no width that the program knows of, no move leads beyond so many columns or the
/// end of the row: a few bytes must not make a long line.
const MOVES_MAX: usize = 1024;

impl Screen {
    /// Whether a control sequence with this last character moves the cursor.
    pub(super) fn is_move(&self, last: char) -> bool {
        matches!(last, 'A'..='H' | 'a' | 'd'..='f' | '`' | 's' | 'u')
    }

    /// Moves the cursor as the control sequence says.
    pub(super) fn go(&mut self, params: &Params, last: char) {
        self.leave_full();
        let count = number(params, 0);
        let Cursor { row, column, .. } = self.cursor;
        match last {
            'A' => self.go_to(row.saturating_sub(count), column),
            'B' | 'e' => self.go_to(row + count, column),
            'C' | 'a' => self.go_to(row, column + count),
            'D' => self.go_to(row, column.saturating_sub(count)),
            'E' => self.go_to(row + count, 0),
            'F' => self.go_to(row.saturating_sub(count), 0),
            'G' | '`' => self.go_to(row, count - 1),
            'd' => self.go_to(count - 1, column),
            'H' | 'f' => self.go_to(count - 1, number(params, 1) - 1),
            's' => self.saved = self.cursor,
            'u' => self.cursor = self.saved,
            _ => {}
        }
    }

    /// Goes up a row; at the top everything moves down, and the bottom row is lost.
    ///
    /// Where there is but one row, it stays: output that is shown line by line has nothing above.
    pub(super) fn go_up_or_scroll(&mut self) {
        self.leave_full();
        if self.cursor.row > 0 {
            self.cursor.row -= 1;
        } else if self.rows_max > 1 {
            self.rows.push_front(Row::default());
            self.rows.truncate(self.rows_max);
        }
    }

    /// How far right a row of no known width goes without being written in.
    pub(super) fn columns_reached(&self) -> usize {
        let Cursor { row, column, .. } = self.cursor;
        let taken = self.rows.get(row).map_or(0, Row::columns);
        taken.max(column).max(MOVES_MAX).min(self.width)
    }

    fn go_to(&mut self, row: usize, column: usize) {
        self.cursor.row = row.min(self.rows_max - 1);
        self.reach(self.cursor.row);
        let end = if self.is_width_known { self.width } else { self.columns_reached() };
        self.cursor.column = column.min(end).min(self.width - 1);
    }
}

/// A parameter that counts from one; none and nought are one.
pub(super) fn number(params: &Params, at: usize) -> usize {
    mode(params, at).max(1)
}

/// A parameter that says which of several; none is nought.
pub(super) fn mode(params: &Params, at: usize) -> usize {
    params.iter().nth(at).and_then(|param| param.first()).map_or(0, |value| usize::from(*value))
}
