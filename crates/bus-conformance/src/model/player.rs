//! Does operations on an engine and on the model, and compares every answer.

use std::{collections::BTreeMap, time::Duration};

use bus_core::{Deliveries, Delivery, Frame, Retention, Stored, StreamSpec, Watch};
use bus_subjects::{BucketName, ConsumerName, Filter, StreamName, Subject};

use super::{
    bucket::{BucketModel, Reader},
    operation::Operation,
    queue::Queue,
    stored::{Kept, StreamModel},
};
use crate::{
    check::{CaseResult, Failure},
    context::Context,
};

mod appending;
mod claiming;
mod watching;

/// An engine and the model beside it.
pub(super) struct Player<'a> {
    context: &'a Context,
    /// Whether time passes, and only when an operation says so.
    time: bool,
    started: tokio::time::Instant,
    /// A message stored at the start, for the engine's time then.
    origin: Stored,
    names: Vec<StreamName>,
    streams: Vec<StreamModel>,
    /// Every frame that was stored, by stream and position.
    frames: BTreeMap<(usize, u64), Frame>,
    members: BTreeMap<u8, Vec<Deliveries>>,
    held: Vec<Held>,
    bucket_name: BucketName,
    bucket: BucketModel,
    watches: BTreeMap<u8, (Watch, Reader)>,
    steps: u64,
    /// Makes ids, leases and values unique.
    last_number: u64,
}

/// A delivery that was not settled yet.
struct Held {
    consumer: u8,
    lease: u64,
    delivery: Delivery,
    was_discarded: bool,
}

impl<'a> Player<'a> {
    pub(super) async fn new(context: &'a Context, time: bool) -> CaseResult<Self> {
        let started = tokio::time::Instant::now();
        let origin = context.now().await?;
        let (mut names, mut streams) = (Vec::new(), Vec::new());
        for (kind, plane, retention, messages_max, per_subject_max) in [
            ("WORK", "work", Retention::WorkQueue, 12, 8),
            ("ROOMS", "room", Retention::Kept, 60, 50),
            ("RECEIPTS", "receipts", Retention::AppendOnly, 60, 60),
        ] {
            let spec = context.spec(kind, plane, retention)?;
            let bound = |bound: usize| std::num::NonZeroU64::new(bound as u64);
            let window = if time { WINDOW } else { FOR_EVER };
            let spec = StreamSpec {
                dedupe_window: window,
                messages_max: bound(messages_max).unwrap_or(spec.messages_max),
                messages_per_subject_max: bound(per_subject_max).unwrap_or(spec.messages_max),
                ..spec
            };
            names.push(spec.name.clone());
            context.bus.declare(spec).await?;
            let (messages, ids) = (BTreeMap::new(), Vec::new());
            let consumers = BTreeMap::new();
            streams.push(StreamModel {
                retention,
                messages_max,
                per_subject_max,
                window,
                messages,
                ids,
                consumers,
            });
        }
        Ok(Self {
            context,
            time,
            started,
            origin,
            names,
            streams,
            frames: BTreeMap::new(),
            members: BTreeMap::new(),
            held: Vec::new(),
            bucket_name: context.bucket("STATE")?,
            bucket: BucketModel::default(),
            watches: BTreeMap::new(),
            steps: 0,
            last_number: 0,
        })
    }

    pub(super) async fn play(&mut self, operation: &Operation) -> CaseResult {
        self.steps += 1;
        let now = self.now();
        self.streams.iter_mut().for_each(|stream| stream.tick(now));
        match operation {
            Operation::Append { stream, message, expect } => {
                self.append(*stream, message, *expect).await
            }
            Operation::AppendAll { stream, messages, repeats_itself } => {
                self.append_all(*stream, messages, *repeats_itself).await
            }
            Operation::Discard { stream, message } => self.discard(*stream, *message).await,
            Operation::Compare { stream } => self.compare(*stream).await,
            Operation::Claim { consumer } => self.claim(*consumer).await,
            Operation::Settle { held, how } => self.settle(*held, *how).await,
            Operation::Extend { held } => self.extend(*held).await,
            Operation::Forget { held } => {
                if let Some(held) = pick(*held, self.held.len()) {
                    drop(self.held.swap_remove(held));
                }
                Ok(())
            }
            Operation::Pause { consumer, seconds } => self.pause(*consumer, *seconds).await,
            Operation::Remove { consumer } => self.remove(*consumer).await,
            Operation::Elapse { seconds } => {
                // The odd microsecond: no two ends ever fall together.
                let by = Duration::from_secs(u64::from(*seconds)) + Duration::from_micros(1);
                self.context.elapse(by).await;
                Ok(())
            }
            Operation::Put { key, expect, ttl_seconds } => {
                self.put(*key, *expect, *ttl_seconds).await
            }
            Operation::Delete { key, expect } => self.delete(*key, *expect).await,
            Operation::Get { key } => self.get(*key).await.map(drop),
            Operation::OpenWatch { watch } => self.open_watch(*watch).await,
            Operation::ReadWatch { watch, items } => self.read_watch(*watch, Some(*items)).await,
            Operation::ReadWatchWhole { watch } => self.read_watch(*watch, None).await,
            Operation::ResumeWatch { watch } => self.resume_watch(*watch).await,
        }
    }

    /// Compares everything once more.
    pub(super) async fn finish(&mut self) -> CaseResult {
        let now = self.now();
        self.streams.iter_mut().for_each(|stream| stream.tick(now));
        for stream in 0..3 {
            self.compare(stream).await?;
        }
        for watch in self.watches.keys().copied().collect::<Vec<_>>() {
            self.read_watch(watch, None).await?;
        }
        Ok(())
    }

    /// The time since the start; where time is real, a count of the steps, which says what came
    /// before what and is never long enough for anything to end.
    fn now(&self) -> Duration {
        if self.time { self.started.elapsed() } else { Duration::from_micros(self.steps) }
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn stream(&mut self, stream: u8) -> CaseResult<(usize, StreamName, &mut StreamModel)> {
        let index = usize::from(stream) % 3;
        let name = self.names.get(index).cloned();
        let name = name.ok_or_else(|| Failure::new("the model has three streams"))?;
        let model = self.streams.get_mut(index);
        let model = model.ok_or_else(|| Failure::new("the model has three streams"))?;
        Ok((index, name, model))
    }

    fn subject(&self, stream: usize, subject: u8) -> CaseResult<Subject> {
        let (plane, tail) = [("work", "task"), ("room", "message"), ("receipts", "completed")]
            .get(stream)
            .copied()
            .unwrap_or(("work", "task"));
        self.context.subject(plane, &format!("s{subject}.{tail}"))
    }

    /// Two consumers a stream; those of a work queue share nothing, the others overlap.
    fn consumer(&self, consumer: u8) -> CaseResult<(u8, ConsumerName, Filter, Queue)> {
        let (stream, is_second) = (consumer / 2 % 3, consumer % 2 == 1);
        let subject = match (stream, is_second) {
            (0, second) => Some(u8::from(second)),
            (_, second) => second.then_some(0),
        };
        let filter = match subject {
            Some(subject) => Filter::from(&self.subject(usize::from(stream), subject)?),
            None => Filter::all(),
        };
        let lease = if self.time { LEASE } else { FOR_EVER };
        let name = ConsumerName::parse(&format!("c{consumer}"))?;
        let queue = Queue { subject, lease, paused_until: None, items: BTreeMap::new() };
        Ok((stream, name, filter, queue))
    }

    /// A message of the model that is stored now.
    fn kept(&mut self, stream: usize, message: &super::operation::Message, new_id: bool) -> Kept {
        let number = self.number();
        let used = self.streams.get(stream).map(|model| &model.ids);
        let again = message.repeats.zip(used).filter(|_| !new_id);
        let again = again.and_then(|(picked, used)| {
            pick(picked, used.len()).and_then(|at| used.get(at)).map(|(id, ..)| id.clone())
        });
        let now = self.now();
        let delay = message.delay_seconds.map(|seconds| Duration::from_secs(u64::from(seconds)));
        Kept {
            id: again.unwrap_or_else(|| format!("m{number}")),
            subject: message.subject,
            stored: now,
            not_before: delay.map(|delay| now + delay),
            level: message.level,
            key: message.key,
        }
    }
}

/// Picks one of `count` by a number of any size.
fn pick(number: u8, count: usize) -> Option<usize> {
    usize::from(number).checked_rem(count)
}

/// How long the ids are remembered.
const WINDOW: Duration = Duration::from_secs(30);
const LEASE: Duration = Duration::from_secs(5);
/// Where time does not pass.
const FOR_EVER: Duration = Duration::from_secs(3600);
