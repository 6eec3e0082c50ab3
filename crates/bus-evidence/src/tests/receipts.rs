//! Receipts against the tasks they answer.

use super::support::{
    RECEIPTS, World, draft, found, judge, receipt_draft, receipt_head, stamp, work_receipt,
};
use crate::{FindingKind, RECEIPT_COMPLETED};

const FILE: &str = "receipts.jsonl";

#[test]
fn a_second_receipt_for_one_task_is_found() {
    let world = World::new();
    let mut story = world.story(3);
    story.add_receipt(&world.bob, 0);
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::ReceiptTwice, FILE.into(), Some(3)));
}

#[test]
fn a_receipt_for_a_task_that_is_not_there_is_found() {
    let world = World::new();
    let mut story = world.story(3);
    story.tasks.pop();
    story.add_receipt(&world.bob, 1);
    let mut other = receipt_draft(&world.ann, &story.tasks[0]);
    other.cause = Some(story.receipts[0].compute_hash());
    story.receipts.truncate(2);
    let head = receipt_head(story.receipts.last());
    story.receipts.push(stamp(&world.ann, other, head));
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::ReceiptWithoutTask, FILE.into(), Some(3)));
}

#[test]
fn a_receipt_that_names_no_task_is_found() {
    let world = World::new();
    let mut story = world.story(3);
    let mut other = receipt_draft(&world.ann, &story.tasks[2]);
    other.cause = None;
    story.receipts.push(stamp(&world.ann, other, receipt_head(story.receipts.last())));
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::ReceiptWithoutTask, FILE.into(), Some(3)));
}

#[test]
fn a_receipt_that_speaks_of_another_task_than_it_answers_is_found() {
    let world = World::new();
    let mut story = world.story(3);
    let mut other = receipt_draft(&world.ann, &story.tasks[2]);
    other.payload = work_receipt(&world.ann, "task-1").to_json().into();
    story.receipts.push(stamp(&world.ann, other, receipt_head(story.receipts.last())));
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::ReceiptMismatch, FILE.into(), Some(3)));
}

#[test]
fn a_receipt_in_the_name_of_another_worker_is_found() {
    let world = World::new();
    let mut story = world.story(3);
    let mut other = receipt_draft(&world.ann, &story.tasks[2]);
    other.payload = work_receipt(&world.bob, "task-3").to_json().into();
    story.receipts.push(stamp(&world.ann, other, receipt_head(story.receipts.last())));
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::ReceiptMismatch, FILE.into(), Some(3)));
}

#[test]
fn a_receipt_whose_payload_is_no_work_receipt_is_found() {
    let world = World::new();
    let mut story = world.story(3);
    let mut other = receipt_draft(&world.ann, &story.tasks[2]);
    other.payload = "{}".into();
    story.receipts.push(stamp(&world.ann, other, receipt_head(story.receipts.last())));
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::ReceiptForm, FILE.into(), Some(3)));
}

#[test]
fn a_sealed_receipt_is_verified_without_its_key() {
    let world = World::new();
    let mut story = world.story(3);
    let plain = receipt_draft(&world.ann, &story.tasks[2]);
    let mut sealed = stamp(&world.ann, plain, receipt_head(story.receipts.last()));
    sealed.seal = Some(bus_envelope::Seal {
        key_id: "w1.main.1".into(),
        algorithm: "AES-256-GCM".into(),
        nonce: [3; 12],
    });
    sealed.payload = vec![0xff, 0x00, 0xfe].into();
    story.receipts.push(super::support::sign(&world.ann, sealed));
    story.dead_letters.clear();
    let report = judge(&world, &story.files(&world.boss)).unwrap();
    assert_eq!((report.counts.receipts, report.tasks_open), (3, 0));
}

#[test]
fn a_task_with_a_receipt_and_a_dead_letter_is_counted() {
    let world = World::new();
    let mut story = world.story(3);
    story.add_dead_letter(&world.ann, 0);
    story.add_dead_letter(&world.ann, 0);
    let report = judge(&world, &story.files(&world.boss)).unwrap();
    assert_eq!((report.tasks_twice, report.tasks_open), (1, 0));
}

#[test]
fn the_report_shows_tasks_with_a_receipt_and_a_dead_letter() {
    let world = World::new();
    let mut story = world.story(3);
    story.add_dead_letter(&world.ann, 0);
    let text = judge(&world, &story.files(&world.boss)).unwrap().to_string();
    let line = "3 tasks (0 open, 1 with both receipt and dead letter), 2 receipts, \
                2 dead letters, 3 certificates, 3 chains";
    assert_eq!(text.lines().nth(3), Some(line));
}

#[test]
fn other_evidence_on_the_receipts_subject_needs_no_task() {
    let world = World::new();
    let mut story = world.story(3);
    let note = draft(RECEIPTS, "vak.receipt.note");
    assert_ne!(note.event_type, RECEIPT_COMPLETED);
    story.receipts.push(stamp(&world.ann, note, receipt_head(story.receipts.last())));
    assert!(judge(&world, &story.files(&world.boss)).is_ok());
}
