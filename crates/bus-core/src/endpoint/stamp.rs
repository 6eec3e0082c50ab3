//! How a message is made ready: stamp, seal, hash, sign, encode, each binding what came before.

use bus_crypto::{Entropy, FreshNonce, seal::TAG_BYTES};
use bus_envelope::{
    ChainHead, ChainScope, Draft, EventHash, Headers, MessageEnvelope, Seal, SealRef, Signature,
    Stamp, Timestamp, TraceContext, WireForm, wire,
};
use bus_subjects::Subject;
use bytes::Bytes;
use uuid::Uuid;

use super::{Endpoint, Outgoing, Sent, chain::Place, observed::Sending};
use crate::{Clock, Error, ErrorKind, Frame, FrameId, Receipt, Result};

/// A message ready to be stored: the same bytes go out again when the outcome is unknown.
pub(super) struct Prepared {
    /// What was asked for, when it has an id of its own and so may be asked for again.
    pub(super) asked: Option<Outgoing>,
    /// When it was stamped.
    pub(super) time: Timestamp,
    pub(super) frame: Frame,
    pub(super) hash: EventHash,
    pub(super) head: ChainHead,
    /// Its span, where somebody records that.
    pub(super) sending: Option<Box<Sending>>,
}

/// How a message is made ready.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) wire: WireForm,
    pub(super) signed: bool,
}

impl Endpoint {
    /// A new id for a message, as one gets that names none: a UUIDv7.
    ///
    /// # Errors
    /// `Unavailable` when the random source fails.
    pub fn new_id(&self) -> Result<String> {
        Ok(new_uuid(self.clock(), self.entropy())?.to_string())
    }

    pub(super) fn form(&self, signed: bool) -> Form {
        Form { wire: self.0.parts.wire, signed }
    }

    /// Stamp, seal, hash, sign, encode: in this order, because each binds what came before.
    pub(super) fn prepare(
        &self,
        outgoing: Outgoing,
        id: Option<&str>,
        place: &Place,
        form: Form,
    ) -> Result<Prepared> {
        let (random, nonce) = Random::draw(self.entropy())?;
        let asked = outgoing.draft.id.is_some().then(|| outgoing.clone());
        let Outgoing { draft, placement, delay } = outgoing;
        let begun = self.begin_sending(&draft);
        let envelope = self.stamp(draft, id, place, random)?;
        let sending = begun.and_then(|begun| begun.stamped(&envelope));
        let time = envelope.time;
        let (id, subject) = (FrameId::parse(&envelope.id)?, envelope.subject.clone());
        let (hash, headers, body) = match form {
            Form { wire: WireForm::Compact, signed: false } => {
                self.seal_compact(&envelope, nonce)?
            }
            Form { wire, signed } => self.seal_and_encode(envelope, nonce, wire, signed)?,
        };
        let frame = Frame { subject, id, reply: None, headers, body, placement: None };
        let frame = frame.placed(Outgoing::placement_at(placement, delay, time));
        frame.check_size("send")?;
        let head = ChainHead { seq: place.head.next_seq(), hash };
        Ok(Prepared { asked, time, frame, hash, head, sending })
    }

    /// Whether a message could be made of `outgoing` as far as its fields go; makes none.
    pub(super) fn try_out(&self, outgoing: &Outgoing) -> Result<()> {
        let (random, _nonce) = Random::draw(self.entropy())?;
        let place = Place::at(self.genesis(&outgoing.draft.subject));
        let envelope = self.stamp(outgoing.draft.clone(), None, &place, random)?;
        FrameId::parse(&envelope.id).map(drop)
    }

    fn stamp(
        &self,
        mut draft: Draft,
        id: Option<&str>,
        place: &Place,
        random: Random,
    ) -> Result<MessageEnvelope> {
        let Random { span_id, id: id_bytes } = random;
        let time = self.clock().now();
        let own_id = uuid_of(time, id_bytes);
        if draft.session.is_none() {
            draft.session = self.session().cloned();
        }
        // A word about the chain, which only its writer can say: from elsewhere it would be a lie.
        if draft.extensions.contains_key(MessageEnvelope::CONTINUES) {
            let detail = "the extension \"continues\" is the endpoint's own: leave it out";
            return Err(Error::new(ErrorKind::Invalid, "stamp", detail).at(&draft.subject));
        }
        if let Some(earlier) = place.continues {
            draft = draft.extension(MessageEnvelope::CONTINUES, earlier.to_string())?;
        }
        let trace = match draft.trace.as_ref().or(self.0.tracing.parent.as_ref()) {
            Some(parent) => parent.child_span(span_id),
            None => TraceContext::new(own_id.into_bytes(), span_id, SAMPLED).map_err(|error| {
                Error::new(ErrorKind::Unavailable, "stamp", "the random source gave zeros")
                    .because(error)
            })?,
        };
        let certificate = self.identity().certificate();
        // At the very time it will carry: it may have waited since it was accepted.
        if !certificate.is_valid_at(time) {
            return Err(self.certificate_ended("send"));
        }
        let stamp = Stamp {
            id: id.map_or_else(|| own_id.to_string(), str::to_owned),
            time,
            trace,
            workspace: certificate.workspace.clone(),
            agent: certificate.agent.clone(),
            incarnation: self.0.incarnation,
            head: place.head,
        };
        Ok(draft.stamp(stamp)?)
    }

    /// The common way to frames: one step after the other.
    fn seal_and_encode(
        &self,
        mut envelope: MessageEnvelope,
        nonce: FreshNonce,
        wire: WireForm,
        signed: bool,
    ) -> Result<(EventHash, Headers, Bytes)> {
        self.seal(&mut envelope, nonce)?;
        let hash = envelope.compute_hash();
        if signed {
            let key = self.identity().key();
            let signer = key.public().text();
            // The signer's name is bound too, so it stands there before the bytes do.
            envelope.signature = Some(Signature { signer, bytes: [0; 64] });
            let bytes = key.sign(&envelope.signature_input(&hash));
            if let Some(signature) = envelope.signature.as_mut() {
                signature.bytes = bytes;
            }
        }
        let (headers, body) = wire::encode(wire, &envelope);
        Ok((hash, headers, body))
    }

    fn seal(&self, envelope: &mut MessageEnvelope, nonce: FreshNonce) -> Result<()> {
        let SealRef { key_id, algorithm, nonce: nonce_bytes } = self.seal_ref(&nonce);
        let (key_id, algorithm) = (key_id.to_owned(), algorithm.to_owned());
        envelope.seal = Some(Seal { key_id, algorithm, nonce: nonce_bytes });
        let mut data = Vec::with_capacity(envelope.payload.len() + TAG_BYTES);
        data.extend_from_slice(&envelope.payload);
        self.0.seal_key.seal_fresh(nonce, &envelope.aad(), &mut data)?;
        envelope.payload = Bytes::from(data);
        Ok(())
    }

    /// The short way of live events in the compact form: the payload is sealed in the frame's body.
    fn seal_compact(
        &self,
        envelope: &MessageEnvelope,
        nonce: FreshNonce,
    ) -> Result<(EventHash, Headers, Bytes)> {
        let (seal, mut body) = (self.seal_ref(&nonce), Vec::new());
        let hash = wire::compact::seal_into(envelope, seal, &mut body, |aad, data| {
            self.0.seal_key.seal_detached(nonce, aad, data)
        })?;
        body.shrink_to_fit();
        Ok((hash, WireForm::Compact.headers(), Bytes::from(body)))
    }

    fn seal_ref(&self, nonce: &FreshNonce) -> SealRef<'_> {
        let key = &self.0.seal_key;
        let algorithm = key.algorithm().name();
        SealRef { key_id: key.key_id(), algorithm, nonce: *nonce.as_bytes() }
    }

    /// Where this incarnation's chain on `subject` begins when it continues no earlier one.
    pub(super) fn genesis(&self, subject: &Subject) -> ChainHead {
        let certificate = self.identity().certificate();
        ChainHead::genesis(&ChainScope::Incarnation {
            workspace: certificate.workspace.clone(),
            agent: certificate.agent.clone(),
            incarnation: self.0.incarnation,
            subject: subject.clone(),
        })
    }

    /// Where the chain of all writers on an evidence subject begins.
    pub(super) fn subject_genesis(&self, subject: &Subject) -> ChainHead {
        let workspace = self.workspace().clone();
        ChainHead::genesis(&ChainScope::Subject { workspace, subject: subject.clone() })
    }
}

impl Prepared {
    pub(super) fn sent(&self, receipt: Receipt) -> Sent {
        let (id, frame) = (self.frame.id.to_string(), self.frame.clone());
        Sent { id, hash: self.hash, receipt, frame }
    }
}

/// The randomness of one envelope, drawn at once with its nonce: 30 bytes together, for the system
/// takes much longer over more than 32.
///
/// A trace that begins here has the id that the envelope gets when the draft names none: its last
/// 62 bits are random, and more than the last 56 W3C does not ask for.
#[derive(Clone, Copy)]
struct Random {
    span_id: [u8; 8],
    id: [u8; 10],
}

impl Random {
    fn draw(entropy: &dyn Entropy) -> Result<(Self, FreshNonce)> {
        let mut bytes = [0; 18];
        let nonce = FreshNonce::draw(entropy, &mut bytes)?;
        let (span_id, id) = bytes.split_at(8);
        let mut random = Self { span_id: [0; 8], id: [0; 10] };
        random.span_id.copy_from_slice(span_id);
        random.id.copy_from_slice(id);
        Ok((random, nonce))
    }
}

/// A new UUIDv7 of the time and randomness given.
pub(super) fn new_uuid(clock: &dyn Clock, entropy: &dyn Entropy) -> Result<Uuid> {
    let mut random = [0; 10];
    entropy.fill(&mut random)?;
    Ok(uuid_of(clock.now(), random))
}

fn uuid_of(time: Timestamp, random: [u8; 10]) -> Uuid {
    let ms = u64::try_from(time.unix_ns().div_euclid(1_000_000)).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid()
}

/// The flags of a trace that begins here: sampled.
const SAMPLED: u8 = 1;
