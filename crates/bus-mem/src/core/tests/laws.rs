//! Laws: random operations against models that are too simple to be wrong.

use std::{collections::HashMap, time::Duration};

use bus_core::{ErrorKind, Expect, Retention, Seq, StreamSpec, Verdict};
use proptest::{collection::vec, prelude::*};

use super::{
    super::{Broker, ConsumerKey},
    LEASE, at, bounded, consumer, frame, spec, stream, with,
};

const SUBJECTS: [&str; 3] = ["work.a", "work.b", "work.c"];
const MESSAGES_MAX: usize = 12;
const PER_SUBJECT_MAX: usize = 6;
const WINDOW_MS: u64 = 40_000;
const LEASE_MS: u64 = LEASE.as_millis() as u64;

#[derive(Debug, Clone)]
enum Op {
    Append { subject: usize, id: u16, expect_last: Option<bool> },
    Claim { consumer: usize },
    Settle { held: prop::sample::Index, verdict: Verdict },
    Extend { held: prop::sample::Index },
    Pass { ms: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let rest = (0_u64..50_000).prop_map(Duration::from_millis);
    let verdict = prop_oneof![
        3 => Just(Verdict::Ack),
        1 => Just(Verdict::Reject { reason: String::new() }),
        2 => rest.clone().prop_map(|after| Verdict::Retry { after }),
        1 => Just(Verdict::Release { after: Duration::ZERO }),
        1 => rest.prop_map(|after| Verdict::Release { after }),
    ];
    prop_oneof![
        4 => (0..3_usize, 0..60_u16, proptest::option::weighted(0.3, any::<bool>()))
            .prop_map(|(subject, id, expect_last)| Op::Append { subject, id, expect_last }),
        4 => (0..2_usize).prop_map(|consumer| Op::Claim { consumer }),
        3 => (any::<prop::sample::Index>(), verdict)
            .prop_map(|(held, verdict)| Op::Settle { held, verdict }),
        1 => any::<prop::sample::Index>().prop_map(|held| Op::Extend { held }),
        2 => (0_u64..20_000).prop_map(|ms| Op::Pass { ms }),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Waiting,
    Resting { until: u64 },
    Leased { token: u64, until: u64 },
    Gone,
}

#[derive(Debug)]
struct Task {
    subject: usize,
    place: Place,
    /// The number of the attempt that runs, or that comes next.
    attempt: u32,
}

/// The model: a list of tasks, searched from end to end for everything.
struct Model {
    now: u64,
    tasks: Vec<Task>,
    ids: HashMap<u16, (u64, u64)>,
    /// Every lease ever granted: consumer, token, task.
    held: Vec<(usize, u64, usize)>,
}

impl Model {
    fn pass(&mut self, ms: u64) {
        self.now += ms;
        for task in &mut self.tasks {
            match task.place {
                Place::Resting { until } if until <= self.now => task.place = Place::Waiting,
                Place::Leased { until, .. } if until <= self.now => {
                    task.place = Place::Waiting;
                    task.attempt += 1;
                }
                _ => {}
            }
        }
    }

    fn stored(&self, subject: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        let wanted = move |task: &Task| subject.is_none_or(|subject| task.subject == subject);
        let tasks = self.tasks.iter().enumerate();
        tasks.filter(move |(_, t)| t.place != Place::Gone && wanted(t)).map(|(at, _)| at)
    }

    fn last(&self, subject: usize) -> u64 {
        self.stored(Some(subject)).last().map_or(0, |at| at as u64 + 1)
    }

    fn count(&self, of: impl Fn(Place) -> bool) -> u64 {
        self.tasks.iter().filter(|task| of(task.place)).count() as u64
    }

    /// The task of a lease that is still good.
    fn leased(&self, (_, token, task): (usize, u64, usize)) -> Option<usize> {
        let good = matches!(self.tasks[task].place, Place::Leased { token: t, .. } if t == token);
        good.then_some(task)
    }
}

fn start() -> (Broker, Vec<ConsumerKey>, Model) {
    let all = bounded(
        spec("W", &["work.*"], Retention::WorkQueue),
        MESSAGES_MAX as u64,
        PER_SUBJECT_MAX as u64,
    );
    let mut broker = with(StreamSpec { dedupe_window: Duration::from_millis(WINDOW_MS), ..all });
    // Nobody reads the third subject.
    let keys = vec![
        broker.consume(consumer("W", "first", "work.a")).unwrap(),
        broker.consume(consumer("W", "second", "work.b")).unwrap(),
    ];
    let model = Model { now: 0, tasks: Vec::new(), ids: HashMap::new(), held: Vec::new() };
    (broker, keys, model)
}

fn append(broker: &mut Broker, model: &mut Model, (subject, id): (usize, u16), last: Option<bool>) {
    let current = model.last(subject);
    let expect = match last {
        None => Expect::Any,
        Some(true) => Expect::LastOfSubject(Seq(current)),
        Some(false) => Expect::LastOfSubject(Seq(current + 1)),
    };
    let answer =
        broker.append(frame(SUBJECTS[subject], &id.to_string()), expect, at(model.now), |_| {});
    let known = model.ids.get(&id).filter(|(_, since)| since + WINDOW_MS > model.now);
    if let Some(&(seq, _)) = known {
        let receipt = answer.unwrap();
        assert_eq!((receipt.seq.0, receipt.duplicate), (seq, true));
    } else if last == Some(false) {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Conflict);
    } else if model.stored(None).count() >= MESSAGES_MAX
        || model.stored(Some(subject)).count() >= PER_SUBJECT_MAX
    {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Full);
    } else {
        let receipt = answer.unwrap();
        model.tasks.push(Task { subject, place: Place::Waiting, attempt: 1 });
        assert_eq!((receipt.seq.0, receipt.duplicate), (model.tasks.len() as u64, false));
        model.ids.insert(id, (receipt.seq.0, model.now));
    }
}

fn claim(broker: &mut Broker, keys: &[ConsumerKey], model: &mut Model, consumer: usize) -> bool {
    let mine = |task: &Task| task.subject == consumer;
    let Some(claim) = broker.claim(keys[consumer], at(model.now)) else {
        let missed = model.tasks.iter().any(|t| mine(t) && t.place == Place::Waiting);
        assert!(!missed, "a waiting task was not handed out");
        return false;
    };
    let index = claim.message.seq.0 as usize - 1;
    let until = model.now + LEASE_MS;
    let task = &mut model.tasks[index];
    assert!(mine(task), "a task of another consumer");
    assert_eq!(task.place, Place::Waiting, "a task that is leased, resting or gone");
    assert_eq!(claim.attempt, task.attempt);
    task.place = Place::Leased { token: claim.token, until };
    model.held.push((consumer, claim.token, index));
    true
}

fn settle(
    broker: &mut Broker,
    keys: &[ConsumerKey],
    model: &mut Model,
    held: (usize, u64, usize),
    verdict: &Verdict,
) {
    let answer = broker.settle(keys[held.0], held.1, verdict, at(model.now));
    let Some(index) = model.leased(held) else {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::LeaseLost);
        return;
    };
    answer.unwrap();
    let now = model.now;
    let task = &mut model.tasks[index];
    let rest = |after: &Duration| match after.as_millis() as u64 {
        0 => Place::Waiting,
        ms => Place::Resting { until: now + ms },
    };
    task.place = match verdict {
        Verdict::Ack | Verdict::Reject { .. } => Place::Gone,
        Verdict::Release { after } => rest(after),
        Verdict::Retry { after } => {
            task.attempt += 1;
            rest(after)
        }
    };
}

fn extend(broker: &mut Broker, keys: &[ConsumerKey], model: &mut Model, held: (usize, u64, usize)) {
    let answer = broker.extend(keys[held.0], held.1, at(model.now));
    match model.leased(held) {
        None => assert_eq!(answer.unwrap_err().kind(), ErrorKind::LeaseLost),
        Some(index) => {
            assert_eq!(answer.unwrap(), LEASE);
            let until = model.now + LEASE_MS;
            model.tasks[index].place = Place::Leased { token: held.1, until };
        }
    }
}

fn check(broker: &mut Broker, keys: &[ConsumerKey], model: &Model) {
    let lag = broker.lag(&stream("W"), at(model.now)).unwrap();
    let in_flight = model.count(|place| matches!(place, Place::Leased { .. }));
    assert_eq!(lag.in_flight, in_flight);
    assert_eq!(lag.pending, model.count(|place| place != Place::Gone) - in_flight);
    for (consumer, &key) in keys.iter().enumerate() {
        let due = model.tasks.iter().filter(|t| t.subject == consumer);
        let due = due.filter_map(|task| match task.place {
            Place::Resting { until } | Place::Leased { until, .. } => Some(at(until)),
            _ => None,
        });
        if let Some(due) = due.min() {
            assert!(broker.next_deadline(key).unwrap() <= due, "the alarm would ring too late");
        }
    }
}

proptest! {
    /// No stored task is lost, none is leased twice, attempts and counts are exact, and a late
    /// verdict changes nothing.
    #[test]
    fn the_broker_agrees_with_a_list_of_tasks(ops in vec(op(), 1..200)) {
        let (mut broker, keys, mut model) = start();
        for op in ops {
            let pick = |held: &prop::sample::Index, model: &Model| {
                (!model.held.is_empty()).then(|| *held.get(&model.held))
            };
            match op {
                Op::Append { subject, id, expect_last } => {
                    append(&mut broker, &mut model, (subject, id), expect_last);
                }
                Op::Claim { consumer } => drop(claim(&mut broker, &keys, &mut model, consumer)),
                Op::Settle { held, verdict } => if let Some(held) = pick(&held, &model) {
                    settle(&mut broker, &keys, &mut model, held, &verdict);
                },
                Op::Extend { held } => if let Some(held) = pick(&held, &model) {
                    extend(&mut broker, &keys, &mut model, held);
                },
                Op::Pass { ms } => model.pass(ms),
            }
            check(&mut broker, &keys, &model);
        }
        // Whatever is left comes out in the end, but for the subject that nobody reads.
        model.pass(100_000);
        for consumer in 0..2 {
            while claim(&mut broker, &keys, &mut model, consumer) {
                let held = *model.held.last().unwrap();
                settle(&mut broker, &keys, &mut model, held, &Verdict::Ack);
            }
        }
        prop_assert_eq!(model.stored(None).count(), model.stored(Some(2)).count());
        check(&mut broker, &keys, &model);
    }
}
