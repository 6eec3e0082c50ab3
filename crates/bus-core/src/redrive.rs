//! What follows a failed attempt: when it is tried again, and when it is given up.

use std::time::Duration;

/// How often and how soon a failed task is tried again.
///
/// `retries_max: 3` means three redeliveries after the first try: the fourth failure makes a dead
/// letter. A worker that vanishes counts as a failure; a hand-back does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Redeliveries after the first try; 3 by default.
    pub retries_max: u32,
    /// How long the retries rest.
    pub backoff: Backoff,
}

/// Growing delays: the base, five times it, thirty times it and so on, each jittered by a fifth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay; 1 s by default. Zero: no delay at all.
    pub base: Duration,
}

/// How an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// It did not work; it may work another time.
    Failed {
        /// Why, for the retry's log line and the dead letter.
        reason: String,
    },
    /// It can never work: no retry.
    Hopeless {
        /// Why.
        reason: String,
    },
    /// It was not tried to the end because the worker stops: no attempt is used up. From a handler
    /// that nobody stopped it is a hand-back, and the task rests for 5 seconds.
    Interrupted,
}

/// What to do with a delivery whose attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Deliver it again after a delay.
    Retry {
        /// How long it rests.
        after: Duration,
    },
    /// Store a dead letter, then remove it.
    DeadLetter {
        /// Why it is given up.
        reason: String,
    },
    /// Hand it back untouched.
    Release,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { retries_max: 3, backoff: Backoff { base: Duration::from_secs(1) } }
    }
}

impl RetryPolicy {
    /// Whether attempt number `attempt` (the first being 1) is more than the policy allows: the
    /// attempts before it ended without a verdict, or were made under a policy that allows more.
    #[must_use]
    pub const fn is_spent(&self, attempt: u32) -> bool {
        attempt > self.retries_max.saturating_add(1)
    }

    /// Decides what follows the failure of attempt `attempt`; `random` gives the jitter.
    #[must_use]
    pub fn decide(&self, attempt: u32, failure: Failure, random: u64) -> Decision {
        match failure {
            Failure::Interrupted => Decision::Release,
            Failure::Hopeless { reason } => Decision::DeadLetter { reason },
            Failure::Failed { reason } if attempt > self.retries_max => {
                let reason = format!("retries exhausted after {attempt} attempts: {reason}");
                Decision::DeadLetter { reason }
            }
            Failure::Failed { .. } => {
                Decision::Retry { after: self.backoff.delay(attempt, random) }
            }
        }
    }
}

impl Backoff {
    /// The longest delay before its jitter: one hour.
    pub const DELAY_MAX: Duration = Duration::from_secs(3600);

    /// The delay after attempt `attempt`: its step of 1, 5, 30, 30 … times the base, at most
    /// [`Backoff::DELAY_MAX`], give or take a tenth by `random`.
    #[must_use]
    pub fn delay(&self, attempt: u32, random: u64) -> Duration {
        let step: u32 = match attempt {
            0 | 1 => 1,
            2 => 5,
            _ => 30,
        };
        jittered(self.base.saturating_mul(step).min(Self::DELAY_MAX), random)
    }
}

/// How long a task rests whose dead letter could not be stored: 5 s, doubled with every try in
/// vain, at most 4 min, give or take a tenth by `random`.
///
/// The cap stays below the window in which engines know an id again, so that a letter which was
/// stored without an answer is not stored twice.
pub(crate) fn put_back_delay(tries: u32, random: u64) -> Duration {
    const DELAY_MIN: Duration = Duration::from_secs(5);
    const DELAY_MAX: Duration = Duration::from_secs(240);
    let delay = DELAY_MIN.saturating_mul(1 << tries.min(16)).min(DELAY_MAX);
    jittered(delay, random)
}

pub(crate) fn jittered(delay: Duration, random: u64) -> Duration {
    // 900 to 1,100 thousandths.
    let thousandths = u32::try_from(900 + random % 201).unwrap_or(1000);
    delay.saturating_mul(thousandths) / 1000
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn failed() -> Failure {
        Failure::Failed { reason: "exit code 1".to_owned() }
    }

    #[test]
    fn three_retries_mean_four_attempts() {
        let policy = RetryPolicy::default();
        for attempt in 1..=3 {
            let decision = policy.decide(attempt, failed(), 0);
            assert!(matches!(decision, Decision::Retry { .. }), "attempt {attempt}");
        }
        let Decision::DeadLetter { reason } = policy.decide(4, failed(), 0) else {
            unreachable!("the fourth failure is the last")
        };
        assert_eq!(reason, "retries exhausted after 4 attempts: exit code 1");
    }

    #[test]
    fn a_fifth_delivery_is_spent_without_a_try() {
        let policy = RetryPolicy::default();
        assert!(!policy.is_spent(4));
        assert!(policy.is_spent(5));
    }

    #[test]
    fn a_hand_back_uses_no_attempt() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.decide(4, Failure::Interrupted, 0), Decision::Release);
    }

    #[test]
    fn delays_grow_from_one_to_five_to_thirty() {
        let backoff = Backoff { base: Duration::from_secs(1) };
        let seconds = [1, 2, 3, 4].map(|attempt| backoff.delay(attempt, 100).as_secs());
        assert_eq!(seconds, [1, 5, 30, 30]);
    }

    #[test]
    fn a_dead_letter_that_cannot_be_stored_is_tried_ever_more_rarely() {
        let seconds = [0, 1, 2, 5, 6, 99].map(|tries| put_back_delay(tries, 100).as_secs());
        assert_eq!(seconds, [5, 10, 20, 160, 240, 240]);
    }

    proptest! {
        #[test]
        fn a_delay_stays_within_a_tenth_of_its_step(
            base_ms in 0u64..10_000_000, attempt in 0u32..100, random: u64
        ) {
            let backoff = Backoff { base: Duration::from_millis(base_ms) };
            let step = match attempt { 0 | 1 => 1, 2 => 5, _ => 30 };
            let plain = Duration::from_millis(base_ms * step).min(Backoff::DELAY_MAX);
            let delay = backoff.delay(attempt, random);
            prop_assert!(delay >= plain * 9 / 10 && delay <= plain * 11 / 10);
        }
    }
}
