//! A call under way: bounded in time, ended with its connection, told what the server refuses.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use async_nats::Message;
use bus_core::{Error, ErrorKind, Result};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{
    calls::{Seated, Token},
    configure::{closed, no_answer},
    refusals::Act,
    state::ConnectionState,
    watcher::Watcher,
};

/// A moment of a connection, to be asked later what has happened to it since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(super) connects: u64,
    pub(super) refusals: u64,
}

/// A call under way.
pub(super) struct Call<'a> {
    watcher: &'a Watcher,
    seated: Seated<'a>,
    op: &'static str,
    mark: Mark,
}

impl<'a> Call<'a> {
    /// Begins a call that expects so many answers, before anything of it is sent.
    pub(super) fn begin(watcher: &'a Watcher, op: &'static str, answers: usize) -> Self {
        let seated = watcher.states.calls.enter(answers);
        Self { watcher, seated, op, mark: mark(watcher) }
    }

    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    /// Names this call in the subject for its answer.
    pub(super) fn token(&self) -> Token {
        self.seated.token()
    }

    /// Counts what has happened since `mark`.
    pub(super) fn since(mut self, mark: Mark) -> Self {
        self.mark = mark;
        self
    }

    /// The next answer that came for this call.
    pub(super) async fn answer(&self) -> Message {
        poll_fn(|context| self.seated.poll_answer(context)).await
    }

    /// Waits for `future` as long as the connection stands and the server refuses nothing that
    /// `refusal` looks for, at most for `wait`.
    pub(super) async fn wait<T>(
        &self,
        wait: Duration,
        mut future: Pin<&mut impl Future<Output = T>>,
        refusal: impl Fn(&Watcher, Mark) -> Option<Error>,
    ) -> Result<T> {
        let Self { watcher, seated, op, mark } = self;
        let mut limit = Limit::new(wait);
        let mut unseen = *mark;
        poll_fn(|context| {
            if let Poll::Ready(answer) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(answer));
            }
            // What happens after this look wakes us.
            seated.wakes(context);
            if limit.poll(context).is_ready() {
                return Poll::Ready(Err(no_answer(op, wait)));
            }
            // Each refusal is looked at once, however many there are.
            let refusals = watcher.refusals.count();
            let over = refusal(watcher, unseen).or_else(|| ended(watcher, op, *mark));
            unseen.refusals = refusals;
            over.map_or(Poll::Pending, |error| Poll::Ready(Err(error)))
        })
        .await
    }
}

/// When a call ends without an answer.
///
/// Most are answered long before: a timer is made only for one that is near its end. Until then
/// every call is woken now and then.
struct Limit {
    wait: Duration,
    /// `None` before the first look, and for a time that never comes.
    end: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Limit {
    fn new(wait: Duration) -> Self {
        Self { wait, end: None, timer: None }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.timer.is_none() {
            let now = Instant::now();
            let end = self.end.or_else(|| now.checked_add(self.wait));
            self.end = end;
            let near = end.filter(|end| end.saturating_duration_since(now) <= NEAR);
            self.timer = near.map(|end| Box::pin(sleep_until(end)));
        }
        self.timer.as_mut().map_or(Poll::Pending, |timer| timer.as_mut().poll(context))
    }
}

pub(super) fn mark(watcher: &Watcher) -> Mark {
    Mark { connects: watcher.states.connects(), refusals: watcher.refusals.count() }
}

/// Whether the connection of `mark` is no more.
pub(super) fn ended(watcher: &Watcher, op: &'static str, mark: Mark) -> Option<Error> {
    match watcher.states.now() {
        ConnectionState::Closed => Some(closed(op).unknown()),
        state if state.epoch() == Some(mark.connects) => None,
        _ => Some(lost(op)),
    }
}

pub(super) fn lost(op: &'static str) -> Error {
    let why = "the connection was lost before the answer came";
    Error::new(ErrorKind::Unavailable, op, why).unknown()
}

/// Whether the server refused to take something for `subject` since `mark`.
pub(super) fn refused(
    watcher: &Watcher,
    op: &'static str,
    (act, subject): (Act, &str),
    mark: Mark,
) -> Option<Error> {
    let was = watcher.refusals.has(act, subject, mark.refusals);
    was.then(|| Error::new(ErrorKind::Denied, op, "the server refuses the subject").at(subject))
}

/// Whether answers do not reach the connection of `mark`.
pub(super) fn deaf(watcher: &Watcher, op: &'static str, mark: Mark) -> Option<Error> {
    let why = "the server does not let this identity hear the answers below its inbox_prefix";
    let is_deaf = !watcher.refusals.hears(mark.connects);
    is_deaf.then(|| Error::new(ErrorKind::Denied, op, why))
}

/// How often at least all calls are woken.
pub(super) const ROUSED_EVERY: Duration = Duration::from_secs(1);
/// From then on a call has a timer. It is roused in time for that even when this machine is slow.
const NEAR: Duration = ROUSED_EVERY.saturating_mul(2);

#[cfg(test)]
mod tests;
