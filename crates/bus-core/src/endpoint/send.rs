//! The send path: authorise, stamp, seal, hash, sign, encode, store, and only then advance.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bus_envelope::{Draft, WireForm};
use bus_subjects::{Address, Subject};

use super::{
    Endpoint, Opened, Outgoing, Sent,
    chain::{Batch, Locked, Place},
    stamp::{Form, Prepared},
};
use crate::{
    Error, ErrorKind, Expect, Frame, OriginalFrame, Outcome, Receipt, Result, Seq, Step,
    guarded::denied,
};

/// How often the same bytes are sent when the engine's answer does not arrive.
const SENDS_MAX: u32 = 3;

/// What a dead letter and any other message are made as.
#[derive(Clone, Copy)]
pub(super) struct Making {
    /// The wire form.
    pub wire: WireForm,
    /// Refuses a frame that may not be sent.
    pub fits: fn(&Frame) -> Result<()>,
}

impl Endpoint {
    /// Stores a durable message on this incarnation's chain of the subject.
    ///
    /// When the engine's answer does not arrive the same bytes are sent again, to the same place in
    /// the queue; if it still does not, the error says `Unknown` and the next send on this subject
    /// repeats them first. A draft with an id of its own may be given again then: that repeats the
    /// very same bytes and is answered as the first call would have been. While they cannot be
    /// repeated nothing else is sent on the subject; such an error says `NotDone`, for it is about
    /// the new draft.
    ///
    /// Cancel safe in that a dropped call may have stored or not; the chain stays whole, and the
    /// next send begins as after `Unknown`.
    ///
    /// # Errors
    /// `Denied`, `Invalid` (also on an evidence subject, which [`Endpoint::record`] is for),
    /// `TooLarge` and `Exhausted` before anything is sent; `Conflict` when the id was used before;
    /// those of [`crate::Bus::append`].
    pub async fn send(&self, outgoing: impl Into<Outgoing>) -> Result<Sent> {
        let outgoing = outgoing.into();
        self.check_send(&outgoing.draft)?;
        let (id, subject) = (outgoing.draft.id.clone(), outgoing.draft.subject.clone());
        let sent = self.send_one(outgoing, self.making()).await;
        sent.map_err(|failed| failed.into_error(id.as_deref(), &subject))
    }

    /// As [`Endpoint::send`] on an evidence subject of which this agent may read nothing, so that
    /// it cannot go on from its head (D9).
    pub(crate) async fn send_unread(&self, draft: Draft) -> Result<Sent> {
        self.check(&draft)?;
        let (id, subject) = (draft.id.clone(), draft.subject.clone());
        let sent = self.send_one(draft.into(), self.making()).await;
        sent.map_err(|failed| failed.into_error(id.as_deref(), &subject))
    }

    /// As [`Endpoint::send`] for a dead letter: it may be as large as a frame, since nothing ever
    /// wraps it again, and has the binary form, which adds least to what it wraps.
    ///
    /// Its id is that of the stored message it is about. When something is stored under that id
    /// already, `is_same` says whether it is this letter; if not, this one gets an id of its own.
    /// What is stored there and may not be read here is another worker's letter: the id names a
    /// moment of storing and a position, so nothing else has it by chance.
    ///
    /// Returns its position when this call stored it.
    pub(crate) async fn send_letter(
        &self,
        draft: Draft,
        is_same: impl Fn(&Opened) -> bool,
    ) -> Result<Option<Seq>> {
        self.check_right(&draft.subject)?;
        let subject = draft.subject.clone();
        let making = Making { wire: WireForm::Binary, fits: |_| Ok(()) };
        match self.send_one(draft.clone().into(), making).await {
            Ok(sent) => return Ok(Some(sent.receipt.seq)),
            Err(Failed::Duplicate(None)) => return Ok(None),
            Err(Failed::Duplicate(Some(frame))) => {
                if self.open(&frame).is_ok_and(|opened| is_same(&opened)) {
                    return Ok(None);
                }
            }
            Err(Failed::Error(error)) => return Err(error),
        }
        let draft = Draft { id: None, ..draft };
        let sent = self.send_one(draft.into(), making).await;
        sent.map(|sent| Some(sent.receipt.seq)).map_err(|failed| failed.into_error(None, &subject))
    }

    async fn send_one(&self, outgoing: Outgoing, making: Making) -> Result<Sent, Failed> {
        let stored = self.send_batch(&[outgoing], making).await?;
        stored.into_iter().next().unwrap_or_else(|| Err(Failed::Error(no_answer())))
    }

    /// Stamps and stores messages that were checked, all or none, and says of each what became of
    /// it; as an error what became of all.
    pub(super) async fn send_batch(
        &self,
        outgoing: &[Outgoing],
        making: Making,
    ) -> Result<Vec<Result<Sent, Failed>>> {
        let subjects: BTreeSet<Subject> =
            outgoing.iter().map(|outgoing| outgoing.draft.subject.clone()).collect();
        let mut locked = self.0.chains.lock(subjects.clone()).await?;
        for earlier in locked.unsettled() {
            let is_repeat = earlier.is_repeated_by(outgoing);
            match self.store(&mut locked, earlier, true).await {
                Ok(stored) if is_repeat => return Ok(stored),
                Ok(_) => {}
                Err(error) if is_repeat => return Err(error),
                Err(error) => return Err(held_up(outgoing, error)),
            }
        }
        let mut is_tried_out = false;
        for subject in &subjects {
            if locked.chain(subject)?.place.is_some() {
                continue;
            }
            // Where a chain begins is asked of the engine: not for what is refused anyway.
            if !std::mem::replace(&mut is_tried_out, true) {
                outgoing.iter().try_for_each(|outgoing| self.try_out(outgoing))?;
            }
            locked.chain(subject)?.place = Some(self.begin(subject).await);
        }
        let batch = Arc::new(self.prepare_batch(&mut locked, outgoing, making)?);
        self.store(&mut locked, batch, false).await
    }

    /// Makes the messages ready one after the other, each behind the one before it on its chain;
    /// the chains themselves stay where they are.
    fn prepare_batch(
        &self,
        locked: &mut Locked,
        outgoing: &[Outgoing],
        making: Making,
    ) -> Result<Batch> {
        let form = Form { wire: making.wire, signed: true };
        let mut batch = Batch(Vec::with_capacity(outgoing.len()));
        let mut places: BTreeMap<&Subject, Place> = BTreeMap::new();
        for outgoing in outgoing {
            let subject = &outgoing.draft.subject;
            let place = match places.get(subject).copied() {
                Some(place) => place,
                None => {
                    let place = locked.chain(subject)?.place;
                    place.unwrap_or_else(|| Place::at(self.genesis(subject)))
                }
            };
            let prepared = self.prepare(outgoing.clone(), None, &place, form)?;
            (making.fits)(&prepared.frame)?;
            places.insert(subject, Place::at(prepared.head));
            batch.0.push(prepared);
        }
        Ok(batch)
    }

    /// What an endpoint makes of a draft unless it is a dead letter.
    pub(super) fn making(&self) -> Making {
        Making { wire: self.0.parts.wire, fits: OriginalFrame::check_fits }
    }

    /// Everything that can be refused before a message is made to be sent.
    pub(super) fn check_send(&self, draft: &Draft) -> Result<()> {
        self.check(draft)?;
        if Address::parse(&draft.subject).is_ok_and(|address| address.is_evidence()) {
            let detail = "this subject has one chain for all: a record goes there, not a message";
            return Err(Error::new(ErrorKind::Invalid, "send", detail).at(&draft.subject));
        }
        Ok(())
    }

    /// Everything that can be refused before a message is made.
    pub(super) fn check(&self, draft: &Draft) -> Result<()> {
        self.check_right(&draft.subject)?;
        let (bytes, bytes_max) = (draft.payload.len(), Self::PAYLOAD_BYTES_MAX);
        if bytes > bytes_max {
            let detail = format!("payload has {bytes} bytes: at most {bytes_max} are allowed");
            return Err(Error::new(ErrorKind::TooLarge, "send", detail).at(&draft.subject));
        }
        Ok(())
    }

    fn check_right(&self, subject: &Subject) -> Result<()> {
        self.check_certificate("send")?;
        if !self.0.policy.can_publish(subject) {
            return Err(denied("send", "publish", subject));
        }
        Ok(())
    }

    /// Stores prepared messages and moves their chains; on an unknown outcome they stay unsettled.
    async fn store(
        &self,
        locked: &mut Locked,
        batch: Arc<Batch>,
        again: bool,
    ) -> Result<Vec<Result<Sent, Failed>>> {
        // Should this future be dropped half-way, the next send repeats these bytes first.
        locked.hold(&batch);
        let stored = match batch.0.as_slice() {
            [one] => match self.append(&one.frame, Expect::Any, again).await {
                Ok(receipt) => Ok(vec![Ok(receipt)]),
                Err(duplicate @ Failed::Duplicate(_)) => Ok(vec![Err(duplicate)]),
                Err(Failed::Error(error)) => Err(error),
            },
            _ => self.append_all(&batch, again).await,
        };
        self.tell_stored(&batch, &stored);
        match &stored {
            Err(error) if error.outcome() == Outcome::Unknown => {}
            _ => locked.settle(&batch),
        }
        let mut results = Vec::with_capacity(batch.0.len());
        for (prepared, receipt) in batch.0.iter().zip(stored?) {
            results.push(receipt.map(|receipt| {
                locked.advance(prepared);
                prepared.sent(receipt)
            }));
        }
        Ok(results)
    }

    /// Appends the same bytes until the engine's word is there, a few times at most.
    pub(super) async fn append(
        &self,
        frame: &Frame,
        expect: Expect,
        again: bool,
    ) -> Result<Receipt, Failed> {
        let mut again = again;
        let started = self.clock().now();
        let receipt = self
            .repeated(&mut again, || self.engine().append(frame.clone(), expect))
            .await
            .map_err(Failed::Error)?;
        self.metrics().took(Step::Append, self.clock().now().since(started));
        if receipt.duplicate {
            self.check_ours(frame, &receipt, again).await?;
        }
        self.metrics().published(frame.bytes());
        Ok(receipt)
    }

    /// As [`Endpoint::append`] for a batch; says of each message whether it is stored.
    async fn append_all(&self, batch: &Batch, again: bool) -> Result<Vec<Result<Receipt, Failed>>> {
        let mut again = again;
        let started = self.clock().now();
        let frames = || batch.0.iter().map(|prepared| prepared.frame.clone()).collect();
        let asked = self.repeated(&mut again, || self.engine().append_all(frames())).await;
        let receipts = match asked {
            // A batch is stored whole or not: had a copy of it been stored that nobody answered,
            // all of its ids would be known, and not a part of them.
            Err(error) if error.kind() == ErrorKind::Conflict => {
                let detail = "an id of the batch was used before; nothing of it is stored";
                let subject = error.subject().unwrap_or_default().to_owned();
                return Err(Error::new(ErrorKind::Conflict, "send", detail)
                    .at(subject)
                    .because(error));
            }
            asked => asked?,
        };
        self.metrics().took(Step::Append, self.clock().now().since(started));
        if receipts.len() != batch.0.len() {
            return Err(no_answer());
        }
        let mut stored = Vec::with_capacity(receipts.len());
        for (prepared, receipt) in batch.0.iter().zip(receipts) {
            let is_ours = if receipt.duplicate {
                self.check_ours(&prepared.frame, &receipt, again).await
            } else {
                Ok(())
            };
            match is_ours {
                Ok(()) => stored.push(Ok(receipt)),
                Err(duplicate @ Failed::Duplicate(_)) => stored.push(Err(duplicate)),
                Err(Failed::Error(error)) => return Err(error),
            }
        }
        for (prepared, _) in batch.0.iter().zip(&stored).filter(|(_, stored)| stored.is_ok()) {
            self.metrics().published(prepared.frame.bytes());
        }
        Ok(stored)
    }

    /// Asks the engine until it answers, a few times at most; `again` says whether a question has
    /// gone without an answer, now or earlier.
    ///
    /// Once an answer is missing a later refusal does not tell what became of the first copy, so
    /// the outcome stays unknown then.
    async fn repeated<T, F: Future<Output = Result<T>> + Send>(
        &self,
        again: &mut bool,
        ask: impl Fn() -> F + Send,
    ) -> Result<T> {
        let mut asked = 1;
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) if error.outcome() == Outcome::Unknown && asked < SENDS_MAX => {
                    *again = true;
                    asked += 1;
                }
                Err(error) if *again => return Err(error.unknown()),
                Err(error) => return Err(error),
            }
        }
    }

    /// A duplicate is ours when the very same bytes are stored: they hold a nonce that nobody else
    /// draws. When they have left the stream already, or may not be read here, only a repeat can
    /// be ours.
    async fn check_ours(
        &self,
        frame: &Frame,
        receipt: &Receipt,
        again: bool,
    ) -> Result<(), Failed> {
        match self.engine().read(receipt.stream.clone(), receipt.seq).await {
            Ok(Some(stored)) if stored.frame == *frame => Ok(()),
            Ok(Some(stored)) => Err(Failed::Duplicate(Some(Box::new(stored.frame)))),
            Ok(None) if again => Ok(()),
            Ok(None) => Err(Failed::Duplicate(None)),
            Err(error) if error.kind() == ErrorKind::Denied => {
                if again {
                    Ok(())
                } else {
                    Err(Failed::Duplicate(None))
                }
            }
            Err(error) => Err(Failed::Error(error.unknown())),
        }
    }
}

/// Why an append did not store.
pub(super) enum Failed {
    /// Something else is stored under the id: the frame, where it may be read and is still there.
    Duplicate(Option<Box<Frame>>),
    Error(Error),
}

impl Failed {
    /// What a caller is told.
    pub(super) fn into_error(self, id: Option<&str>, subject: &Subject) -> Error {
        match self {
            Self::Error(error) => error,
            Self::Duplicate(_) => {
                let id = id.unwrap_or("of this message");
                let detail = format!("the id {id} was used before");
                Error::new(ErrorKind::Conflict, "send", detail).at(subject)
            }
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Batch {
    /// Whether `outgoing` asks for the very messages of this batch: each has an id of its own.
    fn is_repeated_by(&self, outgoing: &[Outgoing]) -> bool {
        let is_repeat = |(prepared, outgoing): (&Prepared, &Outgoing)| {
            prepared.asked.as_ref().is_some_and(|asked| asked == outgoing)
        };
        self.0.len() == outgoing.len() && self.0.iter().zip(outgoing).all(is_repeat)
    }
}

/// The error of a send that an earlier message of unknown outcome keeps back.
fn held_up(outgoing: &[Outgoing], earlier: Error) -> Error {
    let detail = "nothing was sent: an earlier message here has an unknown outcome and could not \
                  be repeated";
    let error = Error::new(earlier.kind(), "send", detail);
    match outgoing.first() {
        Some(outgoing) => error.at(&outgoing.draft.subject).because(earlier),
        None => error.because(earlier),
    }
}

/// An engine that answers for other messages than it was asked about.
fn no_answer() -> Error {
    let detail = "the engine did not answer for each message";
    Error::new(ErrorKind::Unavailable, "send", detail).unknown()
}
