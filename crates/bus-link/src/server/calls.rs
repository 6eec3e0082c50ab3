//! Each call a client can make, done on the engine behind its policy.

use std::sync::Arc;

use bus_core::{
    ConsumerState, Frame, Receipt, Result, Revision, Seq, Stored,
    packed::{pack_frame, unpack_frame},
};
use bus_subjects::{BucketKey, BucketName, ConsumerName, Filter, StreamName, Subject};
use bytes::Bytes;

use super::session::Session;
use crate::wire::{
    Answer, Call, Fault, Message, WireBlob, WireConsumerState, WirePlace, WireReceipt, time,
};

/// What a call is answered with.
pub(super) struct Reply {
    answer: Answer,
    part: Option<Part>,
}

/// What travels with an answer.
pub(super) enum Part {
    Frame(Box<Frame>),
    Bytes(Bytes),
}

impl Reply {
    pub(super) fn done() -> Self {
        Answer::Done.into()
    }

    pub(super) fn into_parts(self) -> (Answer, Option<Part>) {
        (self.answer, self.part)
    }

    fn stored(stored: Option<Stored>) -> Self {
        let place = stored.as_ref().map(|stored| WirePlace::new(stored.seq, stored.time));
        let part = stored.map(|stored| Part::Frame(Box::new(stored.frame)));
        Self { answer: Answer::Stored(place), part }
    }
}

impl Part {
    pub(super) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Frame(frame) => pack_frame(&frame, out),
            Self::Bytes(bytes) => out.extend_from_slice(&bytes),
        }
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self { answer, part: None }
    }
}

impl Session {
    /// Does what `call` asks; `None` when it was answered on the way.
    ///
    /// # Errors
    /// Those of the engine, and `Invalid` for names that are none.
    pub(super) async fn perform(
        self: &Arc<Self>,
        id: u64,
        call: Call,
        parts: Vec<Bytes>,
    ) -> Result<Option<Reply>> {
        let answer = match call {
            Call::Subscribe { .. }
            | Call::Consume(_)
            | Call::Replay { .. }
            | Call::Watch { .. }
            | Call::PutBlob { .. }
            | Call::GetBlob { .. } => return self.open_stream(id, call).await,
            Call::Append(expect) => {
                let frame = unpack_frame(&Message::<()>::one_part(parts)?)?;
                receipts(&[self.engine.append(frame, expect.into()).await?])
            }
            Call::AppendAll => {
                let frames = parts.iter().map(unpack_frame).collect::<Result<_>>()?;
                receipts(&self.engine.append_all(frames).await?)
            }
            Call::Request { wait } => {
                let frame = unpack_frame(&Message::<()>::one_part(parts)?)?;
                let part = Part::Frame(Box::new(self.engine.request(frame, wait).await?));
                return Ok(Some(Reply { answer: Answer::Frame, part: Some(part) }));
            }
            Call::Settle(verdicts) => {
                let verdicts = verdicts.into_iter().map(|(id, verdict)| (id, verdict.into()));
                let settled = self.held.settle(verdicts.collect(), self.owner).await;
                Answer::Settled(settled.into_iter().map(|one| one.map_err(Fault::from)).collect())
            }
            Call::Extend { delivery } => {
                self.held.extend(delivery, self.owner).await?;
                Answer::Done
            }
            Call::Get { bucket, key } => return self.get(&bucket, &key).await.map(Some),
            Call::Put { bucket, key, put } => {
                let (bucket, key) = place(&bucket, &key)?;
                let put = put.with(Message::<()>::one_part(parts)?);
                Answer::Revision(self.engine.put(bucket, key, put).await?.0)
            }
            Call::Delete { bucket, key, expect } => {
                let (bucket, key) = place(&bucket, &key)?;
                self.engine.delete(bucket, key, expect.into()).await?;
                Answer::Done
            }
            Call::DeleteBlob { bucket, key } => {
                let (bucket, key) = place(&bucket, &key)?;
                Answer::WasThere(self.engine.delete_blob(bucket, key).await?)
            }
            Call::ListBlobs { bucket } => {
                let blobs = self.engine.list_blobs(BucketName::parse(&bucket)?).await?;
                Answer::Blobs(blobs.iter().map(WireBlob::from).collect())
            }
            Call::Control { verb, argument } => Answer::Said(self.door.ask(verb, argument).await?),
            call => return self.administer(call).await.map(Some),
        };
        Ok(Some(answer.into()))
    }

    /// Streams and consumers.
    async fn administer(&self, call: Call) -> Result<Reply> {
        let engine = &self.engine;
        let answer = match call {
            Call::Declare(spec) => {
                engine.declare(spec.parse()?).await?;
                Answer::Done
            }
            Call::Last { subject } => {
                return Ok(Reply::stored(engine.last(Subject::parse(&subject)?).await?));
            }
            Call::Read { stream, seq } => {
                let stored = engine.read(StreamName::parse(&stream)?, Seq(seq)).await?;
                return Ok(Reply::stored(stored));
            }
            Call::Discard { stream, seq } => {
                Answer::WasThere(engine.discard(StreamName::parse(&stream)?, Seq(seq)).await?)
            }
            Call::Consumers { stream } => {
                let all: Vec<ConsumerState> = engine.consumers(StreamName::parse(&stream)?).await?;
                Answer::Consumers(all.iter().map(WireConsumerState::from).collect())
            }
            Call::Pause { stream, consumer, until } => {
                let until = until.map(time).transpose()?;
                let (stream, consumer) = consumer_of(&stream, &consumer)?;
                engine.pause(stream, consumer, until).await?;
                Answer::Done
            }
            Call::RemoveConsumer { stream, consumer } => {
                let (stream, consumer) = consumer_of(&stream, &consumer)?;
                Answer::WasThere(engine.remove_consumer(stream, consumer).await?)
            }
            Call::Lag { stream } => {
                Answer::Lag(engine.lag(StreamName::parse(&stream)?).await?.into())
            }
            // All others were done before.
            _ => Answer::Done,
        };
        Ok(answer.into())
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<Reply> {
        let (bucket, key) = place(bucket, key)?;
        let entry = self.engine.get(bucket, key).await?;
        let revision = entry.as_ref().map(|entry| {
            let Revision(number) = entry.revision;
            number
        });
        let part = entry.map(|entry| Part::Bytes(entry.value));
        Ok(Reply { answer: Answer::Entry(revision), part })
    }
}

fn receipts(receipts: &[Receipt]) -> Answer {
    Answer::Receipts(receipts.iter().map(WireReceipt::from).collect())
}

/// A key of a bucket.
pub(super) fn place(bucket: &str, key: &str) -> Result<(BucketName, BucketKey)> {
    Ok((BucketName::parse(bucket)?, BucketKey::parse(key)?))
}

fn consumer_of(stream: &str, consumer: &str) -> Result<(StreamName, ConsumerName)> {
    Ok((StreamName::parse(stream)?, ConsumerName::parse(consumer)?))
}

/// What a stream call names.
pub(super) fn stream_and_filter(stream: &str, filter: &str) -> Result<(StreamName, Filter)> {
    Ok((StreamName::parse(stream)?, Filter::parse(filter)?))
}
