//! How often something costly is done: never for more than a twentieth of the time.

use std::time::Duration;

use tokio::time::Instant;

/// When it may be done again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    not_before: Option<Instant>,
    /// How long it takes as a rule.
    usual: Option<Duration>,
    /// Until when no other exception is made.
    excepted_until: Option<Instant>,
}

impl Pace {
    /// Whether it may be done now.
    pub(super) fn is_due(self, now: Instant) -> bool {
        self.not_before.is_none_or(|not_before| now >= not_before)
    }

    /// Has it due now: somebody waits for it.
    pub(super) fn hurry(&mut self) {
        self.not_before = None;
    }

    /// Notes how long it took.
    ///
    /// Where that is much longer than before, whoever was asked may have been away: it is done
    /// again soon, and only then believed.
    pub(super) fn note(&mut self, began: Instant, ended: Instant) {
        let took = ended.saturating_duration_since(began);
        let rest_after = |took: Duration| took.saturating_mul(SHARE - 1).min(REST_MAX);
        let is_open = self.excepted_until.is_none_or(|until| ended >= until);
        let usual = self.usual.unwrap_or(USUAL_AT_FIRST);
        let rest = if is_open && took > usual.saturating_mul(SUDDENLY) {
            self.excepted_until = Some(ended + rest_after(took));
            rest_after(usual)
        } else {
            self.usual = Some(took);
            rest_after(took)
        };
        self.not_before = Some(ended + rest);
    }
}

/// It takes one of so many parts of the time at most.
const SHARE: u32 = 20;

/// How long it takes as a rule, before anything is known of it.
const USUAL_AT_FIRST: Duration = Duration::from_millis(50);

/// So many times as long as before is an exception.
const SUDDENLY: u32 = 10;

/// After so long it is done again, however long it took.
const REST_MAX: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_takes_a_twentieth_of_the_time_all_the_same() {
        for took in [1, 50, 700, 5_000, 60_000].map(Duration::from_millis) {
            let (begun, mut pace, mut busy) = (Instant::now(), Pace::default(), Duration::ZERO);
            let mut now = begun;
            while now < begun + 100 * took {
                if pace.is_due(now) {
                    pace.note(now, now + took);
                    (now, busy) = (now + took, busy + took);
                }
                now += took / 10;
            }
            let all = now - begun;
            assert!(busy >= took * 5, "{took:?}: {busy:?} of {all:?}");
            // The one that ended last is not paid for yet, and the first may be an exception.
            assert!(busy - 2 * took <= all / 20, "{took:?}: {busy:?} of {all:?}");
        }
    }

    #[test]
    fn what_took_long_all_of_a_sudden_is_done_again_soon_and_once() {
        let (begun, mut pace) = (Instant::now(), Pace::default());
        let (fast, slow) = (Duration::from_millis(10), Duration::from_secs(60));
        pace.note(begun, begun + fast);
        assert!(!pace.is_due(begun + 19 * fast));
        pace.note(begun, begun + slow);
        assert!(pace.is_due(begun + slow + 19 * fast));
        let again = begun + 2 * slow;
        pace.note(again, again + slow);
        assert!(!pace.is_due(again + slow + 18 * slow));
        assert!(pace.is_due(again + slow + 19 * slow));
    }
}
