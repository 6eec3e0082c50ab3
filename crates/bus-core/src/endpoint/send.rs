//! The send path: authorise, stamp, seal, hash, sign, encode, store, and only then advance.

use bus_envelope::{Draft, EventHash, WireForm};
use bus_subjects::Subject;

use super::{
    Endpoint, Opened, Sent,
    chain::ChainState,
    stamp::{Form, Prepared, must_be_signed},
};
use crate::{
    Error, ErrorKind, Expect, Frame, OriginalFrame, Outcome, Receipt, Result, guarded::denied,
};

/// How often the same bytes are sent when the engine's answer does not arrive.
const SENDS_MAX: u32 = 3;

impl Endpoint {
    /// Publishes a live message: sealed and chained. A live event is vouched for by its seal;
    /// anything else is signed.
    ///
    /// Cancel safe in that a dropped call may have published or not; the chain stays whole.
    ///
    /// # Errors
    /// `Denied`, `Invalid`, `TooLarge` and `Exhausted` before anything is sent; those of
    /// [`crate::Bus::publish`].
    pub async fn publish(&self, draft: Draft) -> Result<EventHash> {
        self.check(&draft)?;
        let chain = self.0.chains.of(&draft.subject, || self.genesis(&draft.subject))?;
        let mut state = chain.lock().await;
        let form = self.form(must_be_signed(&draft.subject));
        let prepared = self.prepare(&draft, None, &state.head, form)?;
        let bytes = prepared.frame.bytes();
        // The head moves first: should this future be dropped half-way, a frame that may have
        // been heard must not get a twin.
        let before = std::mem::replace(&mut state.head, prepared.head);
        if let Err(error) = self.engine().publish(prepared.frame).await {
            if error.outcome() == Outcome::NotDone {
                state.head = before;
            }
            return Err(error);
        }
        self.metrics().published(bytes);
        Ok(prepared.hash)
    }

    /// Stores a durable message on this incarnation's chain of the subject.
    ///
    /// When the engine's answer does not arrive the same bytes are sent again; if it still does
    /// not, the error says `Unknown` and the next send on this subject repeats them first. A draft
    /// with an id of its own may be given again then: that repeats the very same bytes and is
    /// answered as the first call would have been. While they cannot be repeated nothing else is
    /// sent on the subject; such an error says `NotDone`, for it is about the new draft.
    ///
    /// Cancel safe in that a dropped call may have stored or not; the chain stays whole, and the
    /// next send begins as after `Unknown`.
    ///
    /// # Errors
    /// `Denied`, `Invalid`, `TooLarge` and `Exhausted` before anything is sent; `Conflict` when
    /// the id was used before; those of [`crate::Bus::append`].
    pub async fn send(&self, draft: Draft) -> Result<Sent> {
        self.check(&draft)?;
        let (id, subject) = (draft.id.clone(), draft.subject.clone());
        let sent = self.send_checked(draft, self.0.parts.wire, OriginalFrame::check_fits).await;
        sent.map_err(|failed| failed.into_error(id.as_deref(), &subject))
    }

    /// As [`Endpoint::send`] for a dead letter: it may be as large as a frame, since nothing ever
    /// wraps it again, and has the binary form, which adds least to what it wraps.
    ///
    /// Its id is that of the stored message it is about. When something is stored under that id
    /// already, `is_same` says whether it is this letter; if not, this one gets an id of its own.
    /// What is stored there and may not be read here is another worker's letter: the id names a
    /// moment of storing and a position, so nothing else has it by chance.
    pub(crate) async fn send_letter(
        &self,
        draft: Draft,
        is_same: impl Fn(&Opened) -> bool,
    ) -> Result<()> {
        self.check_right(&draft.subject)?;
        let subject = draft.subject.clone();
        match self.send_checked(draft.clone(), WireForm::Binary, |_| Ok(())).await {
            Ok(_) | Err(Failed::Duplicate(None)) => return Ok(()),
            Err(Failed::Duplicate(Some(frame))) => {
                if self.open(&frame).is_ok_and(|opened| is_same(&opened)) {
                    return Ok(());
                }
            }
            Err(Failed::Error(error)) => return Err(error),
        }
        let draft = Draft { id: None, ..draft };
        let sent = self.send_checked(draft, WireForm::Binary, |_| Ok(())).await;
        sent.map(drop).map_err(|failed| failed.into_error(None, &subject))
    }

    async fn send_checked(
        &self,
        draft: Draft,
        wire: WireForm,
        fits: fn(&Frame) -> Result<()>,
    ) -> Result<Sent, Failed> {
        let chain = self.0.chains.of(&draft.subject, || self.genesis(&draft.subject))?;
        let mut state = chain.lock().await;
        if let Some(earlier) = state.unsettled.clone() {
            let is_repeat = draft.id.is_some() && earlier.draft == draft;
            match self.store(&mut state, earlier, true).await {
                Ok(sent) if is_repeat => return Ok(sent),
                Ok(_) => {}
                Err(failed) if is_repeat => return Err(failed),
                Err(failed) => {
                    let error = failed.into_error(None, &draft.subject);
                    return Err(held_up(&draft.subject, error).into());
                }
            }
        }
        let prepared = self.prepare(&draft, None, &state.head, Form { wire, signed: true })?;
        fits(&prepared.frame)?;
        self.store(&mut state, prepared, false).await
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

    /// Stores a prepared message and moves the head; on an unknown outcome it stays unsettled.
    async fn store(
        &self,
        state: &mut ChainState,
        prepared: Prepared,
        again: bool,
    ) -> Result<Sent, Failed> {
        // Should this future be dropped half-way, the next send repeats these bytes first.
        state.unsettled = Some(prepared.clone());
        match self.append(&prepared.frame, Expect::Any, again).await {
            Ok(receipt) => {
                state.unsettled = None;
                state.head = prepared.head;
                Ok(prepared.sent(receipt))
            }
            Err(Failed::Error(error)) if error.outcome() == Outcome::Unknown => {
                Err(Failed::Error(error))
            }
            Err(failed) => {
                state.unsettled = None;
                Err(failed)
            }
        }
    }

    /// Appends the same bytes until the engine's word is there, a few times at most.
    ///
    /// Once an answer is missing a later refusal does not tell what became of the first copy, so
    /// the outcome stays unknown then.
    pub(super) async fn append(
        &self,
        frame: &Frame,
        expect: Expect,
        again: bool,
    ) -> Result<Receipt, Failed> {
        let mut again = again;
        let mut sends = 1;
        loop {
            match self.engine().append(frame.clone(), expect).await {
                Ok(receipt) => {
                    if receipt.duplicate {
                        self.check_ours(frame, &receipt, again).await?;
                    }
                    self.metrics().published(frame.bytes());
                    return Ok(receipt);
                }
                Err(error) if error.outcome() == Outcome::Unknown && sends < SENDS_MAX => {
                    again = true;
                    sends += 1;
                }
                Err(error) if again => return Err(Failed::Error(error.unknown())),
                Err(error) => return Err(Failed::Error(error)),
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
            Ok(Some(stored)) => Err(Failed::Duplicate(Some(stored.frame))),
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
    Duplicate(Option<Frame>),
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

/// The error of a send that an earlier message of unknown outcome keeps back.
fn held_up(subject: &Subject, earlier: Error) -> Error {
    let detail = "nothing was sent: an earlier message here has an unknown outcome and could not \
                  be repeated";
    Error::new(earlier.kind(), "send", detail).at(subject).because(earlier)
}
