//! The broker without tokio, locks or clock: every rule takes the time as an argument.

mod backlog;
mod blob;
mod broker;
mod bucket;
mod consumer;
mod dedupe;
mod feed;
mod feed_cursor;
mod feed_heard;
mod feed_log;
mod feed_samples;
mod idtable;
mod image;
mod index;
mod keys;
mod lanes;
mod leases;
mod log;
mod picture;
mod recorder;
mod routes;
mod stream;
mod unshown;
mod waiting;
mod window;

pub use blob::{BlobStore, StoredBlob, Upload};
pub use broker::{Broker, Claim, ConsumerKey, Removed, StreamKey};
pub use bucket::{BucketStore, Progress, WatchId};
pub use feed::{FeedCounts, FeedQueue, Popped};
pub use feed_heard::Heard;
pub use feed_log::{CursorKey, FeedLog, Read};
pub use feed_samples::FeedSamples;
pub use image::Image;
pub use log::Message;
pub use picture::{BucketCursor, StreamCursor};

#[cfg(test)]
mod tests;
