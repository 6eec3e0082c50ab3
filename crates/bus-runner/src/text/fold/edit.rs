//! What is written is erased, moved and repeated.

use vte::Params;

use super::super::width;
use super::Line;
use super::cursor::{mode, number};
use super::row::Row;
use super::screen::{Cursor, Screen};

impl Screen {
    /// Changes the row of the cursor, or the screen, as the control sequence says.
    pub(super) fn edit(&mut self, params: &Params, last: char) {
        if !matches!(last, 'J' | 'K' | 'P' | 'X' | '@') {
            return;
        }
        self.leave_full();
        let Cursor { row: at, column, .. } = self.cursor;
        let width = if self.is_width_known { self.width } else { self.columns_reached() };
        let Some(row) = self.rows.get_mut(at) else { return };
        match (last, mode(params, 0)) {
            ('K', 0) => row.truncate(column),
            ('K', 1) => row.blank(0, column + 1),
            ('K', 2) => row.clear(),
            ('P', _) => row.delete(column, number(params, 0)),
            ('X', _) => row.blank(column, number(params, 0)),
            ('@', _) => row.insert(column, number(params, 0), width),
            ('J', 0) => {
                row.truncate(column);
                self.rows.iter_mut().skip(at + 1).for_each(Row::clear);
            }
            ('J', 1) => {
                row.blank(0, column + 1);
                self.rows.iter_mut().take(at).for_each(Row::clear);
            }
            ('J', 2) => self.rows.iter_mut().for_each(Row::clear),
            _ => {}
        }
    }

    /// Prints `last` again: where rows have no known width, no further than the row goes anyway.
    pub(super) fn repeat(
        &mut self,
        last: Option<char>,
        params: &Params,
        finished: &mut impl FnMut(Line<'_>),
    ) {
        let Some(last) = last else { return };
        let wide = width::columns(last).unwrap_or(1).max(1);
        let room = match self.is_width_known {
            true => self.width,
            false => self.columns_reached().saturating_sub(self.cursor.column),
        };
        let count = number(params, 0).min(room / wide);
        let again: String = std::iter::repeat_n(last, count).collect();
        self.print(&again, finished);
    }
}
