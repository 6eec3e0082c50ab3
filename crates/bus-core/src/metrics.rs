//! What went over the bus: counters, latencies, queues and how tasks ended, readable at any time.

mod histogram;
mod outcomes;
mod queues;

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bus_subjects::{ConsumerName, StreamName};

use self::{histogram::Histogram, outcomes::Outcomes, queues::Queues};
pub use self::{
    histogram::{LatencySpread, LatencySummary},
    outcomes::{OutcomeCounts, TaskOutcome},
    queues::QueueReport,
};
use crate::{ConsumerState, Lag};

/// The counters of one or more endpoints, shared through an `Arc`.
///
/// Counters and latencies are lock-free and take a fixed amount of memory. A gauge is set, never
/// added to, so it cannot go below zero. Time comes from the endpoints' clocks: under a stopped
/// clock every latency is what the clock was moved.
#[derive(Debug, Default)]
pub struct BusMetrics {
    published_count: AtomicU64,
    received_count: AtomicU64,
    bytes_published: AtomicU64,
    bytes_received: AtomicU64,
    dead_letter_count: AtomicU64,
    dead_letter_failed_count: AtomicU64,
    active_queue_lag: AtomicU64,
    publish: Histogram,
    append: Histogram,
    claim: Histogram,
    settle: Histogram,
    outcomes: Outcomes,
    queues: Queues,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct MetricsSnapshot {
    /// Frames published or appended.
    pub published_count: u64,
    /// Frames received and opened.
    pub received_count: u64,
    /// Bytes of headers and bodies published.
    pub bytes_published: u64,
    /// Bytes of headers and bodies received.
    pub bytes_received: u64,
    /// Tasks given up: their dead letter is stored and they are removed, each counted once.
    pub dead_letter_count: u64,
    /// How often a dead letter could not be stored: the task is kept and comes again.
    pub dead_letter_failed_count: u64,
    /// Tasks waiting or under a lease when the lag was last read.
    pub active_queue_lag: u64,
}

/// Everything that is measured, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct MetricsReport {
    /// The counters.
    pub counters: MetricsSnapshot,
    /// How long things took.
    pub latencies: Latencies,
    /// How deliveries of tasks ended.
    pub outcomes: OutcomeCounts,
    /// The queues as they were when they were last looked at, by name; at most
    /// [`BusMetrics::QUEUES_MAX`].
    pub queues: Vec<QueueReport>,
    /// How often a queue beyond that number was looked at, and not kept.
    pub queues_left_out: u64,
}

/// How long the four steps of a message took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Latencies {
    /// Publishing a live message: from its stamp until the engine has it.
    pub publish: LatencySummary,
    /// Storing a durable message: from the append until the engine's word, repeats included. A
    /// batch counts once.
    pub append: LatencySummary,
    /// From the storing of a message to its first delivery: its wait in the queue, a delay it was
    /// sent with included.
    pub claim: LatencySummary,
    /// From a verdict to the engine's confirmation.
    pub settle: LatencySummary,
}

/// A step whose latency is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// As [`Latencies::publish`].
    Publish,
    /// As [`Latencies::append`].
    Append,
    /// As [`Latencies::claim`].
    Claim,
    /// As [`Latencies::settle`].
    Settle,
}

impl BusMetrics {
    /// How many queues are kept apart.
    pub const QUEUES_MAX: usize = 256;

    /// Counts one frame of `bytes` bytes as published.
    pub fn published(&self, bytes: usize) {
        self.published_count.fetch_add(1, Ordering::Relaxed);
        self.bytes_published.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts one frame of `bytes` bytes as received.
    pub fn received(&self, bytes: usize) {
        self.received_count.fetch_add(1, Ordering::Relaxed);
        self.bytes_received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts one task that was given up, once its dead letter is stored and it is removed.
    pub fn dead_lettered(&self) {
        self.dead_letter_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one dead letter that could not be stored.
    pub fn letter_failed(&self) {
        self.dead_letter_failed_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes how many tasks wait or are under a lease.
    pub fn lag(&self, tasks: u64) {
        self.active_queue_lag.store(tasks, Ordering::Relaxed);
    }

    /// Notes that `step` took `time`.
    pub fn took(&self, step: Step, time: Duration) {
        match step {
            Step::Publish => self.publish.record(time),
            Step::Append => self.append.record(time),
            Step::Claim => self.claim.record(time),
            Step::Settle => self.settle.record(time),
        }
    }

    /// How long `step` took so far, between fixed bounds.
    #[must_use]
    pub fn spread(&self, step: Step) -> LatencySpread {
        match step {
            Step::Publish => self.publish.spread(),
            Step::Append => self.append.spread(),
            Step::Claim => self.claim.spread(),
            Step::Settle => self.settle.spread(),
        }
    }

    /// Counts how a delivery of a task ended.
    pub fn ended(&self, outcome: TaskOutcome) {
        self.outcomes.count(outcome);
    }

    /// Notes how a stream stands, as one queue.
    pub fn stream_lag(&self, stream: &StreamName, lag: Lag) {
        self.queues.set(stream, None, lag);
    }

    /// Notes how each consumer of a stream stands, as a queue of its own, and forgets those of
    /// this stream that are not named any more.
    pub fn consumer_lags(&self, stream: &StreamName, consumers: &[ConsumerState]) {
        let names: Vec<&ConsumerName> = consumers.iter().map(|state| &state.spec.name).collect();
        self.queues.keep_only(stream, &names);
        for state in consumers {
            self.queues.set(stream, Some(&state.spec.name), state.lag);
        }
    }

    /// All counters as they are now; each is exact, together they are not one instant.
    #[must_use]
    pub fn snapshot(&self) -> MetricsSnapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MetricsSnapshot {
            published_count: read(&self.published_count),
            received_count: read(&self.received_count),
            bytes_published: read(&self.bytes_published),
            bytes_received: read(&self.bytes_received),
            dead_letter_count: read(&self.dead_letter_count),
            dead_letter_failed_count: read(&self.dead_letter_failed_count),
            active_queue_lag: read(&self.active_queue_lag),
        }
    }

    /// Everything that is measured as it is now; together it is not one instant.
    #[must_use]
    pub fn report(&self) -> MetricsReport {
        let (queues, queues_left_out) = self.queues.report();
        MetricsReport {
            counters: self.snapshot(),
            latencies: Latencies {
                publish: self.publish.summary(),
                append: self.append.summary(),
                claim: self.claim.summary(),
                settle: self.settle.summary(),
            },
            outcomes: self.outcomes.counts(),
            queues,
            queues_left_out,
        }
    }
}

#[cfg(test)]
mod tests;
