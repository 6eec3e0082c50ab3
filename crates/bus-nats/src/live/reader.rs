//! The task that hears for one subscription: it takes what the client has and waits for nothing
//! else, because the client drops the newest messages of a subscription that nobody reads.

use std::{pin::Pin, sync::Arc, task::Poll};

use async_nats::Message;
use futures_core::Stream;
use futures_util::FutureExt;
use tokio::{
    sync::{Mutex, watch::Receiver},
    task::{JoinHandle, coop::unconstrained},
};

use super::{feed::Feed, heard};
use crate::connection::{Connection, ConnectionState};

/// Hears for one subscription.
pub(super) struct Reader<M> {
    messages: M,
    states: Receiver<ConnectionState>,
    epoch: Option<u64>,
    feed: Arc<Feed>,
    heard: Vec<Message>,
    gone: Vec<Message>,
    /// How many messages were taken since the client last had none.
    unbroken: usize,
}

/// A spawned task; dropping this ends it.
pub(super) struct Task(JoinHandle<()>);

/// The last epoch of the connection in which all subscriptions are known to be in force again: one
/// round trip says so for all of them.
#[derive(Default)]
pub(super) struct Fences(Mutex<u64>);

/// Waits until the subscriptions are in force again.
type Mending = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<M: Stream<Item = Message> + Unpin + Send + 'static> Reader<M> {
    /// A reader of `messages`; `states` is from before they were asked for.
    pub(super) fn new(
        messages: M,
        mut states: Receiver<ConnectionState>,
        feed: &Arc<Feed>,
    ) -> Self {
        let epoch = states.borrow_and_update().epoch();
        let (heard, gone) = (Vec::new(), Vec::new());
        Self { messages, states, epoch, feed: Arc::clone(feed), heard, gone, unbroken: 0 }
    }

    /// Starts hearing, until the bus is closed or the task dropped.
    #[expect(clippy::disallowed_methods, reason = "an engine starts its subscriptions' tasks")]
    pub(super) fn start(self, connection: Arc<Connection>, fences: Arc<Fences>) -> Task {
        Task(tokio::spawn(self.run(connection, fences)))
    }

    async fn run(mut self, connection: Arc<Connection>, fences: Arc<Fences>) {
        let mut mending: Option<Mending> = None;
        let mut runs = 0_usize;
        loop {
            tokio::select! {
                biased;
                changed = self.states.changed() => {
                    let state = *self.states.borrow_and_update();
                    if changed.is_err() || state.is_final() {
                        self.end(state);
                        return;
                    }
                    if state.epoch() != self.epoch {
                        self.note_change(state.epoch());
                        mending = self.epoch.map(|epoch| -> Mending {
                            let (at, fences) = (Arc::clone(&connection), Arc::clone(&fences));
                            Box::pin(async move { fences.pass(&at, epoch).await })
                        });
                    }
                }
                is_open = next_run(&mut self.messages, &mut self.heard, &mut self.unbroken) => {
                    self.hand_over();
                    if !is_open {
                        self.feed.end();
                        return;
                    }
                    runs += 1;
                    if runs.is_multiple_of(RUNS_MAX) {
                        tokio::task::yield_now().await;
                    }
                }
                () = mended(&mut mending) => {
                    mending = None;
                    self.feed.note_mended();
                }
            }
        }
    }

    /// Another connection, or none: what the old one brought comes before the break.
    fn note_change(&mut self, epoch: Option<u64>) {
        if self.epoch.is_some() {
            self.drain();
            self.feed.note_break();
        }
        self.epoch = epoch;
    }

    fn end(&mut self, state: ConnectionState) {
        self.drain();
        if state != ConnectionState::Closed {
            self.feed.note_break();
        }
        self.feed.end();
    }

    /// Hands over everything that the client has now.
    fn drain(&mut self) {
        for _ in 0..DRAINED_MAX / RUN_MAX {
            let run = next_run(&mut self.messages, &mut self.heard, &mut self.unbroken);
            if run.now_or_never() != Some(true) {
                break;
            }
            self.hand_over();
        }
        self.hand_over();
    }

    fn hand_over(&mut self) {
        if !self.heard.is_empty() {
            self.feed.push(&mut self.heard, &mut self.gone);
            self.gone.clear();
        }
        if self.unbroken == 0 {
            // A subscription that waits keeps no room for a run.
            self.heard.shrink_to(IDLE_MAX);
            self.gone.shrink_to(IDLE_MAX);
        }
        if self.unbroken >= CLIENT_HOLDS {
            // The client may have dropped some, and tells nobody which.
            self.unbroken = 0;
            self.feed.note_loss();
        }
    }
}

impl Fences {
    /// Makes sure that what was subscribed before is in force in `epoch`.
    async fn pass(&self, connection: &Connection, epoch: u64) {
        let mut passed = self.0.lock().await;
        if *passed >= epoch {
            return;
        }
        if let Err(error) = connection.fence("subscribe again").await {
            // A connection that broke again is told as such; else there is nothing to wait for.
            tracing::warn!(%error, "subscriptions may not hear everything yet");
        }
        *passed = epoch;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Takes what is ready, at least one message; `false` when there will be no more. Counts in
/// `unbroken` how many were taken since the last time that there was none. Cancel safe.
async fn next_run(
    messages: &mut (impl Stream<Item = Message> + Unpin),
    heard: &mut Vec<Message>,
    unbroken: &mut usize,
) -> bool {
    // Whatever the client has must be taken, or it drops what comes next: this task lets others
    // run when it has taken much more than tokio would give it.
    unconstrained(std::future::poll_fn(|cx| {
        for taken in 0..RUN_MAX {
            match Pin::new(&mut *messages).poll_next(cx) {
                Poll::Ready(Some(message)) => keep_live(message, heard),
                Poll::Ready(None) => return Poll::Ready(false),
                Poll::Pending => {
                    *unbroken = 0;
                    return if taken == 0 { Poll::Pending } else { Poll::Ready(true) };
                }
            }
        }
        *unbroken += RUN_MAX;
        Poll::Ready(true)
    }))
    .await
}

fn keep_live(message: Message, heard: &mut Vec<Message>) {
    if heard::is_live(&message) {
        heard.push(message);
    }
}

async fn mended(mending: &mut Option<Mending>) {
    match mending {
        Some(mending) => mending.await,
        None => std::future::pending().await,
    }
}

/// How many messages are handed over at a time.
const RUN_MAX: usize = 256;
/// For how many messages room is kept when none comes.
const IDLE_MAX: usize = 8;
/// After how many runs other tasks have their turn.
const RUNS_MAX: usize = 32;
/// More than the client ever holds for a subscription, so that a drain ends.
const DRAINED_MAX: usize = 2 * CLIENT_HOLDS;
/// How many messages the client holds for a subscription; those that come then it drops.
const CLIENT_HOLDS: usize = 65_536;

#[cfg(test)]
mod tests;
