//! What holds of text whatever comes in, and wherever it is cut.
#![cfg(test)]

use std::num::{NonZeroU16, NonZeroUsize};

use bus_runner::{Fold, FoldLimits, Sanitize, Utf8View};
use proptest::prelude::*;

/// Pieces that real output is made of, and pieces of them.
const PIECES: &[&str] = &[
    "plain text ",
    "é",
    "日本",
    "👍",
    "e\u{301}",
    "\u{200b}",
    "\u{feff}",
    "\u{202e}",
    "°",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\u{8}",
    "\u{b}",
    "\u{7}",
    "\u{0}",
    "\u{e}",
    "\u{7f}",
    "\u{18}",
    "\u{1a}",
    "\u{1b}",
    "\u{1b}[",
    "\u{1b}[31m",
    "\u{1b}[1;4;38;5;200m",
    "\u{1b}[48:2::1:2:3m",
    "\u{1b}[m",
    "\u{1b}[8m",
    "\u{9b}32m",
    "\u{9b}",
    "\u{85}",
    "\u{8d}",
    "\u{9d}0;t\u{9c}",
    "\u{90}q\u{9c}",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]8;;http://x/\u{1b}\\",
    "\u{1b}]",
    "\u{1b}P1$rÜ✔",
    "\u{1b}\\",
    "\u{1b}_x\u{1b}\\",
    "\u{1b}(0lqk",
    "\u{1b}(B",
    "\u{1b}7",
    "\u{1b}8",
    "\u{1b}M",
    "\u{1b}D",
    "\u{1b}E",
    "\u{1b}c",
    "\u{1b}[2J",
    "\u{1b}[K",
    "\u{1b}[1K",
    "\u{1b}[2K",
    "\u{1b}[3D",
    "\u{1b}[2C",
    "\u{1b}[A",
    "\u{1b}[9;4H",
    "\u{1b}[B",
    "\u{1b}[P",
    "\u{1b}[2X",
    "\u{1b}[3@",
    "\u{1b}[4b",
    "\u{1b}[?25l",
    "\u{1b}[1;2r",
    "\u{1b}[?1049h",
    "\u{1b}[6n",
    "\u{1b}[9999C",
    "\u{1b}[>c",
    "\u{1b}[1:2:3:4:5;6;<m",
    "\u{1b}[ q",
    "30",
    ";",
    "m",
    "H",
    "\u{fffd}",
];

/// Output that may hold anything.
fn output() -> impl Strategy<Value = Vec<u8>> {
    let pieces = (0..PIECES.len()).prop_map(|at| PIECES[at].as_bytes().to_vec());
    let bytes = proptest::collection::vec(any::<u8>(), 1..4);
    let piece = prop_oneof![12 => pieces, 1 => bytes];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(1..9_usize, 0..60)
}

fn limits() -> impl Strategy<Value = FoldLimits> {
    let widths = prop_oneof![Just(None), (1..20_u16).prop_map(NonZeroU16::new)];
    (1..5_usize, widths, 1..40_usize, any::<bool>()).prop_map(
        |(rows, columns, columns_max, is_newline_cr)| FoldLimits {
            rows: NonZeroUsize::new(rows).unwrap(),
            columns,
            columns_max: NonZeroUsize::new(columns_max).unwrap(),
            is_newline_cr,
        },
    )
}

fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = bytes;
    let mut pieces: Vec<_> = cuts
        .iter()
        .map(|size| {
            let (piece, others) = rest.split_at((*size).min(rest.len()));
            rest = others;
            piece
        })
        .collect();
    pieces.push(rest);
    pieces
}

/// A line: its text, the same in colours, and whether it goes on in the next one.
type Folded = (String, String, bool);

fn folded(pieces: &[&[u8]], limits: FoldLimits) -> Vec<Folded> {
    let (mut fold, mut lines) = (Fold::new(limits), Vec::new());
    let mut finished = |line: bus_runner::Line<'_>| {
        lines.push((line.text.into_owned(), line.styled.into_owned(), line.is_cut));
    };
    pieces.iter().for_each(|piece| fold.push(piece, &mut finished));
    fold.finish(&mut finished);
    lines
}

fn sanitized(pieces: &[&[u8]]) -> String {
    let (mut sanitize, mut shown) = (Sanitize::new(), String::new());
    pieces.iter().for_each(|piece| sanitize.push(piece, &mut shown));
    sanitize.finish(&mut shown);
    shown
}

/// What is left of `shown` without the sequences that set colours.
fn uncoloured(shown: &str) -> String {
    let mut parts = shown.split("\u{1b}[");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (parameters, rest) = part.split_once('m').expect("a sequence that sets colours");
        assert!(parameters.chars().all(|c| matches!(c, '0'..='9' | ';' | ':')), "{shown:?}");
        text.push_str(rest);
    }
    text
}

fn is_closed(line: &str) -> bool {
    line.rfind("\u{1b}[").is_none_or(|at| line[at..].starts_with("\u{1b}[0m"))
}

proptest! {
    #[test]
    fn text_does_not_depend_on_the_cuts(output in output(), cuts in cuts()) {
        let (mut view, mut text) = (Utf8View::default(), String::new());
        for piece in pieces(&output, &cuts) {
            view.push(piece, &mut text);
        }
        view.finish(&mut text);
        prop_assert_eq!(text, String::from_utf8_lossy(&output));
    }

    #[test]
    fn at_most_three_bytes_are_held(output in output(), cuts in cuts()) {
        let (mut view, mut text) = (Utf8View::default(), String::new());
        for piece in pieces(&output, &cuts) {
            view.push(piece, &mut text);
            prop_assert!(view.held() <= 3);
        }
    }

    #[test]
    fn folding_does_not_depend_on_the_cuts(
        output in output(), cuts in cuts(), limits in limits(),
    ) {
        prop_assert_eq!(folded(&pieces(&output, &cuts), limits), folded(&[&output], limits));
    }

    #[test]
    fn what_is_shown_does_not_depend_on_the_cuts(output in output(), cuts in cuts()) {
        prop_assert_eq!(sanitized(&pieces(&output, &cuts)), sanitized(&[&output]));
    }

    #[test]
    fn a_folded_text_folds_to_itself(output in output(), limits in limits()) {
        let lines = |output: &str| -> String {
            let lines = folded(&[output.as_bytes()], FoldLimits { columns: None, ..limits });
            let ends = lines.iter().map(|(text, _, is_cut)| (text, if *is_cut { "" } else { "\n" }));
            let text: String = ends.map(|(text, end)| format!("{text}{end}")).collect();
            // A row that is full keeps its last blanks, also when what followed is erased again.
            let text: Vec<&str> = text.lines().map(|line| line.trim_end_matches(' ')).collect();
            text.join("\n").trim_end_matches('\n').to_owned()
        };
        let once = lines(&String::from_utf8_lossy(&output));
        // Only a pipe's line feed returns to the left.
        let again = if limits.is_newline_cr { lines(&once) } else { lines(&once.replace('\n', "\r\n")) };
        prop_assert_eq!(again, once);
    }

    #[test]
    fn what_is_shown_steers_no_terminal(output in output(), limits in limits()) {
        let shown = uncoloured(&sanitized(&[&output]));
        prop_assert!(!shown.contains(|c: char| c.is_control() && !"\n\t".contains(c)), "{shown:?}");
        for (text, styled, _) in folded(&[&output], limits) {
            prop_assert!(!uncoloured(&styled).contains(char::is_control), "{styled:?}");
            prop_assert!(!text.contains(char::is_control), "{text:?}");
        }
        let line = uncoloured(&Sanitize::line(&output));
        prop_assert!(!line.contains(char::is_control), "{line:?}");
    }

    #[test]
    fn colours_end_with_their_line(output in output(), limits in limits()) {
        let shown = sanitized(&[&output]);
        prop_assert!(shown.split('\n').all(is_closed), "{shown:?}");
        for (_, styled, _) in folded(&[&output], limits) {
            prop_assert!(is_closed(&styled), "{styled:?}");
        }
    }

    #[test]
    fn colours_change_nothing_of_the_text(output in output(), limits in limits()) {
        for (text, styled, is_cut) in folded(&[&output], limits) {
            let styled = uncoloured(&styled);
            // A coloured blank is shown, also at the end of a line.
            let styled = if is_cut { &styled } else { styled.trim_end_matches(' ') };
            prop_assert_eq!(styled, text);
        }
    }

    #[test]
    fn text_is_never_lost(
        parts in proptest::collection::vec((".{0,6}", 0..SEQUENCES.len()), 0..20),
    ) {
        let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let is_shown = |c: &char| !c.is_control() && *c != '\u{feff}' && !turns(*c);
        let words = parts.iter().flat_map(|(word, _)| word.chars()).filter(is_shown);
        let words: String = words.collect();
        let output: String = parts
            .iter()
            .map(|(word, at)| word.chars().filter(is_shown).collect::<String>() + SEQUENCES[*at])
            .collect();
        prop_assert_eq!(uncoloured(&sanitized(&[output.as_bytes()])), words.clone());
        let lines = folded(&[output.as_bytes()], FoldLimits::one_row());
        let text: String = lines.into_iter().map(|(text, _, _)| text).collect();
        let printed = |text: &str| -> String {
            // Marks are bounded, and so not promised.
            text.chars().filter(|c| c.is_alphanumeric() && c.is_ascii()).collect()
        };
        prop_assert_eq!(printed(&text), printed(&words));
    }
}

/// Whole sequences that move nothing.
const SEQUENCES: &[&str] = &[
    "",
    "\u{1b}[31m",
    "\u{1b}[0m",
    "\u{9b}1m",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]2;t\u{1b}\\",
    "\u{1b}Pq#0\u{9c}",
    "\u{1b}P1✔\u{1b}\\",
    "\u{1b}_apc\u{1b}\\",
    "\u{1b}^pm\u{9c}",
    "\u{1b}[?25l",
    "\u{1b}[1;2r",
    "\u{1b}[6n",
    "\u{7}",
    "\u{1b}(B",
    "\u{1b}[3\u{18}",
    "\u{1b}[1;2;3;<m",
    "\u{1b}[!p",
    "\u{1b}=",
];
