//! The send path: authorise, stamp, seal, hash, sign, encode, store, and only then advance.

use bus_crypto::Entropy;
use bus_envelope::{
    ChainHead, ChainScope, Draft, EventHash, MessageEnvelope, Seal, Signature, Stamp, TraceContext,
    WireForm, wire,
};
use bus_subjects::{Address, Plane, Subject};
use bytes::Bytes;
use uuid::Uuid;

use super::{Endpoint, Recorded, Sent, chain::ChainState};
use crate::{
    Clock, Error, ErrorKind, Expect, Frame, FrameId, OriginalFrame, Outcome, Receipt, Result, Seq,
    guarded::denied,
};

/// A message ready to be stored: the same bytes go out again when the outcome is unknown.
#[derive(Clone)]
pub(super) struct Prepared {
    draft: Draft,
    frame: Frame,
    hash: EventHash,
    head: ChainHead,
}

/// How a message is made ready.
#[derive(Clone, Copy)]
struct Form {
    wire: WireForm,
    signed: bool,
}

/// The flags of a trace that begins here: sampled.
const SAMPLED: u8 = 1;

/// How often the same bytes are sent when the engine's answer does not arrive.
const SENDS_MAX: u32 = 3;

/// How often a record is stamped anew after others moved the head.
const RECORDS_MAX: u32 = 256;

impl Endpoint {
    /// Publishes a live event: sealed and chained, vouched for by its seal, not signed.
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
        let prepared = self.prepare(&draft, None, &state.head, self.form(false))?;
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
        self.send_checked(draft, self.0.parts.wire, OriginalFrame::check_fits).await
    }

    /// As [`Endpoint::send`] for a dead letter: it may be as large as a frame, since nothing ever
    /// wraps it again, and has the binary form, which adds least to what it wraps.
    pub(crate) async fn send_letter(&self, draft: Draft) -> Result<Sent> {
        self.check_right(&draft.subject)?;
        self.send_checked(draft, WireForm::Binary, |_| Ok(())).await
    }

    async fn send_checked(
        &self,
        draft: Draft,
        wire: WireForm,
        fits: fn(&Frame) -> Result<()>,
    ) -> Result<Sent> {
        let chain = self.0.chains.of(&draft.subject, || self.genesis(&draft.subject))?;
        let mut state = chain.lock().await;
        if let Some(earlier) = state.unsettled.clone() {
            let is_repeat = draft.id.is_some() && earlier.draft == draft;
            match self.store(&mut state, earlier, true).await {
                Ok(sent) if is_repeat => return Ok(sent),
                Ok(_) => {}
                Err(error) if is_repeat => return Err(error),
                Err(error) => return Err(held_up(&draft.subject, error)),
            }
        }
        let prepared = self.prepare(&draft, None, &state.head, Form { wire, signed: true })?;
        fits(&prepared.frame)?;
        self.store(&mut state, prepared, false).await
    }

    /// Stores a record on an evidence subject: one chain for all writers, by compare-and-set.
    ///
    /// A writer that loses the race reads the new head and stamps anew. `draft.id` makes the call
    /// idempotent: a record with that id is stored once. Without one a call whose outcome stayed
    /// unknown cannot be repeated safely.
    ///
    /// # Errors
    /// As [`Endpoint::send`]; `Conflict` also when others moved the head 256 times meanwhile.
    pub async fn record(&self, draft: Draft) -> Result<Recorded> {
        self.check(&draft)?;
        let id = match &draft.id {
            Some(id) => id.clone(),
            None => new_uuid(self.clock(), self.entropy())?.to_string(),
        };
        for _ in 0..RECORDS_MAX {
            let (head, seq) = match self.engine().last(draft.subject.clone()).await? {
                None => (self.subject_genesis(&draft.subject), Seq(0)),
                Some(stored) => {
                    let last = decode_stored(&stored.frame)?;
                    if last.id == id {
                        return Ok(Recorded::AlreadyThere);
                    }
                    (ChainHead::of(&last), stored.seq)
                }
            };
            let prepared = self.prepare(&draft, Some(&id), &head, self.form(true))?;
            match self.append(&prepared.frame, Expect::LastOfSubject(seq), false).await {
                Ok(receipt) => {
                    return Ok(Recorded::Stored(Box::new(prepared.sent(receipt))));
                }
                Err(Failed::Duplicate) => return Ok(Recorded::AlreadyThere),
                Err(Failed::Error(error)) if error.kind() == ErrorKind::Conflict => {}
                Err(Failed::Error(error)) => return Err(error),
            }
        }
        let detail = format!("the head moved {RECORDS_MAX} times before this record was stored");
        Err(Error::new(ErrorKind::Conflict, "record", detail).at(&draft.subject))
    }

    /// Everything that can be refused before a message is made.
    fn check(&self, draft: &Draft) -> Result<()> {
        self.check_right(&draft.subject)?;
        let (bytes, bytes_max) = (draft.payload.len(), Self::PAYLOAD_BYTES_MAX);
        if bytes > bytes_max {
            let detail = format!("payload has {bytes} bytes: at most {bytes_max} are allowed");
            return Err(Error::new(ErrorKind::TooLarge, "send", detail).at(&draft.subject));
        }
        Ok(())
    }

    fn form(&self, signed: bool) -> Form {
        Form { wire: self.0.parts.wire, signed }
    }

    fn check_right(&self, subject: &Subject) -> Result<()> {
        self.check_certificate("send")?;
        if !self.0.policy.can_publish(subject) {
            return Err(denied("send", "publish", subject));
        }
        Ok(())
    }

    /// Stamp, seal, hash, sign, encode: in this order, because each binds what came before.
    fn prepare(
        &self,
        draft: &Draft,
        id: Option<&str>,
        head: &ChainHead,
        form: Form,
    ) -> Result<Prepared> {
        let mut envelope = self.stamp(draft, id, head)?;
        self.seal(&mut envelope)?;
        let hash = envelope.compute_hash();
        if form.signed {
            let key = self.identity().key();
            let signer = key.public().text();
            // The signer's name is bound too, so it stands there before the bytes do.
            envelope.signature = Some(Signature { signer, bytes: [0; 64] });
            let bytes = key.sign(&envelope.signature_input(&hash));
            if let Some(signature) = envelope.signature.as_mut() {
                signature.bytes = bytes;
            }
        }
        let (headers, body) = wire::encode(form.wire, &envelope);
        let id = FrameId::parse(&envelope.id)?;
        let frame = Frame { subject: envelope.subject.clone(), id, reply: None, headers, body };
        frame.check_size("send")?;
        let head = ChainHead { seq: head.next_seq(), hash };
        Ok(Prepared { draft: draft.clone(), frame, hash, head })
    }

    fn stamp(&self, draft: &Draft, id: Option<&str>, head: &ChainHead) -> Result<MessageEnvelope> {
        let Random { trace_id, span_id, id: id_bytes } = Random::draw(self.entropy())?;
        let time = self.clock().now();
        let mut draft = draft.clone();
        if draft.session.is_none() {
            draft.session = self.session().cloned();
        }
        let trace = match &draft.trace {
            Some(parent) => parent.child_span(span_id),
            None => TraceContext::new(trace_id, span_id, SAMPLED).map_err(|error| {
                Error::new(ErrorKind::Unavailable, "stamp", "the random source gave zeros")
                    .because(error)
            })?,
        };
        let certificate = self.identity().certificate();
        let stamp = Stamp {
            id: id.map_or_else(|| uuid_of(time, id_bytes).to_string(), str::to_owned),
            time,
            trace,
            workspace: certificate.workspace.clone(),
            agent: certificate.agent.clone(),
            incarnation: self.0.incarnation,
            head: *head,
        };
        Ok(draft.stamp(stamp)?)
    }

    fn seal(&self, envelope: &mut MessageEnvelope) -> Result<()> {
        let key = &self.0.seal_key;
        let mut seal = Seal {
            key_id: key.key_id().to_owned(),
            algorithm: key.algorithm().name().to_owned(),
            nonce: [0; 12],
        };
        envelope.seal = Some(seal.clone());
        let aad = envelope.aad();
        let mut data = Vec::with_capacity(envelope.payload.len() + 16);
        data.extend_from_slice(&envelope.payload);
        seal.nonce = key.seal_in_place(self.entropy(), &aad, &mut data)?;
        envelope.seal = Some(seal);
        envelope.payload = Bytes::from(data);
        Ok(())
    }

    /// Stores a prepared message and moves the head; on an unknown outcome it stays unsettled.
    async fn store(&self, state: &mut ChainState, prepared: Prepared, again: bool) -> Result<Sent> {
        // Should this future be dropped half-way, the next send repeats these bytes first.
        state.unsettled = Some(prepared.clone());
        match self.append(&prepared.frame, Expect::Any, again).await {
            Ok(receipt) => {
                state.unsettled = None;
                state.head = prepared.head;
                Ok(prepared.sent(receipt))
            }
            Err(Failed::Duplicate) => {
                state.unsettled = None;
                let detail = format!("the id {} was used before", prepared.frame.id);
                let error = Error::new(ErrorKind::Conflict, "send", detail);
                Err(error.at(&prepared.frame.subject))
            }
            Err(Failed::Error(error)) => {
                if error.outcome() == Outcome::NotDone {
                    state.unsettled = None;
                }
                Err(error)
            }
        }
    }

    /// Appends the same bytes until the engine's word is there, a few times at most.
    ///
    /// Once an answer is missing a later refusal does not tell what became of the first copy, so
    /// the outcome stays unknown then.
    async fn append(&self, frame: &Frame, expect: Expect, again: bool) -> Result<Receipt, Failed> {
        let mut again = again;
        let mut sends = 1;
        loop {
            match self.engine().append(frame.clone(), expect).await {
                Ok(receipt) if receipt.duplicate && !again => return Err(Failed::Duplicate),
                Ok(receipt) => {
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

    /// Where a chain on `subject` begins: a whole chain of all writers on evidence subjects, one
    /// of this incarnation elsewhere.
    fn genesis(&self, subject: &Subject) -> ChainHead {
        let certificate = self.identity().certificate();
        ChainHead::genesis(&ChainScope::Incarnation {
            workspace: certificate.workspace.clone(),
            agent: certificate.agent.clone(),
            incarnation: self.0.incarnation,
            subject: subject.clone(),
        })
    }

    fn subject_genesis(&self, subject: &Subject) -> ChainHead {
        let workspace = self.workspace().clone();
        ChainHead::genesis(&ChainScope::Subject { workspace, subject: subject.clone() })
    }
}

impl Prepared {
    fn sent(self, receipt: Receipt) -> Sent {
        Sent { id: self.frame.id.to_string(), hash: self.hash, receipt, frame: self.frame }
    }
}

/// The randomness of one envelope, drawn at once.
struct Random {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    id: [u8; 10],
}

impl Random {
    fn draw(entropy: &dyn Entropy) -> Result<Self> {
        let mut bytes = [0; 34];
        entropy.fill(&mut bytes)?;
        let (trace_id, rest) = bytes.split_at(16);
        let (span_id, id) = rest.split_at(8);
        let mut random = Self { trace_id: [0; 16], span_id: [0; 8], id: [0; 10] };
        random.trace_id.copy_from_slice(trace_id);
        random.span_id.copy_from_slice(span_id);
        random.id.copy_from_slice(id);
        Ok(random)
    }
}

/// Why an append did not store.
enum Failed {
    /// The id was stored before, by somebody else or an earlier call.
    Duplicate,
    Error(Error),
}

/// The error of a send that an earlier message of unknown outcome keeps back.
fn held_up(subject: &Subject, earlier: Error) -> Error {
    let detail = "nothing was sent: an earlier message here has an unknown outcome and could not \
                  be repeated";
    Error::new(earlier.kind(), "send", detail).at(subject).because(earlier)
}

fn decode_stored(frame: &Frame) -> Result<MessageEnvelope> {
    wire::decode(&frame.headers, &frame.body).map_err(|error| {
        let detail = format!("the last record stored here cannot be read: {error}");
        Error::new(ErrorKind::Corrupt, "record", detail).at(&frame.subject).because(error)
    })
}

/// Whether messages on `subject` have to be signed.
pub(super) fn is_durable(subject: &Subject) -> bool {
    Address::parse(subject).is_ok_and(|address| address.plane() == Plane::Durable)
}

/// A new UUIDv7 of the time and randomness given.
pub(super) fn new_uuid(clock: &dyn Clock, entropy: &dyn Entropy) -> Result<Uuid> {
    let mut random = [0; 10];
    entropy.fill(&mut random)?;
    Ok(uuid_of(clock.now(), random))
}

fn uuid_of(time: bus_envelope::Timestamp, random: [u8; 10]) -> Uuid {
    let ms = u64::try_from(time.unix_ns().div_euclid(1_000_000)).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid()
}
