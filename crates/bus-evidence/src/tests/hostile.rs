//! Strangers' bytes: the verifier answers, and never panics.

use std::collections::HashSet;

use proptest::prelude::*;

use super::support::{Files, World, judge};
use crate::{Checkpoint, FindingKind, JsonlReader, Options, WorkReceipt, verify_files};

fn honest() -> Files {
    let world = World::new();
    world.story(3).files(&world.boss)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_bytes_in_place_of_a_file_make_the_verifier_panic(
        file in 0_usize..8,
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let mut files = honest();
        let name = files.keys().nth(file).unwrap().clone();
        files.insert(name, bytes);
        prop_assert!(verify_files(&files, &Options::default()).is_err());
    }

    #[test]
    fn no_bytes_put_into_a_file_go_unnoticed(
        file in 0_usize..8,
        at in any::<prop::sample::Index>(),
        cut in 0_usize..40,
        bytes in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let world = World::new();
        let mut files = honest();
        let name = files.keys().nth(file).unwrap().clone();
        let old = files[&name].clone();
        let mut new = old.clone();
        let at = at.index(new.len() + 1);
        new.splice(at..(at + cut).min(old.len()), bytes);
        prop_assume!(new != old);
        files.insert(name, new);
        prop_assert!(judge(&world, &files).is_err());
    }

    #[test]
    fn a_checkpoint_that_is_read_is_written_the_same(text in "(a|b/c)\n[0-9]{1,3}\n[A-Za-z0-9+/]{42}[AEQg]=\n\n(\u{2014} [a-z]{1,3} [A-Za-z0-9+/]{92}\n){1,2}") {
        if let Ok(checkpoint) = Checkpoint::parse(&text) {
            prop_assert_eq!(checkpoint.text(), text);
        }
    }

    #[test]
    fn no_text_makes_the_readers_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _any = Checkpoint::parse(&String::from_utf8_lossy(&bytes));
        let _any = WorkReceipt::parse(&bytes);
        let items = JsonlReader::new(bytes.as_slice()).count();
        prop_assert!(items <= bytes.len());
    }
}

#[test]
fn every_kind_of_finding_has_a_code_of_its_own() {
    let codes: HashSet<_> = FindingKind::ALL.iter().map(|kind| kind.code()).collect();
    assert_eq!(codes.len(), FindingKind::ALL.len());
}

#[test]
fn a_finding_reads_as_one_sentence() {
    let world = World::new();
    let mut files = honest();
    super::support::edit(&mut files, "receipts.jsonl", |lines| drop(lines.remove(0)));
    let finding = judge(&world, &files).unwrap_err();
    let expected =
        "receipts.jsonl line 1: gap in the chain: 1 missing before number 2, the first one here";
    assert_eq!(finding.to_string(), expected);
}

#[test]
fn a_finding_as_json_carries_its_code() {
    let world = World::new();
    let mut files = honest();
    files.remove("tasks.checkpoint");
    let finding = judge(&world, &files).unwrap_err();
    let json = serde_json::to_value(&finding).unwrap();
    assert_eq!((&json["kind"], &json["entry"]), (&"incomplete".into(), &serde_json::Value::Null));
}
