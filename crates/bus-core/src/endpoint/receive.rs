//! The receive path: decode, check the place, check the signer, open.

use bus_crypto::{KeyId, PublicKey};
use bus_envelope::{EventHash, MessageEnvelope, Timestamp, wire};
use bus_subjects::{AclPolicy, Subject};
use bytes::Bytes;
use uuid::Uuid;

use super::{Endpoint, Opened, live::must_be_signed};
use crate::{
    Error, ErrorKind, Frame, LiveCheckpoint, Result, Standing, Stored, roster::is_source_of,
};

impl Endpoint {
    /// Checks a frame and opens it.
    ///
    /// Everything but a live event has to be signed by an agent of the roster that may publish to
    /// its subject; a live event is vouched for by its seal, until a checkpoint says more, which
    /// has to be signed itself. An unsealed message is refused.
    ///
    /// # Errors
    /// `Corrupt` when it is damaged, forged, moved to another subject or not sealed; `Denied` when
    /// its signer is unknown or may not publish there; `UnknownKey` when this process lacks the
    /// key. The error's source is the reason's own type.
    pub fn open(&self, frame: &Frame) -> Result<Opened> {
        self.open_of(frame, AclPolicy::can_publish)
    }

    /// As [`Endpoint::open`] for a record, whose time of storing the bus says: a signer whose key
    /// was revoked later counts for it, and so does one who is gone, where its certificate is kept.
    ///
    /// What is done now is opened by [`Endpoint::open`]; this reads what was done.
    ///
    /// # Errors
    /// As [`Endpoint::open`].
    pub fn open_record(&self, stored: &Stored) -> Result<Opened> {
        self.open_at(&stored.frame, Some(stored.time), AclPolicy::can_publish)
    }

    /// As [`Endpoint::open`], where `may` says whether the policy of a signer lets it send to the
    /// subject.
    pub(super) fn open_of(
        &self,
        frame: &Frame,
        may: impl FnOnce(&AclPolicy, &Subject) -> bool,
    ) -> Result<Opened> {
        self.open_at(frame, None, may)
    }

    fn open_at(
        &self,
        frame: &Frame,
        stored: Option<Timestamp>,
        may: impl FnOnce(&AclPolicy, &Subject) -> bool,
    ) -> Result<Opened> {
        let Checked { envelope, hash, aad, standing } = self.check_of(frame, stored, may)?;
        let lineage = &envelope.lineage;
        let Some(seal) = &envelope.seal else {
            return Err(corrupt(frame, "the envelope is not sealed"));
        };
        let mut text = Uuid::encode_buffer();
        let incarnation: &str = lineage.incarnation.as_hyphenated().encode_lower(&mut text);
        let split = KeyId::split(&seal.key_id).map_err(|error| located(error, frame))?;
        let [key_workspace, _, key_incarnation] = split;
        // A process may hold the secrets of several workspaces: each speaks for its own only.
        if key_workspace != lineage.workspace.as_str() || key_incarnation != incarnation {
            return Err(corrupt(frame, "the envelope is sealed with a key of somebody else"));
        }
        let key = self.0.parts.keyring.opening_key(&seal.key_id).map_err(|e| located(e, frame))?;
        if key.algorithm().name() != seal.algorithm {
            return Err(corrupt(frame, "the envelope is sealed with another algorithm"));
        }
        let mut data = envelope.payload.to_vec();
        key.open_in_place(&seal.nonce, &aad, &mut data).map_err(|error| located(error, frame))?;
        self.metrics().received(frame.bytes());
        Ok(Opened { envelope, payload: Bytes::from(data), hash, standing })
    }

    /// Whether the agent that `frame` names signed it with a key that was revoked since. No word of
    /// it counts any more; but that it was said may be held against that agent.
    #[must_use]
    pub fn is_of_revoked_key(&self, frame: &Frame) -> bool {
        let Ok(envelope) = wire::decode(&frame.headers, &frame.body) else { return false };
        let Some(signature) = &envelope.signature else { return false };
        let (roster, signer, lineage) = (self.roster(), &signature.signer, &envelope.lineage);
        let is_misplaced =
            envelope.subject != frame.subject || lineage.workspace != *self.workspace();
        if roster.revoked(signer).is_none() || is_misplaced {
            return false;
        }
        // Also of an agent that is gone: its key must not speak for another one.
        let known = roster.find_kept(signer);
        if known.is_some_and(|(known, _)| known.agent != lineage.agent) {
            return false;
        }
        let signed = envelope.signature_input(&envelope.compute_hash());
        PublicKey::parse(signer).is_ok_and(|key| key.verify(&signed, &signature.bytes).is_ok())
    }

    /// Checks a frame as [`Endpoint::open`] does and leaves its payload sealed: for who passes it
    /// on, and needs no key for that. Gives the envelope and its leaf hash.
    ///
    /// # Errors
    /// As [`Endpoint::open`], but for what only opening the payload finds.
    pub(crate) fn check_frame(&self, frame: &Frame) -> Result<(MessageEnvelope, EventHash)> {
        let checked = self.check_of(frame, None, AclPolicy::can_publish)?;
        if checked.envelope.seal.is_none() {
            return Err(corrupt(frame, "the envelope is not sealed"));
        }
        Ok((checked.envelope, checked.hash))
    }

    fn check_of(
        &self,
        frame: &Frame,
        stored: Option<Timestamp>,
        may: impl FnOnce(&AclPolicy, &Subject) -> bool,
    ) -> Result<Checked> {
        let envelope = wire::decode(&frame.headers, &frame.body)
            .map_err(|error| corrupt(frame, error.to_string()).because(error))?;
        if envelope.subject != frame.subject {
            return Err(corrupt(frame, "the envelope was made for another subject"));
        }
        if envelope.lineage.workspace != *self.workspace() {
            return Err(corrupt(frame, "the envelope belongs to another workspace"));
        }
        if !is_id_of(frame.id.as_str(), &envelope.id) {
            return Err(corrupt(frame, "the envelope was sent under another id"));
        }
        let lineage = &envelope.lineage;
        if !is_source_of(&envelope.source, lineage.workspace.as_str(), lineage.agent.as_str()) {
            return Err(corrupt(frame, "the source is not the agent that is named"));
        }
        let mut aad = Vec::new();
        let hash = envelope.leaf_and_aad(&mut aad);
        let standing = match envelope.signature {
            Some(_) => Standing::Signed,
            None => Standing::Sealed,
        };
        if standing == Standing::Signed
            || must_be_signed(&envelope.subject)
            || LiveCheckpoint::is_meant_by(&envelope)
        {
            let may = |policy: &AclPolicy| may(policy, &envelope.subject);
            let verified = match stored {
                None => self.roster().verify_right(&envelope, &hash, may),
                Some(stored) => self.roster().verify_stored(&envelope, &hash, stored, may),
            };
            verified.map_err(|error| {
                let kind = match error {
                    crate::SignerError::BadSignature | crate::SignerError::Unsigned => {
                        ErrorKind::Corrupt
                    }
                    crate::SignerError::NotLookedUp => ErrorKind::Unavailable,
                    _ => ErrorKind::Denied,
                };
                Error::new(kind, "open", error.to_string()).at(&frame.subject).because(error)
            })?;
        }
        Ok(Checked { envelope, hash, aad, standing })
    }
}

/// An envelope that was checked, payload still sealed.
struct Checked {
    envelope: MessageEnvelope,
    hash: EventHash,
    aad: Vec<u8>,
    standing: Standing,
}

/// Whether a frame with the id `frame` carries the envelope `envelope`: under its own id, or as the
/// n-th redrive of it, `<id>.r<n>`.
fn is_id_of(frame: &str, envelope: &str) -> bool {
    match frame.strip_prefix(envelope) {
        Some("") => true,
        Some(rest) => rest.strip_prefix(".r").is_some_and(|n| {
            !n.is_empty() && n.len() <= 6 && n.bytes().all(|c| c.is_ascii_digit())
        }),
        None => false,
    }
}

fn corrupt(frame: &Frame, detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Corrupt, "open", detail).at(&frame.subject)
}

fn located(error: bus_crypto::CryptoError, frame: &Frame) -> Error {
    Error::from(error).at(&frame.subject)
}
