//! What one subscriber has not read yet: bounded, and what gave way is told.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use futures_core::Stream;

use crate::{Posted, core::Core};

/// The inbox of one subscription.
///
/// It holds so many messages, of 1 MiB together unless one alone is longer; when it is full, the
/// oldest gives way to the next, which is told before what is left is read. Dropping it ends the
/// subscription.
pub struct Inbox {
    pub(crate) slot: Arc<Slot>,
    pub(crate) core: Arc<Core>,
    pub(crate) instance_id: String,
    pub(crate) number: u64,
}

/// What is read from an inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InboxItem {
    /// So many messages gave way since the last time this was told.
    Lagged(u64),
    /// A message.
    Envelope(Arc<Posted>),
}

impl Inbox {
    /// Whose inbox it is.
    #[must_use]
    pub fn instance_id(&self) -> &str {
        &self.instance_id
    }

    /// The name of the subscription, as the journal has it.
    #[must_use]
    pub fn subscription_id(&self) -> String {
        self.number.to_string()
    }

    /// The next message; none when the instance is gone and everything was read.
    ///
    /// Cancel safe: what was not returned is still there.
    pub async fn recv(&mut self) -> Option<InboxItem> {
        std::future::poll_fn(|cx| self.slot.poll(cx)).await
    }

    /// Tells that whoever reads here lives, which moves the lease of the instance on. Whether it
    /// is live: a door that serves a connection ends the connection when it is not.
    #[must_use]
    pub fn renew(&self) -> bool {
        self.core.seen(&self.instance_id)
    }
}

impl Stream for Inbox {
    type Item = InboxItem;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<InboxItem>> {
        self.slot.poll(cx)
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.core.detach(&self.instance_id, self.number);
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("instance_id", &self.instance_id)
            .field("subscription_id", &self.number)
            .finish_non_exhaustive()
    }
}

/// The part of an inbox that the bus writes to.
#[derive(Debug)]
pub(crate) struct Slot {
    capacity: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Arc<Posted>>,
    /// How long what waits is as JSON.
    bytes: usize,
    missed: u64,
    missed_total: u64,
    is_over: bool,
    reader: Option<Waker>,
}

/// A message that gave way.
#[derive(Debug)]
pub(crate) struct Displaced {
    pub(crate) posted: Arc<Posted>,
    pub(crate) missed_total: u64,
}

impl Inner {
    fn pop(&mut self) -> Option<Arc<Posted>> {
        let posted = self.waiting.pop_front()?;
        self.bytes -= posted.json().len();
        Some(posted)
    }
}

impl Slot {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), inner: Mutex::default() }
    }

    /// Puts a message in, and says which ones gave way: one, where it is not much longer than they.
    pub(crate) fn offer(&self, posted: Arc<Posted>) -> Vec<Displaced> {
        let mut inner = self.lock();
        let mut displaced = Vec::new();
        let long = posted.json().len();
        while inner.waiting.len() >= self.capacity || inner.bytes + long > BYTES_MAX {
            // The new one is taken, however long it is.
            let Some(posted) = inner.pop() else { break };
            inner.missed += 1;
            inner.missed_total += 1;
            displaced.push(Displaced { posted, missed_total: inner.missed_total });
        }
        inner.bytes += long;
        inner.waiting.push_back(posted);
        let reader = inner.reader.take();
        drop(inner);
        if let Some(reader) = reader {
            reader.wake();
        }
        displaced
    }

    /// Nothing will be put in any more.
    pub(crate) fn end(&self) {
        let mut inner = self.lock();
        inner.is_over = true;
        let reader = inner.reader.take();
        drop(inner);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<InboxItem>> {
        let mut inner = self.lock();
        if inner.missed > 0 {
            return Poll::Ready(Some(InboxItem::Lagged(std::mem::take(&mut inner.missed))));
        }
        if let Some(posted) = inner.pop() {
            return Poll::Ready(Some(InboxItem::Envelope(posted)));
        }
        if inner.is_over {
            return Poll::Ready(None);
        }
        match &mut inner.reader {
            Some(reader) => reader.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much waits in an inbox, in bytes of JSON (1 MiB), unless one message alone is longer.
const BYTES_MAX: usize = 1024 * 1024;
