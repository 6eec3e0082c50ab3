//! Live messages: sealed and chained at once, vouched for a little later by a signed checkpoint.

use std::time::Duration;

use bus_envelope::{Draft, EventHash, Timestamp};
use bus_subjects::{Address, AddressKind, Plane, Subject};

use super::{
    Endpoint,
    chain::{ChainState, Place},
    stamp::Prepared,
};
use crate::{Error, ErrorKind, LiveCheckpoint, Outcome, Result, Step};

/// How the messages on a subject are vouched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LiveKind {
    /// Live: by a checkpoint that follows.
    Checkpoint,
    /// Live, and only the newest message counts: each by itself, for a checkpoint on the subject
    /// would take the newest one's place.
    Newest,
    /// Not live, or few and not to be doubted: each by itself, always.
    Always,
    /// Durable: nothing is published there, it is stored.
    Stored,
}

impl Endpoint {
    /// Publishes a live message: sealed and chained. With checkpoints on, one of those follows on
    /// the same subject when it is due and vouches for it; a sample that replaces the one before
    /// it (telemetry) is signed itself, and so are alerts and all that is not live.
    ///
    /// Cancel safe in that a dropped call may have published or not; the chain stays whole.
    ///
    /// # Errors
    /// `Denied`, `Invalid` (also on a durable subject, which [`Endpoint::send`] is for), `TooLarge`
    /// and `Exhausted` before anything is sent; those of [`crate::Bus::publish`]. A checkpoint that
    /// could not be sent is no error here: the next one vouches for the same messages.
    pub async fn publish(&self, draft: Draft) -> Result<EventHash> {
        self.check(&draft)?;
        let chain = self.0.chains.of(&draft.subject)?;
        let mut state = chain.lock().await;
        let policy = self.0.parts.checkpoints;
        let (is_signed, is_vouched) = match state.kind {
            LiveKind::Checkpoint => (false, policy.is_some()),
            LiveKind::Newest => (policy.is_some(), false),
            LiveKind::Always => (true, false),
            LiveKind::Stored => {
                let detail = "this subject is stored: a message is sent there, not published";
                return Err(Error::new(ErrorKind::Invalid, "publish", detail).at(&draft.subject));
            }
        };
        let (place, subject) = (self.live_place(&draft.subject, &state), draft.subject.clone());
        let prepared = self.prepare(draft.into(), None, &place, self.form(is_signed))?;
        let (hash, time) = (prepared.hash, prepared.time);
        if !is_vouched {
            return self.put_out(&mut state, place, prepared, false).await.map(|()| hash);
        }
        // Before it is out: who drops this future half-way must not leave it unvouched for.
        self.call_keeper(&subject, &mut state, time);
        self.put_out(&mut state, place, prepared, true).await?;
        self.vouch_when_full(&subject, &mut state, time).await;
        Ok(hash)
    }

    /// Publishes the checkpoint that vouches for what is on `subject` since the last one, at once,
    /// and says for how many messages. Nothing is due afterwards.
    ///
    /// Cancel safe: a dropped call may have published it; the next one vouches for it as well.
    ///
    /// # Errors
    /// As [`Endpoint::publish`]; then the messages still wait for one.
    pub async fn finish_live(&self, subject: &Subject) -> Result<usize> {
        let chain = self.0.chains.of(subject)?;
        let mut state = chain.lock().await;
        self.vouch(subject, &mut state).await
    }

    /// Has one message on its way: the chain moves first, for should this future be dropped
    /// half-way, a message that may have been heard must not get a twin.
    async fn put_out(
        &self,
        state: &mut ChainState,
        place: Place,
        prepared: Prepared,
        is_vouched: bool,
    ) -> Result<()> {
        let (bytes, time) = (prepared.frame.bytes(), prepared.time);
        state.place = Some(Place::at(prepared.head));
        if is_vouched {
            state.unvouched.push(prepared.hash);
        }
        let published = self.engine().publish(prepared.frame).await;
        self.tell_sent(prepared.sending.as_deref(), published.as_ref().err().map(Error::kind));
        if let Err(error) = published {
            if error.outcome() == Outcome::NotDone {
                state.place = Some(place);
                if is_vouched {
                    state.unvouched.pop();
                }
            }
            return Err(error);
        }
        self.metrics().published(bytes);
        self.metrics().took(Step::Publish, self.clock().now().since(time));
        Ok(())
    }

    /// Has the chain stand among those on which a checkpoint is due some time.
    fn call_keeper(&self, subject: &Subject, state: &mut ChainState, now: Timestamp) {
        let since = state.unvouched.since(now);
        if !state.unvouched.is_queued {
            let within = self.0.parts.checkpoints.map_or(Duration::ZERO, |policy| policy.within());
            state.unvouched.is_queued = true;
            self.0.due.add(since.plus(within), subject.clone());
        }
    }

    /// Publishes a checkpoint when enough messages wait for one, or the first for long enough.
    async fn vouch_when_full(&self, subject: &Subject, state: &mut ChainState, now: Timestamp) {
        let Some(policy) = self.0.parts.checkpoints else { return };
        let waited = now.since(state.unvouched.since(now));
        if state.unvouched.count() < policy.events() && waited < policy.within() {
            return;
        }
        // The messages are out, so its failure is not theirs; whoever keeps vouching tries again.
        if let Err(error) = self.vouch(subject, state).await {
            tracing::warn!(%subject, %error, "a checkpoint of live messages was not sent");
        }
    }

    /// Publishes the checkpoint for what waits on a chain, which is locked; says for how many.
    pub(super) async fn vouch(&self, subject: &Subject, state: &mut ChainState) -> Result<usize> {
        let count = state.unvouched.count();
        if count > 0 {
            self.send_checkpoint(subject, state).await?;
            state.unvouched.clear();
        }
        Ok(count)
    }

    async fn send_checkpoint(&self, subject: &Subject, state: &mut ChainState) -> Result<()> {
        let payload = LiveCheckpoint::payload(state.unvouched.leaves());
        let draft = Draft::new(subject.clone(), LiveCheckpoint::EVENT_TYPE, payload)
            .content_type(LiveCheckpoint::CONTENT_TYPE);
        self.check(&draft)?;
        let place = self.live_place(subject, state);
        let prepared = self.prepare(draft.into(), None, &place, self.form(true))?;
        // It counts as one that waits itself until it is out: if it is lost, the next one vouches
        // for it too, and so for an unbroken run of the chain.
        self.put_out(state, place, prepared, true).await
    }

    fn live_place(&self, subject: &Subject, state: &ChainState) -> Place {
        state.place.unwrap_or_else(|| Place::at(self.genesis(subject)))
    }
}

impl LiveKind {
    pub(super) fn of(subject: &Subject) -> Self {
        let Ok(kind) = Address::kind_of(subject) else { return Self::Always };
        match (kind.plane(), kind) {
            (Plane::Ephemeral, AddressKind::Telemetry) => Self::Newest,
            // Somebody acts on it, and it may be the last that its sender says.
            (Plane::Ephemeral, AddressKind::Alert) => Self::Always,
            (Plane::Ephemeral, _) => Self::Checkpoint,
            (Plane::Durable, _) => Self::Stored,
            (Plane::Call, _) => Self::Always,
        }
    }
}

/// Whether messages on `subject` have to be signed: all but live events, which are many and are
/// vouched for by their seal until a checkpoint comes. Alerts are few and are signed.
pub(super) fn must_be_signed(subject: &Subject) -> bool {
    matches!(LiveKind::of(subject), LiveKind::Always | LiveKind::Stored)
}
