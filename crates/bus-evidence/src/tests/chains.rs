//! Removed, moved, repeated and added entries, with and without new checkpoints.

use bus_envelope::{ChainHead, EventHash, MessageEnvelope, wire::json};
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
fn an_old_life_that_goes_on_beside_the_new_one_is_no_fork() {
    let world = World::new();
    let mut story = world.story(3);
    story.tasks.push(next_life(&world, &story.tasks[2]));
    let old = draft("vak.work.w1.coder.task", "vak.task").id("task-late");
    let late = incarnation_next(&world.boss, old, &story.tasks[..3]);
    story.tasks.push(late);
    let report = judge(&world, &story.files(&world.boss)).unwrap();
    assert_eq!((report.counts.tasks, report.chains), (5, 4));
}

#[test]
fn a_twin_within_one_life_is_a_fork_although_another_life_goes_on_from_there() {
    let world = World::new();
    let mut story = world.story(3);
    story.tasks.push(next_life(&world, &story.tasks[1]));
    let mut twin = story.tasks[2].clone();
    twin.id = "twin".to_owned();
    story.tasks.push(sign(&world.boss, twin));
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::ChainFork, "tasks.jsonl".into(), Some(5)));
}

#[test]
fn a_life_that_says_it_is_continued_needs_no_earlier_one_in_the_log() {
    let world = World::new();
    let mut story = world.story(3);
    story.tasks.push(marked_life(&world, 7));
    assert_eq!(judge(&world, &story.files(&world.boss)).unwrap().counts.tasks, 4);
}

#[test]
fn a_life_that_does_not_say_so_has_a_gap_before_it() {
    let world = World::new();
    let mut story = world.story(3);
    let mut first = marked_life(&world, 7);
    first.extensions.clear();
    story.tasks.push(sign(&world.boss, first));
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::ChainGap, "tasks.jsonl".into(), Some(4)));
}

#[test]
fn a_life_that_goes_on_from_a_task_without_saying_so_has_a_gap_before_it() {
    let world = World::new();
    let mut story = world.story(3);
    let mut first = next_life(&world, &story.tasks[2]);
    first.extensions.clear();
    story.tasks.push(sign(&world.boss, first));
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::ChainGap, "tasks.jsonl".into(), Some(4)));
}

/// The tasks of two lives, of which the second goes on from the last of the first, after `change`.
fn two_lives(change: impl FnOnce(&World, &mut Vec<MessageEnvelope>)) -> (FindingKind, Option<u64>) {
    let world = World::new();
    let mut story = world.story(3);
    story.tasks.push(next_life(&world, &story.tasks[2]));
    change(&world, &mut story.tasks);
    let (kind, file, line) = found(&world, &story.files(&world.boss));
    assert_eq!(file, "tasks.jsonl");
    (kind, line)
}

#[test]
fn a_dropped_last_task_of_a_life_is_a_gap_where_a_later_life_names_it() {
    let finding = two_lives(|_, tasks| drop(tasks.remove(2)));
    assert_eq!(finding, (FindingKind::ChainGap, Some(3)));
}

#[test]
fn a_life_that_stands_before_the_one_it_goes_on_from_is_another_order() {
    let finding = two_lives(|_, tasks| tasks.rotate_right(1));
    assert_eq!(finding, (FindingKind::ChainReordered, Some(1)));
}

#[test]
fn another_task_in_the_place_that_a_later_life_names_breaks_the_chain() {
    let finding = two_lives(|world, tasks| {
        let mut other = tasks[2].clone();
        other.id = "another".to_owned();
        tasks[2] = sign(&world.boss, other);
    });
    assert_eq!(finding, (FindingKind::ChainBroken, Some(4)));
}

#[test]
fn a_task_of_another_life_than_the_one_that_is_named_breaks_the_chain() {
    let finding = two_lives(|world, tasks| {
        let life = "019b7f1e-0000-7000-8000-000000000009".to_owned();
        let mut next = tasks.remove(3);
        next.extensions.insert(MessageEnvelope::CONTINUES.to_owned(), life);
        tasks.push(sign(&world.boss, next));
    });
    assert_eq!(finding, (FindingKind::ChainBroken, Some(4)));
}

#[test]
fn a_receipt_continues_nothing_by_its_own_word() {
    let world = World::new();
    let mut story = world.story(3);
    let life = "019b7f1e-0000-7000-8000-000000000009".to_owned();
    let mut receipt = story.receipts.remove(0);
    story.receipts.clear();
    receipt.lineage.seq_num = 7;
    receipt.extensions.insert(MessageEnvelope::CONTINUES.to_owned(), life);
    story.receipts.push(sign(&world.ann, receipt));
    let files = story.files(&world.boss);
    assert_eq!(found(&world, &files), (FindingKind::ChainGap, FILE.into(), Some(1)));
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
    let earlier = task.lineage.incarnation.to_string();
    let draft = draft.extension(MessageEnvelope::CONTINUES, earlier).unwrap();
    let mut next = stamp(&world.boss, draft, ChainHead::of(task));
    next.lineage.incarnation = "019b7f1e-0000-7000-8000-000000000002".parse().unwrap();
    sign(&world.boss, next)
}

/// The first task of another life, which continues one that is not here.
fn marked_life(world: &World, seq: u64) -> MessageEnvelope {
    let life = "019b7f1e-0000-7000-8000-000000000009";
    let draft = draft("vak.work.w1.coder.task", "vak.task").id("task-other");
    let draft = draft.extension(MessageEnvelope::CONTINUES, life).unwrap();
    let before = EventHash::of(b"a task of another session");
    let mut first = stamp(&world.boss, draft, ChainHead { seq: seq - 1, hash: before });
    first.lineage.incarnation = "019b7f1e-0000-7000-8000-000000000003".parse().unwrap();
    sign(&world.boss, first)
}
