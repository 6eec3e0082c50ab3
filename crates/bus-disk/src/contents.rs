//! How much a bus holds.

use bus_mem::{InMemoryBus, PictureCursor, journal::Statement};

/// What a bus holds, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contents {
    /// Streams that were declared.
    pub streams: u64,
    /// Messages in them.
    pub messages: u64,
    /// Keys of buckets that have a value.
    pub values: u64,
    /// Blobs.
    pub blobs: u64,
    /// How many changes the journal has recorded since the bus was made.
    pub position: u64,
}

impl Contents {
    /// Counts streams, messages and values, one bounded piece after the other.
    pub(crate) fn of(mem: &InMemoryBus) -> Self {
        let mut contents = Self::default();
        let (mut cursor, mut statements) = (PictureCursor::default(), Vec::new());
        loop {
            let goes_on = mem.picture(&mut cursor, &mut statements);
            for statement in statements.drain(..) {
                match statement {
                    Statement::Declared { .. } => contents.streams += 1,
                    Statement::Stored { .. } => contents.messages += 1,
                    Statement::Put { .. } => contents.values += 1,
                    _ => {}
                }
            }
            if !goes_on {
                return contents;
            }
        }
    }
}
