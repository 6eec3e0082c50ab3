//! The messages of one stream by position.
//!
//! Messages lie in chunks, and a chunk goes when its last message goes. So one message that is
//! never settled holds one chunk and not everything that came after it.

use std::{collections::BTreeMap, sync::Arc};

use bus_core::Stored;

/// An append-only log whose messages can be taken out one by one.
#[derive(Debug, Default)]
pub(crate) struct Log {
    chunks: BTreeMap<u64, Chunk>,
    last: u64,
    len: u64,
}

#[derive(Debug, Default)]
struct Chunk {
    slots: Vec<Option<Arc<Stored>>>,
    live: usize,
}

impl Log {
    /// The position of the newest message that was ever stored; 0 when there was none.
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    /// How many messages are stored.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// Stores `message` after all others; its position must be `last() + 1`.
    pub(crate) fn push(&mut self, message: Arc<Stored>) {
        let at = self.last;
        debug_assert_eq!(message.seq.0, at + 1, "positions are contiguous");
        let chunk = self.chunks.entry(at / CHUNK).or_default();
        debug_assert_eq!(chunk.slots.len() as u64, at % CHUNK, "chunks fill without holes");
        chunk.slots.push(Some(message));
        chunk.live += 1;
        self.last += 1;
        self.len += 1;
    }

    /// The message at `seq`, when it is still stored.
    pub(crate) fn get(&self, seq: u64) -> Option<&Arc<Stored>> {
        let at = seq.checked_sub(1)?;
        let chunk = self.chunks.get(&(at / CHUNK))?;
        chunk.slots.get((at % CHUNK) as usize)?.as_ref()
    }

    /// Takes out the message at `seq`.
    pub(crate) fn remove(&mut self, seq: u64) -> Option<Arc<Stored>> {
        let at = seq.checked_sub(1)?;
        let key = at / CHUNK;
        let chunk = self.chunks.get_mut(&key)?;
        let message = chunk.slots.get_mut((at % CHUNK) as usize)?.take()?;
        chunk.live -= 1;
        self.len -= 1;
        // The chunk that is being filled stays, even when it is empty for the moment.
        if chunk.live == 0 && key != self.last / CHUNK {
            self.chunks.remove(&key);
        }
        Some(message)
    }

    /// The oldest stored message.
    pub(crate) fn first(&self) -> Option<&Arc<Stored>> {
        self.chunks.values().flat_map(|chunk| chunk.slots.iter().flatten()).next()
    }

    /// The stored messages from position `seq` on, in order.
    pub(crate) fn iter_from(&self, seq: u64) -> impl Iterator<Item = &Arc<Stored>> {
        let at = seq.saturating_sub(1);
        let skip = (at % CHUNK) as usize;
        let key = at / CHUNK;
        self.chunks.range(key..).flat_map(move |(&k, chunk)| {
            let skip = if k == key { skip } else { 0 };
            chunk.slots.iter().skip(skip).flatten()
        })
    }
}

/// Messages in a chunk.
const CHUNK: u64 = 64;
