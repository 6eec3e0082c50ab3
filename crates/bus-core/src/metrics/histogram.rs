//! How often something took how long: buckets of atomics, read as percentiles or as a spread.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Durations by size. A record is two atomic additions; the memory is fixed (5 KiB).
///
/// Each power of two of nanoseconds has 16 buckets of equal width, so a percentile is at most a
/// sixteenth (6.25 %) above the true one and never below it. From [`LONGEST`] on all is one bucket.
pub(super) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

/// How many durations lie between fixed bounds, and their sum: what a scraper adds up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencySpread {
    /// How many took at most so many nanoseconds and longer than the bound before; exact. The
    /// bounds are 2^10 - 1 ns (about 1 µs), each power of two after it, up to 2^36 - 1 ns (69 s).
    pub bounded: Vec<(u64, u64)>,
    /// How many took longer than the last bound.
    pub longer: u64,
    /// All of them together, in nanoseconds; what took longer than 2^44 ns counts as that.
    pub sum_ns: u64,
}

/// What is known of many durations, in nanoseconds.
///
/// A percentile is never less than the true one and at most a sixteenth more; what took 2^44 ns
/// (nearly five hours) or longer counts as that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct LatencySummary {
    /// How many were measured.
    pub count: u64,
    /// Half of them took no longer.
    pub p50_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
    /// 999 of 1,000 took no longer.
    pub p999_ns: u64,
    /// None took longer.
    pub max_ns: u64,
}

/// The buckets of one power of two, as a power of two.
const FINE_BITS: u32 = 4;

/// The power of two from which on all durations are one bucket: nearly five hours.
const LONGEST: u32 = 44;

/// The powers of two that bound a spread.
const SPREAD: std::ops::RangeInclusive<u32> = 10..=36;

/// Those below 16 ns have one bucket each, then come 16 for each power of two, then the last.
const BUCKETS: usize = (((LONGEST - FINE_BITS) as usize + 1) << FINE_BITS) + 1;

impl Histogram {
    /// Counts one duration.
    pub(super) fn record(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(bucket_of(ns)) {
            self.sum_ns.fetch_add(ns.min(1 << LONGEST), Ordering::Relaxed);
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What was counted so far, between powers of two, where buckets begin.
    pub(super) fn spread(&self) -> LatencySpread {
        let mut next = 0;
        let mut until = |end: usize| {
            let between = self.buckets.iter().take(end).skip(next);
            next = end;
            between.fold(0_u64, |sum, n| sum.saturating_add(n.load(Ordering::Relaxed)))
        };
        let bounded =
            SPREAD.map(|power| ((1 << power) - 1, until(bucket_of(1 << power)))).collect();
        let longer = until(BUCKETS);
        LatencySpread { bounded, longer, sum_ns: self.sum_ns.load(Ordering::Relaxed) }
    }

    /// What was counted so far.
    pub(super) fn summary(&self) -> LatencySummary {
        let counts: Vec<u64> = self.buckets.iter().map(|b| b.load(Ordering::Relaxed)).collect();
        let count = counts.iter().fold(0_u64, |sum, n| sum.saturating_add(*n));
        let at = |per_mille: u128| {
            // At least this many took no longer.
            let rank = (u128::from(count) * per_mille).div_ceil(1000);
            let mut below = 0_u128;
            let mut index = 0;
            for (bucket, n) in counts.iter().enumerate() {
                below += u128::from(*n);
                index = bucket;
                if below >= rank {
                    break;
                }
            }
            longest_of(index)
        };
        if count == 0 {
            return LatencySummary::default();
        }
        LatencySummary {
            count,
            p50_ns: at(500),
            p99_ns: at(990),
            p999_ns: at(999),
            max_ns: at(1000),
        }
    }
}

impl LatencySpread {
    /// How many were measured.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bounded.iter().fold(self.longer, |sum, (_, n)| sum.saturating_add(*n))
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum_ns: AtomicU64::new(0) }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.summary().fmt(f)
    }
}

/// The bucket that `ns` is counted in.
pub(super) fn bucket_of(ns: u64) -> usize {
    let Some(power) = ns.checked_ilog2() else { return 0 };
    if power >= LONGEST {
        return BUCKETS - 1;
    }
    if power < FINE_BITS {
        return ns as usize;
    }
    let within = (ns >> (power - FINE_BITS)) as usize - (1 << FINE_BITS);
    (((power - FINE_BITS) as usize + 1) << FINE_BITS) + within
}

/// The longest duration that a bucket counts, in nanoseconds.
pub(super) fn longest_of(bucket: usize) -> u64 {
    let (row, within) = (bucket >> FINE_BITS, (bucket & ((1 << FINE_BITS) - 1)) as u64);
    if bucket >= BUCKETS - 1 {
        return 1 << LONGEST;
    }
    match u32::try_from(row).unwrap_or(LONGEST).checked_sub(1) {
        None => bucket as u64,
        Some(shift) => (((1 << FINE_BITS) + within + 1) << shift) - 1,
    }
}
