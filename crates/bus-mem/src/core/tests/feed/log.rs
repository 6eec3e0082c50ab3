//! The shared log: what each cursor reads and misses, and what the log keeps for them.

use std::num::NonZeroUsize;

use bus_core::{Segment, SegmentFrame, SegmentRun};

use super::{
    super::super::{CursorKey, FeedLog, Heard, Read},
    frame,
};

/// A log whose subscribers take what they read at once.
#[derive(Default)]
struct World {
    log: FeedLog,
    pushed: u64,
    unused: Vec<Segment>,
}

struct Subscriber {
    key: CursorKey,
    run: Option<SegmentRun>,
}

impl World {
    fn join(&mut self, capacity: usize) -> Subscriber {
        self.join_as(1, capacity)
    }

    fn join_as(&mut self, owner: u64, capacity: usize) -> Subscriber {
        let key = self.log.join(owner, NonZeroUsize::new(capacity).unwrap());
        Subscriber { key, run: None }
    }

    fn push(&mut self, frames: u64) {
        for _ in 0..frames {
            self.pushed += 1;
            let frame = SegmentFrame::Here(frame("a", &self.pushed.to_string()));
            self.log.push(&mut Some(frame), &mut self.unused);
        }
    }

    /// The next item as text; `-` when there is nothing, `end` when there never will be.
    fn next(&mut self, subscriber: &mut Subscriber) -> String {
        loop {
            if let Some(frame) = subscriber.run.as_mut().and_then(SegmentRun::take) {
                return frame.id.to_string();
            }
            match self.log.read(subscriber.key, &mut self.unused) {
                Read::Run(run) => subscriber.run = Some(run),
                Read::Gap(missed) => return format!("gap {missed}"),
                Read::Nothing => return "-".to_owned(),
                Read::End => return "end".to_owned(),
            }
        }
    }

    fn drain(&mut self, subscriber: &mut Subscriber) -> Vec<String> {
        let mut items = Vec::new();
        loop {
            match self.next(subscriber).as_str() {
                "-" => return items,
                item => items.push(item.to_owned()),
            }
            if items.last().is_some_and(|item| item == "end") {
                return items;
            }
        }
    }
}

fn numbers(range: std::ops::RangeInclusive<u64>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[test]
fn the_oldest_frames_go_and_the_gap_stands_where_they_were() {
    let mut world = World::default();
    let mut slow = world.join(2);
    world.push(5);
    assert_eq!(world.drain(&mut slow), ["gap 3", "4", "5"]);
}

#[test]
fn frames_that_went_after_the_gap_was_told_are_a_gap_of_their_own() {
    let mut world = World::default();
    let mut slow = world.join(2);
    world.push(3);
    assert_eq!(world.next(&mut slow), "gap 1");
    world.push(1);
    assert_eq!(world.drain(&mut slow), ["gap 1", "3", "4"]);
}

#[test]
fn a_late_subscriber_hears_nothing_old() {
    let mut world = World::default();
    let mut early = world.join(8);
    world.push(2);
    let mut late = world.join(8);
    world.push(1);
    assert_eq!(world.drain(&mut late), ["3"]);
    assert_eq!(world.drain(&mut early), ["1", "2", "3"]);
}

#[test]
fn a_small_capacity_beside_a_large_one_misses_what_the_other_reads() {
    let mut world = World::default();
    let (mut small, mut large) = (world.join(3), world.join(1000));
    world.push(500);
    let mut expected = vec!["gap 497".to_owned()];
    expected.extend(numbers(498..=500));
    assert_eq!(world.drain(&mut small), expected);
    assert_eq!(world.drain(&mut large), numbers(1..=500));
}

#[test]
fn a_reader_keeps_the_run_it_has_begun_and_misses_what_went_behind_it() {
    let mut world = World::default();
    // Runs are an eighth of the capacity: 2.
    let mut slow = world.join(16);
    world.push(4);
    assert_eq!(world.next(&mut slow), "1");
    world.push(100);
    let mut expected = vec!["2".to_owned(), "gap 86".to_owned()];
    expected.extend(numbers(89..=104));
    assert_eq!(world.drain(&mut slow), expected);
}

#[test]
fn a_frame_that_nobody_hears_stays_with_its_sender() {
    let mut world = World::default();
    let mut unheard = Some(SegmentFrame::Here(frame("a", "1")));
    assert_eq!(world.log.push(&mut unheard, &mut world.unused), Heard::NOBODY);
    assert!(unheard.is_some());
}

#[test]
fn a_frame_tells_how_many_hear_it_and_who_could_miss_the_next_ones_first() {
    let mut world = World::default();
    let (_large, small) = (world.join(900), world.join(7));
    let push = |log: &mut FeedLog| {
        log.push(&mut Some(SegmentFrame::Here(frame("a", "1"))), &mut Vec::new())
    };
    assert_eq!(push(&mut world.log), Heard { by: 2, capacity_min: 7 });
    world.log.leave(small.key, &mut world.unused);
    assert_eq!(push(&mut world.log), Heard { by: 1, capacity_min: 900 });
}

#[test]
fn a_log_that_nobody_hears_keeps_nothing() {
    let mut world = World::default();
    let gone = world.join(8);
    world.push(1);
    world.log.leave(gone.key, &mut world.unused);
    assert_eq!((world.log.kept(), world.log.cursors()), (0, 0));
}

#[test]
fn nothing_is_kept_before_the_first_frame() {
    let mut world = World::default();
    let _idle = world.join(1_000_000);
    assert_eq!(world.log.kept(), 0);
}

#[test]
fn what_every_subscriber_has_read_is_freed() {
    let mut world = World::default();
    let (mut first, mut second) = (world.join(10_000), world.join(10_000));
    world.push(1_000);
    world.drain(&mut first);
    assert!(world.log.kept() >= 1_000, "the second one has read nothing");
    world.drain(&mut second);
    assert_eq!(world.log.kept(), 0);
}

#[test]
fn a_lagging_subscriber_keeps_no_more_than_its_capacity_in_memory() {
    let mut world = World::default();
    let mut slow = world.join(100);
    world.push(100_000);
    assert!(world.log.kept() <= 100 + 2 * 32, "{} frames", world.log.kept());
    assert_eq!(world.next(&mut slow), "gap 99900");
}

#[test]
fn a_small_capacity_that_lags_keeps_no_more_because_of_a_large_one() {
    let mut world = World::default();
    let (mut small, mut large) = (world.join(3), world.join(1_000_000));
    for _ in 0..500 {
        world.push(100);
        world.drain(&mut large);
        assert!(world.log.kept() <= 2 * 1024, "{} frames", world.log.kept());
    }
    world.push(5_000);
    assert!(world.log.kept() >= 5_000, "the large one lags now as well");
    let mut expected = vec!["gap 54997".to_owned()];
    expected.extend(numbers(54_998..=55_000));
    assert_eq!(world.drain(&mut small), expected);
    assert_eq!(world.drain(&mut large), numbers(50_001..=55_000));
    assert_eq!(world.log.kept(), 0);
}

#[test]
fn the_largest_capacity_that_is_left_bounds_the_log() {
    let mut world = World::default();
    let large = world.join(10_000);
    let mut small = world.join(10);
    world.push(5_000);
    world.log.leave(large.key, &mut world.unused);
    world.push(100);
    assert!(world.log.kept() <= 10 + 2 * 32, "{} frames", world.log.kept());
    assert_eq!(world.next(&mut small), "gap 5090");
}

#[test]
fn large_frames_stand_in_short_segments() {
    let mut world = World::default();
    let mut slow = world.join(100);
    world.push(100);
    world.drain(&mut slow);
    for _ in 0..4 {
        let mut large = frame("a", "large");
        large.body = vec![0; 64 << 10].into();
        world.log.push(&mut Some(SegmentFrame::Here(large)), &mut world.unused);
    }
    world.unused.clear();
    world.next(&mut slow);
    assert_eq!(world.unused.len(), 1, "the first of them has a segment of its own");
}

#[test]
fn a_closed_subscriber_reads_to_its_end_while_others_go_on() {
    let mut world = World::default();
    let (mut closed, mut open) = (world.join_as(1, 4), world.join_as(2, 4));
    world.push(6);
    assert!(world.log.close(1, &mut world.unused));
    world.push(3);
    assert_eq!(world.drain(&mut closed), ["gap 2", "3", "4", "5", "6", "end"]);
    assert_eq!(world.drain(&mut open), ["gap 5", "6", "7", "8", "9"]);
    assert!(!world.log.close(1, &mut world.unused), "it is closed already");
}

#[test]
fn a_closed_subscriber_keeps_nothing_that_it_has_read() {
    let mut world = World::default();
    let mut closed = world.join(1_000);
    world.push(100);
    world.log.close(1, &mut world.unused);
    world.unused.clear();
    assert_eq!(world.next(&mut closed), "1");
    assert_eq!(world.unused.len(), 1, "the first segment goes while the next ones wait");
    assert_eq!(world.drain(&mut closed).last().map(String::as_str), Some("end"));
    assert_eq!(world.unused.len(), 4);
}

#[test]
fn what_a_subscriber_left_counts_as_dropped() {
    let mut world = World::default();
    let mut leaving = world.join(4);
    world.push(6);
    world.next(&mut leaving);
    world.next(&mut leaving);
    let counts = world.log.leave(leaving.key, &mut world.unused);
    assert_eq!((counts.offered, counts.delivered, counts.dropped), (6, 1, 5));
}

#[test]
fn a_cursor_has_read_all_until_the_next_frame_and_again_when_it_has_read_it() {
    let mut world = World::default();
    let mut reader = world.join(8);
    assert!(world.log.has_read_all(reader.key));
    world.push(2);
    assert!(!world.log.has_read_all(reader.key));
    world.drain(&mut reader);
    assert!(world.log.has_read_all(reader.key));
}

#[test]
fn a_closed_cursor_has_read_all_when_it_has_read_what_it_held() {
    let mut world = World::default();
    let (mut reader, mut other) = (world.join(8), world.join_as(2, 8));
    world.push(2);
    world.log.close(1, &mut world.unused);
    world.push(2);
    assert!(!world.log.has_read_all(reader.key));
    world.drain(&mut reader);
    assert!(world.log.has_read_all(reader.key));
    assert!(!world.log.has_read_all(other.key));
    world.drain(&mut other);
}
