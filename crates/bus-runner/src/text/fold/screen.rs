//! The rows and the cursor: what is printed goes where.

use std::collections::VecDeque;

use super::super::escapes::Token;
use super::super::style::Style;
use super::super::width;
use super::row::Row;
use super::{FoldLimits, Line};

/// A terminal's screen, as high as it may get.
#[derive(Debug)]
pub(super) struct Screen {
    /// Those that were reached, one at least.
    pub(super) rows: VecDeque<Row>,
    pub(super) rows_max: usize,
    /// A row is full when so many columns are taken.
    pub(super) width: usize,
    /// Whether rows end at a width that the program knows of.
    pub(super) is_width_known: bool,
    is_newline_cr: bool,
    pub(super) cursor: Cursor,
    pub(super) saved: Cursor,
    /// What was printed last, when nothing came after it.
    pub(super) last: Option<char>,
}

/// Where the next character goes, and how it looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) row: usize,
    /// Equal to the width when a row is full: only the next character breaks it.
    pub(super) column: usize,
    pub(super) style: Style,
    /// Whether letters are drawn as lines.
    pub(super) is_drawing: bool,
}

/// What the characters from backtick to tilde are when lines are drawn.
const DRAWN: &str = "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·";

/// Room for one wide character.
const WIDTH_MIN: usize = 2;

impl Screen {
    pub(super) fn new(limits: FoldLimits) -> Self {
        let columns = limits.columns.map_or(usize::MAX, |columns| usize::from(columns.get()));
        Self {
            rows: VecDeque::from([Row::default()]),
            rows_max: limits.rows.get(),
            width: columns.min(limits.columns_max.get()).max(WIDTH_MIN),
            is_width_known: limits.columns.is_some(),
            is_newline_cr: limits.is_newline_cr,
            cursor: Cursor::default(),
            saved: Cursor::default(),
            last: None,
        }
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let blank = self.rows.iter().rev().take_while(|row| row.is_blank()).count();
        self.rows.iter().take(self.rows.len() - blank).map(Row::line)
    }

    pub(super) fn is_idle(&self) -> bool {
        let is_blank = self.rows.len() == 1 && self.rows.iter().all(Row::is_blank);
        is_blank && self.cursor == Cursor::default() && self.saved == Cursor::default()
    }

    pub(super) fn take(&mut self, token: Token<'_>, finished: &mut impl FnMut(Line<'_>)) {
        if let Token::Text(text) = token {
            return match self.cursor.is_drawing {
                true => self.draw(text, finished),
                false => self.print(text, finished),
            };
        }
        let last = self.last.take();
        match token {
            Token::Text(_) => {}
            Token::Control(control) => self.control(control, finished),
            Token::Csi { params, last: 'm' } => self.cursor.style.apply(params),
            Token::Csi { params, last: 'b' } => self.repeat(last, params, finished),
            Token::Csi { params, last } if self.is_move(last) => self.go(params, last),
            Token::Csi { params, last } => self.edit(params, last),
            Token::Esc { intermediate, last } => self.escape(intermediate, last, finished),
        }
    }

    fn control(&mut self, control: u8, finished: &mut impl FnMut(Line<'_>)) {
        match control {
            b'\r' => self.cursor.column = 0,
            b'\n' | 0x0b | 0x0c => {
                self.line_feed(finished);
                if self.is_newline_cr {
                    self.cursor.column = 0;
                }
            }
            0x08 => {
                self.leave_full();
                self.cursor.column = self.cursor.column.saturating_sub(1);
            }
            // A full row has no tab stop left.
            b'\t' if self.cursor.column < self.width => {
                let next = (self.cursor.column / 8 + 1) * 8;
                self.cursor.column = next.min(self.width - 1);
            }
            _ => {}
        }
    }

    fn escape(&mut self, intermediate: Option<u8>, last: u8, finished: &mut impl FnMut(Line<'_>)) {
        match (intermediate, last) {
            (Some(b'('), b'0') => self.cursor.is_drawing = true,
            (Some(b'('), _) => self.cursor.is_drawing = false,
            (None, b'7') => self.saved = self.cursor,
            (None, b'8') => self.cursor = self.saved,
            (None, b'D') => self.line_feed(finished),
            (None, b'E') => {
                self.line_feed(finished);
                self.cursor.column = 0;
            }
            (None, b'M') => self.go_up_or_scroll(),
            _ => {}
        }
    }

    /// Prints `text`, in which no control is.
    pub(super) fn print(&mut self, text: &str, finished: &mut impl FnMut(Line<'_>)) {
        if text.is_ascii() {
            return self.print_ascii(text, finished);
        }
        // What goes on in one piece: no mark in it, and room for all of it.
        let (mut from, mut columns) = (0, 0);
        for (at, c) in text.char_indices() {
            let wide = width::columns(c);
            if let Some(wide @ 1..) = wide {
                self.last = Some(c);
                if self.cursor.column + columns + wide > self.width {
                    self.put(text.get(from..at).unwrap_or_default(), columns);
                    (from, columns) = (at, 0);
                    self.break_row(finished);
                }
                columns += wide;
                continue;
            }
            self.put(text.get(from..at).unwrap_or_default(), columns);
            (from, columns) = (at + c.len_utf8(), 0);
            if wide.is_some() {
                let Cursor { row, column, .. } = self.cursor;
                if let Some(row) = self.rows.get_mut(row) {
                    row.mark(column, c);
                }
            }
        }
        self.put(text.get(from..).unwrap_or_default(), columns);
    }

    fn print_ascii(&mut self, text: &str, finished: &mut impl FnMut(Line<'_>)) {
        let mut text = text;
        self.last = text.bytes().last().map(char::from);
        while !text.is_empty() {
            if self.cursor.column >= self.width {
                self.break_row(finished);
            }
            let room = self.width - self.cursor.column;
            let (now, then) = text.split_at(room.min(text.len()));
            self.put(now, now.len());
            text = then;
        }
    }

    fn draw(&mut self, text: &str, finished: &mut impl FnMut(Line<'_>)) {
        let drawn = |c: char| match c {
            '`'..='~' => DRAWN.chars().nth(c as usize - '`' as usize).unwrap_or(c),
            c => c,
        };
        let drawn: String = text.chars().map(drawn).collect();
        self.print(&drawn, finished);
    }

    fn put(&mut self, text: &str, columns: usize) {
        let Cursor { row, column, style, .. } = self.cursor;
        if columns > 0
            && let Some(row) = self.rows.get_mut(row)
        {
            row.put(column, text, columns, style);
            self.cursor.column += columns;
        }
    }

    /// Goes on at the left of the next row.
    fn break_row(&mut self, finished: &mut impl FnMut(Line<'_>)) {
        if let Some(row) = self.rows.get_mut(self.cursor.row) {
            row.is_cut = true;
        }
        self.line_feed(finished);
        self.cursor.column = 0;
    }

    /// Goes down a row; at the bottom everything moves up, and the top row is finished.
    fn line_feed(&mut self, finished: &mut impl FnMut(Line<'_>)) {
        self.leave_full();
        if self.cursor.row + 1 < self.rows_max {
            self.cursor.row += 1;
            self.reach(self.cursor.row);
        } else if let Some(mut row) = self.rows.pop_front() {
            finished(row.line());
            row.clear();
            self.rows.push_back(row);
        }
    }

    /// A full row has no column for the cursor but its last one.
    pub(super) fn leave_full(&mut self) {
        self.cursor.column = self.cursor.column.min(self.width - 1);
    }

    /// Makes sure that there is a row `row`.
    pub(super) fn reach(&mut self, row: usize) {
        if self.rows.len() <= row {
            self.rows.resize_with(row + 1, Row::default);
        }
    }
}
