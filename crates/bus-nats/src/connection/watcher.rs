//! What the client tells about its connection: the state, and what the server refused.

use std::{sync::Arc, time::Duration};

use async_nats::{Event, ServerError};
use bus_core::{Error, ErrorKind};
use tokio::sync::{broadcast, watch};

/// What a connection is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    /// Connected, for the `epoch`th time; what was under way in an earlier epoch is lost.
    Connected {
        /// Grows with each reconnect; the first is 1.
        epoch: u64,
        /// Whether the server has said that it will soon end.
        lame_duck: bool,
    },
    /// Not connected; the client tries again by itself.
    Disconnected,
    /// Closed by this process.
    Closed,
}

impl ConnectionState {
    /// Which connection this is; none while there is none.
    #[must_use]
    pub const fn epoch(&self) -> Option<u64> {
        match self {
            Self::Connected { epoch, .. } => Some(*epoch),
            Self::Disconnected | Self::Closed => None,
        }
    }
}

/// Something that the server refused.
#[derive(Debug, Clone)]
pub(super) struct Violation {
    subject: Arc<str>,
}

/// Takes the client's events. Never waits: the client hands over one at a time.
#[derive(Clone)]
pub(super) struct Watcher {
    states: Arc<watch::Sender<ConnectionState>>,
    epoch: Arc<std::sync::atomic::AtomicU64>,
    violations: broadcast::Sender<Violation>,
}

impl Watcher {
    pub(super) fn new() -> Self {
        Self {
            states: Arc::new(watch::Sender::new(ConnectionState::Disconnected)),
            epoch: Arc::default(),
            violations: broadcast::Sender::new(VIOLATIONS),
        }
    }

    pub(super) fn states(&self) -> Arc<watch::Sender<ConnectionState>> {
        Arc::clone(&self.states)
    }

    pub(super) fn violations(&self) -> broadcast::Sender<Violation> {
        self.violations.clone()
    }

    pub(super) async fn note(self, event: Event) {
        match event {
            Event::Connected => {
                let before = self.epoch.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let epoch = before + 1;
                self.move_to(ConnectionState::Connected { epoch, lame_duck: false });
            }
            Event::Disconnected | Event::Closed => self.move_to(ConnectionState::Disconnected),
            Event::LameDuckMode => {
                self.states.send_if_modified(|state| match state {
                    ConnectionState::Connected { lame_duck, .. } => {
                        !std::mem::replace(lame_duck, true)
                    }
                    _ => false,
                });
            }
            Event::ServerError(ServerError::Other(text)) => self.refused(&text),
            other => tracing::debug!("nats: {other}"),
        }
    }

    /// A bus that was closed stays so.
    fn move_to(&self, next: ConnectionState) {
        self.states.send_if_modified(|state| {
            let moves = *state != ConnectionState::Closed;
            if moves {
                *state = next;
            }
            moves
        });
    }

    fn refused(&self, text: &str) {
        let Some(subject) = violated(text) else {
            tracing::warn!("nats: the server says: {}", bus_subjects::Shown(text));
            return;
        };
        // Nobody may be waiting for it.
        let _waiting = self.violations.send(Violation { subject: subject.into() });
        tracing::debug!("nats: the server refuses {}", bus_subjects::Shown(subject));
    }
}

/// The connection stands, though its event may not have come yet.
pub(super) fn connected_first(states: &watch::Sender<ConnectionState>) {
    states.send_if_modified(|state| {
        let is_early = *state == ConnectionState::Disconnected;
        if is_early {
            *state = ConnectionState::Connected { epoch: 1, lame_duck: false };
        }
        is_early
    });
}

/// Waits until the server refuses `subject`.
pub(super) async fn refused(
    op: &'static str,
    violations: &mut broadcast::Receiver<Violation>,
    subject: &str,
) -> Error {
    loop {
        match violations.recv().await {
            Ok(violation) if *violation.subject == *subject => {
                return Error::new(ErrorKind::Denied, op, "the server refuses the subject")
                    .at(subject);
            }
            // What was missed may have been this one: then the call ends by its time.
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// The subject in what the server says of a violation.
fn violated(text: &str) -> Option<&str> {
    const PUBLISH: &str = "permissions violation for publish to \"";
    const SUBSCRIBE: &str = "permissions violation for subscription to \"";
    let rest = [PUBLISH, SUBSCRIBE].into_iter().find_map(|start| {
        let head = text.get(..start.len())?;
        head.eq_ignore_ascii_case(start).then(|| text.get(start.len()..))?
    })?;
    rest.split('"').next()
}

/// How long to wait before the next try: up to 4 s, and not as long as others that lost the same
/// server.
pub(super) fn pause_before(attempt: usize) -> Duration {
    let doubled = PAUSE_MIN.saturating_mul(1 << attempt.min(10));
    let longest = doubled.min(PAUSE_MAX);
    let mut random = [0; 2];
    // Without randomness all wait equally long.
    let _filled = bus_crypto::Entropy::fill(&bus_crypto::SystemEntropy::new(), &mut random);
    longest / 2 + longest / 2 * u32::from(u16::from_le_bytes(random)) / u32::from(u16::MAX)
}

const VIOLATIONS: usize = 1024;
const PAUSE_MIN: Duration = Duration::from_millis(8);
const PAUSE_MAX: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_names_its_subject() {
        let text = "Permissions Violation for Publish to \"vak.work.w1.a.task\"";
        assert_eq!(violated(text), Some("vak.work.w1.a.task"));
        let text = "Permissions Violation for Subscription to \"a.>\" using queue \"q\"";
        assert_eq!(violated(text), Some("a.>"));
        assert_eq!(violated("Authorization Violation"), None);
    }

    #[test]
    fn a_pause_is_bounded_and_grows() {
        for attempt in 0..200 {
            assert!(pause_before(attempt) <= PAUSE_MAX);
        }
        assert!(pause_before(20) >= PAUSE_MAX / 2);
        assert!(pause_before(0) <= PAUSE_MIN);
    }
}
