//! Pipelined sends: what waits while one batch is on its way goes together as the next.

use std::{
    collections::{HashSet, VecDeque},
    num::NonZeroUsize,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
};

use bus_subjects::Subject;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::{Endpoint, Outgoing, Sent, send::Failed};
use crate::{BoxFuture, Error, ErrorKind, Frame, Outcome, Result};

/// Sends many messages without waiting for each: a group commit.
///
/// One batch is on its way at a time; what is pushed meanwhile waits and goes together as the next
/// one, at most [`Frame::BATCH_MAX`] messages. Messages of one subject are stored in the order they
/// were pushed. At most `window` messages are accepted and not answered yet; a push beyond that
/// waits.
///
/// It spawns nothing. It moves while somebody is in [`push`](Self::push), [`flush`](Self::flush) or
/// [`Ticket::wait`]; whoever that is moves it for all. Share it by cloning: producers that each
/// wait for their own ticket share their batches. Such a call that was begun and is then neither
/// polled nor dropped holds up all the others, as a lock would: poll them together or in tasks.
///
/// After a message failed, those of its subject that stand behind it are not sent: their tickets
/// say so, `NotDone`, and so do later pushes there, until [`flush`](Self::flush) has told the
/// failure. A batch that is refused as a whole is sent one by one, so that one bad message fails
/// alone; what does not concern its subject goes on.
///
/// Dropping pipeline and tickets gives up what was not answered: it may be stored or not, as after
/// a dropped [`Endpoint::send`]. What was answered is stored.
#[derive(Clone)]
pub struct Pipeline(Arc<Core>);

/// The answer to one message of a pipeline that is still to come. Dropping it changes nothing: the
/// message is sent, and a failure is told by [`Pipeline::flush`].
#[must_use = "the message may not be stored yet"]
pub struct Ticket {
    core: Arc<Core>,
    answer: oneshot::Receiver<Result<Sent>>,
}

struct Core {
    endpoint: Endpoint,
    room: Arc<Semaphore>,
    queue: Mutex<Queue>,
    /// The batch on its way. It stays here when whoever moved it goes away, for the next one to
    /// move it on. The lock makes one batch at a time.
    flight: tokio::sync::Mutex<Option<Flight>>,
}

/// A batch on its way: its messages with their answers. It knows nothing of the pipeline, so that a
/// dropped pipeline drops it.
type Flight = BoxFuture<'static, Vec<(Waiting, Result<Sent>)>>;

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// How many were accepted and how many of them answered, since the beginning.
    accepted: u64,
    answered: u64,
    /// Subjects with a failed message.
    stopped: HashSet<Subject>,
    /// The first failure that no flush has told.
    failure: Option<Error>,
}

struct Waiting {
    outgoing: Outgoing,
    ticket: oneshot::Sender<Result<Sent>>,
    _room: OwnedSemaphorePermit,
}

impl Endpoint {
    /// A pipeline with at most `window` messages under way; more than 65,536 is 65,536.
    #[must_use]
    pub fn pipeline(&self, window: NonZeroUsize) -> Pipeline {
        const WINDOW_MAX: usize = 65_536;
        Pipeline(Arc::new(Core {
            endpoint: self.clone(),
            room: Arc::new(Semaphore::new(window.get().min(WINDOW_MAX))),
            queue: Mutex::default(),
            flight: tokio::sync::Mutex::new(None),
        }))
    }
}

impl Pipeline {
    /// Accepts a message as soon as there is room, and moves what is on its way.
    ///
    /// Cancel safe: a dropped call accepted nothing, or the message is sent with nobody to hear of
    /// it but [`flush`](Self::flush).
    ///
    /// # Errors
    /// What [`Endpoint::send`] refuses before it makes a message; the message is not accepted then.
    pub async fn push(&self, outgoing: impl Into<Outgoing>) -> Result<Ticket> {
        let (core, outgoing) = (&self.0, outgoing.into());
        core.endpoint.check_send(&outgoing.draft)?;
        let room = core.room().await?;
        let (ticket, answer) = oneshot::channel();
        {
            let mut queue = core.queue();
            queue.accepted += 1;
            queue.waiting.push_back(Waiting { outgoing, ticket, _room: room });
        }
        // One look: so a batch sets out although nobody waits for it yet.
        let mut turn = pin!(core.turn());
        std::future::poll_fn(|cx| {
            let _underway = turn.as_mut().poll(cx);
            Poll::Ready(())
        })
        .await;
        Ok(Ticket { core: Arc::clone(core), answer })
    }

    /// Waits until everything accepted before this call is answered, and tells the first failure
    /// that no flush has told yet. Then subjects that a failure stopped are open again.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// The first failure, whoever's ticket told it too; others may have failed as well.
    pub async fn flush(&self) -> Result<()> {
        let accepted = self.0.queue().accepted;
        while self.0.queue().answered < accepted {
            self.0.turn().await;
        }
        let mut queue = self.0.queue();
        queue.stopped.clear();
        queue.failure.take().map_or(Ok(()), Err)
    }
}

impl Ticket {
    /// Waits until the message is stored, and moves the pipeline meanwhile.
    ///
    /// # Errors
    /// Those of [`Endpoint::send`]; `NotDone` also when a message before it on its subject failed.
    pub async fn wait(mut self) -> Result<Sent> {
        loop {
            tokio::select! {
                biased;
                answer = &mut self.answer => return answer.unwrap_or_else(|_| Err(given_up())),
                () = self.core.turn() => {}
            }
        }
    }
}

impl Core {
    /// Room for one message; moves what is on its way while there is none.
    async fn room(&self) -> Result<OwnedSemaphorePermit> {
        let mut room = pin!(Arc::clone(&self.room).acquire_owned());
        loop {
            tokio::select! {
                biased;
                room = &mut room => return room.map_err(|_| given_up()),
                () = self.turn() => {}
            }
        }
    }

    /// Moves one batch to its end, if there is one or can be one.
    async fn turn(&self) {
        let mut flight = self.flight.lock().await;
        if flight.is_none() {
            let waiting = self.queue().take();
            let waiting = self.drop_stopped(waiting);
            if waiting.is_empty() {
                return;
            }
            *flight = Some(Box::pin(fly(self.endpoint.clone(), waiting)));
        }
        if let Some(underway) = flight.as_mut() {
            let answers = underway.await;
            *flight = None;
            for (waiting, answer) in answers {
                self.answer(waiting, answer);
            }
        }
    }

    /// Answers one message, and stops its subject when that is a failure.
    fn answer(&self, waiting: Waiting, answer: Result<Sent>) {
        let mut queue = self.queue();
        queue.answered += 1;
        if let Err(error) = &answer {
            queue.stopped.insert(waiting.outgoing.draft.subject.clone());
            queue.failure.get_or_insert_with(|| error.retold());
        }
        drop(queue);
        // Whoever dropped the ticket does not want to know.
        let _unheard = waiting.ticket.send(answer);
    }

    /// Answers those whose subject a failure stopped, and gives back the others.
    fn drop_stopped(&self, waiting: Vec<Waiting>) -> Vec<Waiting> {
        let mut rest = Vec::with_capacity(waiting.len());
        for waiting in waiting {
            let subject = &waiting.outgoing.draft.subject;
            if self.queue().stopped.contains(subject) {
                let error = kept_back(subject);
                self.answer(waiting, Err(error));
            } else {
                rest.push(waiting);
            }
        }
        rest
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// The messages of the next batch. Of two with one id the second one waits: engines refuse
    /// both in one batch, and by itself it gets its own answer.
    fn take(&mut self) -> Vec<Waiting> {
        let mut ids: HashSet<&str> = HashSet::new();
        let mut count = 0;
        for waiting in self.waiting.iter().take(Frame::BATCH_MAX) {
            if waiting.outgoing.draft.id.as_deref().is_some_and(|id| !ids.insert(id)) {
                break;
            }
            count += 1;
        }
        self.waiting.drain(..count).collect()
    }
}

/// Sends a batch, and says of each of its messages what became of it.
async fn fly(endpoint: Endpoint, waiting: Vec<Waiting>) -> Vec<(Waiting, Result<Sent>)> {
    let outgoing: Vec<Outgoing> = waiting.iter().map(|waiting| waiting.outgoing.clone()).collect();
    match endpoint.send_batch(&outgoing, endpoint.making()).await {
        Ok(results) => {
            let told = |(waiting, result): (Waiting, Result<Sent, Failed>)| {
                let draft = &waiting.outgoing.draft;
                let answer =
                    result.map_err(|failed| failed.into_error(draft.id.as_deref(), &draft.subject));
                (waiting, answer)
            };
            waiting.into_iter().zip(results).map(told).collect()
        }
        // Somebody is refused, or they do not go together: each for itself.
        Err(error) if error.outcome() == Outcome::NotDone && waiting.len() > 1 => {
            one_by_one(&endpoint, waiting).await
        }
        Err(error) => waiting.into_iter().map(|waiting| (waiting, Err(error.retold()))).collect(),
    }
}

/// Sends messages in order, none behind a failed one on its subject.
async fn one_by_one(endpoint: &Endpoint, waiting: Vec<Waiting>) -> Vec<(Waiting, Result<Sent>)> {
    let mut stopped = HashSet::new();
    let mut answers = Vec::with_capacity(waiting.len());
    for waiting in waiting {
        let subject = &waiting.outgoing.draft.subject;
        let answer = if stopped.contains(subject) {
            Err(kept_back(subject))
        } else {
            endpoint.send(waiting.outgoing.clone()).await
        };
        if answer.is_err() {
            stopped.insert(subject.clone());
        }
        answers.push((waiting, answer));
    }
    answers
}

fn kept_back(subject: &Subject) -> Error {
    let detail = "nothing was sent: a message before this one on its subject failed";
    Error::new(ErrorKind::Conflict, "send", detail).at(subject)
}

fn given_up() -> Error {
    Error::new(ErrorKind::Closed, "send", "the pipeline was given up").unknown()
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let queue = self.0.queue();
        f.debug_struct("Pipeline")
            .field("endpoint", &self.0.endpoint)
            .field("waiting", &queue.waiting.len())
            .field("unanswered", &(queue.accepted - queue.answered))
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("endpoint", &self.core.endpoint).finish_non_exhaustive()
    }
}
