//! An engine: everything one broker offers, and what it promises about it.

use crate::{Blobs, Buckets, Bus, Durability};

/// A broker behind one handle.
pub trait Engine: Bus + Buckets + Blobs {
    /// What this engine promises, so that callers refuse to start on less than they need.
    fn promises(&self) -> Promises;
}

/// What an engine promises beyond the traits' own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promises {
    /// The engine's name: `mem`, `disk`, `link` or `nats`.
    pub engine: &'static str,
    /// What an acknowledged append survives.
    pub durability: Durability,
    /// Whether two processes can share it.
    pub shared: bool,
}
