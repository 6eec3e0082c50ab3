//! UTF-8 in pieces, held against other decoders.
#![cfg(test)]

use bus_runner::Utf8View;
use serde_json::Value;

#[test]
fn lossy_text_is_the_standard_one() {
    let cases = cases("utf8/utf8tests.json", 222);
    let mut wrong = Vec::new();
    for case in &cases {
        let bytes = hex(&case["hex"]);
        let expected = case.get("replace_hex").map_or_else(|| bytes.clone(), hex);
        let expected = String::from_utf8(expected).unwrap();
        let cut_in_two = (0..=bytes.len()).map(|at| <[_; 2]>::from(bytes.split_at(at)));
        let is_right = cut_in_two.map(|pieces| text(&pieces)).all(|text| text == expected);
        if !is_right || text(&bytes.chunks(1).collect::<Vec<_>>()) != expected {
            wrong.push(case["id"].clone());
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Chunks where the decoder of the vectors tells later than ours: the first two bytes of a
/// surrogate can no more become a character, and it waits for the third.
const TOLD_EARLIER: &[(&[&str], &[&str])] = &[
    (&["eda0", "80"], &["\u{fffd}\u{fffd}", "\u{fffd}"]),
    (&["ed", "a0", "80"], &["", "\u{fffd}\u{fffd}", "\u{fffd}"]),
];

#[test]
fn no_border_makes_a_mark() {
    let cases = cases("utf8/stream_splits.json", 113);
    for case in &cases {
        let (mut view, mut whole) = (Utf8View::default(), String::new());
        let chunks = texts(&case["chunks"]);
        let ours = TOLD_EARLIER.iter().find(|(those, _)| *those == chunks);
        let emitted = ours.map_or_else(|| texts(&case["emitted"]), |(_, ours)| ours.to_vec());
        for (chunk, emitted) in chunks.iter().zip(emitted) {
            let before = whole.len();
            view.push(&bus_testdata::hex(chunk), &mut whole);
            assert_eq!(&whole[before..], emitted, "{case}");
        }
        let before = whole.len();
        view.finish(&mut whole);
        assert_eq!(whole[before..], *case["at_end"].as_str().unwrap(), "{case}");
        assert_eq!(whole, case["whole"].as_str().unwrap());
    }
}

fn text(pieces: &[&[u8]]) -> String {
    let (mut view, mut text) = (Utf8View::default(), String::new());
    pieces.iter().for_each(|piece| view.push(piece, &mut text));
    view.finish(&mut text);
    text
}

fn cases(file: &str, count: usize) -> Vec<Value> {
    let Some(document) = bus_testdata::json(file) else { return Vec::new() };
    let cases = list(&document["cases"]).to_vec();
    assert_eq!(cases.len(), count, "number of cases");
    cases
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn texts(value: &Value) -> Vec<&str> {
    list(value).iter().map(|text| text.as_str().unwrap()).collect()
}

fn hex(value: &Value) -> Vec<u8> {
    bus_testdata::hex(value.as_str().unwrap())
}
