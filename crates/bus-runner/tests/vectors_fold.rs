//! Real and made-up terminal output, folded to lines and held against what terminals show.
#![cfg(test)]

use std::num::{NonZeroU16, NonZeroUsize};

use bus_runner::{Fold, FoldLimits};
use serde_json::Value;

/// Cases that different terminals answer differently, with our answer.
const OURS: &[(&str, &[&str])] = &[
    // The thumb is two columns wide, as Unicode says; the emulator of the vector takes it for one.
    ("fold-45", &["X  ok"]),
];

#[test]
fn lines_are_those_of_a_terminal() {
    let mut wrong = Vec::new();
    let cases = cases("terminal/fold.json", 69);
    for case in &cases {
        let bytes = bus_testdata::hex(case["hex"].as_str().unwrap());
        let id = case["id"].as_str().unwrap();
        let ours = OURS.iter().find(|(one, _)| *one == id);
        let expected = ours.map_or_else(
            || texts(&case["lines"]),
            |(_, lines)| lines.iter().map(ToString::to_string).collect(),
        );
        let lines = folded(&[bytes], FoldLimits::text());
        if lines != expected {
            wrong.push((id.to_owned(), lines, expected));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_tools_print_on_a_terminal_becomes_the_lines_that_it_keeps() {
    let mut wrong = Vec::new();
    for case in cases("terminal/captures.json", 20) {
        let chunks: Vec<_> =
            texts(&case["chunks"]).iter().map(|one| bus_testdata::hex(one)).collect();
        for columns in [None, NonZeroU16::new(100)] {
            let lines = folded(&chunks, terminal(40, columns));
            if lines != texts(&case["lines"]) {
                wrong.push((case["id"].clone(), columns, lines, texts(&case["lines"])));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What is dropped here, and the screens that need it.
const OTHER_SCREENS: &[(&str, &[&str])] = &[
    ("scrolls by itself", &["t0016-SU", "t0017-SD", "t0060-DECSC", "t0061-CSI_s"]),
    ("inserts and deletes rows", &["t0051-IL", "t0052-DL"]),
    (
        "scrolls a region",
        &[
            "t0070-DECSTBM_LF",
            "t0071-DECSTBM_IND",
            "t0072-DECSTBM_NEL",
            "t0073-DECSTBM_RI",
            "t0074-DECSTBM_SU_SD",
            "t0075-DECSTBM_CUU_CUD",
            "t0076-DECSTBM_IL_DL",
            "t0077-DECSTBM_quirks",
            "t0078-DECSTBM_CPL_CNL",
            "t600-DECSTBM_SR",
            "t601-DECSTBM_SL",
            "t602-DECSTBM_DECIC",
            "t603-DECSTBM_DECDC",
        ],
    ),
    ("sets tab stops", &["t0081-TBC", "t0082-HTS", "t0083-CHT"]),
    (
        "has a second screen",
        &["t0090-alt_screen", "t0091-alt_screen_ED3", "t0092-alt_screen_DECSC"],
    ),
    ("switches modes", &["t0100-IRM", "t0102-DECAWM", "t0300-vttest1"]),
];

#[test]
fn screens_are_those_of_a_terminal_where_its_controls_are_supported() {
    let mut wrong = Vec::new();
    for case in cases("terminal/xtermjs_screens.json", 67) {
        let id = case["id"].as_str().unwrap();
        let bytes = bus_testdata::hex(case["hex"].as_str().unwrap());
        let screen = screen(&bytes, 25, 80);
        let is_other = OTHER_SCREENS.iter().any(|(_, ids)| ids.contains(&id));
        if (screen == texts(&case["screen"])) == is_other {
            wrong.push((id.to_owned(), screen, texts(&case["screen"])));
        }
    }
    assert!(wrong.is_empty(), "{} {wrong:#?}", wrong.len());
}

#[test]
fn whole_sessions_leave_the_lines_that_another_terminal_keeps() {
    let mut wrong = Vec::new();
    for case in cases("terminal/alacritty_screens.json", 6) {
        let size = |name: &str| u16::try_from(case[name].as_u64().unwrap()).unwrap();
        let bytes = bus_testdata::hex(case["hex"].as_str().unwrap());
        let limits = terminal(size("rows"), NonZeroU16::new(size("columns")));
        let lines = folded(&[bytes], limits);
        let is_other =
            ["origin_goto", "vttest_tab_clear_set"].contains(&case["id"].as_str().unwrap());
        if (lines == texts(&case["lines"])) == is_other {
            wrong.push((case["id"].clone(), lines, texts(&case["lines"])));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// All lines, which must be the same whole, chunk by chunk and byte by byte.
fn folded(chunks: &[Vec<u8>], limits: FoldLimits) -> Vec<String> {
    let whole = chunks.concat();
    let lines = fold(&[&whole], limits);
    let chunks: Vec<_> = chunks.iter().map(Vec::as_slice).collect();
    assert_eq!(fold(&chunks, limits), lines, "chunk by chunk");
    assert_eq!(fold(&whole.chunks(1).collect::<Vec<_>>(), limits), lines, "byte by byte");
    lines
}

fn fold(pieces: &[&[u8]], limits: FoldLimits) -> Vec<String> {
    let (mut fold, mut lines) = (Fold::new(limits), Vec::new());
    let mut finished = |line: bus_runner::Line<'_>| lines.push(line.text.trim_end().to_owned());
    pieces.iter().for_each(|piece| fold.push(piece, &mut finished));
    fold.finish(&mut finished);
    without_blank_end(lines)
}

/// What is on the screen in the end, without what left it at the top.
fn screen(bytes: &[u8], rows: u16, columns: u16) -> Vec<String> {
    let mut fold = Fold::new(terminal(rows, NonZeroU16::new(columns)));
    fold.push(bytes, &mut |_| {});
    without_blank_end(fold.lines().map(|line| line.text.trim_end().to_owned()).collect())
}

/// The output of a terminal of this size.
fn terminal(rows: u16, columns: Option<NonZeroU16>) -> FoldLimits {
    let rows = NonZeroUsize::new(rows.into()).unwrap();
    FoldLimits { rows, columns, is_newline_cr: false, ..FoldLimits::text() }
}

fn without_blank_end(mut lines: Vec<String>) -> Vec<String> {
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

fn cases(file: &str, count: usize) -> Vec<Value> {
    let Some(document) = bus_testdata::json(file) else { return Vec::new() };
    let cases = document["cases"].as_array().unwrap().clone();
    assert_eq!(cases.len(), count, "number of cases");
    cases
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}
