//! The envelope: what one event says about itself, and the bytes that get bound, hashed and signed.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::hash::{Parts, hash_both};
use crate::timestamp::CanonicalTime;
use crate::wire::decimal;
use crate::{EnvelopeError, EventHash, Timestamp, TraceContext, rules};
use bus_subjects::{AgentId, SessionId, Subject, WorkspaceId};

/// One event: a `CloudEvent` with its place in a trace and in a hash chain.
///
/// The fields are plain data; [`check`](Self::check) holds them against the rules named here, and
/// every decoder does. An envelope always has a payload, perhaps of no bytes: a wire form without
/// one is refused.
#[derive(Clone, PartialEq, Eq)]
pub struct MessageEnvelope {
    /// Unique within `source`: 1 to 128 bytes of visible ASCII. Ours are `UUIDv7`.
    pub id: String,
    /// A URI-reference of 1 to 256 bytes of visible ASCII. Ours is `vak://<workspace>/<agent>`.
    pub source: String,
    /// The `CloudEvents` `type`: 1 to 128 bytes of visible ASCII.
    pub event_type: String,
    /// When the event was made.
    pub time: Timestamp,
    /// The media type of the *plain* payload, at most 256 bytes; on the wire a sealed envelope says
    /// `application/octet-stream` and carries this as `sealedtype`.
    pub content_type: Option<String>,
    /// Where the event was sent. Bound, so that it counts nowhere else.
    pub subject: Subject,
    /// The trace and the span. Only the trace id is bound.
    pub trace: TraceContext,
    /// Who made the event, and its place in the chain.
    pub lineage: Lineage,
    /// How the payload is sealed; `None` when it is plain.
    pub seal: Option<Seal>,
    /// Who vouches for the event; `None` when nobody signed it.
    pub signature: Option<Signature>,
    /// Other attributes, at most 64: names of 1 to 20 of `[a-z0-9]` that are not taken, values of
    /// at most 1,024 bytes without control characters. Kept and bound.
    pub extensions: BTreeMap<String, String>,
    /// The payload; sealed bytes when `seal` is there.
    pub payload: Bytes,
}

/// Who made an event, and its place in the chain of such events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    /// The workspace that owns the event.
    pub workspace: WorkspaceId,
    /// The run of work it belongs to.
    pub session: Option<SessionId>,
    /// The agent that made it.
    pub agent: AgentId,
    /// The process life of that agent: a `UUIDv7` of its own.
    pub incarnation: Uuid,
    /// The place in the chain, from 1 to 2^53 − 1.
    pub seq_num: u64,
    /// The leaf hash of the event before, or the genesis hash of the chain's scope.
    pub prev_event_hash: EventHash,
    /// The leaf hash of the event that led to this one, on whatever subject.
    pub cause: Option<EventHash>,
}

/// How a payload is sealed. The key itself is never here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// Which key opens it: 1 to 256 bytes of visible ASCII.
    pub key_id: String,
    /// The cipher, such as `AES-256-GCM`: 1 to 32 bytes of visible ASCII.
    pub algorithm: String,
    /// The nonce of this one seal.
    pub nonce: [u8; 12],
}

/// A [`Seal`] whose texts are where they were: at the key, when a seal is being made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealRef<'a> {
    /// As [`Seal::key_id`].
    pub key_id: &'a str,
    /// As [`Seal::algorithm`].
    pub algorithm: &'a str,
    /// The nonce of this one seal.
    pub nonce: [u8; 12],
}

/// A signature over [`MessageEnvelope::signature_input`].
#[derive(Clone, PartialEq, Eq)]
pub struct Signature {
    /// The public nkey of the signer as text: 1 to 128 bytes of visible ASCII.
    pub signer: String,
    /// The Ed25519 signature.
    pub bytes: [u8; 64],
}

impl MessageEnvelope {
    /// The `CloudEvents` version of every envelope.
    pub const SPEC_VERSION: &'static str = "1.0";

    /// The version of the rules about lineage, seal and signature.
    pub const VAK_VERSION: &'static str = "1";

    /// The largest `seq_num`.
    pub const SEQ_MAX: u64 = rules::SEQ_MAX;

    /// Holds every field against its rule. The payload's size is the engine's business.
    ///
    /// # Errors
    /// An [`EnvelopeError`] that names the first field refused and the reason.
    pub fn check(&self) -> Result<(), EnvelopeError> {
        rules::visible("id", &self.id, rules::ID_BYTES_MAX)?;
        rules::source(&self.source)?;
        rules::visible("type", &self.event_type, rules::TYPE_BYTES_MAX)?;
        if let Some(content_type) = &self.content_type {
            rules::content_type("datacontenttype", content_type)?;
        }
        if !(1..=rules::SEQ_MAX).contains(&self.lineage.seq_num) {
            return Err(EnvelopeError::field("seq", "expected 1 to 9007199254740991"));
        }
        if let Some(seal) = &self.seal {
            rules::visible("keyid", &seal.key_id, rules::KEY_ID_BYTES_MAX)?;
            rules::visible("keyalg", &seal.algorithm, rules::ALGORITHM_BYTES_MAX)?;
        }
        if let Some(signature) = &self.signature {
            rules::visible("signer", &signature.signer, rules::SIGNER_BYTES_MAX)?;
        }
        if self.extensions.len() > rules::EXTENSIONS_MAX {
            return Err(EnvelopeError::TooMany { count_max: rules::EXTENSIONS_MAX });
        }
        self.extensions.iter().try_for_each(|(name, value)| rules::extension(name, value))
    }

    /// The SHA-256 hash of the payload as it travels, always computed anew.
    #[must_use]
    pub fn payload_hash(&self) -> EventHash {
        EventHash::of(&self.payload)
    }

    /// The leaf: the hash that the next event of the chain names as its predecessor (S0.78, D3).
    #[must_use]
    pub fn compute_hash(&self) -> EventHash {
        self.compute_hash_with(&self.payload_hash())
    }

    /// The leaf, for a caller that has just computed [`payload_hash`](Self::payload_hash) itself.
    ///
    /// A payload hash that came from elsewhere must not be given here: it would vouch for itself.
    #[must_use]
    pub fn compute_hash_with(&self, payload_hash: &EventHash) -> EventHash {
        self.leaf(&self.time.canonical(), payload_hash, &mut Vec::new())
    }

    /// Whether `current` is the direct successor of `prev`: the sequence goes up by one, and the
    /// hash it names is the leaf of `prev`, computed anew and compared in constant time.
    #[must_use]
    pub fn verify_merkle_link(prev: &Self, current: &Self) -> bool {
        let next_seq = prev.lineage.seq_num.wrapping_add(1);
        let leaf = prev.compute_hash();
        let same_hash = leaf.as_bytes().ct_eq(current.lineage.prev_event_hash.as_bytes());
        let same_seq = next_seq.ct_eq(&current.lineage.seq_num);
        (same_hash & same_seq).into()
    }

    /// The additional data that a seal binds (D2).
    ///
    /// `{id}:{type}:{workspace}:{seq}:` and the hex hash of a length-prefixed list of every
    /// attribute that a receiver acts on. `seal` must already name key and algorithm; its nonce is
    /// not part of this.
    #[must_use]
    pub fn aad(&self) -> Vec<u8> {
        let mut aad = Vec::new();
        self.aad_into(&mut aad);
        aad
    }

    /// Appends to `aad` what [`aad`](Self::aad) gives: a buffer that is kept costs no allocation.
    pub fn aad_into(&self, aad: &mut Vec<u8>) {
        let seal = self.seal.as_ref().map(Seal::by_ref);
        let bound_hash = self.bound(seal, &self.time.canonical(), aad).finish();
        self.put_aad(&bound_hash, aad);
    }

    /// Appends to `aad` what [`aad`](Self::aad) gives, and answers with the leaf of
    /// [`compute_hash`](Self::compute_hash): what a receiver needs, in less time than both take.
    #[must_use]
    pub fn leaf_and_aad(&self, aad: &mut Vec<u8>) -> EventHash {
        let time = self.time.canonical();
        let bound = self.bound(self.seal.as_ref().map(Seal::by_ref), &time, aad);
        let (payload_hash, bound_hash) = hash_both(&self.payload, bound.as_bytes());
        drop(bound);
        let leaf = self.leaf(&time, &payload_hash, aad);
        self.put_aad(&bound_hash, aad);
        leaf
    }

    /// The bytes that the signer signs (D6): a domain tag, the leaf, and the hash of all attributes
    /// that the leaf does not hold.
    ///
    /// The signer's name is one of them, so `signature` must already carry it; the bytes in it do
    /// not matter. [`signature_input_as`](Self::signature_input_as) takes the name beside it.
    #[must_use]
    pub fn signature_input(&self, leaf: &EventHash) -> Vec<u8> {
        self.sign_as(leaf, self.signature.as_ref().map(|signature| signature.signer.as_str()))
    }

    /// The bytes that `signer` signs, for an envelope that has no signature yet.
    #[must_use]
    pub fn signature_input_as(&self, leaf: &EventHash, signer: &str) -> Vec<u8> {
        self.sign_as(leaf, Some(signer))
    }

    fn sign_as(&self, leaf: &EventHash, signer: Option<&str>) -> Vec<u8> {
        let (lineage, seal) = (&self.lineage, self.seal.as_ref());
        let mut bytes = Vec::new();
        let mut rest = Parts::new("vak-bus/attributes/v1", &mut bytes);
        rest.add(Self::VAK_VERSION.as_bytes())
            .add(self.subject.as_str().as_bytes())
            .add_optional(self.content_type.as_deref().map(str::as_bytes))
            .add_optional(lineage.session.as_ref().map(|id| id.as_str().as_bytes()))
            .add(lineage.incarnation.as_bytes())
            .add_optional(lineage.cause.as_ref().map(EventHash::as_ref))
            .add(self.trace.trace_id())
            .add_optional(seal.map(|seal| seal.key_id.as_bytes()))
            .add_optional(seal.map(|seal| seal.algorithm.as_bytes()))
            .add_optional(seal.map(|seal| seal.nonce.as_slice()))
            .add_optional(signer.map(str::as_bytes));
        self.add_extensions(&mut rest);
        [SIGNATURE_TAG, leaf.as_bytes(), rest.finish().as_bytes()].concat()
    }

    /// The leaf, for which a list is gathered behind what is in `bytes`.
    pub(crate) fn leaf(
        &self,
        time: &CanonicalTime,
        payload_hash: &EventHash,
        bytes: &mut Vec<u8>,
    ) -> EventHash {
        let mut leaf = Parts::new("vak-bus/leaf/v1", bytes);
        leaf.add(Self::SPEC_VERSION.as_bytes())
            .add(self.id.as_bytes())
            .add(self.source.as_bytes())
            .add(self.event_type.as_bytes())
            .add(time.as_bytes())
            .add(self.lineage.workspace.as_str().as_bytes())
            .add(self.lineage.agent.as_str().as_bytes())
            .add(&self.lineage.seq_num.to_be_bytes())
            .add(self.lineage.prev_event_hash.as_bytes())
            .add(payload_hash.as_bytes());
        leaf.finish()
    }

    /// The list of every attribute that a receiver acts on, gathered behind what is in `bytes`.
    pub(crate) fn bound<'a>(
        &self,
        seal: Option<SealRef<'_>>,
        time: &CanonicalTime,
        bytes: &'a mut Vec<u8>,
    ) -> Parts<'a> {
        let lineage = &self.lineage;
        let mut list = Parts::new("vak-bus/aad/v1", bytes);
        list.add(Self::VAK_VERSION.as_bytes())
            .add(self.id.as_bytes())
            .add(self.event_type.as_bytes())
            .add(lineage.workspace.as_str().as_bytes())
            .add(&lineage.seq_num.to_be_bytes())
            .add(self.subject.as_str().as_bytes())
            .add(self.source.as_bytes())
            .add(lineage.agent.as_str().as_bytes())
            .add(time.as_bytes())
            .add_optional(self.content_type.as_deref().map(str::as_bytes))
            .add_optional(seal.map(|seal| seal.key_id.as_bytes()))
            .add_optional(seal.map(|seal| seal.algorithm.as_bytes()))
            .add(lineage.prev_event_hash.as_bytes())
            .add_optional(lineage.cause.as_ref().map(EventHash::as_ref))
            .add_optional(lineage.session.as_ref().map(|id| id.as_str().as_bytes()))
            .add(lineage.incarnation.as_bytes())
            .add(self.trace.trace_id());
        self.add_extensions(&mut list);
        list
    }

    /// Appends the additional data, given the hash of the list [`bound`](Self::bound).
    pub(crate) fn put_aad(&self, bound_hash: &EventHash, aad: &mut Vec<u8>) {
        for part in [&self.id, &self.event_type, self.lineage.workspace.as_str()] {
            aad.extend_from_slice(part.as_bytes());
            aad.push(b':');
        }
        aad.extend_from_slice(decimal(self.lineage.seq_num, &mut [0; 20]).as_bytes());
        aad.push(b':');
        let mut hex = [0; 64];
        HEXLOWER.encode_mut(bound_hash.as_bytes(), &mut hex);
        aad.extend_from_slice(&hex);
    }

    fn add_extensions(&self, list: &mut Parts<'_>) {
        for (name, value) in &self.extensions {
            list.add(name.as_bytes()).add(value.as_bytes());
        }
    }
}

impl Seal {
    /// The same with its texts left where they are.
    #[must_use]
    pub fn by_ref(&self) -> SealRef<'_> {
        SealRef { key_id: &self.key_id, algorithm: &self.algorithm, nonce: self.nonce }
    }
}

impl fmt::Debug for MessageEnvelope {
    // The payload may be anybody's secret, so only its length is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageEnvelope")
            .field("id", &self.id)
            .field("source", &self.source)
            .field("event_type", &self.event_type)
            .field("time", &self.time.canonical().as_str())
            .field("content_type", &self.content_type)
            .field("subject", &self.subject)
            .field("trace", &self.trace)
            .field("lineage", &self.lineage)
            .field("seal", &self.seal)
            .field("signature", &self.signature)
            .field("extensions", &self.extensions)
            .field("payload_bytes", &self.payload.len())
            .finish()
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = HEXLOWER.encode(&self.bytes);
        f.debug_struct("Signature").field("signer", &self.signer).field("bytes", &bytes).finish()
    }
}

const SIGNATURE_TAG: &[u8] = b"vak-bus/signature/v1";

#[cfg(test)]
mod tests;
