//! Takes the client's events: what the server refuses, and that the state may have changed.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::{ClientError, ConnectErrorKind, Event, ServerError};
use tokio::{sync::Notify, time::Instant};

use super::{
    refusals::{self, Act, Baits, Refusals},
    state::States,
};

/// What the client's events tell. Never waits: the client hands over one at a time, and drops
/// what comes meanwhile.
pub(super) struct Watcher {
    pub(super) states: States,
    pub(super) refusals: Refusals,
    pub(super) baits: Baits,
    /// There may be a change of the state.
    pub(super) stirred: Notify,
    inbox: String,
    of_calls: String,
    barred: Mutex<Barred>,
    has_given_up: AtomicBool,
}

/// That the server lets this identity in no more.
#[derive(Debug, Default)]
struct Barred {
    /// The first and the last time.
    since: Option<(Instant, Instant)>,
    why: Option<String>,
}

impl Watcher {
    /// Watches over a connection whose answers come below these: the servers', and other agents'.
    pub(super) fn new([inbox, of_calls]: [String; 2]) -> Self {
        Self {
            states: States::default(),
            refusals: Refusals::default(),
            baits: Baits::default(),
            stirred: Notify::new(),
            inbox,
            of_calls,
            barred: Mutex::default(),
            has_given_up: AtomicBool::new(false),
        }
    }

    pub(super) async fn note(self: Arc<Self>, event: Event) {
        self.baits.note_event();
        match event {
            Event::Connected => {
                self.baits.begin_anew();
                self.stirred.notify_one();
            }
            Event::Disconnected | Event::Closed => self.stirred.notify_one(),
            Event::LameDuckMode => self.states.lame_duck(self.states.connects()),
            Event::ServerError(ServerError::Other(text)) => self.said(&text),
            Event::ClientError(ClientError::Other(text)) if is_no_entry(&text) => {
                self.turned_away();
            }
            // It did not come as far as that: perhaps the server is about to know us again.
            Event::ClientError(ClientError::Other(_)) => {
                self.barred().since = None;
            }
            other => tracing::debug!("nats: {other}"),
        }
    }

    /// The server has let this identity in.
    pub(super) fn is_let_in(&self) {
        *self.barred() = Barred::default();
    }

    /// For how long the server has said at each try that it lets this identity in no more.
    pub(super) fn barred_for(&self) -> Option<Duration> {
        self.barred().since.map(|(first, last)| last.saturating_duration_since(first))
    }

    /// What the server said of it.
    pub(super) fn barred_why(&self) -> String {
        let said = self.barred().why.clone();
        said.unwrap_or_else(|| "authorization violation".to_owned())
    }

    /// Nobody wants a connection any more.
    pub(super) fn give_up(&self) {
        self.has_given_up.store(true, Ordering::Relaxed);
    }

    /// How long the client waits before its next try. It cannot be told to stop trying, so one
    /// that has given up waits for ever.
    pub(super) fn pause_before(&self, attempt: usize) -> Duration {
        if self.has_given_up.load(Ordering::Relaxed) { FOR_EVER } else { pause_before(attempt) }
    }

    /// A subject that the server lets nobody hear: in the middle of one, `>` stands for nothing.
    pub(super) fn bait(&self) -> String {
        format!("{}.>.none", self.inbox)
    }

    fn turned_away(&self) {
        let now = Instant::now();
        let mut barred = self.barred();
        barred.since = Some((barred.since.map_or(now, |(first, _)| first), now));
        drop(barred);
        self.stirred.notify_one();
    }

    fn said(&self, text: &str) {
        let shown = bus_subjects::Shown(text);
        let read = refusals::read(text);
        // As no subject, or as one that this identity may not hear.
        let is_bait = read.is_some_and(|(_, subject)| subject == self.bait());
        if is_bait || text.eq_ignore_ascii_case("invalid subject") {
            if self.baits.take() {
                self.refusals.lose();
            }
            self.baits.count();
            self.states.tell();
            return;
        }
        let Some((act, subject)) = read else {
            if text.to_ascii_lowercase().starts_with("user authentication") {
                self.barred().why = Some(shown.to_string());
            }
            tracing::warn!("nats: the server says: {shown}");
            return;
        };
        self.refusals.add(act, subject);
        // The client hears all its answers below two subjects; a single inbox has no star.
        let below =
            [&self.inbox, &self.of_calls].into_iter().find_map(|one| subject.strip_prefix(one));
        if act == Act::Subscribe && below.is_some_and(|below| below.ends_with(".*")) {
            self.refusals.deafen(self.states.connects());
        }
        self.states.tell();
        tracing::debug!("nats: {shown}");
    }

    fn barred(&self) -> std::sync::MutexGuard<'_, Barred> {
        self.barred.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the client says that it was not let in; it tells by text alone.
fn is_no_entry(text: &str) -> bool {
    let kinds = [ConnectErrorKind::AuthorizationViolation, ConnectErrorKind::Authentication];
    kinds.into_iter().any(|kind| text == kind.to_string())
}

/// How long to wait before the next try: up to 4 s, and not as long as others that lost the same
/// server.
fn pause_before(attempt: usize) -> Duration {
    let doubled = PAUSE_MIN.saturating_mul(1 << attempt.min(10));
    let longest = doubled.min(PAUSE_MAX);
    let mut random = [0; 2];
    // Without randomness all wait equally long.
    let _filled = bus_crypto::Entropy::fill(&bus_crypto::SystemEntropy::new(), &mut random);
    longest / 2 + longest / 2 * u32::from(u16::from_le_bytes(random)) / u32::from(u16::MAX)
}

const PAUSE_MIN: Duration = Duration::from_millis(8);
const PAUSE_MAX: Duration = Duration::from_secs(4);
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_bounded_and_grows() {
        for attempt in 0..200 {
            assert!(pause_before(attempt) <= PAUSE_MAX);
        }
        assert!(pause_before(20) >= PAUSE_MAX / 2);
        assert!(pause_before(0) <= PAUSE_MIN);
    }
}
