//! A picture of what lives, taken piece by piece while changes go on.
//!
//! A piece is taken under the lock, and a bounded amount of work. What changes between two pieces
//! is told by the journal; what moves by itself, without a change, is looked at where it comes from
//! before it is looked at where it goes to, so that it may be told twice but is never missed.

use bus_subjects::BucketName;

use crate::journal::Statement;

/// How far a picture of the streams is.
#[derive(Debug, Clone, Default)]
pub struct StreamCursor {
    pub(crate) stream: usize,
    pub(crate) part: StreamPart,
}

/// How far a picture of the buckets is.
#[derive(Debug, Clone, Default)]
pub struct BucketCursor {
    /// The buckets that are left; `None` before the beginning.
    pub(crate) left: Option<Vec<BucketName>>,
    /// The last revision told of the last one of those.
    pub(crate) after: u64,
}

/// Which part of a stream comes next.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum StreamPart {
    /// The stream itself.
    #[default]
    Begin,
    /// Its messages from a position on.
    Messages(u64),
    /// The ids of messages that are gone, from a position on.
    Ids(u64),
    /// The consumer at an index.
    Consumer(usize),
    /// More of the consumer at an index that has this number.
    Rest { index: usize, number: u64, from: u64, part: ConsumerPart },
}

/// Which part of a consumer comes next: a message moves by itself from a lease to the places.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ConsumerPart {
    /// Its leases that were not extended, from a token on.
    Leases(u64),
    /// Its other leases, from a token on.
    Extended(u64),
    /// What has a place, from a position on.
    Places(u64),
    /// What waits in a lane for its first turn, from a position on.
    Lane(u8, u64),
}

/// A piece of a picture as it grows.
pub(crate) struct Piece<'a> {
    pub(crate) statements: &'a mut Vec<Statement>,
    left: usize,
}

impl<'a> Piece<'a> {
    /// One that is added to `statements`.
    pub(crate) const fn new(statements: &'a mut Vec<Statement>) -> Self {
        Self { statements, left: LOOKS_MAX }
    }

    /// Whether another look is too many; counts it when not.
    pub(crate) const fn is_full(&mut self) -> bool {
        if self.left == 0 {
            return true;
        }
        self.left -= 1;
        false
    }

    pub(crate) fn say(&mut self, statement: Statement) {
        self.statements.push(statement);
    }
}

/// What is looked at for one piece; the laws take pictures of a few messages in many pieces.
const LOOKS_MAX: usize = if cfg!(test) { 4 } else { 1024 };
