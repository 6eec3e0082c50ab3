#![doc = include_str!("../README.md")]

mod admission;
mod alert;
mod answer;
mod approvals;
mod blob;
mod bucket;
mod bus;
mod cancels;
mod checkpoint;
mod claims;
mod clock;
mod courier;
mod dead_letter;
mod deadline;
mod delivery;
mod dlq;
mod endpoint;
mod engine;
mod entry_ticket;
mod error;
mod feed;
mod follow;
mod frame;
mod given_up;
mod guarded;
mod identity;
mod live_verifier;
mod mailbox;
mod metered;
mod metrics;
mod observer;
mod outbox;
pub mod packed;
mod placement;
pub mod planes;
mod rank;
mod redrive;
mod results;
mod revocation;
mod roster;
mod segment;
mod spec;
mod tasks;
mod worker;

pub use admission::{Admission, Admitted, Door, Entrant, Proof};
pub use alert::{Alert, LetterAlert, LetterFailedAlert};
pub use answer::Answer;
pub use approvals::{
    Applied, ApprovalEnd, ApprovalRequest, ApprovalVerdict, Authorization, EndKind, OpenApproval,
    OpenApprovals, ResolvedApproval,
};
pub use blob::{Blob, BlobBody, BlobInfo, BlobPiece, BlobPieces, Blobs};
pub use bucket::{
    BucketMirror, Buckets, Change, Entry, ExpectRevision, KeyState, Put, Revision, Watch, WatchItem,
};
pub use bus::{BoxFuture, Bus};
pub use cancels::CancelMark;
pub use checkpoint::{CheckpointPolicy, LiveCheckpoint};
pub use claims::{ClaimMark, GivenUp};
pub use clock::{Clock, SystemClock, TokioClock};
pub use courier::{Courier, CourierEvent};
pub use dead_letter::{DeadLetterEvent, OriginalFrame, OriginalPlacement};
pub use deadline::Deadline;
pub use delivery::{Claiming, Deliveries, Delivery, Settle, Verdict, settle_all, settle_each};
pub use dlq::{
    BulkReport, DeadLetter, DeadLetters, DiscardReport, DiscardSurvey, LetterContent, LetterCount,
    LetterFilter, LetterOrder, Letters, Redrive, RedriveSurvey, Redriven,
};
pub use endpoint::{
    Asked, CallOutcome, Calls, Checkpointed, Endpoint, EndpointParts, EventFeed, Heard, Incoming,
    NotRecorded, Opened, Outgoing, Pipeline, Recorded, Sent, Ticket,
};
pub use engine::{Engine, Promises};
pub use entry_ticket::EntryTicket;
pub use error::{Error, ErrorKind, Outcome, Result};
pub use feed::{
    FeedBatch, FeedItem, FeedRef, Next, NextRef, Replay, SharedFrame, Stored, Subscription,
};
pub use follow::Follow;
pub use frame::{Frame, FrameId};
pub use given_up::GivenUpCause;
pub use guarded::{Answers, Guarded};
pub use identity::{Certificate, Identity, Issue, certify};
pub use live_verifier::{LiveLimits, LiveVerifier, Standing, Vouching};
pub use mailbox::{Mail, Mailbox};
pub use metered::{Metered, Traffic, WorkspaceTraffic};
pub use metrics::{
    BusMetrics, Latencies, LatencySpread, LatencySummary, MetricsReport, MetricsSnapshot,
    OutcomeCounts, QueueReport, Step, TaskOutcome,
};
pub use observer::{Observer, Operation, Span, Tracing};
pub use outbox::{Outbox, OutboxCounts, OutboxRecord, RecordState, Waiting, WaitingRecords};
pub use placement::{OrderKey, Placement, Priority};
pub use rank::Rank;
pub use redrive::{Backoff, Decision, Failure, RetryPolicy};
pub use results::{
    LeftOut, OutputReader, ResultOutput, ResultWatch, ResultWriter, Results, TaskResult,
    output_hash,
};
pub use revocation::Revocation;
pub use roster::{Roster, SignerError};
pub use segment::{Segment, SegmentFrame, SegmentRun, Tally};
pub use spec::{
    ConsumerSpec, ConsumerState, Durability, Expect, Lag, Overflow, Receipt, Retention, Seq,
    StreamSpec,
};
pub use tasks::{Cancelled, QueuedState, QueuedTask, QueuedTasks, Tasks};
pub use worker::{
    Handled, Handler, Job, Permit, RateKey, RateLimit, RateLimiter, Stop, TaskEvent, Worker,
    WorkerSpec,
};
