//! A part of a recording as it is stored: whole envelopes, and how many are known to be missing.
//!
//! ```text
//! 01 | item … ; item: length, u32 big-endian | envelope in the compact form
//!              or:    00 00 00 00            | missed, u64 big-endian
//! ```

use bus_envelope::{MessageEnvelope, wire::compact};
use bytes::Bytes;

/// A batch that is being filled.
///
/// Envelopes are kept as their senders made them, still sealed: whoever reads them checks seal,
/// chain and checkpoints as if they were heard live.
#[derive(Debug, Clone)]
pub struct Batch {
    bytes: Vec<u8>,
    events: usize,
    missed: u64,
    /// Where the count of a gap stands, when the last item is one.
    gap_at: Option<usize>,
    items: usize,
}

/// What a stored batch holds, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchItem {
    /// An envelope in the compact form, not checked.
    Envelope(Bytes),
    /// The recorder was too slow here.
    Gap {
        /// How many events are missing; at least 1.
        missed: u64,
    },
}

/// What became of an event that was to go into a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an event that was not taken is lost"]
pub enum Pushed {
    /// It is in it.
    Taken,
    /// It belongs into the next batch.
    Full,
    /// No batch holds it.
    TooLarge,
}

/// Why bytes are no batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The batch has another version, or none.
    #[error("the batch has version {found:?}: expected 1")]
    Version {
        /// Its first byte, if it has one.
        found: Option<u8>,
    },
    /// It has more bytes than a batch may have.
    #[error("the batch has {bytes} bytes: at most {} are allowed", Batch::BYTES_MAX)]
    TooLarge {
        /// How many.
        bytes: usize,
    },
    /// It holds nothing, or more than it may.
    #[error("the batch has {items} items or more: expected 1 to {}", Batch::ITEMS_MAX)]
    Items {
        /// How many were counted.
        items: usize,
    },
    /// It ends within an item.
    #[error("the batch ends within item {item}")]
    Cut {
        /// Which one, from 1.
        item: usize,
    },
    /// A gap in which nothing is missing.
    #[error("item {item} of the batch is a gap in which nothing is missing")]
    EmptyGap {
        /// Which one, from 1.
        item: usize,
    },
}

impl Batch {
    /// The type of the event that carries a batch.
    pub const EVENT_TYPE: &'static str = "vak.recording.batch";

    /// The media type of a batch.
    pub const CONTENT_TYPE: &'static str = "application/vnd.vakbus.recording";

    /// The most bytes of a batch (384 KiB).
    pub const BYTES_MAX: usize = 384 * 1024;

    /// The most items of a batch.
    pub const ITEMS_MAX: usize = 4096;

    /// The version of the form, its first byte.
    pub const VERSION: u8 = 1;

    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self { bytes: vec![Self::VERSION], events: 0, missed: 0, gap_at: None, items: 0 }
    }

    /// Adds an event.
    pub fn push(&mut self, envelope: &MessageEnvelope) -> Pushed {
        let before = self.bytes.len();
        if self.items >= Self::ITEMS_MAX {
            return Pushed::Full;
        }
        self.bytes.extend_from_slice(&[0; 4]);
        compact::encode_into(envelope, &mut self.bytes);
        let bytes = self.bytes.len() - before - 4;
        if self.bytes.len() > Self::BYTES_MAX {
            self.bytes.truncate(before);
            return match bytes > Self::BYTES_MAX - 5 {
                true => Pushed::TooLarge,
                false => Pushed::Full,
            };
        }
        let length = u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes();
        if let Some(place) = self.bytes.get_mut(before..before + 4) {
            place.copy_from_slice(&length);
        }
        self.events += 1;
        self.items += 1;
        self.gap_at = None;
        Pushed::Taken
    }

    /// Notes that `missed` events are missing here; gaps that follow each other become one. Says
    /// whether it had room.
    #[must_use = "a gap that was not taken is silence"]
    pub fn gap(&mut self, missed: u64) -> bool {
        if missed == 0 {
            return true;
        }
        if let Some(place) = self.gap_at.and_then(|at| self.bytes.get_mut(at..at + 8)) {
            let mut before = [0; 8];
            before.copy_from_slice(place);
            let sum = u64::from_be_bytes(before).saturating_add(missed);
            place.copy_from_slice(&sum.to_be_bytes());
        } else {
            if self.items >= Self::ITEMS_MAX || self.bytes.len() + GAP_BYTES > Self::BYTES_MAX {
                return false;
            }
            self.bytes.extend_from_slice(&[0; 4]);
            self.gap_at = Some(self.bytes.len());
            self.bytes.extend_from_slice(&missed.to_be_bytes());
            self.items += 1;
        }
        self.missed = self.missed.saturating_add(missed);
        true
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// How many events it holds.
    #[must_use]
    pub const fn events(&self) -> usize {
        self.events
    }

    /// How many events it says are missing.
    #[must_use]
    pub const fn missed(&self) -> u64 {
        self.missed
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> Bytes {
        self.bytes.into()
    }

    /// Reads a stored batch. Envelopes share its bytes and are not looked into.
    ///
    /// # Errors
    /// Why these bytes are no batch.
    pub fn decode(bytes: &Bytes) -> Result<Vec<BatchItem>, BatchError> {
        if bytes.len() > Self::BYTES_MAX {
            return Err(BatchError::TooLarge { bytes: bytes.len() });
        }
        let Some((&Self::VERSION, _)) = bytes.split_first() else {
            return Err(BatchError::Version { found: bytes.first().copied() });
        };
        let (mut items, mut at) = (Vec::new(), 1);
        while at < bytes.len() {
            if items.len() >= Self::ITEMS_MAX {
                return Err(BatchError::Items { items: items.len() + 1 });
            }
            items.push(Self::item(bytes, &mut at, items.len() + 1)?);
        }
        match items.is_empty() {
            true => Err(BatchError::Items { items: 0 }),
            false => Ok(items),
        }
    }

    /// The item that begins at `at`, which moves behind it.
    fn item(bytes: &Bytes, at: &mut usize, item: usize) -> Result<BatchItem, BatchError> {
        let mut take = |count: usize| {
            let from = *at;
            let end = from.checked_add(count).filter(|end| *end <= bytes.len());
            *at = end.ok_or(BatchError::Cut { item })?;
            Ok(bytes.slice(from..*at))
        };
        let length = u32::from_be_bytes(array(&take(4)?));
        if length == 0 {
            let missed = u64::from_be_bytes(array(&take(8)?));
            return match missed {
                0 => Err(BatchError::EmptyGap { item }),
                missed => Ok(BatchItem::Gap { missed }),
            };
        }
        Ok(BatchItem::Envelope(take(length as usize)?))
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

/// The first `N` bytes; what is missing is 0.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    for (place, byte) in array.iter_mut().zip(bytes) {
        *place = *byte;
    }
    array
}

/// A gap: no length, and how many are missing.
const GAP_BYTES: usize = 12;
