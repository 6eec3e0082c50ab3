//! A message with the JSON it has for every reader, made once.

use std::ops::Deref;

use bytes::Bytes;

use crate::{BusEnvelope, BusError};

/// A stamped message and its JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    envelope: BusEnvelope,
    json: Bytes,
}

impl Posted {
    /// The message.
    #[must_use]
    pub const fn envelope(&self) -> &BusEnvelope {
        &self.envelope
    }

    /// Its JSON: one object without line feeds, as the journal has it.
    #[must_use]
    pub const fn json(&self) -> &Bytes {
        &self.json
    }

    pub(crate) fn new(envelope: BusEnvelope) -> Result<Self, BusError> {
        let json = crate::record::json(&envelope)?;
        Ok(Self { envelope, json })
    }
}

impl Deref for Posted {
    type Target = BusEnvelope;

    fn deref(&self) -> &BusEnvelope {
        &self.envelope
    }
}
