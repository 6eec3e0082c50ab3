//! Where time comes from.

use std::time::{SystemTime, UNIX_EPOCH};

use bus_envelope::Timestamp;

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// The time now; never before an earlier answer of the same clock.
    fn now(&self) -> Timestamp;

    /// A time shortly before [`Clock::now`], by a tick of the machine (mostly less than 10 ms), and
    /// never after it; never before an earlier answer of this method. It may be much cheaper, for
    /// who only asks whether a time is over.
    fn coarse(&self) -> Timestamp;
}

/// The machine's clock, read once at the start and moved on by the monotonic clock.
///
/// So it never goes back, and a change of the wall clock after the start is not seen.
#[derive(Debug, Clone)]
pub struct SystemClock {
    /// The time at which the monotonic clock read zero.
    origin: Timestamp,
    monotonic: Monotonic,
}

impl SystemClock {
    /// A clock that starts at the machine's time.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let monotonic = Monotonic::new();
        let passed = i128::from(monotonic.now_ns());
        let now = Timestamp::from_unix_ns(0).plus(since);
        Self { origin: Timestamp::from_unix_ns(now.unix_ns() - passed), monotonic }
    }

    fn at(&self, monotonic_ns: u64) -> Timestamp {
        Timestamp::from_unix_ns(self.origin.unix_ns() + i128::from(monotonic_ns))
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.at(self.monotonic.now_ns())
    }

    fn coarse(&self) -> Timestamp {
        self.at(self.monotonic.coarse_ns())
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

    fn coarse(&self) -> Timestamp {
        self.now()
    }
}

/// The monotonic clock as a number, without the sums that an `Instant` does on each reading.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone)]
struct Monotonic;

#[cfg(target_os = "linux")]
impl Monotonic {
    const fn new() -> Self {
        Self
    }

    fn now_ns(&self) -> u64 {
        read_ns(rustix::time::ClockId::Monotonic)
    }

    /// What the kernel noted at its last tick: the same clock, without asking the hardware.
    fn coarse_ns(&self) -> u64 {
        read_ns(rustix::time::ClockId::MonotonicCoarse)
    }
}

#[cfg(target_os = "linux")]
fn read_ns(clock: rustix::time::ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    // It counts from the start of the machine: neither part is negative, and centuries fit.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The monotonic clock since this was made.
#[cfg(not(target_os = "linux"))]
#[derive(Debug, Clone)]
struct Monotonic(std::time::Instant);

#[cfg(not(target_os = "linux"))]
impl Monotonic {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    fn new() -> Self {
        Self(std::time::Instant::now())
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn coarse_ns(&self) -> u64 {
        self.now_ns()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_coarse_time_is_shortly_before_the_time() {
        let clock = SystemClock::new();
        let mut behind = Duration::MAX;
        for _ in 0..1_000 {
            let (before, coarse, after) = (clock.now(), clock.coarse(), clock.now());
            assert!(coarse <= after);
            behind = behind.min(before.since(coarse));
        }
        // The least of many: a machine that was stopped for a moment reads an old tick once.
        assert!(behind <= Duration::from_millis(10), "{behind:?}");
    }

    #[test]
    fn neither_time_goes_back() {
        let clock = SystemClock::new();
        let (mut now, mut coarse) = (clock.now(), clock.coarse());
        for _ in 0..1_000 {
            assert!(clock.now() >= now && clock.coarse() >= coarse);
            (now, coarse) = (clock.now(), clock.coarse());
        }
    }

    #[test]
    fn the_system_clock_starts_at_the_machines_time() {
        let known = Timestamp::parse("2026-01-01T00:00:00.000000000Z").unwrap();
        let century = Duration::from_secs(100 * 365 * 86_400);
        let now = SystemClock::new().now();
        assert!(now > known && now < known.plus(century), "{now:?}");
    }
}
