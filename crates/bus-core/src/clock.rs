//! Where time comes from.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bus_envelope::Timestamp;

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// The time now; never before an earlier answer of the same clock.
    fn now(&self) -> Timestamp;
}

/// The machine's clock, read once at the start and moved on by the monotonic clock.
///
/// So it never goes back, and a change of the wall clock after the start is not seen.
#[derive(Debug, Clone)]
pub struct SystemClock {
    origin: Timestamp,
    started: Instant,
}

impl SystemClock {
    /// A clock that starts at the machine's time.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let origin = Timestamp::from_unix_ns(0).plus(since);
        Self { origin, started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.origin.plus(self.started.elapsed())
    }
}

/// Tokio's clock over a fixed origin: stands still and jumps when a test pauses and advances it.
#[derive(Debug, Clone)]
pub struct TokioClock {
    origin: Timestamp,
    started: tokio::time::Instant,
}

impl TokioClock {
    /// A clock that reads `origin` now.
    #[must_use]
    pub fn starting_at(origin: Timestamp) -> Self {
        Self { origin, started: tokio::time::Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.origin.plus(self.started.elapsed())
    }
}
