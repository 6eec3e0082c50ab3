//! One of the two engines, and what it shows when something is done to it.

use std::{collections::BTreeMap, num::NonZeroU64, sync::Arc, time::Duration};

use bus_core::{
    BucketMirror, Deliveries, Delivery, Engine, Error, Frame, FrameId, OrderKey, Placement,
    Priority, Result, Retention, Revision, StreamSpec, Subscription, Watch,
};
use bus_envelope::Timestamp;
use bus_subjects::{BucketName, Filter, StreamName, Subject};

use crate::operation::{Message, Operation, When};

mod blobs;
mod live;
mod queue;
mod state;
mod stored;

/// An engine with what a caller of it holds.
pub(crate) struct Side {
    engine: Arc<dyn Engine>,
    /// Makes the names of this run its own.
    run: u64,
    steps: u64,
    /// The ids that were sent, by stream.
    ids: [Vec<String>; 3],
    members: BTreeMap<u8, Vec<Deliveries>>,
    held: Vec<Delivery>,
    subscriptions: BTreeMap<u8, (Subscription, bool)>,
    watches: BTreeMap<u8, (Watch, Filter, BucketMirror)>,
    revisions: BTreeMap<u8, Vec<Revision>>,
}

impl Side {
    /// Declares the streams of `run`.
    pub(crate) async fn new(engine: Arc<dyn Engine>, run: u64) -> Result<Self> {
        let side = Self {
            engine,
            run,
            steps: 0,
            ids: Default::default(),
            members: BTreeMap::new(),
            held: Vec::new(),
            subscriptions: BTreeMap::new(),
            watches: BTreeMap::new(),
            revisions: BTreeMap::new(),
        };
        for stream in 0..3 {
            side.engine.declare(side.spec(stream)).await?;
        }
        Ok(side)
    }

    /// Does `operation` and tells what was seen. `other` is what the other engine showed; without
    /// it, what does not come at once does not come.
    pub(crate) async fn play(&mut self, operation: &Operation, other: Option<&str>) -> String {
        self.steps += 1;
        match operation {
            Operation::Declare { .. }
            | Operation::Append { .. }
            | Operation::AppendAll { .. }
            | Operation::Last { .. }
            | Operation::Read { .. }
            | Operation::Replay { .. }
            | Operation::Discard { .. }
            | Operation::Lag { .. } => self.play_stored(operation, other).await,
            Operation::Claim { .. }
            | Operation::Settle { .. }
            | Operation::SettleAll { .. }
            | Operation::Extend { .. }
            | Operation::Pause { .. }
            | Operation::Remove { .. } => self.play_queued(operation, other).await,
            Operation::Put { .. }
            | Operation::Delete { .. }
            | Operation::Get { .. }
            | Operation::OpenWatch { .. }
            | Operation::ReadWatch { .. }
            | Operation::ResumeWatch { .. } => self.play_kept(operation, other).await,
            Operation::PutBlob { .. }
            | Operation::GetBlob { .. }
            | Operation::DeleteBlob { .. }
            | Operation::ListBlobs => self.play_large(operation).await,
            Operation::Publish { .. }
            | Operation::Subscribe { .. }
            | Operation::Hear { .. }
            | Operation::Leave { .. }
            | Operation::Request { .. } => self.play_live(operation, other).await,
        }
    }

    /// Does nothing and says what the other engine said: a lie, to see that it is found out.
    pub(crate) fn pass_over(&mut self, operation: &Operation, other: &str) -> String {
        self.steps += 1;
        match operation {
            Operation::Append { stream, message, .. } => drop(self.frame(*stream, message, 0)),
            Operation::Settle { held, .. } => {
                if let Some(held) = pick(*held, self.held.len()) {
                    drop(self.held.swap_remove(held));
                }
            }
            _ => {}
        }
        other.to_owned()
    }

    /// Everything that is there, as one operation after the other shows it.
    pub(crate) fn everything() -> Vec<Operation> {
        let of_streams = (0..3).flat_map(|stream| {
            [Operation::Replay { stream, subject: None, from: 0 }, Operation::Lag { stream }]
        });
        let others = (0..5).map(|key| Operation::Get { key });
        let watches = (0..2).map(|watch| Operation::ReadWatch { watch });
        let slots = (0..3).map(|slot| Operation::Hear { slot });
        let blobs = (0..3).map(|key| Operation::GetBlob { key });
        let all = of_streams.chain(others).chain(watches).chain(slots).chain(blobs);
        all.chain([Operation::ListBlobs]).collect()
    }

    pub(crate) async fn close(self) -> Result<()> {
        self.engine.close().await
    }

    fn spec(&self, stream: u8) -> StreamSpec {
        // Where messages are placed, NATS keeps those of one subject under several of its own,
        // each with the bound of the subject: there only the bound of the stream is exact.
        let (retention, messages_max, per_subject_max) = match stream {
            0 => (Retention::WorkQueue, 12, 12),
            1 => (Retention::Kept, 40, 40),
            _ => (Retention::AppendOnly, 60, 50),
        };
        let bound = |bound| NonZeroU64::new(bound).unwrap_or(NonZeroU64::MIN);
        StreamSpec {
            messages_max: bound(messages_max),
            messages_per_subject_max: bound(per_subject_max),
            ..StreamSpec::new(self.stream(stream), vec![self.filter(stream, None)], retention)
        }
    }

    fn stream(&self, stream: u8) -> StreamName {
        let kind = KINDS[usize::from(stream)].0;
        parsed(StreamName::parse(&format!("{kind}_{}", self.run)))
    }

    fn subject(&self, stream: u8, subject: u8) -> Subject {
        let (_, plane, tail) = KINDS[usize::from(stream)];
        parsed(Subject::parse(&format!("vak.{plane}.w{}.s{subject}.{tail}", self.run)))
    }

    /// All subjects of a stream, or one.
    fn filter(&self, stream: u8, subject: Option<u8>) -> Filter {
        let (_, plane, tail) = KINDS[usize::from(stream)];
        match subject {
            Some(subject) => Filter::from(&self.subject(stream, subject)),
            None => parsed(Filter::parse(&format!("vak.{plane}.w{}.*.{tail}", self.run))),
        }
    }

    fn bucket(&self) -> BucketName {
        parsed(BucketName::parse(&format!("STATE_{}", self.run)))
    }

    /// The frame of a message; `part` tells the messages of one step apart.
    fn frame(&mut self, stream: u8, message: &Message, part: usize) -> Frame {
        let used = &mut self.ids[usize::from(stream)];
        let again = message.repeats.and_then(|number| pick(number, used.len()));
        let id = match again {
            Some(at) => used[at].clone(),
            None => format!("m{}-{part}", self.steps),
        };
        used.push(id.clone());
        let key = message.key.map(|key| parsed(OrderKey::parse(&format!("key-{key}"))));
        let placement = Placement {
            not_before: message.not_before.map(When::time),
            priority: parsed(Priority::new(message.level)),
            key,
        };
        let (subject, body) = (self.subject(stream, message.subject), format!("body {id}"));
        let mut frame = Frame::new(subject, parsed(FrameId::parse(&id)), body).placed(placement);
        add_headers(&mut frame, message.headers);
        frame.reply = message.reply.then(|| self.subject(1, 0));
        frame
    }
}

impl When {
    pub(crate) fn time(self) -> Timestamp {
        parsed(Timestamp::parse(match self {
            Self::Over => "2020-01-01T00:00:00.000000000Z",
            Self::Never => "2100-01-01T00:00:00.000000000Z",
        }))
    }

    /// The same as a span from now.
    pub(crate) fn rest(self) -> Duration {
        match self {
            Self::Over => Duration::ZERO,
            Self::Never => LEASE,
        }
    }
}

/// Up to three headers, two of one name.
fn add_headers(frame: &mut Frame, count: u8) {
    let all = [("content-type", "text/plain"), ("ce-type", "a b"), ("ce-type", "c")];
    for (name, value) in all.into_iter().take(usize::from(count)) {
        parsed(frame.headers.add(name, value));
    }
}

/// What an error shows.
fn seen(error: &Error) -> String {
    format!("{:?} {:?}", error.kind(), error.outcome())
}

/// A name that this test made.
fn parsed<T, E: std::fmt::Debug>(made: Result<T, E>) -> T {
    made.unwrap()
}

/// Picks one of `count` by a number of any size.
fn pick(number: u8, count: usize) -> Option<usize> {
    usize::from(number).checked_rem(count)
}

/// Streams by name, plane and the last level of their subjects.
const KINDS: [(&str, &str, &str); 3] =
    [("WORK", "work", "task"), ("ROOMS", "room", "message"), ("RECEIPTS", "receipts", "completed")];
/// Long enough never to end here.
const LEASE: Duration = Duration::from_secs(3600);
/// What must come comes within this.
const SOON: Duration = Duration::from_secs(5);
/// What has not come by then does not come.
const NEVER: Duration = Duration::from_millis(60);
/// The same in one process, where a reader may give way to others before it takes what is there.
const AT_ONCE: Duration = Duration::from_millis(10);
