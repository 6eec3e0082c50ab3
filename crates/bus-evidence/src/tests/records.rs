//! Bundles of records alone: of a session whose tasks are not kept any more.

use super::support::{Files, Story, World, edit, found, read};
use crate::{BundleError, BundleWriter, FindingKind, Log, Options, verify_files};

/// The files of a bundle of this story without its tasks.
fn files(world: &World, story: &Story) -> Files {
    let dir = tempfile::tempdir().unwrap();
    let place = world.boss.certificate();
    let session = "s1".parse().unwrap();
    let path = dir.path().join("bundle");
    let mut bundle = BundleWriter::records(&path, &place.workspace, &session).unwrap();
    for token in &story.certificates {
        bundle.certificate(token).unwrap();
    }
    for receipt in &story.receipts {
        bundle.append(Log::Receipts, receipt).unwrap();
    }
    for letter in &story.dead_letters {
        bundle.append(Log::DeadLetters, letter).unwrap();
    }
    bundle.finish(world.boss.key(), &place.agent).unwrap();
    read(&path)
}

#[test]
fn a_bundle_without_tasks_says_so() {
    let world = World::new();
    let report = verify_files(&files(&world, &world.story(3)), &world.trusting()).unwrap();
    assert_eq!(report.verdict(), "verified, tasks not shown");
    assert_eq!((report.counts.receipts, report.counts.tasks, report.tasks_open), (2, 0, 0));
    let said = "tasks: not in the bundle, so receipts are not held against them";
    assert!(report.to_string().lines().any(|line| line == said), "{report}");
    assert!(report.logs.iter().all(|log| log.log != "tasks"), "{:?}", report.logs);
}

#[test]
fn a_bundle_whose_tasks_are_required_is_refused_without_them() {
    let world = World::new();
    let options = Options { require_tasks: true, ..world.trusting() };
    let refused = verify_files(&files(&world, &world.story(3)), &options).unwrap_err();
    assert_eq!(refused.kind, FindingKind::TasksNotShown);
    assert!(verify_files(&world.story(3).files(&world.boss), &options).is_ok());
}

#[test]
fn a_bundle_with_half_of_its_tasks_files_is_refused() {
    let world = World::new();
    let whole = world.story(3).files(&world.boss);
    for (file, kind) in
        [("tasks.jsonl", FindingKind::MissingFile), ("tasks.checkpoint", FindingKind::Incomplete)]
    {
        let mut files = whole.clone();
        files.remove(file);
        assert_eq!(found(&world, &files), (kind, file.into(), None));
    }
}

#[test]
fn a_bundle_of_records_takes_no_task() {
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let workspace = &world.boss.certificate().workspace;
    let mut bundle = BundleWriter::records(dir.path(), workspace, &"s1".parse().unwrap()).unwrap();
    let refused = bundle.append(Log::Tasks, &world.story(1).tasks[0]);
    assert!(matches!(refused, Err(BundleError::Misplaced { log: Log::Tasks, .. })));
}

#[test]
fn without_tasks_two_receipts_for_one_cause_are_found_all_the_same() {
    let world = World::new();
    let mut story = world.story(3);
    story.add_receipt(&world.bob, 0);
    let expected = (FindingKind::ReceiptTwice, "receipts.jsonl".into(), Some(3));
    assert_eq!(found(&world, &files(&world, &story)), expected);
}

#[test]
fn without_tasks_a_receipt_that_was_taken_out_is_found_all_the_same() {
    let world = World::new();
    let mut files = files(&world, &world.story(4));
    edit(&mut files, "receipts.jsonl", |lines| drop(lines.remove(1)));
    assert_eq!(found(&world, &files).0, FindingKind::ChainGap);
}
