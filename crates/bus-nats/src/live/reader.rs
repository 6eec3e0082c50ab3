//! The task that tells of breaks to one subscription, and when they are over.

use std::{pin::Pin, sync::Arc};

use bus_core::ErrorKind;
use bus_subjects::Filter;
use tokio::{
    sync::{Mutex, watch::Receiver},
    task::JoinHandle,
};

use super::intake::Intake;
use crate::connection::{Connection, ConnectionState, Mark};

/// A spawned task; dropping this ends it.
pub(super) struct Task(JoinHandle<()>);

/// The last epoch of the connection in which all subscriptions are known to be in force again: one
/// round trip says so for all of them.
#[derive(Default)]
pub(super) struct Fences(Mutex<u64>);

/// Waits until the subscriptions are in force again.
type Mending = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a subscription is to hear, from before it was asked for.
pub(super) struct Asked {
    /// Its filter.
    pub(super) filter: Filter,
    /// That moment.
    pub(super) mark: Mark,
    /// The states of the connection since then.
    pub(super) states: Receiver<ConnectionState>,
    /// The connection that there was.
    pub(super) epoch: Option<u64>,
}

/// Tells `intake` of each change of the connection, until the bus is closed, the server refuses the
/// subscription, or the task is dropped.
#[expect(clippy::disallowed_methods, reason = "an engine starts its subscriptions' tasks")]
pub(super) fn start(
    intake: Arc<Intake>,
    asked: Asked,
    connection: Arc<Connection>,
    fences: Arc<Fences>,
) -> Task {
    Task(tokio::spawn(read(intake, asked, connection, fences)))
}

async fn read(intake: Arc<Intake>, asked: Asked, connection: Arc<Connection>, fences: Arc<Fences>) {
    let Asked { filter, mark, mut states, mut epoch } = asked;
    let mut mending = None::<Mending>;
    loop {
        tokio::select! {
            biased;
            changed = states.changed() => {
                let state = *states.borrow_and_update();
                if changed.is_err() || state.is_final() {
                    end(&intake, state);
                    return;
                }
                if state.epoch() != epoch {
                    intake.note_change(epoch, state.epoch());
                    epoch = state.epoch();
                    mending = epoch.map(|epoch| -> Mending {
                        let (at, fences) = (Arc::clone(&connection), Arc::clone(&fences));
                        let filter = filter.clone();
                        Box::pin(async move { fences.pass(&at, epoch, &filter).await })
                    });
                }
            }
            () = mended(&mut mending) => {
                mending = None;
                if let Err(error) = connection.unheard_since(AGAIN, mark, filter.as_str()) {
                    tracing::warn!(%error, %filter, "a subscription ends: it is refused now");
                    end(&intake, *states.borrow());
                    return;
                }
                intake.feed().note_mended();
            }
        }
    }
}

/// There will be no more.
pub(super) fn end(intake: &Intake, last: ConnectionState) {
    intake.look();
    if last != ConnectionState::Closed {
        intake.feed().note_break();
    }
    intake.feed().end();
}

impl Fences {
    /// Makes sure that what was subscribed before, `filter` among it, is in force in `epoch`, or
    /// that it is known to be refused.
    async fn pass(&self, connection: &Arc<Connection>, epoch: u64, filter: &Filter) {
        let mut passed = self.0.lock().await;
        if *passed >= epoch {
            return;
        }
        let mark = connection.violation_mark();
        match connection.confirm_heard(AGAIN, mark, filter.as_str()).await {
            Ok(()) => connection.be_known(AGAIN).await,
            // Each looks for its own.
            Err(error) if error.kind() == ErrorKind::Denied => {}
            // A connection that broke again is told as such; else there is nothing to wait for.
            Err(error) => tracing::warn!(%error, "subscriptions may not hear everything yet"),
        }
        *passed = epoch;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn mended(mending: &mut Option<Mending>) {
    match mending {
        Some(mending) => mending.await,
        None => std::future::pending().await,
    }
}

const AGAIN: &str = "subscribe again";
