//! The server's clock, which is what times are held to; this machine's may be hours off.

use std::sync::{Mutex, PoisonError};

use bus_envelope::Timestamp;
use tokio::time::Instant;

/// The server's time as last heard, and when.
#[derive(Debug)]
pub(super) struct ServerClock(Mutex<(Timestamp, Instant)>);

impl ServerClock {
    /// The time now: what the server last said and what has passed since.
    pub(super) fn now(&self) -> Timestamp {
        let (time, heard) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        time.plus(heard.elapsed())
    }

    /// The server said that it is `time`. A time behind what is shown already was on its way for
    /// longer, unless it is far behind: then the server's clock was set.
    pub(super) fn note(&self, time: Timestamp) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = last.0.plus(last.1.elapsed());
        if time > shown || shown.since(time) > SET_BACK {
            *last = (time, Instant::now());
        }
    }
}

impl Default for ServerClock {
    fn default() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = i128::try_from(now.unwrap_or_default().as_nanos()).unwrap_or_default();
        Self(Mutex::new((Timestamp::from_unix_ns(now), Instant::now())))
    }
}

/// How far behind a time must be to be no late answer.
const SET_BACK: std::time::Duration = std::time::Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_servers_time_goes_on_after_it_was_heard() {
        let clock = ServerClock::default();
        let said = Timestamp::from_unix_ns(1_900_000_000_000_000_000);
        clock.note(said);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(clock.now(), said.plus(Duration::from_secs(5)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_does_not_set_the_clock_back() {
        let clock = ServerClock::default();
        let said = Timestamp::from_unix_ns(1_900_000_000_000_000_000);
        clock.note(said.plus(Duration::from_millis(500)));
        clock.note(said);
        assert_eq!(clock.now(), said.plus(Duration::from_millis(500)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_an_hour_behind_is_believed() {
        let clock = ServerClock::default();
        let said = Timestamp::from_unix_ns(1_000_000_000_000_000_000);
        clock.note(said);
        assert_eq!(clock.now(), said);
    }
}
