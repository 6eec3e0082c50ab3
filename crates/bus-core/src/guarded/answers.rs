//! The right to answer: reply subjects of requests that this connection heard, once each.
//!
//! No rule of a role names reply subjects, for who may answer there is known only when a request
//! is handed out. It is what NATS calls `allow_responses`, held to calls.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bus_subjects::{AclPolicy, AddressKind, Filter, Subject};
use futures_core::Stream;
use tokio::time::Instant;

use super::denied;
use crate::{FeedBatch, FeedItem, Frame, Result, Subscription};

/// What one connection may answer. Clones share it.
///
/// It remembers the reply subjects of the newest [`Answers::KEPT_MAX`] requests that the
/// connection's subscriptions handed out, each for [`Answers::WITHIN`] and for one answer.
#[derive(Debug, Clone, Default)]
pub struct Answers(Arc<Mutex<VecDeque<Answerable>>>);

/// A request that was heard and not answered yet.
#[derive(Debug)]
struct Answerable {
    reply: Subject,
    until: Instant,
}

impl Answers {
    /// How many requests may wait for their answers; of more than these the oldest is forgotten.
    pub const KEPT_MAX: usize = 1024;

    /// How long a request may be answered (2 minutes).
    pub const WITHIN: Duration = Duration::from_secs(120);

    /// The same subscription; requests that it hands out may be answered.
    ///
    /// Only calls ask for answers, so all other subscriptions are left as they are.
    pub fn heard_by(&self, filter: &Filter, subscription: Subscription) -> Subscription {
        if !filter.overlaps(&CALLS) {
            return subscription;
        }
        Subscription::of_batches(Hearing { inner: subscription, answers: self.clone() })
    }

    /// Refuses a frame that may not be published: neither `policy` nor a request that was heard
    /// allows it, or it asks for an answer where its sender could not hear one. The right to an
    /// answer is used up by this.
    ///
    /// # Errors
    /// `Denied`, not done.
    pub fn check_publish(&self, policy: &AclPolicy, frame: &Frame) -> Result<()> {
        // Else a frame could lend its hearers a right on whatever subject it names.
        if let Some(reply) = &frame.reply
            && !policy.can_subscribe(&Filter::from(reply))
        {
            return Err(denied("publish", "hear answers", reply));
        }
        if policy.can_publish(&frame.subject) || self.take(&frame.subject) {
            return Ok(());
        }
        Err(denied("publish", "publish", &frame.subject))
    }

    /// Notes a frame that was handed out, when it is a call that wants an answer.
    fn note(&self, frame: &Frame) {
        let Some(reply) = &frame.reply else { return };
        if !CALLS.matches(&frame.subject) || !reply.as_str().starts_with(REPLIES) {
            return;
        }
        let (now, mut kept) = (Instant::now(), self.kept());
        forget_old(&mut kept, now);
        if kept.iter().any(|known| known.reply == *reply) {
            return;
        }
        if kept.len() >= Self::KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(Answerable { reply: reply.clone(), until: now + Self::WITHIN });
    }

    /// Whether `subject` may be answered on; not a second time.
    fn take(&self, subject: &Subject) -> bool {
        if !subject.as_str().starts_with(REPLIES) {
            return false;
        }
        let mut kept = self.kept();
        forget_old(&mut kept, Instant::now());
        let at = kept.iter().position(|known| known.reply == *subject);
        at.is_some_and(|at| kept.remove(at).is_some())
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Answerable>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// They stand in the order of their ends.
fn forget_old(kept: &mut VecDeque<Answerable>, now: Instant) {
    while kept.front().is_some_and(|oldest| oldest.until <= now) {
        kept.pop_front();
    }
}

/// A subscription whose requests may be answered.
struct Hearing {
    inner: Subscription,
    answers: Answers,
}

impl Stream for Hearing {
    type Item = FeedBatch;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedBatch>> {
        let item = std::task::ready!(Pin::new(&mut self.inner).poll_next(cx));
        if let Some(FeedItem::Frame(frame)) = &item {
            self.answers.note(frame);
        }
        Poll::Ready(item.map(FeedBatch::Item))
    }
}

static CALLS: LazyLock<Filter> = LazyLock::new(|| AddressKind::Call.filter(None));

/// Where replies are heard; no address begins so.
const REPLIES: &str = "_INBOX.";
