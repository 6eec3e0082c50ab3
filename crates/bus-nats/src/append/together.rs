//! Group commit: appends that wait at the same time are stored as one batch.
//!
//! A server that syncs every write syncs once for a message alone, and a few times for a batch of
//! any size. A batch is all or nothing, so whenever one is refused the appends in it go one by
//! one: nobody is refused for the frame of another.

use std::{sync::Arc, time::Duration};

use bus_core::{Error, ErrorKind, Frame, Outcome, Receipt, Result};
use bus_subjects::StreamName;
use futures_util::{StreamExt, stream};
use tokio::time::timeout;

use super::{
    APPEND, Append, Encoded,
    batch::{HOLDS_KNOWN_IDS, PROBES_AT_ONCE},
    line::{Entered, Line, Waiting},
};
use crate::{api::ApiFailure, codec::kept_subject};

impl Append {
    /// Stores `frame` alone when few are under way, else with those that wait as well.
    pub(super) async fn append_in_line(
        self: &Arc<Self>,
        line: Arc<Line>,
        frame: Frame,
    ) -> Result<Receipt> {
        match line.enter(frame) {
            Entered::Alone(frame) => {
                let turn = Turn { append: self, line };
                self.append_alone(&turn.line.stream, &frame).await
            }
            Entered::Waits(place, answer) => {
                let place = Place { line: &line, place };
                let waited = self.api.connection().in_time(APPEND, answer).await;
                let answer = waited.map_err(|error| error.at(&place.line.stream))?;
                answer.unwrap_or_else(|_| Err(given_up(&place.line.stream)))
            }
        }
    }

    /// Stores what waits in `line`, group by group, until nobody does.
    async fn serve(self: Arc<Self>, mut service: Service) {
        let line = Arc::clone(&service.line);
        while let Some(group) = line.next_group() {
            let count = group.len();
            let left = match count {
                TOGETHER_MIN.. => self.append_together(&line.stream, group).await,
                _ => group,
            };
            // The first polls of these are in their order, and so are the messages.
            let appending = stream::iter(left).for_each_concurrent(ONE_BY_ONE, |one| async {
                let stored = self.append_alone(&line.stream, &one.frame).await;
                one.tell(stored);
            });
            appending.await;
            if count >= TOGETHER_MIN {
                // Who just got an answer may come again: the next group should be no smaller.
                let _gathered = timeout(GATHERING_MAX, line.gathers(count)).await;
            }
        }
        service.is_over = true;
    }

    /// Stores a group as one batch; returns those that must go one by one, each to get an answer
    /// of its own.
    async fn append_together(&self, stream: &StreamName, group: Vec<Waiting>) -> Vec<Waiting> {
        let failure = match self.send_group(group).await {
            Ok(()) => return Vec::new(),
            Err(failed) => failed,
        };
        let (failure, group) = failure;
        match failure {
            // One known id is enough; the others are none the wiser.
            ApiFailure::Refused(refusal) if refusal.err_code == HOLDS_KNOWN_IDS => {
                let all = group.len();
                let left = self.tell_known(group).await;
                if left.len() < TOGETHER_MIN || left.len() == all {
                    return left;
                }
                match self.send_group(left).await {
                    Ok(()) => Vec::new(),
                    Err((failure, left)) => tell_all(stream, &failure, left),
                }
            }
            failure => tell_all(stream, &failure, group),
        }
    }

    async fn send_group(&self, group: Vec<Waiting>) -> Result<(), (ApiFailure, Vec<Waiting>)> {
        let encoded: Result<Vec<_>> = group.iter().map(|one| Encoded::new(&one.frame)).collect();
        let sent = match encoded {
            Ok(encoded) => self.send(APPEND, encoded).await,
            Err(error) => Err(error.into()),
        };
        let receipts = match sent {
            Ok(ack) => self.receipts(APPEND, &ack, group.len()).map_err(ApiFailure::from),
            Err(failure) => Err(failure),
        };
        match receipts {
            Ok(receipts) => {
                for (one, receipt) in group.into_iter().zip(receipts) {
                    one.tell(Ok(receipt));
                }
                Ok(())
            }
            Err(failure) => Err((failure, group)),
        }
    }

    /// Answers those that were stored before; returns the others. Asking stores nothing, and so
    /// costs no sync.
    async fn tell_known(&self, group: Vec<Waiting>) -> Vec<Waiting> {
        let asking = group.into_iter().map(|one| async {
            let subject = kept_subject(&one.frame.subject, one.frame.placement.as_deref());
            match self.probe(APPEND, &subject, one.frame.id.as_str()).await {
                Ok(Some(ack)) => {
                    one.tell(self.receipt(APPEND, &ack));
                    None
                }
                // Why it could not be asked, it is told when it goes alone.
                Ok(None) | Err(_) => Some(one),
            }
        });
        let asked = stream::iter(asking).buffered(PROBES_AT_ONCE);
        asked.filter_map(std::future::ready).collect().await
    }
}

/// A turn alone, which ends when it is dropped.
struct Turn<'a> {
    append: &'a Arc<Append>,
    line: Arc<Line>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.line.leave() {
            let service = Service { line: Arc::clone(&self.line), is_over: false };
            self.append.runtime.spawn(Arc::clone(self.append).serve(service));
        }
    }
}

/// A place in a line, given up when it is dropped.
struct Place<'a> {
    line: &'a Line,
    place: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.line.give_up(self.place);
    }
}

/// Serves a line until it is over, or the runtime ends.
struct Service {
    line: Arc<Line>,
    is_over: bool,
}

impl Drop for Service {
    fn drop(&mut self) {
        if !self.is_over {
            self.line.abandon();
        }
    }
}

/// Tells all of a group what failed when it concerns all of them; returns them when it may be the
/// fault of one, or when nothing was tried that could not be tried again.
fn tell_all(stream: &StreamName, failure: &ApiFailure, group: Vec<Waiting>) -> Vec<Waiting> {
    let ApiFailure::Bus(error) = failure else {
        return group;
    };
    let (kind, outcome) = (error.kind(), error.outcome());
    let is_connection =
        matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Closed);
    if outcome == Outcome::NotDone && !is_connection {
        return group;
    }
    for one in group {
        let error = Error::new(kind, APPEND, error.detail().to_owned()).at(stream);
        one.tell(Err(if outcome == Outcome::Unknown { error.unknown() } else { error }));
    }
    Vec::new()
}

fn given_up(stream: &StreamName) -> Error {
    let why = "the bus ended before the answer came";
    Error::new(ErrorKind::Unavailable, APPEND, why).at(stream).unknown()
}

/// Fewer are stored as fast one by one. Measured: a batch takes 3.5 ms and 0.015 ms a message, one
/// of several messages under way 0.3 ms.
const TOGETHER_MIN: usize = 16;
/// How long a group waits to be as large as the one before; short beside the time that one took.
const GATHERING_MAX: Duration = Duration::from_millis(1);
/// How many of a refused batch are under way at once.
const ONE_BY_ONE: usize = 256;
