//! What a view proposes, and that news in any order leave it right.

use std::time::Duration;

use bus_core::{Placement, Priority};
use proptest::prelude::*;

use super::{
    super::turn::{KeyTurn, Turn},
    *,
};

const LEASE: Duration = Duration::from_secs(30);

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_ns(1_780_000_000_000_000_000).plus(Duration::from_secs(seconds))
}

fn entry(seq: u64, level: u8, key: Option<&str>) -> Entry {
    let key = key.map(|key| OrderKey::parse(key).unwrap());
    let priority = Priority::new(level).unwrap();
    let placement = Placement { priority, key, not_before: None };
    Entry::fresh((seq, at(seq)), "ack".to_owned(), Some(&placement))
}

fn held(entry: &Entry, now: Timestamp) -> Entry {
    entry.claimed("n".to_owned(), LEASE, now).unwrap()
}

fn view(entries: impl IntoIterator<Item = Entry>) -> View {
    let mut view = View::default();
    for (revision, entry) in (1..).zip(entries) {
        view.put(revision, entry);
    }
    view
}

fn first(view: &mut View, now: Timestamp) -> Option<u64> {
    view.first(now).map(|pick| pick.entry.seq)
}

/// Works everything off by the view alone.
fn order(mut view: View, now: Timestamp) -> Vec<u64> {
    let mut order = Vec::new();
    while let Some(seq) = first(&mut view, now) {
        view.remove(u64::MAX, seq);
        order.push(seq);
    }
    order
}

#[test]
fn the_urgent_come_first_and_each_lane_in_its_order() {
    let entries = [(1, 1), (2, 8), (3, 1), (4, 8), (5, 4)].map(|(seq, l)| entry(seq, l, None));
    assert_eq!(order(view(entries), at(9)), [2, 4, 5, 1, 3]);
}

#[test]
fn the_next_of_a_key_comes_when_the_one_before_it_has_left() {
    let a = [1, 2].map(|seq| entry(seq, 4, Some("a")));
    let mut view = view(a.clone());
    view.put(10, held(&a[0], at(5)));
    assert_eq!(first(&mut view, at(6)), None);
    view.remove(11, 1);
    assert_eq!(first(&mut view, at(6)), Some(2));
}

#[test]
fn others_pass_a_key_that_rests() {
    let a = [1, 2].map(|seq| entry(seq, 9, Some("a")));
    let mut view = view(a.clone().into_iter().chain([entry(3, 0, Some("b"))]));
    view.put(10, held(&a[0], at(5)).failed(LEASE, at(6)));
    assert_eq!(first(&mut view, at(7)), Some(3));
    assert_eq!(first(&mut view, at(36)), Some(1));
}

#[test]
fn a_lease_that_ran_out_makes_its_entry_ready_without_news() {
    let mut view = view([held(&entry(1, 4, None), at(1))]);
    assert_eq!(first(&mut view, at(30)), None);
    assert_eq!(view.next_due(), Some(at(31)));
    assert_eq!(first(&mut view, at(31)), Some(1));
    assert_eq!(view.next_due(), None);
}

#[test]
fn an_extended_lease_is_not_over_at_its_first_end() {
    let held = held(&entry(1, 4, None), at(1));
    let mut view = view([held.clone()]);
    view.put(2, held.extended(LEASE, at(20)).unwrap());
    assert_eq!(first(&mut view, at(31)), None);
    assert_eq!(first(&mut view, at(50)), Some(1));
}

#[test]
fn older_news_change_nothing_and_bring_nothing_back() {
    let mut view = view([]);
    view.put(5, held(&entry(1, 4, None), at(1)));
    view.put(4, entry(1, 4, None));
    assert_eq!(first(&mut view, at(2)), None);
    view.remove(6, 1);
    view.put(5, entry(1, 4, None));
    assert!(view.entries.is_empty());
    view.put(7, entry(1, 4, None));
    assert!(view.has(1));
    view.remove(6, 1);
    assert!(view.has(1));
}

#[test]
fn removals_are_forgotten_when_the_server_has_told_of_them() {
    let mut view = view([]);
    view.remove(6, 1);
    view.remove(9, 2);
    view.heard_up_to(6);
    assert_eq!(view.removed, HashMap::from([(2, 9)]));
}

#[test]
fn a_look_removes_what_it_did_not_find_but_nothing_newer() {
    let mut view = view([entry(1, 4, None), entry(2, 4, None)]);
    view.put(20, entry(3, 4, None));
    view.look(10, vec![(2, entry(2, 4, None)), (9, entry(4, 4, None))]);
    assert_eq!(order(view, at(9)), [2, 3, 4]);
}

#[test]
fn what_has_left_takes_no_room() {
    let a = [1, 2].map(|seq| entry(seq, 4, Some("a")));
    let mut view = view(a.clone().into_iter().chain([entry(3, 4, None)]));
    view.put(10, held(&a[0], at(5)));
    assert_eq!(first(&mut view, at(6)), Some(3));
    for seq in 1..=3 {
        view.remove(20, seq);
    }
    view.heard_up_to(20);
    assert!(view.entries.is_empty() && view.later.is_empty() && view.ready.is_empty());
    assert!(view.lines.is_empty() && view.removed.is_empty() && view.keyed.is_empty());
}

#[test]
fn what_is_done_for_good_is_proposed_no_more_and_frees_its_key() {
    let a = [1, 2].map(|seq| entry(seq, 4, Some("a")));
    let mut view = view(a.clone());
    view.put(10, held(&a[0], at(5)).done(at(6)));
    assert_eq!(first(&mut view, at(1000)), Some(2));
    assert!(view.has(1) && view.is_done(1) && !view.is_done(2));
    let key = OrderKey::parse("a").unwrap();
    assert_eq!(view.entries_of(&key), [a[1].clone()]);
    assert_eq!(view.unfinished(9, |done| done <= at(5)), []);
    let unfinished = view.unfinished(9, |done| done <= at(6));
    assert_eq!(
        unfinished.iter().map(|(at, entry)| (*at, entry.seq)).collect::<Vec<_>>(),
        [(10, 1)]
    );
    view.remove(11, 1);
    assert_eq!((view.first_done(), view.has(1)), (None, false));
}

#[test]
fn of_many_that_are_done_the_first_are_told_of() {
    let mut view = View::default();
    for seq in 1..=5 {
        view.put(10 + seq, held(&entry(seq, 4, None), at(5)).done(at(seq)));
    }
    let seqs: Vec<u64> = view.unfinished(3, |_| true).iter().map(|(_, it)| it.seq).collect();
    assert_eq!(seqs, [1, 2, 3]);
}

#[test]
fn of_a_turn_the_newest_word_counts() {
    let mut view = View::default();
    view.put_turn("a", 5, Some(KeyTurn { holder: 1 }));
    view.put_turn("a", 4, None);
    assert_eq!(view.turn("a"), (5, Some(KeyTurn { holder: 1 })));
    view.put_turn("a", 6, None);
    assert_eq!(view.turn("a"), (0, None));
}

/// One change of a board; times are seconds.
#[derive(Debug, Clone)]
enum Change {
    Arrive { level: u8, key: u8, delay: u64 },
    Claim { nth: usize },
    Release { nth: usize, rest: u64 },
    Fail { nth: usize, rest: u64 },
    Leave { nth: usize },
    Pass { seconds: u64 },
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (0..10u8, 0..4u8, 0..3u64).prop_map(|(level, key, delay)| {
            Change::Arrive { level, key, delay: delay * 20 }
        }),
        3 => (0..8usize).prop_map(|nth| Change::Claim { nth }),
        1 => (0..8usize, 0..2u64).prop_map(|(nth, rest)| Change::Release { nth, rest: rest * 9 }),
        1 => (0..8usize, 0..2u64).prop_map(|(nth, rest)| Change::Fail { nth, rest: rest * 9 }),
        2 => (0..8usize).prop_map(|nth| Change::Leave { nth }),
        2 => (0..40u64).prop_map(|seconds| Change::Pass { seconds }),
    ]
}

/// The board as it is: what the view should say, the slow way.
#[derive(Default)]
struct Board {
    entries: BTreeMap<u64, Entry>,
    now: u64,
    stored: u64,
}

impl Board {
    fn nth(&self, nth: usize) -> Option<Entry> {
        let len = self.entries.len().max(1);
        self.entries.values().nth(nth % len).cloned()
    }

    /// The entry that the change made or touched; `Err` when it left.
    fn apply(&mut self, change: &Change) -> Option<Result<Entry, u64>> {
        let now = at(self.now);
        let next = match *change {
            Change::Arrive { level, key, delay } => {
                self.stored += 1;
                let key = (key > 0).then(|| OrderKey::parse(&format!("k{key}")).unwrap());
                let not_before = (delay > 0).then(|| at(self.now + delay));
                let priority = Priority::new(level).unwrap();
                let placement = Placement { not_before, priority, key };
                Entry::fresh((self.stored, now), "ack".to_owned(), Some(&placement))
            }
            Change::Claim { nth } => {
                let entry = self.nth(nth)?;
                let seq = entry.seq;
                let fits = entry.key.as_ref().is_none_or(|key| self.turn(key, seq) == Turn::Own);
                entry.claimed("n".to_owned(), LEASE, now).filter(|_| fits)?
            }
            Change::Release { nth, rest } => {
                let held = self.nth(nth).filter(|entry| entry.is_held(now))?;
                held.released(Duration::from_secs(rest), now)
            }
            Change::Fail { nth, rest } => {
                let held = self.nth(nth).filter(|entry| entry.is_held(now))?;
                held.failed(Duration::from_secs(rest), now)
            }
            Change::Leave { nth } => {
                let seq = self.nth(nth)?.seq;
                self.entries.remove(&seq);
                return Some(Err(seq));
            }
            Change::Pass { seconds } => {
                self.now += seconds;
                return None;
            }
        };
        self.entries.insert(next.seq, next.clone());
        Some(Ok(next))
    }

    fn turn(&self, key: &OrderKey, seq: u64) -> Turn {
        let same = self.entries.values().filter(|entry| entry.key.as_ref() == Some(key));
        let entries: Vec<Entry> = same.cloned().collect();
        Turn::decide(Some(KeyTurn { holder: seq }), &entries, seq, at(self.now))
    }

    fn first(&self) -> Option<u64> {
        let now = at(self.now);
        let due = self.entries.values().filter(|entry| entry.due().since <= now);
        let free = due.filter(|entry| match &entry.key {
            Some(key) => self.turn(key, entry.seq) == Turn::Own,
            None => true,
        });
        free.min_by_key(|entry| entry.rank()).map(|entry| entry.seq)
    }
}

proptest! {
    #[test]
    fn a_view_proposes_what_the_rules_say_of_the_whole_board(
        changes in prop::collection::vec(change(), 0..60),
    ) {
        let (mut board, mut view) = (Board::default(), View::default());
        for (revision, change) in (1..).zip(&changes) {
            match board.apply(change) {
                Some(Ok(entry)) => view.put(revision, entry),
                Some(Err(seq)) => view.remove(revision, seq),
                None => {}
            }
            prop_assert_eq!(first(&mut view, at(board.now)), board.first());
        }
    }

    #[test]
    fn news_in_any_order_lead_to_the_same_view(
        changes in prop::collection::vec(change(), 0..40),
        orders in prop::collection::vec(any::<u32>(), 40),
    ) {
        let (mut board, mut view) = (Board::default(), View::default());
        let changed = changes.iter().map(|change| board.apply(change));
        let mut news: Vec<_> = (1..).zip(changed).zip(&orders).collect();
        news.sort_by_key(|(_, order)| **order);
        for ((revision, change), _) in news {
            match change {
                Some(Ok(entry)) => view.put(revision, entry),
                Some(Err(seq)) => view.remove(revision, seq),
                None => {}
            }
        }
        prop_assert_eq!(first(&mut view, at(board.now)), board.first());
        prop_assert!(view.entries.keys().eq(board.entries.keys()));
    }
}
