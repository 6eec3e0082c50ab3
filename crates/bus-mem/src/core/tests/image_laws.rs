//! The law of what survives: a broker that is made anew goes on as the one before it would have.

use std::{sync::Arc, time::Duration};

use bus_core::{
    ConsumerSpec, Durability, Expect, Frame, OrderKey, Placement, Priority, Retention, Seq,
    StreamSpec, Verdict,
};
use bus_subjects::ConsumerName;
use proptest::{collection::vec, prelude::*, sample::Index};

use super::{
    super::{Broker, ConsumerKey, StreamCursor},
    at, bounded, consumer, empty, filter, frame,
    kept::{Kept, image},
    spec, stream,
};
use crate::{Limits, journal::Statement};

/// The queue, the kept stream, the one that is append-only.
const STREAMS: [&str; 3] = ["W", "K", "A"];
const SUBJECTS: [&str; 6] = ["work.a", "work.b", "kept.a", "kept.b", "log.a", "log.b"];
/// Stream, name and filter.
const CONSUMERS: [(usize, &str, &str); 5] = [
    (0, "first", "work.a"),
    (0, "second", "work.b"),
    (1, "all", "kept.*"),
    (1, "some", "kept.b"),
    (2, "log", "log.>"),
];

#[derive(Debug, Clone)]
enum Op {
    Append { subject: usize, id: u16, expect_last: bool, place: Place },
    AppendAll { subject: usize, ids: Vec<u16> },
    Join(usize),
    Leave(usize),
    Claim(usize),
    ClaimMany(usize, usize),
    Settle(Index, Verdict),
    Extend(Index),
    Discard(usize, u64),
    Pause(usize, Option<u64>),
    Pass(u64),
}

/// Key, level and how long it is not to be handed out.
type Place = (Option<u8>, u8, Option<u64>);

fn op() -> impl Strategy<Value = Op> {
    let rest = (0_u64..50_000).prop_map(Duration::from_millis);
    let verdict = prop_oneof![
        3 => Just(Verdict::Ack),
        1 => Just(Verdict::Reject { reason: String::new() }),
        2 => rest.clone().prop_map(|after| Verdict::Retry { after }),
        2 => Just(Verdict::Release { after: Duration::ZERO }),
        1 => rest.prop_map(|after| Verdict::Release { after }),
    ];
    let level = prop_oneof![3 => Just(4_u8), 2 => 0..=9_u8];
    let delay = proptest::option::weighted(0.2, 0_u64..50_000);
    let place = (proptest::option::weighted(0.4, 0..2_u8), level, delay);
    let one_of = 0..CONSUMERS.len();
    prop_oneof![
        8 => (0..SUBJECTS.len(), 0..80_u16, any::<bool>(), place)
            .prop_map(|(subject, id, expect_last, place)| {
                Op::Append { subject, id, expect_last, place }
            }),
        1 => (0..SUBJECTS.len(), vec(0..80_u16, 1..5))
            .prop_map(|(subject, ids)| Op::AppendAll { subject, ids }),
        3 => one_of.clone().prop_map(Op::Join),
        1 => one_of.clone().prop_map(Op::Leave),
        8 => one_of.clone().prop_map(Op::Claim),
        1 => (one_of.clone(), 1..4_usize).prop_map(|(at, max)| Op::ClaimMany(at, max)),
        6 => (any::<Index>(), verdict).prop_map(|(held, verdict)| Op::Settle(held, verdict)),
        1 => any::<Index>().prop_map(Op::Extend),
        1 => (0..STREAMS.len(), 1..30_u64).prop_map(|(stream, seq)| Op::Discard(stream, seq)),
        1 => (one_of, proptest::option::of(0_u64..100_000))
            .prop_map(|(at, until)| Op::Pause(at, until)),
        3 => (0_u64..20_000).prop_map(Op::Pass),
    ]
}

/// A broker and what its members hold.
struct World {
    broker: Broker,
    now: u64,
    keys: [Option<ConsumerKey>; CONSUMERS.len()],
    /// Which consumer, and the token.
    held: Vec<(usize, u64)>,
}

impl World {
    fn begin(journal: &Arc<Kept>) -> Self {
        let mut broker = empty();
        broker.keep(Arc::clone(journal) as _);
        let retentions = [Retention::WorkQueue, Retention::Kept, Retention::AppendOnly];
        let filters = [["work.*"], ["kept.*"], ["log.*"]];
        for ((name, filters), retention) in STREAMS.iter().zip(filters).zip(retentions) {
            let spec = bounded(spec(name, &filters, retention), 20, 12);
            let dedupe_window = Duration::from_secs(40);
            broker.declare(StreamSpec { dedupe_window, ..spec }).unwrap();
        }
        Self { broker, now: 0, keys: [None; CONSUMERS.len()], held: Vec::new() }
    }

    /// The same, as it is after a restart.
    fn again(&self, statements: &[Statement]) -> Self {
        let restored = image(statements).restore(Limits::default(), Durability::Memory, 1);
        let mut broker = restored.0;
        let mut keys = self.keys;
        for (at, key) in keys.iter_mut().enumerate().filter(|(_, key)| key.is_some()) {
            let before = key.unwrap();
            let joined = broker.consume(spec_of(at)).unwrap();
            assert_eq!(joined.number(), before.number(), "a consumer was lost");
            *key = Some(joined);
        }
        Self { broker, now: self.now, keys, held: self.held.clone() }
    }

    /// Does `op`, and says what could be seen of it.
    fn run(&mut self, op: &Op) -> String {
        let now = at(self.now);
        match op {
            Op::Append { subject, id, expect_last, place } => {
                let frame = framed(SUBJECTS[*subject], *id, *place, self.now);
                let last = self.broker.last(&frame.subject).unwrap();
                let last = Expect::LastOfSubject(last.map_or(Seq(0), |last| last.seq));
                let expect = if *expect_last { last } else { Expect::Any };
                seen(self.broker.append(frame, expect, now, |_| {}))
            }
            Op::AppendAll { subject, ids } => {
                let frames =
                    ids.iter().map(|&id| framed(SUBJECTS[*subject], id, (None, 4, None), 0));
                let frames = frames.map(Arc::new).collect();
                seen(self.broker.append_all(frames, now, |_| {}))
            }
            Op::Join(at) => {
                let joined = self.broker.consume(spec_of(*at)).unwrap();
                self.keys[*at] = Some(joined);
                joined.number().to_string()
            }
            Op::Leave(at) => {
                let (of, name, _) = CONSUMERS[*at];
                let name = ConsumerName::parse(name).unwrap();
                let removed = self.broker.remove_consumer(&stream(STREAMS[of]), &name).unwrap();
                self.keys[*at] = None;
                self.held.retain(|(held, _)| held != at);
                removed.is_some().to_string()
            }
            Op::Claim(at) => self.claim(*at, 1),
            Op::ClaimMany(at, max) => self.claim(*at, *max),
            Op::Settle(held, verdict) => self.with_held(held, |world, key, token| {
                seen(world.broker.settle(key, token, verdict, now).map(drop))
            }),
            Op::Extend(held) => {
                self.with_held(held, |world, key, token| seen(world.broker.extend(key, token, now)))
            }
            Op::Discard(of, seq) => {
                let stream = stream(STREAMS[*of]);
                seen(self.broker.discard(&stream, Seq(*seq), |_| {}).map(|gone| gone.is_some()))
            }
            Op::Pause(consumer, until) => {
                let (of, name, _) = CONSUMERS[*consumer];
                let name = ConsumerName::parse(name).unwrap();
                let until = until.map(|ms| at(self.now + ms));
                seen(self.broker.pause(&stream(STREAMS[of]), &name, until, now).map(drop))
            }
            Op::Pass(ms) => {
                self.now += ms;
                String::new()
            }
        }
    }

    fn claim(&mut self, consumer: usize, max: usize) -> String {
        let Some(key) = self.keys[consumer] else { return String::new() };
        let claims = self.broker.claim_many(key, max, at(self.now));
        self.held.extend(claims.iter().map(|claim| (consumer, claim.token)));
        let seen = claims.iter().map(|claim| (&claim.message, claim.attempt));
        format!("{:?}", seen.collect::<Vec<_>>())
    }

    fn with_held(
        &mut self,
        held: &Index,
        act: impl FnOnce(&mut Self, ConsumerKey, u64) -> String,
    ) -> String {
        if self.held.is_empty() {
            return String::new();
        }
        let (consumer, token) = *held.get(&self.held);
        act(self, self.keys[consumer].unwrap(), token)
    }

    /// All that can be seen without a change.
    fn look(&mut self) -> String {
        let now = at(self.now);
        let mut seen = Vec::new();
        for name in STREAMS.map(stream) {
            let lag = self.broker.lag(&name, now).unwrap();
            let states = self.broker.consumers(&name, now).unwrap();
            let (key, until) = self.broker.head(&name).unwrap();
            let mut stored = Vec::new();
            let all = (Seq(1), until);
            let rest = self.broker.read(key, &filter(">"), all, 1000, &mut stored);
            seen.push(format!("{lag:?} {states:?} {until:?} {stored:?} {rest:?}\n"));
        }
        seen.concat()
    }
}

fn spec_of(at: usize) -> ConsumerSpec {
    let (of, name, filter) = CONSUMERS[at];
    consumer(STREAMS[of], name, filter)
}

fn framed(on: &str, id: u16, (key, level, delay): Place, now: u64) -> Frame {
    frame(on, &id.to_string()).placed(Placement {
        not_before: delay.map(|ms| at(now + ms)),
        priority: Priority::new(level).unwrap(),
        key: key.map(|key| OrderKey::parse(&key.to_string()).unwrap()),
    })
}

fn seen<T: std::fmt::Debug>(answer: bus_core::Result<T>) -> String {
    format!("{:?}", answer.map_err(|error| error.kind()))
}

/// Lets both do the same, and sees the same of both.
fn go_on(
    mut before: World,
    mut after: World,
    journal: &Kept,
    ops: &[Op],
) -> Result<(), TestCaseError> {
    prop_assert_eq!(before.look(), after.look());
    for op in ops {
        prop_assert_eq!(before.run(op), after.run(op), "{:?}", op);
        before.broker.show(journal.settle(), |_| {}, |_| {});
        prop_assert_eq!(before.look(), after.look(), "{:?}", op);
    }
    Ok(())
}

proptest! {
    /// All changes from the beginning make the broker anew, wherever the journal ends.
    #[test]
    fn all_changes_make_the_broker_anew(ops in vec(op(), 1..160), later in vec(op(), 1..60)) {
        let journal = Kept::new();
        let mut world = World::begin(&journal);
        for op in &ops {
            world.run(op);
            world.broker.show(journal.settle(), |_| {}, |_| {});
        }
        let again = world.again(&journal.since(0));
        go_on(world, again, &journal, &later)?;
    }

    /// A picture that is taken in pieces while changes go on, and the changes since it was begun,
    /// do likewise.
    #[test]
    fn a_picture_and_the_changes_since_make_the_broker_anew(
        ops in vec(op(), 1..100),
        meanwhile in vec((op(), any::<bool>()), 1..120),
        later in vec(op(), 1..60),
    ) {
        let journal = Kept::new();
        let mut world = World::begin(&journal);
        for op in &ops {
            world.run(op);
            world.broker.show(journal.settle(), |_| {}, |_| {});
        }
        let begun = journal.len();
        let (mut cursor, mut statements) = (StreamCursor::default(), Vec::new());
        let mut goes_on = true;
        for (op, has_piece) in &meanwhile {
            if *has_piece && goes_on {
                goes_on = world.broker.picture(&mut cursor, &mut statements);
            }
            world.run(op);
            world.broker.show(journal.settle(), |_| {}, |_| {});
        }
        while goes_on {
            goes_on = world.broker.picture(&mut cursor, &mut statements);
        }
        statements.extend(journal.since(begun));
        let again = world.again(&statements);
        go_on(world, again, &journal, &later)?;
    }

    /// To apply changes again that are known already changes nothing in the end.
    #[test]
    fn changes_that_are_told_twice_change_nothing(
        ops in vec(op(), 1..120),
        from in any::<Index>(),
        later in vec(op(), 1..40),
    ) {
        let journal = Kept::new();
        let mut world = World::begin(&journal);
        for op in &ops {
            world.run(op);
            world.broker.show(journal.settle(), |_| {}, |_| {});
        }
        let mut statements = journal.since(0);
        statements.extend(journal.since(from.index(journal.len())));
        let again = world.again(&statements);
        go_on(world, again, &journal, &later)?;
    }
}
