//! The work queue beside a raw one: a mutex, leases in a hash map, and a notification.
//!
//! One producer appends, consumers claim one task at a time and acknowledge it. Ours also knows
//! ids, subjects and priorities, refuses late verdicts and redelivers; the raw one does not. These
//! rows have the whole cycle on the clock, memory for ids included, and no goal: remembering an id
//! alone costs more than all that the raw queue does.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};
use bus_core::{
    Bus, Clock, ConsumerSpec, Expect, Frame, FrameId, Retention, StreamSpec, SystemClock, Verdict,
};
use bus_envelope::Timestamp;
use bus_mem::InMemoryBus;
use bus_subjects::{ConsumerName, Filter, StreamName, Subject};
use bytes::Bytes;
use tokio::{runtime::Runtime, sync::Notify, task::JoinSet};

use crate::{
    case::{Case, Figures, processor_time},
    raw_queue::RawQueue,
};

pub(crate) const CASES: &[Case] = &[
    Case { name: "Q1-queue-cycle-1-worker-1p1c", goal: None, measure: || beside_raw(1, 1) },
    Case { name: "Q1-queue-cycle-1-worker-1p4c", goal: None, measure: || beside_raw(1, 4) },
    Case { name: "Q1-queue-cycle-1-worker-1p64c", goal: None, measure: || beside_raw(1, 64) },
    Case { name: "queue-cycle-2-workers-1p1c", goal: None, measure: || beside_raw(2, 1) },
    Case { name: "queue-cycle-2-workers-1p4c", goal: None, measure: || beside_raw(2, 4) },
    Case { name: "queue-cycle-2-workers-1p64c", goal: None, measure: || beside_raw(2, 64) },
];

/// Nanoseconds a task, from the first append to the last acknowledgement.
fn beside_raw(workers: usize, consumers: usize) -> Result<Figures> {
    let (mut raw, mut ours) = (Raw::new(), Ours::new()?);
    let (mut raws, mut owns) = (Vec::new(), Vec::new());
    // Warm until the broker remembers as many ids as it ever will: it stays from round to round.
    raw.round(workers, consumers)?;
    for _ in 0..IDS_MAX.div_ceil(TASKS) {
        ours.round(workers, consumers)?;
    }
    for _ in 0..ROUNDS {
        raws.push(raw.round(workers, consumers)?);
        owns.push(ours.round(workers, consumers)?);
    }
    Ok(Figures { raw: median(raws)?, ours: median(owns)? })
}

struct Raw {
    body: Bytes,
}

impl Raw {
    fn new() -> Self {
        Self { body: body() }
    }

    fn round(&mut self, workers: usize, consumers: usize) -> Result<f64> {
        let queue = Arc::new(RawQueue::default());
        let done = Done::new();
        let runtime = runtime(workers)?;
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for _ in 0..consumers {
                let (queue, done) = (Arc::clone(&queue), done.clone());
                tasks.spawn(async move {
                    for count in 0_usize.. {
                        let (token, body, _) = queue.claim().await;
                        std::hint::black_box(body);
                        ensure!(queue.ack(token), "the lease of a raw task is there");
                        done.one_more();
                        give_way(count).await;
                    }
                    Ok(())
                });
            }
            // Consumers wait before the clock starts.
            tokio::task::yield_now().await;
            let watch = Watch::start(workers);
            let body = self.body.clone();
            tasks.spawn(async move {
                for count in 0..TASKS {
                    queue.push(body.clone());
                    give_way(count).await;
                }
                Ok(())
            });
            done.wait(&mut tasks).await?;
            Ok(nanoseconds_a_task(watch.read()))
        })
    }
}

struct Ours {
    bus: InMemoryBus,
    body: Bytes,
    subject: Subject,
    spec: ConsumerSpec,
    next_id: usize,
}

impl Ours {
    fn new() -> Result<Self> {
        let subject = task_subject()?;
        let spec = consumer(&subject)?;
        Ok(Self { bus: InMemoryBus::new(), body: body(), subject, spec, next_id: 0 })
    }

    fn round(&mut self, workers: usize, consumers: usize) -> Result<f64> {
        let mut ids = Ids::new(self.next_id..self.next_id + TASKS);
        self.next_id += TASKS;
        if workers > 1 {
            ids.prepare(TASKS);
        }
        let preparing = Arc::clone(&ids.spent_ns);
        let done = Done::new();
        let runtime = runtime(workers)?;
        runtime.block_on(async {
            let filters = vec![Filter::parse("vak.work.w1.*.task")?];
            let stream = self.spec.stream.clone();
            self.bus.declare(StreamSpec::new(stream, filters, Retention::WorkQueue)).await?;
            let mut tasks = JoinSet::new();
            for _ in 0..consumers {
                let mut member = self.bus.consume(self.spec.clone()).await?;
                let done = done.clone();
                tasks.spawn(async move {
                    while let Some(delivery) = member.next().await {
                        let delivery = delivery?;
                        std::hint::black_box(&delivery.frame.body);
                        delivery.settle(Verdict::Ack).await?;
                        done.one_more();
                    }
                    Err(anyhow!("a consumer ended before its tasks"))
                });
            }
            tokio::task::yield_now().await;
            let watch = Watch::start(workers);
            let (bus, body, subject) = (self.bus.clone(), self.body.clone(), self.subject.clone());
            tasks.spawn(async move {
                while let Some(id) = ids.next() {
                    let frame = Frame::new(subject.clone(), id, body.clone());
                    bus.append(frame, Expect::Any).await?;
                }
                Ok(())
            });
            done.wait(&mut tasks).await?;
            let preparing = Duration::from_nanos(preparing.load(Ordering::Acquire));
            Ok(nanoseconds_a_task(watch.read().saturating_sub(preparing)))
        })
    }
}

/// Ids of frames: made right before they are used, as a caller would, but on a clock of their own.
struct Ids {
    numbers: Range<usize>,
    ready: VecDeque<FrameId>,
    spent_ns: Arc<AtomicU64>,
}

impl Ids {
    fn new(numbers: Range<usize>) -> Self {
        Self { numbers, ready: VecDeque::new(), spent_ns: Arc::default() }
    }

    fn prepare(&mut self, count: usize) {
        let made = self.numbers.by_ref().take(count);
        self.ready.extend(made.filter_map(|n| FrameId::parse(&format!("{n:036}")).ok()));
    }

    fn next(&mut self) -> Option<FrameId> {
        if self.ready.is_empty() && !self.numbers.is_empty() {
            let start = processor_time();
            self.prepare(128);
            let spent = processor_time().saturating_sub(start).as_nanos() as u64;
            self.spent_ns.fetch_add(spent, Ordering::AcqRel);
        }
        self.ready.pop_front()
    }
}

/// One worker is measured by its processor time, so that others cost cache lines and no more; two
/// wait for each other, which only the wall clock shows.
enum Watch {
    Processor(Duration),
    Wall(SystemClock, Timestamp),
}

impl Watch {
    fn start(workers: usize) -> Self {
        if workers == 1 {
            return Self::Processor(processor_time());
        }
        let clock = SystemClock::new();
        let start = clock.now();
        Self::Wall(clock, start)
    }

    fn read(&self) -> Duration {
        match self {
            Self::Processor(start) => processor_time().saturating_sub(*start),
            Self::Wall(clock, start) => clock.now().since(*start),
        }
    }
}

/// Counts tasks that are done.
#[derive(Clone)]
struct Done(Arc<(AtomicUsize, Notify)>);

impl Done {
    fn new() -> Self {
        Self(Arc::new((AtomicUsize::new(0), Notify::new())))
    }

    fn one_more(&self) {
        if self.0.0.fetch_add(1, Ordering::AcqRel) + 1 == TASKS {
            self.0.1.notify_one();
        }
    }

    /// Waits for the last task. Whatever `tasks` cannot do, there is no figure without it.
    async fn wait(&self, tasks: &mut JoinSet<Result<()>>) -> Result<()> {
        loop {
            tokio::select! {
                biased;
                () = self.0.1.notified() => return Ok(()),
                Some(ended) = tasks.join_next() => ended.context("run a side of the queue")??,
            }
        }
    }
}

/// As often as tokio makes one of our calls give way.
pub(crate) async fn give_way(count: usize) {
    if count % 128 == 127 {
        tokio::task::yield_now().await;
    }
}

pub(crate) fn task_subject() -> Result<Subject> {
    Ok(Subject::parse("vak.work.w1.coder.task")?)
}

/// The one consumer of `subject`.
pub(crate) fn consumer(subject: &Subject) -> Result<ConsumerSpec> {
    Ok(ConsumerSpec {
        stream: StreamName::parse("WORK")?,
        name: ConsumerName::parse("coder")?,
        filter: Filter::from(subject),
        lease: Duration::from_secs(30),
    })
}

pub(crate) fn runtime(workers: usize) -> Result<Runtime> {
    let mut builder = match workers {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.worker_threads(workers).enable_time().build().context("start a runtime")
}

pub(crate) fn body() -> Bytes {
    Bytes::from(vec![b'x'; 256])
}

fn nanoseconds_a_task(took: Duration) -> f64 {
    took.as_secs_f64() * 1e9 / TASKS as f64
}

pub(crate) fn median(mut times: Vec<f64>) -> Result<f64> {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().ok_or_else(|| anyhow!("there must be a round"))
}

const TASKS: usize = 20_000;
const ROUNDS: usize = 15;

/// As many as a stream with the default bounds may hold messages.
const IDS_MAX: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_that_is_refused_ends_the_round() -> Result<()> {
        let refused = runtime(1)?.block_on(async {
            let mut tasks = JoinSet::new();
            tasks.spawn(std::future::pending());
            tasks.spawn(async { Err(anyhow!("refused")) });
            Done::new().wait(&mut tasks).await
        });
        assert_eq!(refused.map_err(|error| error.to_string()), Err("refused".to_owned()));
        Ok(())
    }
}
