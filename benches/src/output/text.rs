//! Lines made of output, and output made harmless (T4): what a terminal would show of it.

use std::hint::black_box;

use anyhow::{Result, ensure};
use bus_runner::{CHUNK_BYTES_MAX, Fold, FoldLimits, Sanitize, Utf8View};

use super::{BYTES, beside_a_second, writer::lines};
use crate::case::{Case, Figures, processor_time};

pub(crate) const COSTS: &[Case] = &[
    Case { name: "T4-characters", goal: Some(1.0), measure: || over(&build(), characters) },
    Case { name: "T4-fold-lines", goal: Some(1.0), measure: || over(&build(), fold_lines) },
    Case { name: "T4-fold-screens", goal: Some(1.0), measure: || over(&build(), fold_screens) },
    Case { name: "T4-fold-progress", goal: Some(1.0), measure: || over(&progress(), fold_lines) },
    Case { name: "T4-fold-characters", goal: Some(1.0), measure: || over(&wide(), fold_lines) },
    Case { name: "T4-show-harmless", goal: Some(1.0), measure: || over(&build(), show) },
];

/// Times `read` over all of the output, whose pieces are as a runner hands them on.
fn over(piece: &[u8], read: fn(&mut dyn Iterator<Item = &[u8]>) -> usize) -> Result<Figures> {
    let count = BYTES.div_ceil(piece.len());
    let mut seconds = Vec::new();
    for _ in 0..ROUNDS {
        let start = processor_time();
        let seen = read(&mut std::iter::repeat_n(piece, count));
        seconds.push(processor_time().saturating_sub(start).as_secs_f64());
        ensure!(seen > 0, "nothing was read");
    }
    Ok(beside_a_second(seconds))
}

fn characters(pieces: &mut dyn Iterator<Item = &[u8]>) -> usize {
    let (mut view, mut seen) = (Utf8View::default(), 0);
    for piece in pieces {
        let mut text = String::new();
        view.push(piece, &mut text);
        seen += black_box(text).len();
    }
    seen
}

fn fold_lines(pieces: &mut dyn Iterator<Item = &[u8]>) -> usize {
    fold(FoldLimits::one_row(), pieces)
}

fn fold_screens(pieces: &mut dyn Iterator<Item = &[u8]>) -> usize {
    fold(FoldLimits::text(), pieces)
}

fn fold(limits: FoldLimits, pieces: &mut dyn Iterator<Item = &[u8]>) -> usize {
    let (mut fold, mut seen) = (Fold::new(limits), 0);
    for piece in pieces {
        fold.push(piece, &mut |line| seen += black_box(line).styled.len());
    }
    fold.finish(&mut |line| seen += black_box(line).styled.len());
    seen
}

fn show(pieces: &mut dyn Iterator<Item = &[u8]>) -> usize {
    let (mut sanitize, mut seen) = (Sanitize::new(), 0);
    for piece in pieces {
        let mut shown = String::new();
        sanitize.push(piece, &mut shown);
        seen += black_box(shown).len();
    }
    seen
}

/// Lines of a build.
fn build() -> Vec<u8> {
    lines(CHUNK_BYTES_MAX)
}

/// A bar that is drawn over itself again and again.
fn progress() -> Vec<u8> {
    let mut text = String::new();
    let mut percent = 0;
    while text.len() < CHUNK_BYTES_MAX {
        percent = (percent + 1) % 101;
        let bar = "=".repeat(percent / 4);
        text.push_str(&format!("\r\u{1b}[32m{percent:3} %\u{1b}[0m [{bar:25}] \u{1b}[K"));
        if percent == 100 {
            text.push_str("\r\n");
        }
    }
    text.into_bytes()
}

/// Text of which few characters are ASCII.
fn wide() -> Vec<u8> {
    let mut text = String::new();
    while text.len() < CHUNK_BYTES_MAX {
        text.push_str("Größe und Länge, naïve café — 日本語の出力もあります 👍\r\n");
    }
    text.into_bytes()
}

/// An odd number, so that the median is one of them.
const ROUNDS: usize = 5;
