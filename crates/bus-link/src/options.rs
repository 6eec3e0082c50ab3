//! How patient a client is.

use std::time::Duration;

/// Times and bounds of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkOptions {
    /// How long a call waits for the server to come back; 10 s by default. Then it is
    /// `Unavailable`, not done.
    pub patience: Duration,
    /// How long a call may take as a whole; 60 s by default. Then it is a `Timeout`, outcome
    /// unknown. Uploads have no such limit, requests have their own.
    pub answer_max: Duration,
    /// How long the handshake may take; 10 s by default.
    pub handshake_max: Duration,
    /// How long after the first attempt to reach the server again the second one comes; 20 ms by
    /// default. It doubles from there, and each time lasts between half of it and all.
    pub pause_first: Duration,
    /// The longest time between two attempts; 2 s by default.
    pub pause_max: Duration,
    /// How many bytes wait to be written before calls wait; 1 MiB by default.
    pub outgoing_bytes: usize,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(10),
            answer_max: Duration::from_secs(60),
            handshake_max: Duration::from_secs(10),
            pause_first: Duration::from_millis(20),
            pause_max: Duration::from_secs(2),
            outgoing_bytes: 1 << 20,
        }
    }
}
