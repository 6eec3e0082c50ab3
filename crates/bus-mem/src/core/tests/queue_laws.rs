//! The law of the line: who comes next, by a list that is searched from end to end.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bus_core::{ErrorKind, Expect, Frame, OrderKey, Placement, Priority, Retention, Seq, Verdict};
use proptest::{collection::vec, prelude::*, sample::Index};

use super::{
    super::{Broker, ConsumerKey},
    LEASE, at, bounded, consumer, frame, spec, stream, with,
};

const MESSAGES_MAX: u64 = 12;
const LEASE_MS: u64 = LEASE.as_millis() as u64;
const LEVEL_MS: u64 = Priority::HEAD_START.as_millis() as u64;

/// Key, level and how long it is not to be handed out.
type Place = (Option<u8>, u8, Option<u64>);

#[derive(Debug, Clone)]
enum Op {
    Append(Place),
    AppendAll(Vec<Place>),
    Claim,
    Settle(Index, Verdict),
    Extend(Index),
    Discard(Index),
    Pause(Option<u64>),
    ComeAgain,
    Pass(u64),
}

fn place() -> impl Strategy<Value = Place> {
    let level = prop_oneof![3 => Just(4_u8), 2 => 0..=9_u8];
    let delay = proptest::option::weighted(0.2, 0_u64..50_000);
    (proptest::option::weighted(0.6, 0..3_u8), level, delay)
}

fn op() -> impl Strategy<Value = Op> {
    let rest = (0_u64..50_000).prop_map(Duration::from_millis);
    let verdict = prop_oneof![
        3 => Just(Verdict::Ack),
        1 => Just(Verdict::Reject { reason: String::new() }),
        2 => rest.clone().prop_map(|after| Verdict::Retry { after }),
        2 => Just(Verdict::Release { after: Duration::ZERO }),
        1 => rest.prop_map(|after| Verdict::Release { after }),
    ];
    prop_oneof![
        6 => place().prop_map(Op::Append),
        1 => vec(place(), 1..5).prop_map(Op::AppendAll),
        8 => Just(Op::Claim),
        6 => (any::<Index>(), verdict).prop_map(|(held, verdict)| Op::Settle(held, verdict)),
        1 => any::<Index>().prop_map(Op::Extend),
        1 => any::<Index>().prop_map(Op::Discard),
        1 => proptest::option::of(0_u64..100_000).prop_map(Op::Pause),
        1 => Just(Op::ComeAgain),
        3 => (0_u64..20_000).prop_map(Op::Pass),
        1 => (0..4 * LEVEL_MS).prop_map(Op::Pass),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Ready { since: u64, handed_back: bool },
    Resting { until: u64 },
    Leased { token: u64, until: u64, since: u64 },
    Gone,
}

#[derive(Debug)]
struct Task {
    key: Option<u8>,
    level: u8,
    not_before: u64,
    stored: u64,
    state: State,
    attempt: u32,
    /// It was handed out: it holds its key until it is gone.
    started: bool,
}

#[derive(Default)]
struct Model {
    now: u64,
    tasks: Vec<Task>,
    paused_until: u64,
    /// Every lease of this consumer: token and task.
    held: Vec<(u64, usize)>,
}

impl Model {
    fn pass(&mut self, ms: u64) {
        self.now += ms;
        for task in &mut self.tasks {
            match task.state {
                State::Resting { until } if until <= self.now => task.ready(until),
                State::Leased { until, .. } if until <= self.now => {
                    task.ready(until);
                    task.attempt += 1;
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, (key, level, delay): Place) {
        let not_before = self.now + delay.unwrap_or(0);
        let (stored, state) = (self.now, State::Resting { until: not_before });
        let (attempt, started) = (1, false);
        self.tasks.push(Task { key, level, not_before, stored, state, attempt, started });
        self.pass(0);
    }

    fn stored(&self) -> u64 {
        self.tasks.iter().filter(|task| task.state != State::Gone).count() as u64
    }

    /// Whether another of the same key must go before this one.
    fn is_held_up(&self, index: usize) -> bool {
        let task = &self.tasks[index];
        let holds = |(other, t): (usize, &Task)| {
            let is_ready = matches!(t.state, State::Ready { .. });
            let is_before = t.started || (!task.started && is_ready && other < index);
            other != index && t.key == task.key && t.state != State::Gone && is_before
        };
        task.key.is_some() && self.tasks.iter().enumerate().any(holds)
    }

    /// The task that must be handed out next.
    fn next(&self) -> Option<usize> {
        if self.paused_until > self.now {
            return None;
        }
        let place = |index: usize| match self.tasks[index].state {
            State::Ready { since, handed_back } if !self.is_held_up(index) => {
                let task = &self.tasks[index];
                let aged = since as i64 - i64::from(task.level) * LEVEL_MS as i64;
                Some((!handed_back, aged, 9 - task.level, task.attempt > 1, index))
            }
            _ => None,
        };
        let first = (0..self.tasks.len()).filter_map(place).min();
        first.map(|(.., index)| index)
    }

    fn leased(&self, (token, index): (u64, usize)) -> Option<usize> {
        let state = self.tasks[index].state;
        matches!(state, State::Leased { token: t, .. } if t == token).then_some(index)
    }
}

impl Task {
    fn ready(&mut self, since: u64) {
        self.state = State::Ready { since, handed_back: false };
    }

    fn placement(&self) -> Placement {
        Placement {
            not_before: (self.not_before > self.stored).then(|| at(self.not_before)),
            priority: Priority::new(self.level).unwrap(),
            key: self.key.map(|key| OrderKey::parse(&key.to_string()).unwrap()),
        }
    }
}

fn start() -> (Broker, ConsumerKey) {
    let all = spec("W", &["work.a"], Retention::WorkQueue);
    let mut broker = with(bounded(all, MESSAGES_MAX, MESSAGES_MAX));
    let key = broker.consume(consumer("W", "c", "work.a")).unwrap();
    (broker, key)
}

fn task_frame(model: &Model, index: usize) -> Frame {
    frame("work.a", &format!("t{index}")).placed(model.tasks[index].placement())
}

fn append(broker: &mut Broker, model: &mut Model, places: &[Place], is_batch: bool) {
    let (first, room) = (model.tasks.len(), MESSAGES_MAX - model.stored());
    places.iter().for_each(|&place| model.add(place));
    let frames = (first..model.tasks.len()).map(|index| task_frame(model, index));
    let frames: Vec<_> = frames.map(Arc::new).collect();
    let answer = if is_batch {
        broker.append_all(frames, at(model.now), |_| {})
    } else {
        let one = Arc::clone(&frames[0]);
        broker.append(one, Expect::Any, at(model.now), |_| {}).map(|receipt| vec![receipt])
    };
    if places.len() as u64 <= room {
        let seqs: Vec<_> = answer.unwrap().iter().map(|receipt| receipt.seq.0).collect();
        let expected: Vec<_> = (first..model.tasks.len()).map(|index| index as u64 + 1).collect();
        assert_eq!(seqs, expected);
    } else {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Full);
        model.tasks.truncate(first);
    }
}

fn claim(broker: &mut Broker, key: ConsumerKey, model: &mut Model) -> bool {
    let claim = broker.claim(key, at(model.now));
    let expected = model.next();
    assert_eq!(claim.as_ref().map(|c| c.message.seq.0), expected.map(|index| index as u64 + 1));
    let (Some(claim), Some(index)) = (claim, expected) else { return false };
    let State::Ready { since, .. } = model.tasks[index].state else {
        unreachable!("the model hands out what is ready only")
    };
    let task = &mut model.tasks[index];
    assert_eq!(claim.attempt, task.attempt);
    task.state = State::Leased { token: claim.token, until: model.now + LEASE_MS, since };
    task.started = true;
    let key = task.key;
    model.held.push((claim.token, index));
    let out = |task: &&Task| task.key == key && matches!(task.state, State::Leased { .. });
    assert!(key.is_none() || model.tasks.iter().filter(out).count() == 1, "two of a key are out");
    true
}

fn settle(
    broker: &mut Broker,
    key: ConsumerKey,
    model: &mut Model,
    held: (u64, usize),
    verdict: &Verdict,
) {
    let answer = broker.settle(key, held.0, verdict, at(model.now));
    let Some(index) = model.leased(held) else {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::LeaseLost);
        return;
    };
    answer.unwrap();
    let State::Leased { since, .. } = model.tasks[index].state else { return };
    let task = &mut model.tasks[index];
    let rest = |after: &Duration| State::Resting { until: model.now + after.as_millis() as u64 };
    task.state = match verdict {
        Verdict::Ack | Verdict::Reject { .. } => State::Gone,
        Verdict::Release { after } if after.is_zero() => State::Ready { since, handed_back: true },
        Verdict::Release { after } => rest(after),
        Verdict::Retry { after } => {
            task.attempt += 1;
            rest(after)
        }
    };
    model.pass(0);
}

/// The consumer is removed and comes again: everything that is stored, as if never tried.
fn come_again(broker: &mut Broker, model: &mut Model) -> ConsumerKey {
    let spec = consumer("W", "c", "work.a");
    assert!(broker.remove_consumer(&stream("W"), &spec.name).unwrap().is_some());
    model.paused_until = 0;
    model.held.clear();
    for task in model.tasks.iter_mut().filter(|task| task.state != State::Gone) {
        (task.attempt, task.started) = (1, false);
        task.state = State::Resting { until: task.not_before };
    }
    model.pass(0);
    broker.consume(spec).unwrap()
}

fn check(broker: &mut Broker, key: ConsumerKey, model: &Model) {
    let now = at(model.now);
    let in_flight = model.tasks.iter().filter(|t| matches!(t.state, State::Leased { .. }));
    let in_flight = in_flight.count() as u64;
    let oldest = model.tasks.iter().find(|task| task.state != State::Gone);
    let oldest = oldest.map(|task| Duration::from_millis(model.now - task.stored));
    let lag = broker.lag(&stream("W"), now).unwrap();
    let expected = (model.stored() - in_flight, in_flight, oldest);
    assert_eq!((lag.pending, lag.in_flight, lag.oldest), expected);
    let state = broker.consumers(&stream("W"), now).unwrap().remove(0);
    assert_eq!((state.lag.pending, state.lag.in_flight, state.lag.oldest), expected);
    let paused = (model.paused_until > model.now).then(|| at(model.paused_until));
    assert_eq!(state.paused_until, paused);
    // Members are called exactly when there is something for them.
    assert_eq!(broker.ready(key) > 0, model.next().is_some());
    let due = (0..model.tasks.len()).filter_map(|index| match model.tasks[index].state {
        State::Resting { until } | State::Leased { until, .. } => Some(until),
        State::Ready { .. } if !model.is_held_up(index) => Some(model.paused_until),
        _ => None,
    });
    if let (Some(due), None) = (due.min(), model.next()) {
        let due = due.max(model.paused_until);
        let next = broker.next_deadline(key);
        assert!(next.is_some_and(|next| next <= at(due)), "{next:?} is later than {due}");
    }
}

fn run(ops: Vec<Op>) {
    let ((mut broker, mut key), mut model) = (start(), Model::default());
    for op in ops {
        let pick =
            |index: Index, model: &Model| (!model.held.is_empty()).then(|| *index.get(&model.held));
        match op {
            Op::Append(place) => append(&mut broker, &mut model, &[place], false),
            Op::AppendAll(places) => append(&mut broker, &mut model, &places, true),
            Op::Claim => drop(claim(&mut broker, key, &mut model)),
            Op::Settle(held, verdict) => {
                if let Some(held) = pick(held, &model) {
                    settle(&mut broker, key, &mut model, held, &verdict);
                }
            }
            Op::Extend(held) => {
                if let Some(held) = pick(held, &model) {
                    let answer = broker.extend(key, held.0, at(model.now));
                    let leased = model.leased(held);
                    assert_eq!(answer.is_ok(), leased.is_some());
                    if let Some(index) = leased
                        && let State::Leased { until, .. } = &mut model.tasks[index].state
                    {
                        *until = model.now + LEASE_MS;
                    }
                }
            }
            Op::Discard(which) if !model.tasks.is_empty() => {
                let index = which.index(model.tasks.len());
                let was_there = model.tasks[index].state != State::Gone;
                let seq = Seq(index as u64 + 1);
                let gone = broker.discard(&stream("W"), seq, |_| {}).unwrap();
                assert_eq!(gone.is_some(), was_there);
                model.tasks[index].state = State::Gone;
            }
            Op::Discard(_) => {}
            Op::Pause(for_ms) => {
                model.paused_until = for_ms.map_or(0, |ms| model.now + ms);
                let until = for_ms.map(|_| at(model.paused_until));
                let name = consumer("W", "c", "work.a").name;
                broker.pause(&stream("W"), &name, until, at(model.now)).unwrap();
            }
            Op::ComeAgain => key = come_again(&mut broker, &mut model),
            Op::Pass(ms) => model.pass(ms),
        }
        check(&mut broker, key, &model);
    }
    // In the end everything comes out.
    model.pass(200_000);
    while claim(&mut broker, key, &mut model) {
        let held = *model.held.last().unwrap();
        settle(&mut broker, key, &mut model, held, &Verdict::Ack);
    }
    assert_eq!(model.stored(), 0);
    check(&mut broker, key, &model);
}

proptest! {
    /// Each claim gets the one message whose turn it is; of a key one is out at most, in order,
    /// through retries, lost leases, hand-backs and discards; nothing is lost.
    #[test]
    fn the_line_agrees_with_a_list(ops in vec(op(), 1..150)) {
        run(ops);
    }

    /// However many urgent messages keep coming, a patient one is handed out as soon as it waited
    /// for the head starts between them.
    #[test]
    fn no_message_starves(level in 0..9_u8, every_ms in 1_000..60_000_u64) {
        let (mut broker, key) = start();
        let (mut now, mut number) = (0, 0);
        let mut put = |broker: &mut Broker, level: u8, now: u64| {
            let priority = Priority::new(level).unwrap();
            let placement = Placement { priority, ..Placement::default() };
            let sent = frame("work.a", &number.to_string()).placed(placement);
            number += 1;
            broker.append(sent, Expect::Any, at(now), |_| {}).unwrap();
        };
        put(&mut broker, level, 0);
        let mut waited = BTreeMap::new();
        // Two urgent ones wait whenever a member comes for one.
        put(&mut broker, 9, 0);
        loop {
            put(&mut broker, 9, now);
            let claim = broker.claim(key, at(now)).unwrap();
            broker.settle(key, claim.token, &Verdict::Ack, at(now)).unwrap();
            waited.insert(claim.message.seq.0, now);
            if claim.message.seq == Seq(1) {
                break;
            }
            now += every_ms;
        }
        let head_starts = u64::from(9 - level) * LEVEL_MS;
        prop_assert!(waited[&1] <= head_starts + 2 * every_ms, "{} ms", waited[&1]);
    }
}
