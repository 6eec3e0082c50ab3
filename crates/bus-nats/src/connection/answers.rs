//! The answers to this connection's calls, all heard on one subscription of its own.
//!
//! The client's own requests cost about twice as much: it makes four texts, a map entry and a
//! channel for each of them.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use async_nats::{Client, Message, SubscribeError, Subscriber, client::SubscribeErrorKind};
use bus_core::{Error, ErrorKind, Result};
use futures_util::StreamExt;
use tokio::task::unconstrained;

use super::{
    calls::{MARK, Token},
    watcher::Watcher,
};

/// Hands each answer to its call.
///
/// It does so at the moment when the client gives an answer out, within the client's own task:
/// the client wakes this, and this takes the answer at once. A task between the two would have to
/// be woken for each answer, and its queue could be full.
pub(super) struct Answers {
    watcher: Arc<Watcher>,
    /// What the subjects of all answers begin with.
    below: String,
    coming: Mutex<Subscriber>,
    /// How often there was reason to look since somebody began to.
    reasons: AtomicUsize,
    /// Wakes this.
    waker: Waker,
}

/// Rung by the client when an answer is there; silent once the connection is gone.
struct Bell(Weak<Answers>);

impl Answers {
    /// Begins to hear answers, below `inbox`.
    ///
    /// # Errors
    /// `Unavailable` when the client does not take the subscription.
    pub(super) async fn open(
        op: &'static str,
        client: &Client,
        (inbox, watcher): (&str, &Arc<Watcher>),
    ) -> Result<Arc<Self>> {
        let below = format!("{inbox}.");
        // All answers below one subject: that is how a refusal of it is recognised.
        let coming = client.subscribe(format!("{below}*")).await;
        let coming = coming.map_err(|error| subscribe_failed(op, error))?;
        let answers = Arc::new_cyclic(|this| Self {
            watcher: Arc::clone(watcher),
            below,
            coming: Mutex::new(coming),
            reasons: AtomicUsize::new(0),
            waker: Waker::from(Arc::new(Bell(Weak::clone(this)))),
        });
        answers.look();
        Ok(answers)
    }

    /// The subject for the answer to the call that `token` names.
    pub(super) fn subject(&self, token: Token) -> String {
        let mut subject = String::with_capacity(self.below.len() + Token::LEN);
        subject.push_str(&self.below);
        token.write(&mut subject);
        subject
    }

    /// The subject for one of several answers to the call that `token` names.
    pub(super) fn subject_of(&self, token: Token, at: usize) -> String {
        format!("{}{MARK}{at}", self.subject(token))
    }

    /// Which of several answers this is.
    pub(super) fn place(answer: &Message) -> Option<usize> {
        answer.subject.rsplit(MARK).next()?.parse().ok()
    }

    /// Hands out what came. When somebody does so at this moment, he looks again: the client may
    /// ring while we ask it for more.
    fn look(&self) {
        if self.reasons.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let mut seen = 1;
        loop {
            self.hand_out();
            let done = self.reasons.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire);
            match done {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    fn hand_out(&self) {
        let mut coming = self.coming.lock().unwrap_or_else(PoisonError::into_inner);
        let mut context = Context::from_waker(&self.waker);
        // The budget of the client's task is not ours to spend: without any left we would be told
        // that nothing is there.
        while let Poll::Ready(Some(answer)) = pin!(unconstrained(coming.next())).poll(&mut context)
        {
            let token = answer.subject.strip_prefix(&self.below).and_then(Token::read);
            if let Some(token) = token {
                self.watcher.states.calls.answer(token, answer);
            }
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(answers) = self.0.upgrade() {
            answers.look();
        }
    }
}

/// What it means that the client takes no subscription.
pub(super) fn subscribe_failed(op: &'static str, error: SubscribeError) -> Error {
    let kind = match error.kind() {
        SubscribeErrorKind::InvalidSubject => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, op, "the connection does not take it").because(error)
}
