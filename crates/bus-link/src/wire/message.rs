//! What client and server say to each other once the client is in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Fault, WireBlob, WireConsumer, WireConsumerState, WireDelivery, WireExpect, WireExpectRevision,
    WireLag, WireOverflow, WirePlace, WirePut, WireReceipt, WireState, WireStream, WireVerdict,
};

/// From the client to the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToServer {
    /// Asks for something; `id` is new on this connection.
    Call { id: u64, call: Call },
    /// A live frame, which is the part; nobody answers.
    Publish,
    /// So many more items of the stream `id` may be sent.
    Credit { id: u64, items: u32 },
    /// Somebody waits for at most `max` deliveries of the member `id`; `round` counts the calls.
    Want { id: u64, round: u32, max: u32 },
    /// Nobody waits any more.
    Unwant { id: u64 },
    /// The next bytes of the upload `id`, which are the part.
    Part { id: u64 },
    /// The upload `id` is whole.
    Whole { id: u64 },
    /// Nobody wants the stream or upload `id` any more.
    End { id: u64 },
    /// The client ends: everything before is to be done and answered.
    Bye,
}

/// What a client can ask for; frames and values are parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Call {
    Subscribe {
        filter: String,
        overflow: WireOverflow,
    },
    Request {
        wait: Duration,
    },
    Declare(WireStream),
    Append(WireExpect),
    AppendAll,
    Last {
        subject: String,
    },
    Read {
        stream: String,
        seq: u64,
    },
    Discard {
        stream: String,
        seq: u64,
    },
    Consume(WireConsumer),
    Consumers {
        stream: String,
    },
    Pause {
        stream: String,
        consumer: String,
        until: Option<i128>,
    },
    RemoveConsumer {
        stream: String,
        consumer: String,
    },
    Replay {
        stream: String,
        filter: String,
        from: u64,
        credit: u32,
    },
    Lag {
        stream: String,
    },
    Settle(Vec<(u64, WireVerdict)>),
    Extend {
        delivery: u64,
    },
    Get {
        bucket: String,
        key: String,
    },
    Put {
        bucket: String,
        key: String,
        put: WirePut,
    },
    Delete {
        bucket: String,
        key: String,
        expect: WireExpectRevision,
    },
    Watch {
        bucket: String,
        keys: String,
        after: u64,
        credit: u32,
    },
    PutBlob {
        bucket: String,
        key: String,
    },
    GetBlob {
        bucket: String,
        key: String,
        credit: u32,
    },
    DeleteBlob {
        bucket: String,
        key: String,
    },
    ListBlobs {
        bucket: String,
    },
    /// Something that the server's host does, beside the engine.
    Control {
        verb: String,
        argument: String,
    },
}

/// From the server to the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToClient {
    /// The answer to the call `id`.
    Answer { id: u64, answer: Result<Answer, Fault> },
    /// The next of the stream `id`.
    Item { id: u64, item: Item },
    /// The stream `id` has ended, and why if that is an error.
    End { id: u64, why: Option<Fault> },
    /// Nothing comes after this: the server ends, or this client's right does.
    Closing { why: Option<Fault> },
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It was done.
    Done,
    /// Whether there was something to do.
    WasThere(bool),
    /// The frame that is the part.
    Frame,
    /// The stored frame that is the part.
    Stored(Option<WirePlace>),
    Receipts(Vec<WireReceipt>),
    Consumers(Vec<WireConsumerState>),
    Lag(WireLag),
    /// The revision of the value that is the part.
    Entry(Option<u64>),
    Revision(u64),
    Blob(Option<WireBlob>),
    Blobs(Vec<WireBlob>),
    /// What became of each verdict.
    Settled(Vec<Result<(), Fault>>),
    /// What the host says of what it did.
    Said(String),
}

/// One step of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Item {
    /// The frames that are the parts.
    Frames,
    Gap(u64),
    /// The stored frame that is the part.
    Stored(WirePlace),
    /// A key changed; its value is the part.
    Changed {
        key: String,
        revision: u64,
        state: WireState,
    },
    Current,
    Resync,
    /// The bytes that are the part.
    Part,
    /// What was claimed in this round, the frames being the parts.
    Deliveries {
        round: u32,
        deliveries: Vec<WireDelivery>,
    },
    /// So many more parts of an upload may be sent.
    Credit(u32),
}
