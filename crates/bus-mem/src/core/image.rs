//! What survives: all that the changes of a broker amount to, from which it is made anew.

use std::{collections::HashMap, sync::Arc};

use bus_core::{Durability, Error, ErrorKind, Frame, KeyState, Result};
use bus_envelope::Timestamp;
use bus_subjects::BucketName;

use super::{Broker, BucketStore, bucket::Records};
use crate::{Limits, journal::Change};

use consumer::ConsumerImage;
use stream::StreamImage;

mod consumer;
mod stream;

/// The state of a broker as its journal tells it.
///
/// It takes the pieces of a picture first, if there is one, and then the changes since the picture
/// was begun, in their order. To apply a change again, or one that is older than what is known
/// already, changes nothing in the end, as long as all that came after it are applied, too.
#[derive(Debug)]
pub struct Image {
    limits: Limits,
    /// By number.
    streams: Vec<StreamImage>,
    consumers: HashMap<u64, ConsumerImage>,
    /// How many consumers were ever made.
    consumers_made: u64,
    buckets: HashMap<BucketName, Records>,
    latest: Timestamp,
}

/// What a consumer knows of a message that it handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Leased { token: u64, attempt: u32, since: Timestamp, deadline: Timestamp },
    Waits { attempt: u32, since: Timestamp, handed_back: bool },
}

impl Image {
    /// That of an empty broker; of what ended in its buckets it remembers what `limits` say.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            streams: Vec::new(),
            consumers: HashMap::new(),
            consumers_made: 0,
            buckets: HashMap::new(),
            latest: Timestamp::from_unix_ns(i128::MIN),
        }
    }

    /// Takes in the next change.
    ///
    /// # Errors
    /// `Invalid` about a stream that was never declared, or that is another one than before: no
    /// broker ever said that.
    pub fn apply(&mut self, change: Change<'_>) -> Result<()> {
        match change {
            Change::Declared { stream, spec, key } => self.declare(stream, spec, key)?,
            Change::Stored { stream, seq, time, frame } => self.store(stream, seq, time, frame)?,
            Change::Removed { stream, seq } => self.remove(stream, seq)?,
            Change::StreamAt { stream, last, ids } => self.stream(stream)?.is_at(last, ids),
            Change::ConsumerMade { consumer, stream, spec } => {
                self.make_consumer(consumer, stream, spec)?;
            }
            Change::ConsumerRemoved { consumer } => self.remove_consumer(consumer),
            Change::Paused { consumer, until } => self.pause(consumer, until),
            Change::ConsumerAt { consumer, from, fresh, token } => {
                self.consumer_is_at(consumer, from, fresh, token);
            }
            Change::Leased { consumer, seq, token, attempt, since, deadline } => {
                let standing = Standing::Leased { token, attempt, since, deadline };
                self.stand(consumer, seq, Some(standing));
            }
            Change::Waits { consumer, seq, attempt, since, handed_back } => {
                self.stand(consumer, seq, Some(Standing::Waits { attempt, since, handed_back }));
            }
            Change::Done { consumer, seq } => self.stand(consumer, seq, None),
            Change::Put { bucket, key, revision, time, end, value } => {
                self.latest = self.latest.max(time);
                let state = KeyState::Value(value.clone());
                self.bucket(bucket).restore(key, state, revision, end);
            }
            Change::Ended { bucket, key, revision, time, expired } => {
                self.latest = self.latest.max(time);
                let state = if expired { KeyState::Expired } else { KeyState::Deleted };
                let tombstones_max = self.limits.tombstones_per_bucket_max;
                let records = self.bucket(bucket);
                records.restore(key, state, revision, None);
                while records.tombstones() > tombstones_max && records.forget_oldest() {}
            }
            Change::BucketAt { bucket, last, forgotten } => {
                self.bucket(bucket).is_at(last, forgotten);
            }
        }
        Ok(())
    }

    /// The latest time that any change told of; the restored broker never goes back before it.
    #[must_use]
    pub const fn latest(&self) -> Timestamp {
        self.latest
    }

    /// How many messages are stored.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.streams.iter().map(|stream| stream.messages.len() as u64).sum()
    }

    /// Makes the broker and the buckets anew, within `limits` from now on.
    ///
    /// The leases go on under their tokens; new ones never repeat any, when `epoch` is greater than
    /// it ever was for this image.
    #[must_use]
    pub fn restore(
        self,
        limits: Limits,
        durability: Durability,
        epoch: u64,
    ) -> (Broker, BucketStore) {
        let Self { streams, mut consumers, consumers_made, buckets, latest, .. } = self;
        let token = epoch << EPOCH_BITS;
        let mut broker = Broker::restored((limits, durability), latest, (consumers_made, token));
        let mut of_streams: Vec<Vec<(u64, ConsumerImage)>> = Vec::new();
        of_streams.resize_with(streams.len(), Vec::new);
        for (number, consumer) in consumers.drain() {
            if let Some(of_stream) = of_streams.get_mut(consumer.stream) {
                of_stream.push((number, consumer));
            }
        }
        for (stream, mut consumers) in streams.into_iter().zip(of_streams) {
            consumers.sort_unstable_by_key(|(number, _)| *number);
            let restored = broker.restore_stream(stream.spec.clone(), stream.key());
            stream.restore(restored, consumers, (latest, token));
        }
        (broker, BucketStore::restored(limits, buckets))
    }

    fn bucket(&mut self, name: &BucketName) -> &mut Records {
        self.buckets.entry(name.clone()).or_insert_with(|| Records::new(name.clone()))
    }

    fn stream(&mut self, number: u32) -> Result<&mut StreamImage> {
        self.streams.get_mut(number as usize).ok_or_else(|| unheard_of(number))
    }

    fn store(&mut self, stream: u32, seq: u64, time: Timestamp, frame: &Arc<Frame>) -> Result<()> {
        self.latest = self.latest.max(time);
        let Self { streams, consumers, .. } = self;
        let stream = streams.get_mut(stream as usize).ok_or_else(|| unheard_of(stream))?;
        if stream.store(seq, time, frame) {
            for number in stream.readers(&frame.subject) {
                if let Some(consumer) = consumers.get_mut(number) {
                    consumer.is_stored(seq);
                }
            }
        }
        Ok(())
    }

    fn remove(&mut self, stream: u32, seq: u64) -> Result<()> {
        let Self { streams, consumers, .. } = self;
        let stream = streams.get_mut(stream as usize).ok_or_else(|| unheard_of(stream))?;
        let Some(kept) = stream.messages.remove(&seq) else { return Ok(()) };
        for number in stream.readers(&kept.frame.subject) {
            if let Some(consumer) = consumers.get_mut(number) {
                consumer.fresh.remove(&seq);
            }
        }
        Ok(())
    }
}

impl Default for Image {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

fn unheard_of(stream: u32) -> Error {
    let why = format!("a change of the stream {stream}, which was never declared");
    Error::new(ErrorKind::Invalid, "apply", why)
}

/// Tokens of one epoch: more than any broker gives in its life.
const EPOCH_BITS: u32 = 40;
