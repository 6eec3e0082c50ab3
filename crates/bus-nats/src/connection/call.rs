//! A call under way: bounded in time, ended with its connection, told what the server refuses.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use bus_core::{Error, ErrorKind, Result};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use super::{
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

/// How many calls are under way, for a close to wait for.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    count: AtomicUsize,
    none: Notify,
}

/// A call under way.
pub(super) struct Call<'a> {
    watcher: &'a Watcher,
    under_way: &'a UnderWay,
    news: watch::Receiver<()>,
    op: &'static str,
    mark: Mark,
}

impl UnderWay {
    /// Waits until none is.
    pub(super) async fn over(&self) {
        loop {
            let none = self.none.notified();
            if self.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            none.await;
        }
    }
}

impl<'a> Call<'a> {
    /// Begins a call, before anything of it is sent.
    pub(super) fn begin(watcher: &'a Watcher, under_way: &'a UnderWay, op: &'static str) -> Self {
        under_way.count.fetch_add(1, Ordering::SeqCst);
        // News that comes while the mark is made is looked at once too often, never missed.
        let news = watcher.states.news();
        Self { watcher, under_way, news, op, mark: mark(watcher) }
    }

    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    /// Counts what has happened since `mark`.
    pub(super) fn since(mut self, mark: Mark) -> Self {
        self.mark = mark;
        self
    }

    /// Waits for `future` as long as the connection stands and the server refuses nothing that
    /// `refusal` looks for, at most for `wait`.
    pub(super) async fn wait<T>(
        &mut self,
        wait: Duration,
        future: impl Future<Output = T>,
        refusal: impl Fn(&Watcher, Mark) -> Option<Error>,
    ) -> Result<T> {
        let (watcher, mark, op) = (self.watcher, self.mark, self.op);
        let over = async {
            let mut unseen = mark;
            loop {
                // Each refusal is looked at once, however many there are.
                let refusals = watcher.refusals.count();
                if let Some(error) = refusal(watcher, unseen).or_else(|| ended(watcher, op, mark)) {
                    return error;
                }
                unseen.refusals = refusals;
                // The sender lives in the watcher.
                let _more = self.news.changed().await;
            }
        };
        tokio::select! {
            biased;
            answer = timeout(wait, future) => answer.map_err(|_| no_answer(op, wait)),
            error = over => Err(error),
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.under_way.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.under_way.none.notify_waiters();
        }
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
