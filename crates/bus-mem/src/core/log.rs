//! The messages of one stream by position.
//!
//! Messages lie in chunks, and a chunk goes when its last message goes. So one message that is
//! never settled holds one chunk and not everything that came after it.

use std::sync::Arc;

use bus_core::{Frame, Seq, Stored};
use bus_envelope::Timestamp;

use super::{index::SubjectPlace, window::Window};

/// An append-only log whose messages can be taken out one by one.
#[derive(Debug)]
pub(crate) struct Log {
    /// Chunks that are full, by number.
    full: Window<Chunk>,
    /// The chunk that is being filled; it stays, even when it is empty for the moment.
    filling: Chunk,
    last: u64,
    len: u64,
    /// Messages behind it are not safe yet and are handed out to nobody.
    shown: u64,
}

/// A message as it is kept; its position is its place.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) frame: Arc<Frame>,
    pub(crate) time: Timestamp,
    /// Where its subject stands in the stream's index.
    pub(crate) subject: SubjectPlace,
}

/// A stored message, shared with the stream that keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The frame.
    pub frame: Arc<Frame>,
    /// Its position.
    pub seq: Seq,
    /// When it was stored.
    pub time: Timestamp,
}

#[derive(Debug, Default)]
struct Chunk {
    slots: Vec<Option<Slot>>,
    live: usize,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            full: Window::starting_at(0),
            filling: Chunk::default(),
            last: 0,
            len: 0,
            shown: u64::MAX,
        }
    }
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

    /// Whether the message at `seq` may be handed out.
    #[inline]
    pub(crate) const fn shows(&self, seq: u64) -> bool {
        seq <= self.shown
    }

    /// How many of the last positions may not be handed out.
    pub(crate) fn unshown(&self) -> usize {
        usize::try_from(self.last.saturating_sub(self.shown)).unwrap_or(usize::MAX)
    }

    /// Shows what lies up to `seq`, and nothing behind it.
    pub(crate) const fn show_until(&mut self, seq: u64) {
        self.shown = seq;
    }

    /// Stores a frame after all others and returns its position.
    pub(crate) fn push(
        &mut self,
        frame: Arc<Frame>,
        time: Timestamp,
        subject: SubjectPlace,
    ) -> u64 {
        let chunk = &mut self.filling;
        if chunk.slots.is_empty() && self.last > 0 {
            // Not the first one, so that it is likely to be filled.
            chunk.slots.reserve_exact(CHUNK as usize);
        }
        debug_assert_eq!(chunk.slots.len() as u64, self.last % CHUNK, "chunks have no holes");
        chunk.slots.push(Some(Slot { frame, time, subject }));
        chunk.live += 1;
        self.last += 1;
        self.len += 1;
        self.close_full();
        self.last
    }

    /// Puts the chunk that is being filled aside when it is full.
    #[inline]
    fn close_full(&mut self) {
        if self.last.is_multiple_of(CHUNK) {
            let chunk = std::mem::take(&mut self.filling);
            if chunk.live > 0 {
                self.full.push(chunk);
            } else {
                self.full.skip();
            }
        }
    }

    /// Positions up to `last` are given, and nothing lies there.
    pub(crate) fn skip_to(&mut self, last: u64) {
        while self.last < last {
            let begun = self.last / CHUNK * CHUNK;
            self.last = last.min(begun + CHUNK);
            if self.last > begun + CHUNK - 1 && self.filling.slots.is_empty() {
                self.full.skip();
            } else {
                self.filling.slots.resize_with((self.last - begun) as usize, || None);
                self.close_full();
            }
        }
    }

    /// What lies at `seq`, when it is still stored.
    #[inline]
    pub(crate) fn get(&self, seq: u64) -> Option<&Slot> {
        let at = seq.checked_sub(1)?;
        let chunk = self.chunk(at / CHUNK)?;
        chunk.slots.get((at % CHUNK) as usize)?.as_ref()
    }

    /// The message at `seq`, when it is still stored.
    #[inline]
    pub(crate) fn message(&self, seq: u64) -> Option<Message> {
        self.get(seq).map(|slot| slot.message(seq))
    }

    /// Takes out what lies at `seq`.
    #[inline]
    pub(crate) fn remove(&mut self, seq: u64) -> Option<Slot> {
        let at = seq.checked_sub(1)?;
        let number = at / CHUNK;
        let is_filling = number == self.last / CHUNK;
        let chunk = if is_filling { &mut self.filling } else { self.full.get_mut(number)? };
        let slot = chunk.slots.get_mut((at % CHUNK) as usize)?.take()?;
        chunk.live -= 1;
        self.len -= 1;
        if chunk.live == 0 && !is_filling {
            self.full.take(number);
        }
        Some(slot)
    }

    /// The oldest stored message.
    pub(crate) fn first(&self) -> Option<&Slot> {
        self.iter_from(0).next().map(|(_, slot)| slot)
    }

    /// The stored messages from position `seq` on, in order, each with its position.
    pub(crate) fn iter_from(&self, seq: u64) -> impl Iterator<Item = (u64, &Slot)> {
        let at = seq.saturating_sub(1);
        let (number, filling) = (at / CHUNK, self.last / CHUNK);
        let filling = (filling >= number).then_some((filling, &self.filling));
        self.full.from(number).chain(filling).flat_map(move |(n, chunk)| {
            let skip = if n == number { (at % CHUNK) as usize } else { 0 };
            let numbered = (n * CHUNK + 1..).zip(&chunk.slots).skip(skip);
            numbered.filter_map(|(seq, slot)| Some((seq, slot.as_ref()?)))
        })
    }

    #[inline]
    fn chunk(&self, number: u64) -> Option<&Chunk> {
        if number == self.last / CHUNK { Some(&self.filling) } else { self.full.get(number) }
    }
}

impl Slot {
    pub(crate) fn message(&self, seq: u64) -> Message {
        Message { frame: Arc::clone(&self.frame), seq: Seq(seq), time: self.time }
    }
}

impl From<Message> for Stored {
    fn from(message: Message) -> Self {
        let Message { frame, seq, time } = message;
        Self { frame: Arc::unwrap_or_clone(frame), seq, time }
    }
}

/// Messages in a chunk.
const CHUNK: u64 = 256;
