//! The law of a rate limit, and who waits how long.

use proptest::prelude::*;

use super::*;

fn limit(permits: u32, per: Duration, burst: u32) -> RateLimit {
    let number = |n| NonZeroU32::new(n).unwrap();
    RateLimit { burst: number(burst), ..RateLimit::new(number(permits), per) }
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_unix_ns(1_780_000_000_000_000_000).plus(Duration::from_millis(ms))
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_burst_begins_at_once_and_then_one_an_interval() {
    let limiter = RateLimiter::new(limit(2, SECOND, 3)).unwrap();
    for _ in 0..3 {
        assert_eq!(limiter.ask("a", at(0)), Permit::Now);
    }
    assert_eq!(limiter.ask("a", at(0)), Permit::After(Duration::from_millis(500)));
    assert_eq!(limiter.ask("a", at(500)), Permit::Now);
    assert_ne!(limiter.ask("a", at(999)), Permit::Now);
    assert_eq!(limiter.ask("a", at(1000)), Permit::Now);
}

#[test]
fn each_that_waits_is_told_a_time_of_its_own_and_begins_then() {
    let limiter = RateLimiter::new(limit(1, SECOND, 1)).unwrap();
    assert_eq!(limiter.ask("a", at(0)), Permit::Now);
    for n in 1..=100u64 {
        assert_eq!(limiter.ask("a", at(0)), Permit::After(Duration::from_secs(n)), "number {n}");
    }
    for n in 1..=100 {
        assert_eq!(limiter.ask("a", at(n * 1000)), Permit::Now, "number {n}");
    }
}

#[test]
fn a_key_over_its_limit_is_no_other_keys_business() {
    let limiter = RateLimiter::new(limit(1, SECOND, 1)).unwrap();
    assert_eq!(limiter.ask("a", at(0)), Permit::Now);
    assert_ne!(limiter.ask("a", at(0)), Permit::Now);
    assert_eq!(limiter.ask("b", at(0)), Permit::Now);
}

#[test]
fn clones_share_their_permits() {
    let limiter = RateLimiter::new(limit(1, SECOND, 1)).unwrap();
    assert_eq!(limiter.clone().ask("a", at(0)), Permit::Now);
    assert_ne!(limiter.ask("a", at(0)), Permit::Now);
}

#[test]
fn a_new_key_takes_the_place_of_an_idle_one_and_else_waits_for_it() {
    let keys_max = NonZeroUsize::new(2).unwrap();
    let limit = RateLimit { keys_max, ..limit(1, SECOND, 1) };
    let limiter = RateLimiter::new(limit).unwrap();
    assert_eq!(limiter.ask("a", at(0)), Permit::Now);
    assert_eq!(limiter.ask("b", at(400)), Permit::Now);
    assert_eq!(limiter.ask("c", at(500)), Permit::After(Duration::from_millis(500)));
    assert_eq!(limiter.ask("c", at(1000)), Permit::Now);
    // Neither of the two that are known is idle, so the limit of each still holds.
    assert_ne!(limiter.ask("b", at(1399)), Permit::Now);
    assert_eq!(limiter.ask("b", at(1400)), Permit::Now);
    assert_eq!(limiter.buckets(|buckets| buckets.keys.len()), 2);
    assert_eq!(limiter.buckets(|buckets| buckets.by_time.len()), 2);
}

#[test]
fn a_limit_without_a_time_is_refused() {
    for per in [Duration::ZERO, RateLimit::PER_MAX + SECOND] {
        let refused = RateLimiter::new(limit(1, per, 1)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{per:?}");
    }
}

proptest! {
    #[test]
    fn never_more_than_burst_and_rate_by_time_begin(
        permits in 1u32..20,
        per_ms in 1u64..5_000,
        burst in 1u32..10,
        keys_max in 1usize..4,
        asks in prop::collection::vec((0u64..700, 0u8..5), 1..200),
    ) {
        let keys_max = NonZeroUsize::new(keys_max).unwrap();
        let per = Duration::from_millis(per_ms);
        let limit = RateLimit { keys_max, ..limit(permits, per, burst) };
        let limiter = RateLimiter::new(limit).unwrap();
        let (mut ms, mut begun) = (0, HashMap::<u8, Vec<u64>>::new());
        for (step, key) in asks {
            ms += step;
            if limiter.ask(&key.to_string(), at(ms)) == Permit::Now {
                begun.entry(key).or_default().push(ms);
            }
        }
        for times in begun.values() {
            for (first, from) in times.iter().enumerate() {
                for (last, to) in times.iter().enumerate().skip(first) {
                    let over = (last - first + 1) as u64;
                    let span = to - from;
                    let excess = over.saturating_sub(u64::from(burst));
                    prop_assert!(excess * per_ms <= u64::from(permits) * span,
                        "{over} begin within {span} ms");
                }
            }
        }
    }

    #[test]
    fn who_comes_back_in_time_begins(
        permits in 1u32..20,
        per_ms in 1u64..5_000,
        burst in 1u32..10,
        waiting in 1u32..50,
    ) {
        let per = Duration::from_millis(per_ms);
        let limiter = RateLimiter::new(limit(permits, per, burst)).unwrap();
        let mut due = Vec::new();
        for _ in 0..waiting {
            if let Permit::After(rest) = limiter.ask("a", at(0)) {
                due.push(at(0).plus(rest));
            }
        }
        prop_assert_eq!(due.len(), waiting.saturating_sub(burst) as usize);
        for time in due {
            prop_assert_eq!(limiter.ask("a", time), Permit::Now);
        }
    }
}
