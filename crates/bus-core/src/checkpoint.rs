//! Checkpoints of live messages: one signature for a whole run of them (D6).

use std::{num::NonZeroU16, time::Duration};

use bus_envelope::{EventHash, MessageEnvelope};
use bytes::Bytes;

use crate::{Error, ErrorKind, Result};

/// A signed message that lists the leaf hashes of the live messages right before it on its own
/// chain: who signed it vouches for them.
///
/// Its payload is the hashes, 32 bytes each, oldest first. Which they are follows from where it
/// stands: the last one listed is its own predecessor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveCheckpoint {
    first_seq: u64,
    leaves: Vec<EventHash>,
}

/// How often the live messages of a chain are vouched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointPolicy {
    events: NonZeroU16,
    within: Duration,
}

impl LiveCheckpoint {
    /// The CloudEvents type of a checkpoint.
    pub const EVENT_TYPE: &'static str = "vak.live.checkpoint";

    /// The media type of its payload.
    pub const CONTENT_TYPE: &'static str = "application/vnd.vakbus.leaves";

    /// The most messages that one checkpoint lists.
    pub const LEAVES_MAX: usize = 512;

    /// The payload that lists `leaves`, oldest first.
    pub fn payload<'a>(leaves: impl IntoIterator<Item = &'a EventHash>) -> Bytes {
        let mut bytes = Vec::new();
        for leaf in leaves {
            bytes.extend_from_slice(leaf.as_bytes());
        }
        Bytes::from(bytes)
    }

    /// Whether `envelope` is meant as a checkpoint.
    #[must_use]
    pub fn is_meant_by(envelope: &MessageEnvelope) -> bool {
        envelope.event_type == Self::EVENT_TYPE
    }

    /// Reads the plain payload of `envelope` as a checkpoint. Who signed it is judged before.
    ///
    /// # Errors
    /// `Corrupt` when it lists nothing, too much or more than came before it, or when the last
    /// one listed is not its predecessor.
    pub fn read(envelope: &MessageEnvelope, payload: &[u8]) -> Result<Self> {
        let refuse = |why: &'static str| {
            Err(Error::new(ErrorKind::Corrupt, "checkpoint", why).at(&envelope.subject))
        };
        if !Self::is_meant_by(envelope) {
            return refuse("the message is no checkpoint");
        }
        let (hashes, rest) = payload.as_chunks::<32>();
        if !rest.is_empty() {
            return refuse("a checkpoint lists whole hashes of 32 bytes");
        }
        if hashes.is_empty() || hashes.len() > Self::LEAVES_MAX {
            return refuse("a checkpoint lists 1 to 512 messages");
        }
        let lineage = &envelope.lineage;
        let first_seq = lineage.seq_num.saturating_sub(hashes.len() as u64);
        if first_seq == 0 {
            return refuse("a checkpoint lists more messages than came before it");
        }
        let leaves: Vec<EventHash> =
            hashes.iter().map(|hash| EventHash::from_bytes(*hash)).collect();
        if !leaves.last().is_some_and(|last| last.ct_eq(&lineage.prev_event_hash)) {
            return refuse("the last message a checkpoint lists is not the one before it");
        }
        Ok(Self { first_seq, leaves })
    }

    /// The messages it vouches for: sequence number and leaf hash, oldest first.
    pub fn leaves(&self) -> impl ExactSizeIterator<Item = (u64, &EventHash)> {
        let first_seq = self.first_seq;
        self.leaves.iter().enumerate().map(move |(at, leaf)| (first_seq + at as u64, leaf))
    }
}

impl CheckpointPolicy {
    /// A checkpoint after `events` messages, and at the latest when the first of them has waited
    /// for `within`.
    ///
    /// # Errors
    /// `Invalid` when `events` is 0 or more than a checkpoint can list
    /// ([`LiveCheckpoint::LEAVES_MAX`]).
    pub fn new(events: u16, within: Duration) -> Result<Self> {
        let events = NonZeroU16::new(events);
        match events.filter(|events| usize::from(events.get()) <= LiveCheckpoint::LEAVES_MAX) {
            Some(events) => Ok(Self { events, within }),
            None => {
                let why = "a checkpoint is made every 1 to 512 messages";
                Err(Error::new(ErrorKind::Invalid, "checkpoint", why))
            }
        }
    }

    /// After how many messages.
    #[must_use]
    pub fn events(&self) -> usize {
        usize::from(self.events.get())
    }

    /// How long a message waits at most.
    #[must_use]
    pub const fn within(&self) -> Duration {
        self.within
    }
}

impl Default for CheckpointPolicy {
    /// Every 64 messages, and after a second.
    fn default() -> Self {
        const EVENTS: NonZeroU16 = NonZeroU16::new(64).unwrap();
        Self { events: EVENTS, within: Duration::from_secs(1) }
    }
}

#[cfg(test)]
mod tests;
