//! What the client has for one subscription, taken at the moment when the client gives it out.
//!
//! The client wakes this, within its own task, and this takes the message at once and puts it into
//! the feed. A task between the two would have to be woken for each message, and while it had not
//! its turn the client would drop the newest messages.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use async_nats::Message;
use bus_core::Frame;
use futures_core::Stream;
use futures_util::StreamExt;
use tokio::task::unconstrained;

use super::{arrival::Arrivals, feed::Feed};

/// The messages of one subscription and the feed they go to.
pub(super) struct Intake {
    feed: Arc<Feed>,
    source: Mutex<Source>,
    /// Which connection there is: how often there was one.
    connects: Box<dyn Fn() -> u64 + Send + Sync>,
    /// How often there was reason to look since somebody began to.
    reasons: AtomicUsize,
    /// Wakes this.
    waker: Waker,
}

struct Source {
    messages: Pin<Box<dyn Stream<Item = Message> + Send>>,
    arrivals: Arrivals,
    heard: Vec<Frame>,
    gone: Vec<Frame>,
    /// The connection that the last messages came by; none after it broke.
    epoch: Option<u64>,
    has_ended: bool,
}

/// Rung by the client when a message is there; silent once nobody subscribes any more.
struct Bell(Weak<Intake>);

impl Intake {
    /// Takes what `messages` bring to `feed`, from now on; `connects` says how often there was a
    /// connection, the one of `epoch` being that by which they come now.
    pub(super) fn new(
        messages: impl Stream<Item = Message> + Send + 'static,
        arrivals: Arrivals,
        (connects, epoch): (impl Fn() -> u64 + Send + Sync + 'static, Option<u64>),
        feed: Arc<Feed>,
    ) -> Arc<Self> {
        let source = Source {
            messages: Box::pin(messages),
            arrivals,
            heard: Vec::new(),
            gone: Vec::new(),
            epoch,
            has_ended: false,
        };
        let intake = Arc::new_cyclic(|this| Self {
            feed,
            source: Mutex::new(source),
            connects: Box::new(connects),
            reasons: AtomicUsize::new(0),
            waker: Waker::from(Arc::new(Bell(Weak::clone(this)))),
        });
        intake.look();
        intake
    }

    pub(super) fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    /// Another connection, or none, after the one `before`: what that brought stands before the
    /// break.
    pub(super) fn note_change(&self, before: Option<u64>, epoch: Option<u64>) {
        self.look();
        let mut source = self.lock();
        // The next one may have brought something already, and the break was told then.
        if epoch.is_some() || source.epoch == before {
            source.note_change(epoch, &self.feed);
        }
    }

    /// Takes what came. When somebody does so at this moment, he looks again: the client may ring
    /// while it is asked for more.
    pub(super) fn look(&self) {
        if self.reasons.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let mut seen = 1;
        loop {
            self.take();
            let done = self.reasons.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire);
            match done {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    fn take(&self) {
        let mut cx = Context::from_waker(&self.waker);
        let mut source = self.lock();
        let mut taken = 0;
        while !source.has_ended {
            // The budget of the client's task is not ours to spend: without any left we would be
            // told that nothing is there.
            let message = match pin!(unconstrained(source.messages.next())).poll(&mut cx) {
                Poll::Ready(Some(message)) => message,
                Poll::Ready(None) => {
                    source.has_ended = true;
                    break;
                }
                Poll::Pending => break,
            };
            let epoch = Some((self.connects)());
            if source.epoch != epoch {
                source.hand_over(&self.feed);
                source.note_change(epoch, &self.feed);
            }
            let Source { arrivals, heard, .. } = &mut *source;
            arrivals.take(&message, heard);
            taken += 1;
            if source.heard.len() >= RUN_MAX {
                source.hand_over(&self.feed);
            }
        }
        source.hand_over(&self.feed);
        if taken >= CLIENT_HOLDS {
            // The client may have dropped some, and tells nobody which.
            self.feed.note_loss();
        }
        if source.has_ended {
            self.feed.end();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Source> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source {
    fn note_change(&mut self, epoch: Option<u64>, feed: &Feed) {
        if self.epoch.is_some() && self.epoch != epoch {
            feed.note_break();
        }
        self.epoch = epoch;
    }

    fn hand_over(&mut self, feed: &Feed) {
        if self.heard.is_empty() {
            return;
        }
        let is_run = self.heard.len() > IDLE_MAX;
        feed.push(&mut self.heard, &mut self.gone);
        self.gone.clear();
        if !is_run {
            // A subscription that hears little keeps no room for a run.
            self.heard.shrink_to(IDLE_MAX);
            self.gone.shrink_to(IDLE_MAX);
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(intake) = self.0.upgrade() {
            intake.look();
        }
    }
}

/// How many frames are handed over at a time.
const RUN_MAX: usize = 256;
/// For how many frames room is kept when few come.
const IDLE_MAX: usize = 8;
/// How many messages the client holds for a subscription; those that come then it drops.
const CLIENT_HOLDS: usize = 65_536;

#[cfg(test)]
mod tests;
