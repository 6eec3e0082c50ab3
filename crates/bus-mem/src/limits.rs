//! How much one embedded bus holds at most.

/// Bounds of one bus; what would go beyond is refused as `Full`.
///
/// How many messages a stream holds is part of its own specification, and how many frames a
/// subscription holds is part of its overflow rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Live subscriptions at one time; 1,000,000 by default.
    pub subscriptions_max: usize,
    /// Streams; 10,000 by default.
    pub streams_max: usize,
    /// Consumers of one stream; 100,000 by default.
    pub consumers_per_stream_max: usize,
    /// Buckets; 10,000 by default.
    pub buckets_max: usize,
    /// Keys in one bucket; 1,000,000 by default.
    pub keys_per_bucket_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            subscriptions_max: 1_000_000,
            streams_max: 10_000,
            consumers_per_stream_max: 100_000,
            buckets_max: 10_000,
            keys_per_bucket_max: 1_000_000,
        }
    }
}
