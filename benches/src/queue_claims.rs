//! The two halves of a work queue by themselves: filling it, and claiming and acknowledging what
//! waits there, one task at a time and in batches.
//!
//! All on one worker. A round fills the queue and empties it again and again, so that 1,000 tasks
//! wait at most; only one half is on the clock, or both for a whole cycle. Both sides are filled
//! with the same messages, frames with an id each, which are made off it and end on it.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use anyhow::{Result, anyhow};
use bus_core::{
    Bus, Deliveries, Expect, Frame, FrameId, Retention, StreamSpec, Verdict, settle_all,
};
use bus_mem::InMemoryBus;
use bus_subjects::{Filter, Subject};
use bytes::Bytes;

use crate::{
    case::{Case, Figures, processor_time},
    queue::{body, consumer, give_way, median, runtime, task_subject},
    raw_queue::RawQueue,
};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "Q1-queue-claim-ack-one-worker",
        goal: Some(2.0),
        measure: || measure(Halves::Drain, 1, 1),
    },
    Case {
        name: "queue-append-beside-push-one-worker",
        goal: None,
        measure: || measure(Halves::Fill, 1, 1),
    },
    Case {
        name: "queue-claim-ack-batch-16-beside-raw-batch-1",
        goal: None,
        measure: || measure(Halves::Drain, 16, 1),
    },
    Case {
        name: "queue-claim-ack-batch-16-beside-raw-batch-16",
        goal: None,
        measure: || measure(Halves::Drain, 16, 16),
    },
    Case {
        name: "queue-cycle-batch-16-beside-raw-batch-1",
        goal: None,
        measure: || measure(Halves::Both, 16, 1),
    },
    Case {
        name: "queue-cycle-batch-16-beside-raw-batch-16",
        goal: None,
        measure: || measure(Halves::Both, 16, 16),
    },
];

/// What is on the clock.
#[derive(Clone, Copy, PartialEq)]
enum Halves {
    Fill,
    Drain,
    Both,
}

/// What one round took, in all.
#[derive(Default)]
struct Took {
    fill: Duration,
    drain: Duration,
}

fn measure(halves: Halves, batch: usize, raw_batch: usize) -> Result<Figures> {
    runtime(1)?.block_on(async {
        let mut raw = Raw { queue: RawQueue::default(), maker: Maker::new(raw_batch)? };
        let mut ours = Ours::new(batch).await?;
        raw.round().await?;
        for _ in 0..IDS_MAX.div_ceil(DEPTH * FILLS) {
            ours.round().await?;
        }
        let (mut raws, mut owns) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            raws.push(raw.round().await?.nanoseconds_a_task(halves));
            owns.push(ours.round().await?.nanoseconds_a_task(halves));
        }
        Ok(Figures { raw: median(raws)?, ours: median(owns)? })
    })
}

impl Took {
    fn nanoseconds_a_task(&self, halves: Halves) -> f64 {
        let took = match halves {
            Halves::Fill => self.fill,
            Halves::Drain => self.drain,
            Halves::Both => self.fill + self.drain,
        };
        took.as_secs_f64() * 1e9 / (DEPTH * FILLS) as f64
    }
}

/// Makes the messages of a filling.
struct Maker {
    subject: Subject,
    body: Bytes,
    next_id: usize,
    batch: usize,
}

impl Maker {
    fn new(batch: usize) -> Result<Self> {
        Ok(Self { subject: task_subject()?, body: body(), next_id: 0, batch })
    }

    /// One filling, in batches.
    fn frames(&mut self) -> Result<Vec<Vec<Frame>>> {
        let mut batches = Vec::new();
        for from in (0..DEPTH).step_by(self.batch) {
            let mut batch = Vec::new();
            for _ in 0..self.batch.min(DEPTH - from) {
                let id = FrameId::parse(&format!("{:036}", self.next_id))?;
                batch.push(Frame::new(self.subject.clone(), id, self.body.clone()));
                self.next_id += 1;
            }
            batches.push(batch);
        }
        Ok(batches)
    }
}

struct Raw {
    queue: RawQueue<Arc<Frame>>,
    maker: Maker,
}

impl Raw {
    async fn round(&mut self) -> Result<Took> {
        let mut took = Took::default();
        for _ in 0..FILLS {
            let frames = self.maker.frames()?;
            let start = processor_time();
            self.fill(frames).await;
            let filled = processor_time();
            self.drain().await;
            took.fill += filled.saturating_sub(start);
            took.drain += processor_time().saturating_sub(filled);
        }
        Ok(took)
    }

    async fn fill(&self, batches: Vec<Vec<Frame>>) {
        for (count, batch) in batches.into_iter().enumerate() {
            let batch = batch.into_iter().map(Arc::new);
            if self.maker.batch == 1 {
                batch.for_each(|frame| self.queue.push(frame));
            } else {
                self.queue.push_many(batch.collect());
            }
            give_way(count).await;
        }
    }

    async fn drain(&self) {
        if self.maker.batch == 1 {
            for count in 0..DEPTH {
                let (token, frame, _) = self.queue.claim().await;
                std::hint::black_box(&frame.body);
                self.queue.ack(token);
                give_way(count).await;
            }
            return;
        }
        let mut left = DEPTH;
        while left > 0 {
            let claimed = self.queue.claim_many(self.maker.batch).await;
            left -= claimed.len();
            let tokens = claimed.iter().map(|&(token, ..)| token).collect();
            std::hint::black_box(&claimed);
            self.queue.ack_many(tokens);
            give_way(left / self.maker.batch).await;
        }
    }
}

struct Ours {
    bus: InMemoryBus,
    member: Deliveries,
    maker: Maker,
    batch: NonZeroUsize,
}

impl Ours {
    async fn new(batch: usize) -> Result<Self> {
        let (bus, maker) = (InMemoryBus::new(), Maker::new(batch)?);
        let spec = consumer(&maker.subject)?;
        let filters = vec![Filter::parse("vak.work.w1.*.task")?];
        bus.declare(StreamSpec::new(spec.stream.clone(), filters, Retention::WorkQueue)).await?;
        let member = bus.consume(spec).await?;
        let batch = NonZeroUsize::new(batch).ok_or_else(|| anyhow!("a batch has a task"))?;
        Ok(Self { bus, member, maker, batch })
    }

    async fn round(&mut self) -> Result<Took> {
        let mut took = Took::default();
        for _ in 0..FILLS {
            let frames = self.maker.frames()?;
            let start = processor_time();
            self.fill(frames).await?;
            let filled = processor_time();
            self.drain().await?;
            took.fill += filled.saturating_sub(start);
            took.drain += processor_time().saturating_sub(filled);
        }
        Ok(took)
    }

    async fn fill(&self, batches: Vec<Vec<Frame>>) -> Result<()> {
        for batch in batches {
            if self.batch.get() == 1 {
                for frame in batch {
                    self.bus.append(frame, Expect::Any).await?;
                }
            } else {
                self.bus.append_all(batch).await?;
            }
        }
        Ok(())
    }

    async fn drain(&mut self) -> Result<()> {
        let ended = || anyhow!("the consumer ended");
        let mut left = DEPTH;
        while left > 0 {
            if self.batch.get() == 1 {
                let delivery = self.member.next().await.ok_or_else(ended)??;
                std::hint::black_box(&delivery.frame.body);
                delivery.settle(Verdict::Ack).await?;
                left -= 1;
                continue;
            }
            let claimed = self.member.next_many(self.batch).await.ok_or_else(ended)??;
            left -= claimed.len();
            let done = claimed.into_iter().map(|delivery| (delivery, Verdict::Ack)).collect();
            for settled in settle_all(done).await {
                settled?;
            }
        }
        Ok(())
    }
}

/// Tasks that wait at most.
const DEPTH: usize = 1_000;
/// Fillings of a round.
const FILLS: usize = 20;
const ROUNDS: usize = 15;

/// As many ids as a stream with the default bounds remembers.
const IDS_MAX: usize = 1_000_000;
