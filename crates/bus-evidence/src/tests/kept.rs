//! What only a checkpoint kept elsewhere can show.

use super::support::{Files, Story, World, judge, receipt, work_receipt};
use crate::{Checkpoint, FindingKind, Options, Report, verify_files};

/// Bundles of one session at two moments: with three receipts and with five.
fn two_exports(world: &World) -> (Files, Files) {
    let mut earlier = world.story(6);
    earlier.receipts.truncate(3);
    (earlier.files(&world.boss), world.story(6).files(&world.boss))
}

fn kept(files: &Files, log: &str) -> String {
    String::from_utf8(files[&format!("{log}.checkpoint")].clone()).unwrap()
}

fn judge_with(world: &World, files: &Files, kept: &[String]) -> Result<Report, FindingKind> {
    let options = Options { kept: kept.to_vec(), ..world.trusting() };
    verify_files(files, &options).map_err(|finding| finding.kind)
}

#[test]
fn an_older_genuine_checkpoint_hides_a_cut_off_tail() {
    let world = World::new();
    let (earlier, mut files) = two_exports(&world);
    for file in ["receipts.jsonl", "receipts.checkpoint"] {
        files.insert(file.into(), earlier[file].clone());
    }
    let report = judge(&world, &files).unwrap();
    assert_eq!(report.completeness(), "completeness unknown");
}

#[test]
fn a_kept_checkpoint_shows_the_cut_off_tail() {
    let world = World::new();
    let (earlier, mut files) = two_exports(&world);
    let kept = kept(&files, "receipts");
    for file in ["receipts.jsonl", "receipts.checkpoint"] {
        files.insert(file.into(), earlier[file].clone());
    }
    assert_eq!(judge_with(&world, &files, &[kept]).unwrap_err(), FindingKind::CutTail);
}

#[test]
fn a_bundle_that_goes_on_from_the_kept_checkpoint_is_complete_against_it() {
    let world = World::new();
    let (earlier, files) = two_exports(&world);
    let kept = [kept(&earlier, "receipts"), kept(&files, "tasks")];
    let report = judge_with(&world, &files, &kept).unwrap();
    let words = "complete against the kept checkpoint: tasks, receipts; \
                 unknown: certificates, dead-letters";
    assert_eq!(report.completeness(), words);
    let kept: Vec<_> = report.kept.iter().map(|kept| (kept.entries, kept.entries_now)).collect();
    assert_eq!(kept, [(3, 5), (6, 6)]);
}

#[test]
fn a_history_that_was_written_anew_is_found() {
    let world = World::new();
    let (earlier, _) = two_exports(&world);
    let mut story: Story = world.story(6);
    // The same workers tell another story: the chain is whole, and everything is signed.
    let first = receipt(&world.bob, &story.tasks[0], None);
    let second = receipt(&world.bob, &story.tasks[1], Some(&first));
    let third = receipt(&world.bob, &story.tasks[2], Some(&second));
    story.receipts = vec![first, second, third];
    let files = story.files(&world.boss);
    let kept = kept(&earlier, "receipts");
    assert_eq!(judge_with(&world, &files, &[kept]).unwrap_err(), FindingKind::Rewritten);
}

#[test]
fn a_kept_checkpoint_of_another_session_is_refused() {
    let world = World::new();
    let (_, files) = two_exports(&world);
    let other =
        Checkpoint::sign("vakbus/w1/s2/receipts", 0, [0; 32], "boss", world.boss.key()).unwrap();
    let kept = [other.text().to_owned()];
    assert_eq!(judge_with(&world, &files, &kept).unwrap_err(), FindingKind::KeptForeign);
}

#[test]
fn a_kept_checkpoint_with_a_forged_size_is_refused() {
    let world = World::new();
    let (_, files) = two_exports(&world);
    let kept = kept(&files, "receipts").replace("\n5\n", "\n4\n");
    let kind = judge_with(&world, &files, &[kept]).unwrap_err();
    assert_eq!(kind, FindingKind::CheckpointSignature);
}

#[test]
fn a_kept_checkpoint_by_an_unknown_signer_is_refused() {
    let world = World::new();
    let (_, files) = two_exports(&world);
    let other =
        Checkpoint::sign("vakbus/w1/s1/receipts", 0, [0; 32], "zoe", world.boss.key()).unwrap();
    let kind = judge_with(&world, &files, &[other.text().to_owned()]).unwrap_err();
    assert_eq!(kind, FindingKind::CheckpointSigner);
}

#[test]
fn a_kept_text_that_is_no_checkpoint_is_refused() {
    let world = World::new();
    let (_, files) = two_exports(&world);
    let text = String::from_utf8(work_receipt(&world.ann, "task-1").to_json()).unwrap();
    let kind = judge_with(&world, &files, &[text]).unwrap_err();
    assert_eq!(kind, FindingKind::CheckpointForm);
}
