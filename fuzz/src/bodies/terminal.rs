//! What a command writes to its terminal: characters, colours, cursor moves, and anything else.

use std::num::NonZeroUsize;

use bus_runner::{Fold, FoldLimits, Line, Sanitize, Utf8View};

use crate::laws;

/// Where the output is cut makes no difference, nothing that is shown steers a terminal, and
/// memory has a bound. Says whether a terminal has to do more than print the output.
pub fn body(data: &[u8]) -> bool {
    let cut = data.first().map_or(0, |byte| usize::from(*byte) % (data.len() + 1));
    let (before, after) = data.split_at(cut);
    let pieces = [before, after];

    let text = laws::bounded(data, || decoded(&pieces));
    assert_eq!(text, String::from_utf8_lossy(data), "a border makes or hides a character");

    let shown = laws::bounded(data, || sanitized(&pieces));
    assert_eq!(shown, sanitized(&[data]), "a border changes what is shown");
    let plain = uncoloured(&shown);
    assert!(!plain.contains(|c: char| c.is_control() && !"\n\t".contains(c)), "{plain:?}");

    let mut is_plain = text == plain;
    for limits in [small(), FoldLimits::one_row(), FoldLimits::text()] {
        // Each row may become a few thousand cells by a few bytes.
        let floor = (limits.rows.get() as u64) << 18;
        let lines = laws::bounded_above(floor, data, || folded(&pieces, limits));
        assert_eq!(lines, folded(&[data], limits), "a border changes a line");
        for (text, styled) in &lines {
            assert!(!text.contains(char::is_control), "{text:?}");
            assert_eq!(uncoloured(styled).trim_end_matches(' '), text.trim_end_matches(' '));
        }
        is_plain &= lines.iter().all(|(text, styled)| text == styled);
    }
    !is_plain
}

fn small() -> FoldLimits {
    let size = |size: usize| NonZeroUsize::new(size).expect("not nought");
    FoldLimits { rows: size(3), columns_max: size(10), ..FoldLimits::text() }
}

fn decoded(pieces: &[&[u8]]) -> String {
    let (mut view, mut text) = (Utf8View::default(), String::new());
    for piece in pieces {
        view.push(piece, &mut text);
        assert!(view.held() <= 3, "more is held than a character can have");
    }
    view.finish(&mut text);
    text
}

fn sanitized(pieces: &[&[u8]]) -> String {
    let (mut sanitize, mut shown) = (Sanitize::new(), String::new());
    pieces.iter().for_each(|piece| sanitize.push(piece, &mut shown));
    sanitize.finish(&mut shown);
    shown
}

fn folded(pieces: &[&[u8]], limits: FoldLimits) -> Vec<(String, String)> {
    let (mut fold, mut lines) = (Fold::new(limits), Vec::new());
    let mut finished = |line: Line<'_>| {
        lines.push((line.text.into_owned(), line.styled.into_owned()));
    };
    pieces.iter().for_each(|piece| fold.push(piece, &mut finished));
    fold.finish(&mut finished);
    lines
}

/// What is left without the sequences that set colours, each of which must be whole.
fn uncoloured(shown: &str) -> String {
    let mut parts = shown.split("\u{1b}[");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (parameters, rest) = part.split_once('m').expect("a sequence that sets colours");
        assert!(parameters.chars().all(|c| c.is_ascii_digit() || c == ';'), "{shown:?}");
        text.push_str(rest);
    }
    text
}
