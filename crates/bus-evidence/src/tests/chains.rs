//! Removed, moved, repeated and added entries, with and without new checkpoints.

use bus_envelope::{ChainHead, MessageEnvelope, wire::json};
use bus_subjects::Subject;

use super::support::{
    RECEIPTS, World, draft, edit, found, incarnation_next, judge, receipt, receipt_draft,
    receipt_head, sign, stamp,
};
use crate::FindingKind;

const FILE: &str = "receipts.jsonl";

fn after_edit(change: impl FnOnce(&mut Vec<String>)) -> (FindingKind, String, Option<u64>) {
    let world = World::new();
    let mut files = world.story(6).files(&world.boss);
    edit(&mut files, FILE, change);
    found(&world, &files)
}

#[test]
fn a_removed_receipt_is_a_gap() {
    let finding = after_edit(|lines| drop(lines.remove(2)));
    assert_eq!(finding, (FindingKind::ChainGap, FILE.into(), Some(3)));
}

#[test]
fn a_removed_first_receipt_is_a_gap() {
    let finding = after_edit(|lines| drop(lines.remove(0)));
    assert_eq!(finding, (FindingKind::ChainGap, FILE.into(), Some(1)));
}

#[test]
fn swapped_receipts_are_another_order() {
    let finding = after_edit(|lines| lines.swap(1, 3));
    assert_eq!(finding, (FindingKind::ChainReordered, FILE.into(), Some(2)));
}

#[test]
fn a_repeated_receipt_is_a_repetition() {
    let finding = after_edit(|lines| lines.push(lines[1].clone()));
    assert_eq!(finding, (FindingKind::ChainDuplicate, FILE.into(), Some(6)));
}

#[test]
fn a_cut_off_tail_is_a_truncated_log() {
    let finding = after_edit(|lines| lines.truncate(3));
    assert_eq!(finding, (FindingKind::Truncated, FILE.into(), None));
}

#[test]
fn a_file_cut_in_a_line_names_the_line() {
    let world = World::new();
    let mut files = world.story(4).files(&world.boss);
    files.get_mut(FILE).unwrap().pop();
    assert_eq!(found(&world, &files), (FindingKind::Unterminated, FILE.into(), Some(3)));
}

#[test]
fn an_appended_genuine_receipt_is_an_extra_entry() {
    let world = World::new();
    let mut story = world.story(4);
    let mut files = story.files(&world.boss);
    story.add_receipt(&world.bob, 3);
    let longer = story.files(&world.boss);
    files.insert(FILE.into(), longer[FILE].clone());
    assert_eq!(found(&world, &files), (FindingKind::ExtraEntries, FILE.into(), Some(4)));
}

#[test]
fn an_altered_span_id_is_found_by_the_checkpoint() {
    let finding = after_edit(|lines| {
        let altered = lines[2].replace("-0808080808080808-", "-0808080808080809-");
        assert_ne!(std::mem::replace(&mut lines[2], altered.clone()), altered);
    });
    assert_eq!(finding, (FindingKind::Altered, FILE.into(), None));
}

#[test]
fn an_altered_payload_is_a_bad_signature() {
    let finding =
        after_edit(|lines| lines[2] = lines[2].replace("\"exit_code\":0", "\"exit_code\":1"));
    assert_eq!(finding, (FindingKind::BadSignature, FILE.into(), Some(3)));
}

#[test]
fn white_space_between_members_is_not_canonical() {
    let finding = after_edit(|lines| lines[2] = lines[2].replacen("\",\"", "\", \"", 1));
    assert_eq!(finding, (FindingKind::NotCanonical, FILE.into(), Some(3)));
}

#[test]
fn an_empty_line_is_unreadable() {
    let finding = after_edit(|lines| lines.insert(2, String::new()));
    assert_eq!(finding, (FindingKind::UnreadableLine, FILE.into(), Some(3)));
}

#[test]
fn a_gap_shows_although_the_recorder_signed_it() {
    let world = World::new();
    let mut story = world.story(5);
    story.receipts.remove(1);
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::ChainGap, FILE.into(), Some(2)));
}

#[test]
fn two_receipts_after_the_same_one_are_a_fork() {
    let world = World::new();
    let mut story = world.story(5);
    let fork = receipt(&world.bob, &story.tasks[4], Some(&story.receipts[1]));
    story.receipts.insert(3, fork);
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::ChainFork, FILE.into(), Some(4)));
}

#[test]
fn a_receipt_that_names_no_predecessor_here_breaks_the_chain() {
    let world = World::new();
    let mut story = world.story(4);
    let mut last = story.receipts.pop().unwrap();
    last.lineage.prev_event_hash = last.compute_hash();
    story.receipts.push(sign(&world.ann, last));
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::ChainBroken, FILE.into(), Some(3)));
}

#[test]
fn a_removed_task_is_a_gap_in_the_tasks() {
    let world = World::new();
    let mut story = world.story(4);
    story.tasks.remove(1);
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::ChainGap, "tasks.jsonl".into(), Some(2)));
}

#[test]
fn a_later_process_life_may_continue_a_chain_of_tasks() {
    let world = World::new();
    let mut story = world.story(3);
    story.tasks.push(next_life(&world, &story.tasks[2]));
    let report = judge(&world, &story.files(&world.boss)).unwrap();
    assert_eq!((report.counts.tasks, report.chains), (4, 4));
}

#[test]
fn two_process_lives_that_continue_one_chain_are_a_fork() {
    let world = World::new();
    let mut story = world.story(3);
    story.tasks.push(next_life(&world, &story.tasks[2]));
    let old = draft("vak.work.w1.coder.task", "vak.task").id("task-late");
    let late = incarnation_next(&world.boss, old, &story.tasks[..3]);
    story.tasks.push(late);
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::ChainFork, "tasks.jsonl".into(), Some(5)));
}

#[test]
fn a_receipt_of_another_session_does_not_belong_here() {
    let world = World::new();
    let story = world.story(3);
    let mut files = story.files(&world.boss);
    let mut other = receipt_draft(&world.ann, &story.tasks[0]);
    other.subject = Subject::parse(&RECEIPTS.replace("s1", "s2")).unwrap();
    other.session = None;
    let head = receipt_head(story.receipts.last());
    let line = json::encode(&stamp(&world.ann, other, head));
    edit(&mut files, FILE, |lines| lines.push(String::from_utf8(line).unwrap()));
    assert_eq!(found(&world, &files), (FindingKind::WrongPlace, FILE.into(), Some(3)));
}

/// The next task after `task`, by the process life of the orchestrator that follows.
fn next_life(world: &World, task: &MessageEnvelope) -> MessageEnvelope {
    let draft = draft("vak.work.w1.coder.task", "vak.task").id("task-next");
    let mut next = stamp(&world.boss, draft, ChainHead::of(task));
    next.lineage.incarnation = "019b7f1e-0000-7000-8000-000000000002".parse().unwrap();
    sign(&world.boss, next)
}
