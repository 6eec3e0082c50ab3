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
    /// Buckets; 10,000 by default. A bucket whose last value ended still counts.
    pub buckets_max: usize,
    /// Keys that hold a value in one bucket; 1,000,000 by default.
    pub keys_per_bucket_max: usize,
    /// Bytes of all buckets: each key, its value, and 256 bytes; 1 GiB by default.
    ///
    /// A key that ended counts until its end is forgotten, which happens before a put is refused.
    pub bucket_bytes_max: u64,
    /// Keys of one bucket whose end is remembered for watches; 10,000 by default. Beyond it the
    /// oldest end is forgotten, and a watch that had not seen it gets a `Resync`.
    pub tombstones_per_bucket_max: usize,
    /// Watches at one time; 100,000 by default.
    pub watches_max: usize,
    /// Bytes of all blobs: their content, 128 bytes for each piece and 1 KiB for each blob; 4 GiB
    /// by default.
    ///
    /// Uploads count as they come in, and a replaced blob counts while somebody reads it.
    pub blob_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            subscriptions_max: 1_000_000,
            streams_max: 10_000,
            consumers_per_stream_max: 100_000,
            buckets_max: 10_000,
            keys_per_bucket_max: 1_000_000,
            bucket_bytes_max: 1 << 30,
            tombstones_per_bucket_max: 10_000,
            watches_max: 100_000,
            blob_bytes_max: 4 << 30,
        }
    }
}
