//! A watch of a bucket: it goes on over every outage, and says so when it missed something.

use std::{collections::VecDeque, time::Duration};

use bus_core::{Change, ErrorKind, KeyState, Result, Revision, WatchItem};
use bus_envelope::Timestamp;
use bus_subjects::Filter;
use tokio::sync::watch::Receiver;

use super::{
    channel::{Channel, OP, Stored, Told, failed},
    layout::{self, ENDS_KEPT, Info, Place},
};
use crate::{
    api::{Api, GetRequest},
    connection::ConnectionState,
};

/// One watch. It reads when it is polled, and only then.
pub(super) struct Follower {
    api: Api,
    place: Place,
    subjects: String,
    states: Receiver<ConnectionState>,
    reached: Reached,
    /// Ends up to here are of values that were never told.
    untold_to: u64,
    /// Whether the reader knows that it has everything.
    is_current: bool,
    channel: Option<Channel>,
    items: VecDeque<WatchItem>,
    has_ended: bool,
    failures: u32,
}

/// How far a reader has come.
struct Reached {
    revision: u64,
    /// When it had everything, by the server's clock; unknown of a revision that a caller gave.
    at: Option<Timestamp>,
    /// In which life of the bucket; as `at`.
    life: Option<String>,
}

impl Follower {
    /// Opens the watch behind `after`.
    pub(super) async fn open(
        api: Api,
        place: Place,
        keys: &Filter,
        after: Revision,
    ) -> Result<Self> {
        let states = api.connection().states();
        let mut follower = Self {
            subjects: place.subjects(keys),
            states,
            reached: Reached { revision: after.0, at: None, life: None },
            untold_to: 0,
            is_current: false,
            channel: None,
            items: VecDeque::new(),
            has_ended: false,
            failures: 0,
            api,
            place,
        };
        follower.begin().await?;
        Ok(follower)
    }

    /// The next item; `None` when the bus was closed. Cancel safe only as far as the caller keeps
    /// the future.
    pub(super) async fn next(&mut self) -> Option<Result<WatchItem>> {
        loop {
            if self.has_ended || matches!(*self.states.borrow(), ConnectionState::Closed) {
                return None;
            }
            if let Some(item) = self.items.pop_front() {
                return Some(Ok(item));
            }
            let state = *self.states.borrow_and_update();
            let Some(channel) = self.channel.as_mut().filter(|channel| channel.state == state)
            else {
                self.channel = None;
                if let Err(error) = self.begin_again().await {
                    self.has_ended = true;
                    return (error.kind() != ErrorKind::Closed).then_some(Err(error));
                }
                continue;
            };
            tokio::select! {
                told = channel.next() => if let Err(denied) = self.take(told) {
                    self.has_ended = true;
                    return Some(Err(denied));
                },
                changed = self.states.changed() => self.has_ended |= changed.is_err(),
            }
        }
    }

    fn take(&mut self, told: Told) -> Result<()> {
        match told {
            Told::Stored(stored) => self.take_stored(stored),
            Told::Quiet { is_now } => {
                self.failures = 0;
                self.note_whole(is_now);
                self.say_current();
            }
            Told::Nothing => {}
            Told::Broken => self.channel = None,
            Told::Denied(denied) => return Err(denied),
        }
        Ok(())
    }

    fn take_stored(&mut self, stored: Stored) {
        let Stored { message, seq, time, pending, is_now } = stored;
        self.failures = 0;
        self.reached.revision = seq;
        self.reached.at = Some(time);
        let end = message.headers.as_ref().and_then(layout::end);
        let is_untold = end.is_some() && seq <= self.untold_to;
        if let Some(key) = self.place.key(&message.subject).filter(|_| !is_untold) {
            let state = end.unwrap_or(KeyState::Value(message.payload));
            let change = Change { key, revision: Revision(seq), state };
            self.items.push_back(WatchItem::Changed(change));
        }
        if pending == 0 {
            self.note_whole(is_now);
            self.say_current();
        }
    }

    /// The server has nothing left to tell. When it said so long ago, much may have come since.
    fn note_whole(&mut self, is_now: bool) {
        if is_now {
            self.reached.at = Some(self.api.connection().now());
        }
    }

    fn say_current(&mut self) {
        if !self.is_current {
            self.is_current = true;
            self.items.push_back(WatchItem::Current);
        }
    }

    /// Opens a new consumer after an outage, however long that takes; fails only for good.
    async fn begin_again(&mut self) -> Result<()> {
        if self.failures > 0 {
            let wait = AGAIN_MIN.saturating_mul(1 << self.failures.min(5)).min(AGAIN_MAX);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                changed = self.states.changed() => self.has_ended |= changed.is_err(),
            }
        }
        self.failures = self.failures.saturating_add(1);
        match self.begin().await {
            Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Closed) => {
                Err(error)
            }
            Err(error) => {
                tracing::debug!(%error, stream = self.place.stream, "a watch cannot go on yet");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Opens a consumer behind what was reached, or at the start when something was missed.
    async fn begin(&mut self) -> Result<()> {
        let info = self.bucket().await?;
        let is_whole = self.reached.revision == 0
            || match &info {
                Some(info) => self.is_remembered(info).await?,
                None => false,
            };
        let after = if is_whole { self.reached.revision } else { 0 };
        let last = match &info {
            Some(info) => info.state.last_seq,
            None if after == 0 => self.last().await?,
            None => 0,
        };
        let (channel, pending) =
            Channel::open(&self.api, &self.place, &self.subjects, after).await?;
        if !is_whole {
            self.items.push_back(WatchItem::Resync);
            self.is_current = false;
        }
        if after == 0 {
            // What ended before the consumer was there is nothing that it told.
            self.untold_to = last;
            self.reached.revision = 0;
        }
        self.reached.at = self.reached.at.filter(|_| is_whole);
        self.reached.life = info.map(|info| info.created);
        self.channel = Some(channel);
        if pending == 0 {
            self.say_current();
        }
        Ok(())
    }

    /// The bucket as it is; it is made when nobody put anything yet. `None` for who may read some
    /// of its keys alone, and is told everything anew after each outage.
    async fn bucket(&self) -> Result<Option<Info>> {
        match self.place.info(&self.api, OP).await {
            Ok(Some(info)) => return Ok(Some(info)),
            Ok(None) => {}
            Err(error) if error.kind() == ErrorKind::Denied => return Ok(None),
            Err(error) => return Err(error),
        }
        self.place.ensure(&self.api, OP).await?;
        match self.place.info(&self.api, OP).await? {
            Some(made) => Ok(Some(made)),
            None => Err(failed(ErrorKind::Unavailable, "the bucket went away", &self.place)),
        }
    }

    /// The last revision under the watched keys; 0 when nothing was ever written there.
    async fn last(&self) -> Result<u64> {
        let wanted =
            GetRequest { last_by_subj: Some(self.subjects.clone()), ..GetRequest::default() };
        let got = self.api.get(OP, &self.place.stream, &wanted).await;
        let got = got.map_err(|failure| failure.into_error(OP, &self.place.stream))?;
        Ok(got.first().map_or(0, |last| last.seq))
    }

    /// Whether every change behind what was reached is still there, the marks of ends included.
    async fn is_remembered(&self, info: &Info) -> Result<bool> {
        let Reached { revision, at, life } = &self.reached;
        let is_other_life = life.as_ref().is_some_and(|life| *life != info.created);
        let is_of_it = (info.config.first_seq..=info.state.last_seq).contains(revision);
        if is_other_life || !is_of_it {
            return Ok(false);
        }
        if *revision == info.state.last_seq {
            return Ok(true);
        }
        let Some(now) = info.time() else { return Ok(false) };
        let is_recent = |time: Timestamp| now.since(time) < ENDS_KEPT.saturating_sub(MARGIN);
        if info.born().is_some_and(is_recent) || at.is_some_and(is_recent) {
            return Ok(true);
        }
        let first = info.config.first_seq.max(1);
        Ok(self.time_before(*revision, first).await?.is_some_and(is_recent))
    }

    /// When some revision at or a little before `revision` was written, as far as one is left.
    async fn time_before(&self, revision: u64, first: u64) -> Result<Option<Timestamp>> {
        let mut back = 0;
        loop {
            let from = revision.saturating_sub(back).max(first);
            let wanted = GetRequest {
                seq: Some(from),
                next_by_subj: Some(self.subjects.clone()),
                ..GetRequest::default()
            };
            let got = match self.api.get(OP, &self.place.stream, &wanted).await {
                Ok(got) => got.into_iter().next(),
                Err(failure) => {
                    let error = failure.into_error(OP, &self.place.stream);
                    // Who may read some keys only cannot know: everything is told anew.
                    let is_denied = error.kind() == ErrorKind::Denied;
                    return if is_denied { Ok(None) } else { Err(error) };
                }
            };
            match got {
                Some(stored) if stored.seq <= revision => return Ok(Some(stored.time)),
                _ if from == first => return Ok(None),
                _ => back = (back * 2).max(1),
            }
        }
    }
}

const AGAIN_MIN: Duration = Duration::from_millis(50);
const AGAIN_MAX: Duration = Duration::from_secs(2);
/// What clocks, and the notice of a lost connection, may be late by.
const MARGIN: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests;
