//! What a bus does for the others that share its registry, as long as somebody runs it.

use std::{
    collections::{HashSet, VecDeque},
    num::NonZeroUsize,
    sync::Arc,
};

use bus_core::{Asked, BucketMirror, Calls, Change, Heard, KeyState, Revision, Watch, WatchItem};
use bus_subjects::{BucketKey, Filter};

use super::{
    Shared, away, call_of,
    entry::{self, Answer, Entry, Handed},
};
use crate::{
    BusError,
    core::{Core, Taken},
    journal::{self, Journal, Lines},
    registry::machine::Command,
};

/// The side of a shared bus that listens: it learns who is registered elsewhere, says who is here,
/// and takes messages in for those who listen here. Without it running, the bus reaches nobody
/// elsewhere and nobody elsewhere reaches it, and registrations end when their lease is over.
#[must_use = "a shared bus has to be served"]
pub struct Serving {
    shared: Arc<Shared>,
    core: Arc<Core>,
    journal: Arc<Journal>,
    watch: Option<Watch>,
    calls: Option<Calls>,
    mirror: BucketMirror,
    taken: VecDeque<(String, Answer)>,
    known: HashSet<String>,
}

impl Serving {
    pub(crate) fn new(shared: Arc<Shared>, core: Arc<Core>, journal: Arc<Journal>) -> Self {
        Self {
            shared,
            core,
            journal,
            watch: None,
            calls: None,
            mirror: BucketMirror::new(),
            taken: VecDeque::new(),
            known: HashSet::new(),
        }
    }

    /// Serves until the engine fails or is closed; then it may be run again, and goes on where it
    /// was. When it is dropped, a message that was being taken in may be delivered without its
    /// bus hearing so, which that bus tells its sender; and who listens here may be told to others
    /// only when the instance is heard of next.
    ///
    /// # Errors
    /// [`BusError::Unavailable`], always in the end.
    pub async fn run(&mut self) -> Result<(), BusError> {
        self.open().await?;
        loop {
            let (Some(watch), Some(calls)) = (&mut self.watch, &mut self.calls) else {
                return Err(closed());
            };
            tokio::select! {
                item = watch.next() => match item {
                    Some(Ok(item)) => self.learn(item),
                    Some(Err(error)) => {
                        self.watch = None;
                        return Err(away(&error));
                    }
                    None => {
                        self.watch = None;
                        return Err(closed());
                    }
                },
                asked = calls.next() => match asked {
                    Some(Asked::Question(heard)) => self.answer(&heard).await,
                    // Its asker is told by the time that goes by.
                    Some(Asked::Gap { .. } | Asked::Refused(_)) => {}
                    None => {
                        self.calls = None;
                        return Err(closed());
                    }
                },
                () = self.shared.dirty.added.notified() => self.tell().await?,
            }
        }
    }

    /// Listens, and learns all that is registered now.
    pub(crate) async fn open(&mut self) -> Result<(), BusError> {
        if self.calls.is_none() {
            let subject = call_of(&self.shared.endpoint, self.shared.endpoint.agent().as_str())?;
            let calls = self.shared.endpoint.calls(Filter::from(&subject), CALLS_WAITING_MAX);
            self.calls = Some(calls.await.map_err(|error| away(&error))?.among_hearers());
        }
        if self.watch.is_none() {
            let (bucket, seen) = (self.shared.bucket.clone(), self.mirror.seen());
            let keys = Filter::parse(">").map_err(|error| away(&error.into()))?;
            let watch = self.shared.engine.watch(bucket, keys, seen).await;
            let mut watch = watch.map_err(|error| away(&error))?;
            if seen == Revision::START {
                while !self.mirror.is_current() {
                    match watch.next().await {
                        Some(item) => self.learn(item.map_err(|error| away(&error))?),
                        None => return Err(closed()),
                    }
                }
            }
            self.watch = Some(watch);
        }
        // Of what failed before.
        self.shared.dirty.added.notify_one();
        Ok(())
    }

    fn learn(&mut self, item: WatchItem) {
        if let WatchItem::Changed(Change { key, state, .. }) = &item {
            match state {
                KeyState::Value(value) => {
                    if let Some(entry) = Entry::parse(value) {
                        self.shared.adopt(&entry);
                    }
                }
                KeyState::Deleted | KeyState::Expired => self.forget(key),
            }
        }
        for key in self.mirror.apply(item) {
            self.forget(&key);
        }
    }

    fn forget(&mut self, key: &BucketKey) {
        if let Some(instance_id) = self.shared.name_gone(key) {
            self.core.learn(Command::Forget { instance_id });
        }
    }

    /// Writes what has changed here into the bucket; what fails is tried again by the next run.
    async fn tell(&mut self) -> Result<(), BusError> {
        let mut failed = None;
        for instance_id in self.shared.dirty.take() {
            if failed.is_some() {
                self.shared.dirty.add(&instance_id);
            } else if let Err(error) = self.shared.tell(&instance_id, false).await {
                self.shared.dirty.add(&instance_id);
                failed = Some(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn answer(&mut self, heard: &Heard) {
        let answer = match serde_json::from_slice(&heard.opened.payload) {
            Ok(handed) => self.take_in(handed).await,
            Err(_) => Answer { accepted: false, losses_unrecorded: false },
        };
        let answer = entry::json(&answer).map_err(|error| error.to_string());
        // Whoever asked is told by the time that goes by when this fails.
        let _ignored = self.shared.endpoint.answer(heard, answer).await;
    }

    /// Puts a message into the inboxes here, once, and records what gave way before it says so.
    async fn take_in(&mut self, handed: Handed) -> Answer {
        let Handed { instance_id, envelope } = handed;
        let message = format!("{} {instance_id}", envelope.message_id);
        if self.known.contains(&message) {
            let before = self.taken.iter().find(|(taken, _)| *taken == message);
            return before.map_or(NOT_ACCEPTED, |(_, answer)| *answer);
        }
        let Some(taken) = self.core.take_in(&instance_id, envelope) else { return NOT_ACCEPTED };
        let losses_unrecorded = self.record(taken).await;
        let answer = Answer { accepted: true, losses_unrecorded };
        self.known.insert(message.clone());
        self.taken.push_back((message, answer));
        if self.taken.len() > TAKEN_MAX
            && let Some((oldest, _)) = self.taken.pop_front()
        {
            self.known.remove(&oldest);
        }
        answer
    }

    /// Whether losses are not recorded.
    async fn record(&mut self, taken: Taken) -> bool {
        let Taken { mut misses, losses_unrecorded, says_losses } = taken;
        let Some(envelope) = misses.pop() else { return says_losses };
        if self.journal.begin().is_err() {
            return true;
        }
        // Each of these lines is a loss, the last one too.
        let lines =
            Lines { misses, envelope, says_losses: true, losses_unrecorded: Arc::default() };
        drop(losses_unrecorded);
        let is_written = journal::wait(self.journal.write(lines)).await.is_ok();
        says_losses || !is_written
    }
}

impl std::fmt::Debug for Serving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving").field("shared", &self.shared).finish_non_exhaustive()
    }
}

fn closed() -> BusError {
    let outcome = bus_core::Outcome::NotDone;
    BusError::Unavailable { reason: "the engine was closed".into(), outcome }
}

const NOT_ACCEPTED: Answer = Answer { accepted: false, losses_unrecorded: false };

/// How many messages of other buses wait here.
const CALLS_WAITING_MAX: NonZeroUsize = NonZeroUsize::new(4_096).unwrap();

/// Of how many messages it is known that they were taken in.
const TAKEN_MAX: usize = 4_096;
