//! How much a registry holds, and for how long.

use std::time::Duration;

/// The bounds of a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long a registration lives without a word of its instance.
    pub lease: Duration,
    /// The most instances at a time.
    pub instances_max: usize,
    /// The most subscriptions of one instance at a time; few, for they take the places that all
    /// who listen at a door share.
    pub subscriptions_max: usize,
    /// The most registrations in the life of the registry, as each id is kept for ever.
    pub minted_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(90),
            instances_max: 65_536,
            subscriptions_max: 16,
            minted_max: 4 * 1024 * 1024,
        }
    }
}
