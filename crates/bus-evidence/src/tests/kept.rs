//! What only a checkpoint kept elsewhere can show.

use bus_envelope::tree::MerkleTree;

use super::support::{Files, Story, World, judge, receipt, work_receipt};
use crate::{Checkpoint, Completeness, FindingKind, Options, Report, verify_files};

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
fn a_bundle_that_goes_on_from_a_kept_checkpoint_agrees_with_it() {
    let world = World::new();
    let (earlier, files) = two_exports(&world);
    let kept = [kept(&earlier, "receipts"), kept(&files, "tasks")];
    let report = judge_with(&world, &files, &kept).unwrap();
    let kept: Vec<_> = report.kept.iter().map(|kept| (kept.entries, kept.entries_now)).collect();
    assert_eq!(kept, [(3, 5), (6, 6)]);
}

#[test]
fn a_log_is_complete_only_up_to_the_end_of_its_kept_checkpoint() {
    let world = World::new();
    let (earlier, files) = two_exports(&world);
    let kept = [kept(&earlier, "receipts"), kept(&files, "tasks")];
    let report = judge_with(&world, &files, &kept).unwrap();
    let words = "complete against the kept checkpoint: tasks; \
                 receipts complete up to entry 3 of 5, unknown after; \
                 unknown: certificates, dead-letters";
    assert_eq!(report.completeness(), words);
}

#[test]
fn a_kept_checkpoint_of_nothing_completes_nothing() {
    let world = World::new();
    let (_, files) = two_exports(&world);
    let (origin, root) = ("vakbus/w1/s1/receipts", *MerkleTree::new().root().as_bytes());
    let nothing = Checkpoint::sign(origin, 0, root, "boss", world.boss.key()).unwrap();
    let report = judge_with(&world, &files, &[nothing.text().to_owned()]).unwrap();
    let words = "receipts complete up to entry 0 of 5, unknown after; \
                 unknown: certificates, tasks, dead-letters";
    assert_eq!(report.completeness(), words);
}

#[test]
fn of_several_kept_checkpoints_of_a_log_the_largest_counts() {
    let world = World::new();
    let (earlier, files) = two_exports(&world);
    let kept = [kept(&files, "receipts"), kept(&earlier, "receipts")];
    let report = judge_with(&world, &files, &kept).unwrap();
    assert_eq!(report.logs[2].completeness, Completeness::Complete);
}

#[test]
fn a_bundle_is_complete_when_each_of_its_checkpoints_was_kept() {
    let world = World::new();
    let (_, files) = two_exports(&world);
    let kept = ["certificates", "tasks", "receipts", "dead-letters"].map(|log| kept(&files, log));
    let report = judge_with(&world, &files, &kept).unwrap();
    assert_eq!(report.completeness(), "complete against the kept checkpoints");
}

#[test]
fn the_json_form_of_the_report_says_how_complete_each_log_is() {
    let world = World::new();
    let (earlier, files) = two_exports(&world);
    let kept = [kept(&earlier, "receipts"), kept(&files, "tasks")];
    let report = judge_with(&world, &files, &kept).unwrap();
    let logs = serde_json::json!([
        { "log": "certificates", "completeness": "unknown" },
        { "log": "tasks", "completeness": "complete" },
        { "log": "receipts", "completeness": "up-to", "entries": 3, "entries_now": 5 },
        { "log": "dead-letters", "completeness": "unknown" },
    ]);
    assert_eq!(serde_json::to_value(&report).unwrap()["logs"], logs);
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
