//! The engine of a client.

use std::{path::Path, sync::Arc};

use bus_core::{Answers, Durability, Engine, Identity, Promises, Result};
use bus_subjects::AclPolicy;
use tokio::sync::watch;

use super::{
    core::{Core, Way},
    dial::{Dial, Socket},
};
use crate::LinkOptions;

/// The engine that a [`LinkServer`](crate::LinkServer) serves, on this side of its socket.
///
/// It reconnects by itself. While the server is away, calls wait for it as long as
/// [`LinkOptions::patience`] says and fail with `Unavailable` then, not done; what was on its way
/// when the connection broke is done again where that is the same as doing it once, and else its
/// outcome is unknown. Subscriptions tell a `Gap` of one where an unknown number of frames, at
/// least one, may be missing. Members join again, watches and replays go on where they were.
///
/// Dropping it with all its streams closes it.
pub struct LinkBus {
    pub(crate) shared: Arc<Shared>,
    durability: Durability,
}

/// What a client and its streams hold; the last of them ends the connection.
pub(crate) struct Shared {
    pub(crate) core: Arc<Core>,
    /// What this identity may do, as the server said when it was first reached.
    pub(crate) policy: AclPolicy,
    /// What was heard and may be answered; the server keeps the same account.
    pub(crate) answers: Answers,
}

/// How the connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// The server is there.
    Up,
    /// The server is away; the client tries to reach it.
    Away,
    /// The server is there and does not let this identity in; the client tries again.
    Refused,
    /// The client was closed.
    Closed,
}

/// The states of a connection as they change.
#[derive(Debug)]
pub struct LinkStates(watch::Receiver<Way>);

impl LinkBus {
    /// Connects to the server of the socket at `path` and proves that we are `identity`.
    ///
    /// # Errors
    /// `Unavailable` at once when no server answers; `Denied` when it does not let us in, or is
    /// not of this user; `Unsupported` with both ranges when it speaks other versions; `Full` when
    /// it has too many clients; `Invalid` when others could have put the socket there.
    pub async fn connect(path: &Path, identity: Identity, options: LinkOptions) -> Result<Self> {
        Self::dial(Arc::new(Socket(path.to_owned())), identity, options).await
    }

    /// As [`LinkBus::connect`], on any way to a server.
    ///
    /// # Errors
    /// As [`LinkBus::connect`].
    pub async fn dial(
        dial: Arc<dyn Dial>,
        identity: Identity,
        options: LinkOptions,
    ) -> Result<Self> {
        let (core, first) = Core::begin(dial, identity, options).await?;
        let (policy, answers) = (first.policy.clone(), Answers::default());
        let shared = Arc::new(Shared { core, policy, answers });
        Ok(Self { shared, durability: first.durability })
    }

    /// How the connection is, now and later.
    #[must_use]
    pub fn states(&self) -> LinkStates {
        LinkStates(self.shared.core.ways())
    }

    pub(crate) fn core(&self) -> &Core {
        &self.shared.core
    }
}

impl LinkStates {
    /// How it is now.
    pub fn now(&mut self) -> LinkState {
        state_of(&self.0.borrow_and_update())
    }

    /// Waits until it has changed since this was asked last. Cancel safe.
    pub async fn next(&mut self) -> LinkState {
        if self.0.changed().await.is_err() {
            return LinkState::Closed;
        }
        self.now()
    }
}

impl Engine for LinkBus {
    fn promises(&self) -> Promises {
        Promises { engine: "link", durability: self.durability, shared: true }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(line) = self.core.close() {
            line.out.close();
        }
    }
}

fn state_of(way: &Way) -> LinkState {
    match way {
        Way::Up(_) => LinkState::Up,
        Way::Away => LinkState::Away,
        Way::Refused(_) => LinkState::Refused,
        Way::Closed => LinkState::Closed,
    }
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        state_of(self).fmt(f)
    }
}

impl std::fmt::Debug for LinkBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut states = self.states();
        f.debug_struct("LinkBus").field("state", &states.now()).finish_non_exhaustive()
    }
}
