//! Laws: random operations against models that are too simple to be wrong.

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bus_core::{Segment, SegmentFrame, SegmentRun};
use proptest::{collection::vec, prelude::*, sample::Index};

use super::{
    super::super::{CursorKey, FeedCounts, FeedLog, FeedQueue, Popped, Read},
    frame,
};

#[derive(Debug, Clone)]
enum Op {
    Join { owner: u64, capacity: usize },
    Push { frames: u64 },
    Read { who: Index, items: usize },
    Close { owner: u64 },
    Leave { who: Index },
}

fn op() -> impl Strategy<Value = Op> {
    let capacity = prop_oneof![1..5_usize, 5..80_usize, Just(usize::MAX)];
    prop_oneof![
        2 => (0..3_u64, capacity).prop_map(|(owner, capacity)| Op::Join { owner, capacity }),
        6 => prop_oneof![1..4_u64, 1..100_u64].prop_map(|frames| Op::Push { frames }),
        8 => (any::<Index>(), prop_oneof![1..3_usize, Just(1000)])
            .prop_map(|(who, items)| Op::Read { who, items }),
        1 => (0..3_u64).prop_map(|owner| Op::Close { owner }),
        1 => any::<Index>().prop_map(|who| Op::Leave { who }),
    ]
}

/// The model: each subscriber has a list of its own for what waits and for what it has in hand.
struct Subscriber {
    key: CursorKey,
    owner: u64,
    capacity: usize,
    open: bool,
    waiting: VecDeque<u64>,
    hand: VecDeque<u64>,
    run: Option<SegmentRun>,
    untold: u64,
    counts: FeedCounts,
}

impl Subscriber {
    fn hear(&mut self, number: u64) {
        self.counts.offered += 1;
        self.waiting.push_back(number);
        if self.waiting.len() > self.capacity {
            self.waiting.pop_front();
            self.untold += 1;
            self.counts.dropped += 1;
        }
    }

    /// Takes one frame of the run in hand.
    fn take(&mut self, frames_alive: &AtomicU64) -> bool {
        let Some(frame) = self.run.as_mut().and_then(SegmentRun::take) else {
            assert!(self.hand.is_empty(), "the run ended early");
            return false;
        };
        assert_eq!(Some(frame.id.to_string()), self.hand.pop_front().map(|n| n.to_string()));
        assert!(frames_alive.load(Ordering::Relaxed) > 0);
        self.counts.delivered += 1;
        true
    }

    /// Reads once from the log; says whether there was anything.
    fn read(&mut self, log: &mut FeedLog, unused: &mut Vec<Segment>) -> bool {
        match log.read(self.key, unused) {
            Read::Gap(missed) => {
                assert_eq!(missed, std::mem::take(&mut self.untold));
                return true;
            }
            Read::Run(run) => {
                assert_eq!(self.untold, 0, "the gap comes first");
                let frames = run.len();
                assert!(frames > 0 && frames <= (self.capacity / 8).max(1), "a run of {frames}");
                self.hand.extend(self.waiting.drain(..frames));
                self.run = Some(run);
                return true;
            }
            Read::Nothing => assert!(self.open, "a closed one ends"),
            Read::End => assert!(!self.open, "an open one goes on"),
        }
        assert!(self.waiting.is_empty() && self.untold == 0, "something was not handed out");
        false
    }
}

/// A body that is counted while it lives.
struct Counted(Arc<AtomicU64>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &[]
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct World {
    log: FeedLog,
    subscribers: Vec<Subscriber>,
    pushed: u64,
    alive: Arc<AtomicU64>,
}

impl World {
    fn run(&mut self, op: Op) {
        let mut unused = Vec::new();
        let pick =
            |who: &Index, all: &[Subscriber]| (!all.is_empty()).then(|| who.index(all.len()));
        match op {
            Op::Join { owner, capacity } => self.join(owner, capacity),
            Op::Push { frames } => (0..frames).for_each(|_| self.push(&mut unused)),
            Op::Read { who, items } => {
                if let Some(who) = pick(&who, &self.subscribers) {
                    let subscriber = &mut self.subscribers[who];
                    for _ in 0..items {
                        if !subscriber.take(&self.alive)
                            && !subscriber.read(&mut self.log, &mut unused)
                        {
                            break;
                        }
                    }
                }
            }
            Op::Close { owner } => {
                self.log.close(owner, &mut unused);
                let all = self.subscribers.iter_mut();
                all.filter(|one| one.owner == owner).for_each(|one| one.open = false);
            }
            Op::Leave { who } => {
                if let Some(who) = pick(&who, &self.subscribers) {
                    self.leave(who, &mut unused);
                }
            }
        }
    }

    fn join(&mut self, owner: u64, capacity: usize) {
        let key = self.log.join(owner, NonZeroUsize::new(capacity).unwrap());
        self.subscribers.push(Subscriber {
            key,
            owner,
            capacity,
            open: true,
            waiting: VecDeque::new(),
            hand: VecDeque::new(),
            run: None,
            untold: 0,
            counts: FeedCounts::default(),
        });
    }

    fn leave(&mut self, who: usize, unused: &mut Vec<Segment>) {
        let gone = self.subscribers.swap_remove(who);
        let counts = self.log.leave(gone.key, unused);
        let (offered, delivered) = (gone.counts.offered, gone.counts.delivered);
        assert_eq!((counts.offered, counts.delivered), (offered, delivered));
        assert_eq!(counts.dropped, offered - delivered);
    }

    fn push(&mut self, unused: &mut Vec<Segment>) {
        self.pushed += 1;
        self.alive.fetch_add(1, Ordering::Relaxed);
        let mut counted = frame("a", &self.pushed.to_string());
        counted.body = bytes::Bytes::from_owner(Counted(Arc::clone(&self.alive)));
        let heard = self.log.push(&mut Some(SegmentFrame::Here(counted)), unused);
        let open = self.subscribers.iter_mut().filter(|one| one.open);
        assert_eq!(heard.by, open.map(|one| one.hear(self.pushed)).count());
    }

    /// Counts agree with the model, and no frame is kept that nobody may still read.
    fn check(&self) {
        let (mut expected, mut waits) = (FeedCounts::default(), 0);
        for one in &self.subscribers {
            expected.add(one.counts);
            waits += (one.waiting.len() + one.hand.len()) as u64;
        }
        assert_eq!(self.log.counts(), (expected, waits));
        assert_eq!(self.log.cursors(), self.subscribers.len());
        let open = self.subscribers.iter().filter(|one| one.open);
        if open.clone().all(|one| one.waiting.is_empty() && one.untold == 0) {
            assert_eq!(self.log.kept(), 0, "everything was read");
        }
        let capacity_max = open.map(|one| one.capacity).max().unwrap_or(0);
        let bound = capacity_max.saturating_add(64);
        assert!(self.log.kept() <= bound, "{} frames", self.log.kept());
    }
}

proptest! {
    /// Every subscriber of a shared log reads what a queue of its own would have given it; gaps are
    /// exact and in their place; counts add up; what nobody may read is freed.
    #[test]
    fn a_shared_log_is_a_queue_for_each_subscriber(ops in vec(op(), 1..120)) {
        let mut world = World {
            log: FeedLog::new(),
            subscribers: Vec::new(),
            pushed: 0,
            alive: Arc::default(),
        };
        for op in ops {
            world.run(op);
            world.check();
        }
        while !world.subscribers.is_empty() {
            world.leave(0, &mut Vec::new());
        }
        prop_assert_eq!(world.alive.load(Ordering::Relaxed), 0, "every frame was dropped");
    }

    /// Every offered frame is delivered, dropped, superseded or waiting; gaps add up to what was
    /// dropped; order is kept; nothing exceeds its bound; no count wraps (C16).
    #[test]
    fn a_queue_of_newest_frames_accounts_for_every_frame(
        bound in 1..5_usize,
        ops in vec(proptest::option::weighted(0.7, 0..4_usize), 0..100),
    ) {
        let bound = NonZeroUsize::new(bound).unwrap();
        let mut queue = FeedQueue::latest(bound);
        let (mut offered, mut told, mut newest) = (0_u64, 0, 0_u64);
        let mut take = |queue: &mut FeedQueue| match queue.pop() {
            None => false,
            Some(Popped::Gap(missed)) => { assert!(missed > 0); told += missed; true }
            Some(Popped::Frame(frame)) => {
                let number = frame.id.as_str().parse().unwrap();
                assert!(number > newest, "frames come in the order they were offered");
                newest = number;
                true
            }
        };
        for op in ops {
            match op {
                Some(subject) => {
                    offered += 1;
                    queue.push(Arc::new(frame(&format!("s.{subject}"), &offered.to_string())));
                }
                None => drop(take(&mut queue)),
            }
            let counts = queue.counts();
            let waiting = queue.len() as u64;
            let sum = counts.delivered + counts.dropped + counts.superseded + waiting;
            prop_assert_eq!((counts.offered, sum), (offered, offered));
            prop_assert!(queue.len() <= bound.get());
        }
        while take(&mut queue) {}
        prop_assert_eq!(told, queue.counts().dropped);
        prop_assert_eq!(newest, offered, "the newest frame is never the one that goes");
    }
}
