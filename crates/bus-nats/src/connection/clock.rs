//! The server's clock, which is what times are held to; this machine's may be hours off.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bus_envelope::Timestamp;
use tokio::time::Instant;

/// The server's time as last heard, and when.
///
/// An answer's time was right at some moment between the question and its arrival; the middle is
/// taken, and half of the way is the doubt. A worse word does not replace a better one, but the
/// doubt grows as clocks drift. What is shown never goes back, unless the server's clock did.
#[derive(Debug)]
pub(super) struct ServerClock(Mutex<Reading>);

#[derive(Debug)]
struct Reading {
    time: Timestamp,
    at: Instant,
    /// How wrong it may be; none: it is this machine's own time.
    doubt: Option<Duration>,
    shown: Timestamp,
}

impl ServerClock {
    /// Shows `time` until the server has said its own.
    pub(super) fn new(time: Timestamp) -> Self {
        Self(Mutex::new(Reading { time, at: Instant::now(), doubt: None, shown: time }))
    }

    /// The time now: what the server last said and what has passed since.
    pub(super) fn now(&self) -> Timestamp {
        let mut reading = self.reading();
        reading.shown = reading.estimate(Instant::now()).max(reading.shown);
        reading.shown
    }

    /// The time now as the server has it, and how wrong that may be; none before it has said its
    /// own.
    pub(super) fn heard(&self) -> Option<(Timestamp, Duration)> {
        let reading = self.reading();
        let age = reading.at.elapsed();
        reading.doubt.map(|doubt| (reading.estimate(Instant::now()), doubt + age / DRIFT))
    }

    /// Whether it is time to ask the server again.
    pub(super) fn is_due(&self) -> bool {
        let reading = self.reading();
        reading.doubt.is_none() || reading.at.elapsed() > GOOD_FOR
    }

    /// The server said `time` to a question asked at `asked`.
    pub(super) fn note(&self, time: Timestamp, asked: Instant) {
        let heard = Instant::now();
        let doubt = heard.saturating_duration_since(asked) / 2;
        self.reading().take(time.plus(doubt), heard, doubt);
    }

    /// The server said `time` not long ago.
    pub(super) fn note_loosely(&self, time: Timestamp) {
        self.reading().take(time, Instant::now(), LOOSE);
    }

    fn reading(&self) -> std::sync::MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    fn estimate(&self, now: Instant) -> Timestamp {
        self.time.plus(now.saturating_duration_since(self.at))
    }

    fn take(&mut self, time: Timestamp, at: Instant, doubt: Duration) {
        let ours = self.estimate(at);
        let apart = ours.since(time).max(time.since(ours));
        let aged = self.doubt.map(|doubt| doubt + at.saturating_duration_since(self.at) / DRIFT);
        // Both cannot be right: the server's clock was set, or it is another server.
        let was_set = aged.is_none_or(|aged| apart > aged + doubt);
        if !was_set && aged.is_some_and(|aged| doubt > aged) {
            return;
        }
        // What was shown before the first word was never the server's.
        if self.doubt.is_none() || (was_set && self.shown.since(time) > SET_BACK) {
            self.shown = time;
        }
        (self.time, self.at, self.doubt) = (time, at, Some(doubt));
    }
}

/// This machine's own time.
#[expect(clippy::disallowed_methods, reason = "shown until the server has said its time")]
pub(super) fn own_time() -> Timestamp {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = i128::try_from(now.unwrap_or_default().as_nanos()).unwrap_or_default();
    Timestamp::from_unix_ns(now)
}

/// How long a word is good enough.
pub(super) const GOOD_FOR: Duration = Duration::from_secs(30);
/// Clocks drift by less than one part in so many.
const DRIFT: u32 = 5_000;
/// A step back by more is shown at once; by less, what is shown waits.
const SET_BACK: Duration = Duration::from_secs(1);
/// The doubt of a word whose way is not known.
const LOOSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: Timestamp = Timestamp::from_unix_ns(1_900_000_000_000_000_000);

    fn clock() -> ServerClock {
        ServerClock::new(SAID.plus(Duration::from_secs(3600)))
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[tokio::test(start_paused = true)]
    async fn the_servers_time_goes_on_after_it_was_heard() {
        let clock = clock();
        clock.note(SAID, Instant::now());
        tokio::time::advance(ms(5_000)).await;
        assert_eq!(clock.now(), SAID.plus(ms(5_000)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_heard_is_told_with_its_doubt_and_nothing_before() {
        let (clock, asked) = (clock(), Instant::now());
        assert_eq!(clock.heard(), None);
        tokio::time::advance(ms(40)).await;
        clock.note(SAID, asked);
        assert_eq!(clock.heard(), Some((SAID.plus(ms(20)), ms(20))));
    }

    #[tokio::test(start_paused = true)]
    async fn half_of_the_way_has_passed_since_the_server_spoke() {
        let (clock, asked) = (clock(), Instant::now());
        tokio::time::advance(ms(40)).await;
        clock.note(SAID, asked);
        assert_eq!(clock.now(), SAID.plus(ms(20)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_was_long_on_its_way_does_not_replace_a_quick_one() {
        let clock = clock();
        clock.note(SAID, Instant::now());
        let asked = Instant::now();
        tokio::time::advance(ms(400)).await;
        clock.note(SAID, asked);
        assert_eq!(clock.now(), SAID.plus(ms(400)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_shown_waits_rather_than_going_back() {
        let clock = clock();
        clock.note(SAID.plus(ms(500)), Instant::now());
        assert_eq!(clock.now(), SAID.plus(ms(500)));
        clock.note(SAID, Instant::now());
        assert_eq!(clock.now(), SAID.plus(ms(500)));
        tokio::time::advance(ms(600)).await;
        assert_eq!(clock.now(), SAID.plus(ms(600)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_an_hour_behind_us_is_believed() {
        let clock = clock();
        assert_ne!(clock.now(), SAID);
        clock.note(SAID, Instant::now());
        assert_eq!(clock.now(), SAID);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_whose_clock_was_set_is_believed() {
        let clock = clock();
        clock.note(SAID, Instant::now());
        clock.note(SAID.plus(ms(3_600_000)), Instant::now());
        assert_eq!(clock.now(), SAID.plus(ms(3_600_000)));
        clock.note(SAID, Instant::now());
        assert_eq!(clock.now(), SAID);
    }

    #[tokio::test(start_paused = true)]
    async fn a_word_is_good_for_half_a_minute() {
        let clock = clock();
        assert!(clock.is_due());
        clock.note(SAID, Instant::now());
        assert!(!clock.is_due());
        tokio::time::advance(GOOD_FOR + ms(1)).await;
        assert!(clock.is_due());
    }
}
