//! Rules of the metrics.

use std::{num::NonZeroUsize, sync::Arc};

use proptest::prelude::*;

use super::histogram::{bucket_of, longest_of};
use super::*;
use crate::ConsumerSpec;

fn ns(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

fn lag(pending: u64, in_flight: u64) -> Lag {
    Lag { pending, in_flight, oldest: Some(Duration::from_secs(7)) }
}

fn consumer(stream: &StreamName, name: &str, pending: u64) -> ConsumerState {
    let spec = ConsumerSpec {
        stream: stream.clone(),
        name: name.parse().unwrap(),
        filter: bus_subjects::Filter::all(),
        lease: Duration::from_secs(30),
    };
    ConsumerState { spec, lag: lag(pending, 1), paused_until: None }
}

/// What a list that is kept whole says about a percentile: the value of that rank.
fn exact(values: &mut [u64], per_mille: usize) -> u64 {
    values.sort_unstable();
    values[(values.len() * per_mille).div_ceil(1000).max(1) - 1]
}

#[test]
fn without_a_measurement_every_percentile_is_zero() {
    assert_eq!(BusMetrics::default().report().latencies, Latencies::default());
}

#[test]
fn each_step_has_a_histogram_of_its_own() {
    let metrics = BusMetrics::default();
    for (step, ns_of) in
        [(Step::Publish, 1), (Step::Append, 2), (Step::Claim, 3), (Step::Settle, 4)]
    {
        metrics.took(step, ns(ns_of));
    }
    let Latencies { publish, append, claim, settle } = metrics.report().latencies;
    let found = [publish, append, claim, settle].map(|l| (l.count, l.max_ns));
    assert_eq!(found, [(1, 1), (1, 2), (1, 3), (1, 4)]);
}

#[test]
fn what_takes_longer_than_the_histogram_reaches_is_counted_as_the_longest() {
    let metrics = BusMetrics::default();
    metrics.took(Step::Settle, Duration::MAX);
    let settle = metrics.report().latencies.settle;
    assert_eq!((settle.count, settle.p50_ns, settle.max_ns), (1, 1 << 44, 1 << 44));
}

#[test]
fn every_bucket_ends_where_the_next_one_begins() {
    let mut ns = 0_u64;
    for bucket in 0..longest_bucket() {
        assert_eq!(bucket_of(ns), bucket, "{ns} ns");
        assert_eq!(bucket_of(longest_of(bucket)), bucket, "the end of bucket {bucket}");
        ns = longest_of(bucket) + 1;
    }
    assert_eq!(ns, 1 << 44);
}

#[test]
fn a_spread_counts_exactly_up_to_each_bound_and_adds_up() {
    let metrics = BusMetrics::default();
    let lengths = [0, 1023, 1024, 2047, 2048, (1 << 36) - 1, 1 << 36, u64::MAX];
    lengths.iter().for_each(|length| metrics.took(Step::Append, ns(*length)));
    let spread = metrics.spread(Step::Append);
    let found: Vec<_> = spread.bounded.iter().copied().filter(|(_, n)| *n > 0).collect();
    assert_eq!(found, [(1023, 2), (2047, 2), (4095, 1), ((1 << 36) - 1, 1)]);
    assert_eq!((spread.longer, spread.count()), (2, 8));
    let sum = 1023 + 1024 + 2047 + 2048 + ((1_u64 << 36) - 1) + (1 << 36) + (1 << 44);
    assert_eq!(spread.sum_ns, sum);
    assert_eq!(metrics.spread(Step::Claim).count(), 0);
}

fn longest_bucket() -> usize {
    bucket_of(u64::MAX)
}

proptest! {
    #[test]
    fn a_percentile_is_never_low_and_at_most_a_sixteenth_high(
        mut values in prop::collection::vec(0..1_u64 << 43, 1..300)
    ) {
        let metrics = BusMetrics::default();
        values.iter().for_each(|value| metrics.took(Step::Append, ns(*value)));
        let found = metrics.report().latencies.append;
        prop_assert_eq!(found.count, values.len() as u64);
        let percentiles =
            [(500, found.p50_ns), (990, found.p99_ns), (999, found.p999_ns), (1000, found.max_ns)];
        for (per_mille, found) in percentiles {
            let exact = exact(&mut values, per_mille);
            prop_assert!(exact <= found && found <= exact + exact / 16, "{exact} as {found}");
        }
    }

    #[test]
    fn a_spread_says_of_every_bound_what_a_list_would(
        values in prop::collection::vec(0..1_u64 << 40, 1..300)
    ) {
        let metrics = BusMetrics::default();
        values.iter().for_each(|value| metrics.took(Step::Settle, ns(*value)));
        let spread = metrics.spread(Step::Settle);
        let mut below = 0;
        for (bound, n) in &spread.bounded {
            below += n;
            prop_assert_eq!(below, values.iter().filter(|v| *v <= bound).count() as u64);
        }
        prop_assert_eq!(spread.count(), values.len() as u64);
        prop_assert_eq!(spread.sum_ns, values.iter().sum::<u64>());
    }

    #[test]
    fn a_gauge_shows_what_was_set_last_whatever_was_set_before(
        settings in prop::collection::vec((any::<u64>(), any::<u64>()), 1..50)
    ) {
        let (metrics, stream) = (BusMetrics::default(), "VAK_WORK_w1".parse().unwrap());
        for (pending, in_flight) in &settings {
            metrics.lag(*pending);
            metrics.stream_lag(&stream, lag(*pending, *in_flight));
        }
        let (pending, in_flight) = *settings.last().unwrap();
        let report = metrics.report();
        prop_assert_eq!(report.counters.active_queue_lag, pending);
        let queue = &report.queues[0];
        prop_assert_eq!((queue.pending, queue.in_flight), (pending, in_flight));
    }
}

#[test]
fn threads_that_count_at_once_lose_nothing() {
    let metrics = Arc::new(BusMetrics::default());
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let metrics = Arc::clone(&metrics);
            scope.spawn(move || {
                for n in 0..10_000 {
                    metrics.took(Step::Claim, ns(thread * 10_000 + n));
                    metrics.ended(TaskOutcome::Completed);
                    metrics.published(3);
                }
            });
        }
    });
    let report = metrics.report();
    assert_eq!(report.latencies.claim.count, 40_000);
    assert_eq!(report.outcomes.completed, 40_000);
    assert_eq!(
        (report.counters.published_count, report.counters.bytes_published),
        (40_000, 120_000)
    );
}

#[test]
fn every_outcome_is_counted_under_its_own_name() {
    use TaskOutcome as T;
    let all = [
        T::Completed,
        T::Retried,
        T::Released,
        T::LeaseLost,
        T::Unsettled,
        T::Exhausted,
        T::Hopeless,
        T::Vanished,
        T::Refused,
        T::KeyWithdrawn,
        T::Expired,
        T::Cancelled,
    ];
    let metrics = BusMetrics::default();
    for (times, outcome) in all.into_iter().enumerate() {
        (0..=times).for_each(|_| metrics.ended(outcome));
    }
    let expected = OutcomeCounts {
        completed: 1,
        retried: 2,
        released: 3,
        lease_lost: 4,
        unsettled: 5,
        exhausted: 6,
        hopeless: 7,
        vanished: 8,
        refused: 9,
        key_withdrawn: 10,
        expired: 11,
        cancelled: 12,
    };
    let found = metrics.report().outcomes;
    assert_eq!((found, found.dead_lettered()), (expected, 6 + 7 + 8 + 9 + 10 + 11 + 12));
}

#[test]
fn each_consumer_of_a_stream_is_a_queue_of_its_own() {
    let (metrics, stream) = (BusMetrics::default(), "VAK_WORK_w1".parse().unwrap());
    metrics.consumer_lags(&stream, &[consumer(&stream, "coder", 3), consumer(&stream, "judge", 5)]);
    let queues = metrics.report().queues;
    let found: Vec<_> =
        queues.iter().map(|q| (q.consumer.as_deref(), q.pending, q.oldest_ms)).collect();
    assert_eq!(found, [(Some("coder"), 3, Some(7000)), (Some("judge"), 5, Some(7000))]);
}

#[test]
fn a_consumer_that_is_gone_is_no_queue_any_more() {
    let metrics = BusMetrics::default();
    let (stream, other) = ("VAK_WORK_w1".parse().unwrap(), "VAK_WORK_w2".parse().unwrap());
    metrics.consumer_lags(&other, &[consumer(&other, "gone", 1)]);
    metrics.consumer_lags(&stream, &[consumer(&stream, "gone", 3), consumer(&stream, "judge", 5)]);
    metrics.consumer_lags(&stream, &[consumer(&stream, "judge", 4)]);
    let queues = metrics.report().queues;
    let found: Vec<_> = queues.iter().map(|q| (q.stream.as_str(), q.pending)).collect();
    assert_eq!(found, [("VAK_WORK_w1", 4), ("VAK_WORK_w2", 1)]);
}

#[test]
fn queues_beyond_the_limit_are_counted_and_not_kept() {
    let metrics = BusMetrics::default();
    let max = NonZeroUsize::new(BusMetrics::QUEUES_MAX).unwrap().get();
    for n in 0..max + 3 {
        metrics.stream_lag(&format!("S{n}").parse().unwrap(), lag(1, 0));
    }
    // One that is kept is set anew all the same.
    metrics.stream_lag(&"S0".parse().unwrap(), lag(2, 0));
    let report = metrics.report();
    assert_eq!((report.queues.len(), report.queues_left_out), (max, 3));
    assert!(report.queues.iter().any(|q| q.stream == "S0" && q.pending == 2));
}

#[test]
fn the_report_is_written_with_its_names() {
    let metrics = BusMetrics::default();
    metrics.took(Step::Claim, ns(5));
    metrics.stream_lag(&"VAK_WORK_w1".parse().unwrap(), lag(1, 2));
    let json = serde_json::to_value(metrics.report()).unwrap();
    assert_eq!(json["latencies"]["claim"]["p99_ns"], 5);
    assert_eq!(json["counters"]["active_queue_lag"], 0);
    assert_eq!(json["queues"][0]["oldest_ms"], 7000);
    assert_eq!(json["outcomes"]["dead_lettered"], serde_json::Value::Null);
}
