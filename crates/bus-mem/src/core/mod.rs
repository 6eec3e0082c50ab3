//! The broker without tokio, locks or clock: every rule takes the time as an argument.

mod broker;
mod bucket;
mod consumer;
mod dedupe;
mod feed;
mod index;
mod log;
mod stream;

pub use broker::{Broker, Claim, ConsumerKey, StreamKey};
pub use bucket::BucketStore;
pub use feed::{FeedCounts, FeedQueue, Popped};

#[cfg(test)]
mod tests;
