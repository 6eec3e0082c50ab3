//! How long a run waits for an engine that is away: a server that is started again is no end of it.

use std::time::Duration;

use bus_core::{Error, ErrorKind};
use tokio::time::Instant;

/// Counts how long the engine has been away, as its failures tell.
#[derive(Debug, Default)]
pub(super) struct Away {
    /// The first and the last failure of this outage.
    outage: Option<(Instant, Instant)>,
}

impl Away {
    /// Whether what failed is to be tried again after [`Self::PAUSE`], and not given up.
    pub(super) fn may_end(&mut self, error: &Error, now: Instant) -> bool {
        if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) {
            return false;
        }
        let first = match self.outage {
            Some((first, last)) if now.saturating_duration_since(last) < OVER_AFTER => first,
            _ => now,
        };
        self.outage = Some((first, now));
        now.saturating_duration_since(first) < Self::LIMIT
    }

    /// How long it may be away.
    pub(super) const LIMIT: Duration = Duration::from_secs(60);

    /// The time between two tries.
    pub(super) const PAUSE: Duration = Duration::from_millis(500);
}

/// After this time without a failure the next one begins another outage. A call may take five
/// seconds to fail.
const OVER_AFTER: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> Error {
        Error::new(ErrorKind::Unavailable, "append", "there is no connection")
    }

    #[tokio::test]
    async fn an_engine_is_given_up_when_it_was_away_too_long_at_a_stretch() {
        let (mut away_for, began) = (Away::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        for seconds in (0..60).step_by(10) {
            assert!(away_for.may_end(&away(), at(seconds)), "{seconds}");
        }
        assert!(!away_for.may_end(&away(), at(60)));
    }

    #[tokio::test]
    async fn an_outage_after_a_good_while_is_another_one() {
        let (mut away_for, began) = (Away::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        for seconds in [0, 50, 100, 150] {
            assert!(away_for.may_end(&away(), at(seconds)), "{seconds}");
        }
    }

    #[tokio::test]
    async fn what_no_waiting_helps_against_is_not_waited_for() {
        let denied = Error::new(ErrorKind::Denied, "append", "not yours");
        assert!(!Away::default().may_end(&denied, Instant::now()));
    }
}
