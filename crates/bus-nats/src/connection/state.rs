//! What a connection is now, held against the client's own word.
//!
//! The client tells of changes through a queue that drops what does not fit. So an event is only
//! a reason to look: what is shown is what the client itself says at that moment.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use async_nats::{Client, Statistics, connection::State};
use tokio::sync::watch;

use super::calls::Calls;

/// What a connection is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    /// Connected, for the `epoch`th time; what was under way in an earlier epoch is lost.
    Connected {
        /// Grows with each reconnect; the first is 1.
        epoch: u64,
        /// Whether the server has said that it will soon end. Calls go on, at another server once
        /// it has sent us away.
        lame_duck: bool,
    },
    /// Not connected; the client tries again by itself.
    Disconnected,
    /// The server lets this identity in no more, and has said so for as long as a first connection
    /// may take: it was revoked, or has run out. Nothing is tried any more.
    Denied,
    /// Closed by this process.
    Closed,
}

impl ConnectionState {
    /// Which connection this is; none while there is none.
    #[must_use]
    pub const fn epoch(&self) -> Option<u64> {
        match self {
            Self::Connected { epoch, .. } => Some(*epoch),
            Self::Disconnected | Self::Denied | Self::Closed => None,
        }
    }

    /// Whether no other state follows.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Denied | Self::Closed)
    }
}

/// The state, and the news that waiting calls look at: a change of it, or a refusal.
pub(super) struct States {
    state: watch::Sender<ConnectionState>,
    news: watch::Sender<()>,
    /// Those that wait, woken at news as well.
    pub(super) calls: Calls,
    /// How often the client has connected.
    statistics: std::sync::OnceLock<Arc<Statistics>>,
    /// The connection whose server is a lame duck.
    lame_duck: AtomicU64,
    closing: AtomicBool,
}

impl States {
    /// Begins to show what `client` says.
    pub(super) fn follow(&self, client: &Client) {
        let _once = self.statistics.set(client.statistics());
        self.settle(client);
    }

    /// How often the client has connected. Read before something is sent and after its answer, it
    /// tells whether both went through one connection.
    pub(super) fn connects(&self) -> u64 {
        self.statistics.get().map_or(0, |counts| counts.connects.load(Ordering::Relaxed))
    }

    pub(super) fn now(&self) -> ConnectionState {
        *self.state.borrow()
    }

    pub(super) fn watch(&self) -> watch::Receiver<ConnectionState> {
        self.state.subscribe()
    }

    /// Wakes at each change of the state and at each refusal from now on.
    pub(super) fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    pub(super) fn tell(&self) {
        self.news.send_replace(());
        self.calls.wake();
    }

    /// Shows what the client says now.
    pub(super) fn settle(&self, client: &Client) {
        if self.is_settled(client) {
            return;
        }
        self.change(|| match client.connection_state() {
            State::Connected => {
                let epoch = self.connects();
                let lame_duck = self.lame_duck.load(Ordering::Relaxed) == epoch;
                ConnectionState::Connected { epoch, lame_duck }
            }
            State::Pending | State::Disconnected => ConnectionState::Disconnected,
        });
    }

    /// The server of this connection will soon end.
    pub(super) fn lame_duck(&self, client_connects: u64) {
        self.lame_duck.store(client_connects, Ordering::Relaxed);
        let modified = self.state.send_if_modified(|state| match state {
            ConnectionState::Connected { epoch, lame_duck } if *epoch == client_connects => {
                !std::mem::replace(lame_duck, true)
            }
            _ => false,
        });
        if modified {
            self.tell();
        }
    }

    /// The last state.
    pub(super) fn end(&self, last: ConnectionState) {
        self.change(|| last);
    }

    /// From now on no new call is taken.
    pub(super) fn begin_to_close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    fn is_settled(&self, client: &Client) -> bool {
        let shown = self.state.borrow();
        match *shown {
            ConnectionState::Connected { epoch, .. } => {
                epoch == self.connects() && client.connection_state() == State::Connected
            }
            ConnectionState::Disconnected => client.connection_state() != State::Connected,
            ConnectionState::Denied | ConnectionState::Closed => true,
        }
    }

    /// What is next is asked under the lock: of two changes at once the later look counts.
    fn change(&self, next: impl FnOnce() -> ConnectionState) {
        let modified = self.state.send_if_modified(|state| {
            if *state == ConnectionState::Closed {
                return false;
            }
            let next = next();
            let may_change = !state.is_final() || next == ConnectionState::Closed;
            let changes = may_change && *state != next;
            if changes {
                *state = next;
            }
            changes
        });
        if modified {
            self.tell();
        }
    }
}

impl Default for States {
    fn default() -> Self {
        Self {
            state: watch::Sender::new(ConnectionState::Disconnected),
            news: watch::Sender::new(()),
            calls: Calls::default(),
            statistics: std::sync::OnceLock::new(),
            lame_duck: AtomicU64::new(0),
            closing: AtomicBool::new(false),
        }
    }
}
