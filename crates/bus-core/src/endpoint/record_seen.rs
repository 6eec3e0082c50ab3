//! A record that is stored behind everything its writer has judged, or not at all.

use std::time::Duration;

use bus_envelope::{ChainHead, Draft};
use bus_subjects::{Address, AddressKind, Filter, StreamName};

use super::{
    Endpoint, Outgoing, Sent,
    chain::Place,
    record::{RECORDS_MAX, decode_stored},
    send::Failed,
    stamp::Prepared,
};
use crate::{Error, ErrorKind, Expect, Outcome, Receipt, Result, Seq, Stored, planes};

/// Why [`Endpoint::record_seen`] has stored nothing, or may have.
#[derive(Debug)]
pub enum NotRecorded<E> {
    /// What the subject holds speaks against it, as its judge says. Nothing was stored.
    Refused(E),
    /// The subject could not be read, or the record not be stored; the error's outcome says
    /// whether it may be there all the same.
    Failed(Error),
}

/// Where the reading of a subject stands.
struct Reading {
    stream: StreamName,
    filter: Filter,
    head: ChainHead,
    seen: Seq,
}

/// What may have been stored although nobody said so.
#[derive(Default)]
struct Pending {
    /// Behind which position.
    behind: Seq,
    /// One at most.
    sent: Option<Prepared>,
    /// Why nobody said so, when nothing tells more than the subject does.
    lost: Option<Error>,
}

impl Pending {
    fn hold(&mut self, behind: Seq, sent: Prepared, error: Error) {
        self.behind = behind;
        self.sent = Some(sent);
        // A conflict on a repeat says that something stands there: the first copy, or another's
        // record. Reading on will tell.
        self.lost = (error.kind() != ErrorKind::Conflict).then_some(error);
    }

    /// Something else stands where it would: so it was not stored and never will be.
    fn settle(&mut self, seen: Seq) {
        if seen > self.behind {
            *self = Self::default();
        }
    }

    /// `error`, which leaves open what became of this.
    fn of(&self, error: Error) -> Error {
        if self.sent.is_some() { error.unknown() } else { error }
    }
}

impl Endpoint {
    /// Stores a record on an evidence subject on condition that `decide` allows it after `see` was
    /// shown every record that stands before it there. The check and the record are one step: when
    /// somebody else's record comes between, that one is seen and judged first.
    ///
    /// `see` and `decide` work on one `state`: every record of the subject is shown once, in the
    /// order in which they are stored. They get the records unchecked, and open what they count.
    ///
    /// A lost answer is not the end of it: what was sent is looked for where it would stand, and
    /// when it is there this call has stored it. So this depends neither on how long ids are
    /// remembered nor on who may read which of them. For the same reason the draft names no id.
    ///
    /// Cancel safe in that a dropped call may have stored or not.
    ///
    /// # Errors
    /// [`NotRecorded::Refused`] with what `decide` says; [`NotRecorded::Failed`] as
    /// [`Endpoint::record`], and `Denied` when the agent may not read the subject.
    pub async fn record_seen<S: Send, E: Send>(
        &self,
        draft: Draft,
        state: &mut S,
        see: impl Fn(&mut S, &Stored) + Send + Sync,
        decide: impl Fn(&mut S) -> Result<(), E> + Send + Sync,
    ) -> Result<Sent, NotRecorded<E>> {
        let mut reading = self.begin_reading(&draft)?;
        let outgoing = Outgoing::from(draft);
        let mut pending = Pending::default();
        let mut pause = PAUSE_MIN;
        for _ in 0..RECORDS_MAX {
            let read = self.read_on(&mut reading, &pending, state, &see).await;
            let read = read.map_err(|error| {
                self.tell_pending(&pending, &error);
                pending.of(error)
            });
            if let Some(sent) = read? {
                return Ok(sent);
            }
            pending.settle(reading.seen);
            if let Some(lost) = pending.lost.take() {
                self.tell_pending(&pending, &lost);
                return Err(NotRecorded::Failed(lost));
            }
            if pending.sent.is_none() {
                decide(state).map_err(NotRecorded::Refused)?;
                let place = Place::at(reading.head);
                let prepared = self.prepare(outgoing.clone(), None, &place, self.form(true))?;
                let expect = Expect::LastOfSubject(reading.seen);
                match self.append(&prepared.frame, expect, false).await {
                    Ok(receipt) => {
                        self.tell_sent(prepared.sending.as_deref(), None);
                        return Ok(prepared.sent(receipt));
                    }
                    Err(Failed::Error(error)) if error.outcome() == Outcome::Unknown => {
                        pending.hold(reading.seen, prepared, error);
                        continue;
                    }
                    Err(Failed::Error(error)) if error.kind() != ErrorKind::Conflict => {
                        self.tell_sent(prepared.sending.as_deref(), Some(error.kind()));
                        return Err(NotRecorded::Failed(error));
                    }
                    Err(Failed::Error(_) | Failed::Duplicate(_)) => {}
                }
            }
            // Others were faster, or a copy of the stream is behind: a rest for it.
            tokio::time::sleep(pause).await;
            pause = PAUSE_MAX.min(pause * 2);
        }
        let detail = format!("the head moved {RECORDS_MAX} times before this record was stored");
        let error = Error::new(ErrorKind::Conflict, "record", detail).at(&reading.filter);
        Err(NotRecorded::Failed(pending.of(error)))
    }

    /// Tells the span of a record that nobody found, and that this call no longer looks for.
    fn tell_pending(&self, pending: &Pending, error: &Error) {
        let sending = pending.sent.as_ref().and_then(|sent| sent.sending.as_deref());
        self.tell_sent(sending, Some(error.kind()));
    }

    fn begin_reading(&self, draft: &Draft) -> Result<Reading> {
        self.check_record(draft)?;
        let subject = &draft.subject;
        if draft.id.is_some() {
            let detail = "a record that is judged gets an id of its own each time: name none";
            return Err(Error::new(ErrorKind::Invalid, "record", detail).at(subject));
        }
        let stream = match Address::parse(subject).map(|address| address.kind()) {
            Ok(AddressKind::Receipt) => planes::receipts_stream()?,
            Ok(AddressKind::Approval) => planes::approvals_stream()?,
            _ => {
                let detail = "no stream of evidence keeps this subject";
                return Err(Error::new(ErrorKind::Invalid, "record", detail).at(subject));
            }
        };
        let filter = Filter::from(subject);
        self.may_subscribe("record", &filter)?;
        Ok(Reading { stream, filter, head: self.subject_genesis(subject), seen: Seq(0) })
    }

    /// Shows what is new to `see`, up to what this call has sent itself, and gives that.
    async fn read_on<S: Send>(
        &self,
        reading: &mut Reading,
        pending: &Pending,
        state: &mut S,
        see: &(impl Fn(&mut S, &Stored) + Send + Sync),
    ) -> Result<Option<Sent>> {
        let from = Seq(reading.seen.0.saturating_add(1));
        let (stream, filter) = (reading.stream.clone(), reading.filter.clone());
        let mut replay = self.engine().replay(stream, filter, from).await?;
        let mut last = None;
        while let Some(stored) = replay.next().await {
            let stored = stored?;
            if let Some(ours) = pending.sent.iter().find(|ours| ours.frame == stored.frame) {
                let (stream, seq) = (reading.stream.clone(), stored.seq);
                self.tell_sent(ours.sending.as_deref(), None);
                let durability = self.engine().promises().durability;
                return Ok(Some(ours.sent(Receipt { stream, seq, duplicate: true, durability })));
            }
            see(state, &stored);
            last = Some(stored);
        }
        if let Some(last) = last {
            reading.head = ChainHead::of(&decode_stored(&last.frame)?);
            reading.seen = last.seq;
        }
        Ok(None)
    }
}

impl<E> From<Error> for NotRecorded<E> {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// How long a writer rests before it reads again what moved, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(200);
