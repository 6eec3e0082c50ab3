#![doc = include_str!("../README.md")]

mod blob;
mod bucket;
mod bus;
mod claims;
mod clock;
mod dead_letter;
mod delivery;
mod endpoint;
mod engine;
mod error;
mod feed;
mod frame;
mod guarded;
mod identity;
mod metrics;
mod placement;
pub mod planes;
mod redrive;
mod roster;
mod spec;
mod worker;

pub use blob::{Blob, BlobBody, BlobInfo, Blobs};
pub use bucket::{
    Buckets, Change, Entry, ExpectRevision, KeyState, Put, Revision, Watch, WatchItem,
};
pub use bus::{BoxFuture, Bus};
pub use claims::{ClaimMark, GivenUp};
pub use clock::{Clock, SystemClock, TokioClock};
pub use dead_letter::{DeadLetterEvent, OriginalFrame};
pub use delivery::{Deliveries, Delivery, Settle, Verdict};
pub use endpoint::{Endpoint, EndpointParts, EventFeed, Incoming, Opened, Recorded, Sent};
pub use engine::{Engine, Promises};
pub use error::{Error, ErrorKind, Outcome, Result};
pub use feed::{FeedItem, Replay, SharedFrame, Stored, Subscription};
pub use frame::{Frame, FrameId};
pub use guarded::Guarded;
pub use identity::{Certificate, Identity, Issue, certify};
pub use metrics::{BusMetrics, MetricsSnapshot};
pub use placement::{OrderKey, Placement, Priority};
pub use redrive::{Backoff, Decision, Failure, RetryPolicy};
pub use roster::{Roster, SignerError};
pub use spec::{
    ConsumerSpec, ConsumerState, Durability, Expect, Lag, Overflow, Receipt, Retention, Seq,
    StreamSpec,
};
pub use worker::{Handled, Handler, Job, Stop, TaskEvent, Worker, WorkerSpec};
