//! How the servers keep what is stored, which no client can ask them.

use bus_core::Durability;

/// How the servers of a bus keep what they acknowledge; set by who runs them.
///
/// The number of copies of a stream is checked against it, the server's `sync_interval` cannot be:
/// it is invisible to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// One copy, written but not synced: a killed server loses nothing it acknowledged, a power
    /// cut loses up to the server's `sync_interval` (2 minutes unless set). For development.
    #[default]
    Development,
    /// One copy on a server with `sync_interval: always`: a power cut loses nothing that was
    /// acknowledged; the loss of that disk loses everything.
    Synced,
    /// Three copies on servers with `sync_interval: always`: neither a power cut nor the loss of
    /// one of them loses what was acknowledged, and work goes on with two of three.
    Replicated,
}

impl Profile {
    /// How many copies of a stream there are.
    #[must_use]
    pub const fn replicas(self) -> u64 {
        match self {
            Self::Development | Self::Synced => 1,
            Self::Replicated => 3,
        }
    }

    /// What a stored message survives.
    #[must_use]
    pub const fn durability(self) -> Durability {
        match self {
            Self::Development => Durability::Written,
            Self::Synced | Self::Replicated => Durability::Synced,
        }
    }
}
