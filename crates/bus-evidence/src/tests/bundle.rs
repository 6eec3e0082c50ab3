//! Honest bundles verify, unfinished ones are recognised, and nothing is overwritten.

use std::fs;

use bus_subjects::Role;

use super::support::{World, agent, found, judge, judge_dir, read};
use crate::{BundleError, BundleWriter, Counts, FindingKind, Log, Options, verify_files};

#[test]
fn an_honest_bundle_is_verified_under_the_trusted_account() {
    let world = World::new();
    let report = judge(&world, &world.story(4).files(&world.boss)).unwrap();
    let counts = Counts { certificates: 3, tasks: 4, receipts: 3, dead_letters: 1 };
    assert_eq!(report.counts, counts);
    assert_eq!((report.verdict(), &*report.completeness()), ("verified", "completeness unknown"));
    assert_eq!((report.chains, report.tasks_open, report.recorder.as_str()), (3, 0, "boss"));
    let signed: Vec<_> = report.signers.iter().map(|s| (s.agent.as_str(), s.envelopes)).collect();
    assert_eq!(signed, [("ann", 3), ("bob", 1), ("boss", 4)]);
}

#[test]
fn without_a_trusted_account_the_signer_is_unknown() {
    let world = World::new();
    let files = world.story(2).files(&world.boss);
    let report = verify_files(&files, &Options::default()).unwrap();
    assert_eq!(report.verdict(), "consistent, signer unknown");
}

#[test]
fn a_bundle_without_tasks_is_verified() {
    let world = World::new();
    let mut story = world.story(1);
    (story.tasks, story.dead_letters) = (Vec::new(), Vec::new());
    let report = judge(&world, &story.files(&world.boss)).unwrap();
    assert_eq!((report.counts.tasks, report.chains), (0, 0));
}

#[test]
fn a_task_without_receipt_and_dead_letter_is_open() {
    let world = World::new();
    let mut story = world.story(3);
    story.dead_letters.clear();
    assert_eq!(judge(&world, &story.files(&world.boss)).unwrap().tasks_open, 1);
}

#[test]
fn a_bundle_is_verified_where_it_was_written() {
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new").join("bundle");
    let summary = world.story(3).write(&path, &world.boss);
    assert_eq!(summary.entries["receipts"], 2);
    assert!(judge_dir(&world, &path).is_ok());
}

#[test]
fn the_report_names_the_verdict_first() {
    let world = World::new();
    let report = judge(&world, &world.story(2).files(&world.boss)).unwrap();
    let text = report.to_string();
    assert_eq!(text.lines().next(), Some("verified; completeness unknown"));
}

#[test]
fn a_bundle_never_overwrites_what_is_there() {
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    let workspace = &world.boss.certificate().workspace;
    let made = BundleWriter::create(dir.path(), workspace, &"s1".parse().unwrap());
    assert!(matches!(made, Err(BundleError::NotEmpty { .. })));
    assert_eq!(read(dir.path()).len(), 1);
}

#[test]
fn a_bundle_whose_writing_was_interrupted_is_incomplete() {
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let story = world.story(2);
    let workspace = &world.boss.certificate().workspace;
    let mut writer = BundleWriter::create(dir.path(), workspace, &"s1".parse().unwrap()).unwrap();
    writer.append(Log::Tasks, &story.tasks[0]).unwrap();
    drop(writer);
    assert_eq!(judge_dir(&world, dir.path()).unwrap_err().kind, FindingKind::Incomplete);
}

#[test]
fn an_envelope_of_another_log_is_not_written() {
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let workspace = &world.boss.certificate().workspace;
    let mut writer = BundleWriter::create(dir.path(), workspace, &"s1".parse().unwrap()).unwrap();
    let refused = writer.append(Log::Receipts, &world.story(2).tasks[0]);
    assert!(matches!(refused, Err(BundleError::Misplaced { .. })));
}

#[test]
fn an_envelope_of_another_session_is_not_written() {
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let workspace = &world.boss.certificate().workspace;
    let mut writer = BundleWriter::create(dir.path(), workspace, &"s2".parse().unwrap()).unwrap();
    let refused = writer.append(Log::Receipts, &world.story(2).receipts[0]);
    assert!(matches!(refused, Err(BundleError::Misplaced { .. })));
}

#[test]
fn a_worker_may_not_sign_the_checkpoints() {
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let own = world.ann.certificate();
    let mut writer =
        BundleWriter::create(dir.path(), &own.workspace, &"s1".parse().unwrap()).unwrap();
    writer.certificate(own.token()).unwrap();
    let refused = writer.finish(world.ann.key(), &own.agent);
    assert!(matches!(refused, Err(BundleError::Recorder(_))));
}

#[test]
fn a_recorder_needs_its_certificate_in_the_bundle() {
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let own = world.boss.certificate();
    let writer = BundleWriter::create(dir.path(), &own.workspace, &"s1".parse().unwrap()).unwrap();
    let refused = writer.finish(world.boss.key(), &own.agent);
    assert!(matches!(refused, Err(BundleError::Recorder(_))));
}

#[test]
fn a_certificate_of_another_workspace_is_not_written() {
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let workspace = &world.boss.certificate().workspace;
    let mut writer = BundleWriter::create(dir.path(), workspace, &"s1".parse().unwrap()).unwrap();
    let stranger = agent(&world.account, "w2", "ann", Role::Worker, 9);
    let refused = writer.certificate(stranger.certificate().token());
    assert!(matches!(refused, Err(BundleError::Certificate(_))));
}

#[test]
fn every_file_of_a_bundle_is_needed() {
    let world = World::new();
    let whole = world.story(2).files(&world.boss);
    for file in whole.keys() {
        let mut files = whole.clone();
        files.remove(file);
        let kind = if file.ends_with(".jsonl") {
            FindingKind::MissingFile
        } else {
            FindingKind::Incomplete
        };
        assert_eq!(found(&world, &files), (kind, file.clone(), None));
    }
}

#[test]
fn a_file_that_is_no_part_of_a_bundle_is_found() {
    let world = World::new();
    let mut files = world.story(2).files(&world.boss);
    files.insert("receipts.jsonl.bak".into(), Vec::new());
    let expected = (FindingKind::UnexpectedFile, "receipts.jsonl.bak".into(), None);
    assert_eq!(found(&world, &files), expected);
}

#[cfg(unix)]
#[test]
fn a_link_in_place_of_a_log_is_found() {
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bundle");
    world.story(2).write(&path, &world.boss);
    let (log, elsewhere) = (path.join("tasks.jsonl"), dir.path().join("tasks.jsonl"));
    fs::rename(&log, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &log).unwrap();
    assert_eq!(judge_dir(&world, &path).unwrap_err().kind, FindingKind::UnreadableFile);
}

#[test]
fn a_directory_that_is_not_there_is_a_finding() {
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let finding = judge_dir(&world, &dir.path().join("nowhere")).unwrap_err();
    assert_eq!(finding.kind, FindingKind::UnreadableFile);
}

#[cfg(unix)]
#[test]
fn the_files_of_a_bundle_are_not_writable_for_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bundle");
    world.story(2).write(&path, &world.boss);
    for entry in path.read_dir().unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o133, 0, "{mode:o}");
    }
}
