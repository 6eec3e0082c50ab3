//! The receive path: decode, check the place, check the signer, open.

use bus_envelope::wire;
use bytes::Bytes;

use super::{Endpoint, Opened, send::is_durable};
use crate::{Error, ErrorKind, Frame, Result};

impl Endpoint {
    /// Checks a frame and opens it.
    ///
    /// A durable message has to be signed by an agent of the roster that may publish to its
    /// subject; a live one is vouched for by its seal. An unsealed message is refused.
    ///
    /// # Errors
    /// `Corrupt` when it is damaged, forged, moved to another subject or not sealed; `Denied` when
    /// its signer is unknown or may not publish there; `UnknownKey` when this process lacks the
    /// key. The error's source is the reason's own type.
    pub fn open(&self, frame: &Frame) -> Result<Opened> {
        let envelope = wire::decode(&frame.headers, &frame.body)
            .map_err(|error| corrupt(frame, error.to_string()).because(error))?;
        if envelope.subject != frame.subject {
            return Err(corrupt(frame, "the envelope was made for another subject"));
        }
        if envelope.lineage.workspace != *self.workspace() {
            return Err(corrupt(frame, "the envelope belongs to another workspace"));
        }
        let hash = envelope.compute_hash();
        if is_durable(&envelope.subject) {
            self.0.parts.roster.verify_hashed(&envelope, &hash).map_err(|error| {
                let kind = match error {
                    crate::SignerError::BadSignature | crate::SignerError::Unsigned => {
                        ErrorKind::Corrupt
                    }
                    _ => ErrorKind::Denied,
                };
                Error::new(kind, "open", error.to_string()).at(&frame.subject).because(error)
            })?;
        }
        let Some(seal) = &envelope.seal else {
            return Err(corrupt(frame, "the envelope is not sealed"));
        };
        let key = self.0.parts.keyring.opening_key(&seal.key_id).map_err(|e| located(e, frame))?;
        if key.algorithm().name() != seal.algorithm {
            return Err(corrupt(frame, "the envelope is sealed with another algorithm"));
        }
        let mut data = envelope.payload.to_vec();
        key.open_in_place(&seal.nonce, &envelope.aad(), &mut data)
            .map_err(|error| located(error, frame))?;
        self.metrics().received(frame.bytes());
        Ok(Opened { envelope, payload: Bytes::from(data), hash })
    }
}

fn corrupt(frame: &Frame, detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Corrupt, "open", detail).at(&frame.subject)
}

fn located(error: bus_crypto::CryptoError, frame: &Frame) -> Error {
    Error::from(error).at(&frame.subject)
}
