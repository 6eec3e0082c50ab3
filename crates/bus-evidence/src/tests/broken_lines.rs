//! A payload that is not sealed and has line breaks: nobody keeps a session from being exported by
//! how it writes.

use bus_envelope::wire::json;
use data_encoding::BASE64;

use super::support::{Files, Story, World, judge, receipt, receipt_draft, receipt_head, stamp};
use crate::{FindingKind, Proof, SessionHead, SessionLog, verify_proof};

/// A story whose second receipt is written over several lines.
fn story(world: &World) -> Story {
    let mut story = world.story(2);
    let first = receipt(&world.ann, &story.tasks[0], None);
    let mut draft = receipt_draft(&world.bob, &story.tasks[1]);
    let text = String::from_utf8(draft.payload.to_vec()).unwrap();
    draft.payload = text.replace(',', ",\n").into();
    let second = stamp(&world.bob, draft, receipt_head(Some(&first)));
    story.receipts = vec![first, second];
    story.dead_letters.clear();
    story
}

fn line(files: &Files) -> String {
    let text = String::from_utf8(files["receipts.jsonl"].clone()).unwrap();
    text.lines().nth(1).unwrap().to_owned()
}

#[test]
fn it_stands_on_one_line_and_counts_like_any_other() {
    let world = World::new();
    let story = story(&world);
    let files = story.files(&world.boss);
    let read: serde_json::Value = serde_json::from_str(&line(&files)).unwrap();
    let inner = BASE64.decode(read["json_base64"].as_str().unwrap().as_bytes()).unwrap();
    assert_eq!(json::decode(&inner).unwrap(), story.receipts[1]);
    let report = judge(&world, &files).unwrap();
    assert_eq!((report.counts.receipts, report.tasks_open), (2, 0));
}

#[test]
fn what_fits_on_a_line_is_not_taken_in_another_form() {
    let world = World::new();
    let story = world.story(2);
    let mut files = story.files(&world.boss);
    let plain = json::encode(&story.receipts[0]);
    let wrapped = format!("{{\"json_base64\":\"{}\"}}\n", BASE64.encode(&plain));
    files.insert("receipts.jsonl".into(), wrapped.into_bytes());
    assert_eq!(judge(&world, &files).unwrap_err().kind, FindingKind::NotCanonical);
}

#[test]
fn a_line_of_that_form_that_holds_no_envelope_is_none() {
    let world = World::new();
    let files = story(&world).files(&world.boss);
    let whole = line(&files);
    for other in [whole.replace("==", "="), r#"{"json_base64":"e30="}"#.into(), "{}".into()] {
        let mut changed = files.clone();
        let text = String::from_utf8(files["receipts.jsonl"].clone()).unwrap();
        let text = text.replace(&whole, &other);
        if text.as_bytes() == files["receipts.jsonl"] {
            continue;
        }
        changed.insert("receipts.jsonl".into(), text.into_bytes());
        assert_eq!(
            judge(&world, &changed).unwrap_err().kind,
            FindingKind::UnreadableLine,
            "{other}"
        );
    }
}

#[test]
fn heads_and_proofs_are_of_the_lines_that_a_bundle_has() {
    let world = World::new();
    let story = story(&world);
    let (workspace, session) = ("w1".parse().unwrap(), "s1".parse().unwrap());
    let mut log = SessionLog::receipts(&workspace, &session);
    let mut head = SessionHead::receipts(&workspace, &session);
    for receipt in &story.receipts {
        assert_eq!(log.append(receipt).unwrap(), head.append(receipt).unwrap());
    }
    let signed = head.checkpoint(&world.boss).unwrap();
    assert_eq!(signed, log.checkpoint(&world.boss).unwrap());
    let files = story.files(&world.boss);
    let text = String::from_utf8(files["receipts.checkpoint"].clone()).unwrap();
    assert_eq!(signed.text(), text);
    let signer = world.bob.certificate();
    let proof = log.inclusion(1, &story.receipts[1], signer, &world.boss).unwrap();
    let text = Proof::Inclusion(proof).to_string();
    verify_proof(&text, &world.trusting()).unwrap();
}
