//! Sequences and characters that are cut anywhere.
#![cfg(test)]

use bus_runner::{Fold, FoldLimits};
use serde_json::Value;

#[test]
fn an_unfinished_sequence_shows_nothing() {
    let Some(document) = bus_testdata::json("terminal/partial_sequences.json") else { return };
    let cases = document["cases"].as_array().unwrap();
    let (mut wrong, mut bytes_seen) = (Vec::new(), 0);
    for case in cases {
        let bytes = bus_testdata::hex(case["hex"].as_str().unwrap());
        bytes_seen += bytes.len();
        let mut fold = Fold::new(FoldLimits::text());
        let seen: Vec<String> = bytes
            .iter()
            .map(|byte| {
                fold.push(&[*byte], &mut |line| panic!("{line:?} left a screen of 64 rows"));
                visible(&fold)
            })
            .collect();
        let mut whole = Fold::new(FoldLimits::text());
        whole.push(&bytes, &mut |_| {});
        let last = texts(&case["final"]).join("\n");
        if seen != texts(&case["visible_after_byte"]) || visible(&whole) != last {
            wrong.push((case["id"].clone(), seen));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!((cases.len(), bytes_seen), (21, 249), "number of cases and bytes");
}

fn visible(fold: &Fold) -> String {
    fold.lines().map(|line| line.text.into_owned()).collect::<Vec<_>>().join("\n")
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}
