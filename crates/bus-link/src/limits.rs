//! How much one server takes on, and how long it waits.

use std::{num::NonZeroUsize, time::Duration};

/// Bounds of one server.
///
/// One connection takes at most `outgoing_bytes_hard` for what waits to be written, 32 MiB for the
/// message that is being read, 64 MiB for what its open calls hold, a megabyte for each of its open
/// requests (of `calls_max` calls) and uploads (of `streams_max` streams), and `feed_frames_max`
/// frames, which it shares with other subscribers, for each of its subscriptions. A connection that
/// does not take in what it asked for is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkLimits {
    /// Connections that are let in; 4,096 by default. One more is refused with `Full`.
    pub connections_max: usize,
    /// Connections that did not prove who they are yet; 64 by default. One more waits to be
    /// accepted.
    pub strangers_max: usize,
    /// How long a connection may take to prove who it is; 10 s by default.
    pub handshake_max: Duration,
    /// Calls of one connection that are not answered yet; 256 by default.
    pub calls_max: u32,
    /// Streams and uploads of one connection; 4,096 by default.
    pub streams_max: usize,
    /// Frames that wait at the engine for one subscription of a client that does not take them in;
    /// 16,384 by default. What a subscription asked for beyond it waits at the client alone.
    pub feed_frames_max: NonZeroUsize,
    /// Where a connection's streams wait and no further call is read; 1 MiB by default.
    pub outgoing_bytes_soft: usize,
    /// Where a connection ends; 64 MiB by default.
    pub outgoing_bytes_hard: usize,
    /// How long one write to a connection may take; 30 s by default.
    pub stall_max: Duration,
    /// How long the end of a connection waits for what is not answered yet; 5 s by default.
    pub farewell_max: Duration,
}

impl Default for LinkLimits {
    fn default() -> Self {
        Self {
            connections_max: 4_096,
            strangers_max: 64,
            handshake_max: Duration::from_secs(10),
            calls_max: 256,
            streams_max: 4_096,
            feed_frames_max: const { NonZeroUsize::new(16_384).unwrap() },
            outgoing_bytes_soft: 1 << 20,
            outgoing_bytes_hard: 64 << 20,
            stall_max: Duration::from_secs(30),
            farewell_max: Duration::from_secs(5),
        }
    }
}
