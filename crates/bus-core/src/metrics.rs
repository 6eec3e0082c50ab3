//! Counters of what went over the bus, readable at any time.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of one or more endpoints; lock-free, shared through an `Arc`.
#[derive(Debug, Default)]
pub struct BusMetrics {
    published_count: AtomicU64,
    received_count: AtomicU64,
    bytes_published: AtomicU64,
    bytes_received: AtomicU64,
    dead_letter_count: AtomicU64,
    active_queue_lag: AtomicU64,
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
    /// Tasks waiting or under a lease when the lag was last read.
    pub active_queue_lag: u64,
}

impl BusMetrics {
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

    /// Notes how many tasks wait or are under a lease.
    pub fn lag(&self, tasks: u64) {
        self.active_queue_lag.store(tasks, Ordering::Relaxed);
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
            active_queue_lag: read(&self.active_queue_lag),
        }
    }
}
