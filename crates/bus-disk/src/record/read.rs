//! From bytes to a record: every length and value is checked before it is used.

use std::{num::NonZeroU64, sync::Arc, time::Duration};

use bus_core::{
    ConsumerSpec, Result, Retention, StreamSpec,
    packed::{Unpacker, unpack_frame},
};
use bus_envelope::{EventHash, Timestamp};
use bus_mem::journal::Change;
use bus_subjects::{
    BucketKey, BucketName, ConsumerName, Filter, StreamName, Subject, SubjectError,
};
use bytes::Bytes;

use super::{BlobRecord, Record, corrupt, tag};

/// Reads tag and fields and hands the record on.
pub(super) fn payload<T>(payload: &[u8], take: impl FnOnce(Record<'_>) -> Result<T>) -> Result<T> {
    let mut from = Unpacker::new(payload);
    let tag = from.u8()?;
    match tag {
        tag::STORED => stored(payload, from, take),
        tag::DECLARED | tag::REMOVED | tag::STREAM_AT => stream(tag, from, take),
        tag::CONSUMER_MADE..=tag::DONE | tag::CONSUMER_AT => consumer(tag, from, take),
        tag::PUT | tag::ENDED | tag::BUCKET_AT => bucket(tag, from, take),
        tag::OPENED => {
            let (epoch, time) = (from.u64()?, from.time()?);
            from.end()?;
            take(Record::Opened { epoch, time })
        }
        tag::BLOB_STORED | tag::BLOB_REMOVED => blob(tag, from, take),
        _ => Err(corrupt("record of an unknown kind")),
    }
}

fn stored<T>(
    payload: &[u8],
    mut from: Unpacker<'_>,
    take: impl FnOnce(Record<'_>) -> Result<T>,
) -> Result<T> {
    let (stream, seq, time) = (from.u32()?, from.u64()?, from.time()?);
    // A copy of its own: the body stays for as long as the message, the batch does not.
    let packed = payload.get(payload.len() - from.left()..).unwrap_or_default();
    let frame = Arc::new(unpack_frame(&Bytes::copy_from_slice(packed))?);
    take(Record::Change(Change::Stored { stream, seq, time, frame: &frame }))
}

fn stream<T>(
    tag: u8,
    mut from: Unpacker<'_>,
    take: impl FnOnce(Record<'_>) -> Result<T>,
) -> Result<T> {
    let stream = from.u32()?;
    match tag {
        tag::DECLARED => {
            let key = from.array()?;
            let spec = stream_spec(&mut from)?;
            from.end()?;
            take(Record::Change(Change::Declared { stream, spec: &spec, key }))
        }
        tag::REMOVED => {
            let seq = from.u64()?;
            from.end()?;
            take(Record::Change(Change::Removed { stream, seq }))
        }
        _ => {
            let last = from.u64()?;
            let mut ids = Vec::with_capacity(counted(&mut from, ID_BYTES)?);
            while from.left() > 0 {
                ids.push(([from.u64()?, from.u64()?], from.u64()?, from.time()?));
            }
            take(Record::Change(Change::StreamAt { stream, last, ids: &ids }))
        }
    }
}

fn consumer<T>(
    tag: u8,
    mut from: Unpacker<'_>,
    take: impl FnOnce(Record<'_>) -> Result<T>,
) -> Result<T> {
    let consumer = from.u64()?;
    let change = match tag {
        tag::CONSUMER_MADE => {
            let stream = from.u32()?;
            let spec = consumer_spec(&mut from)?;
            from.end()?;
            return take(Record::Change(Change::ConsumerMade { consumer, stream, spec: &spec }));
        }
        tag::CONSUMER_AT => {
            let (first, token) = (from.u64()?, from.u64()?);
            let mut fresh = Vec::with_capacity(counted(&mut from, size_of::<u64>())?);
            while from.left() > 0 {
                fresh.push(from.u64()?);
            }
            let change = Change::ConsumerAt { consumer, from: first, fresh: &fresh, token };
            return take(Record::Change(change));
        }
        tag::CONSUMER_REMOVED => Change::ConsumerRemoved { consumer },
        tag::PAUSED => Change::Paused { consumer, until: maybe_time(&mut from)? },
        tag::LEASED => Change::Leased {
            consumer,
            seq: from.u64()?,
            token: from.u64()?,
            attempt: from.u32()?,
            since: from.time()?,
            deadline: from.time()?,
        },
        tag::WAITS => Change::Waits {
            consumer,
            seq: from.u64()?,
            attempt: from.u32()?,
            since: from.time()?,
            handed_back: flag(&mut from)?,
        },
        _ => Change::Done { consumer, seq: from.u64()? },
    };
    from.end()?;
    take(Record::Change(change))
}

fn bucket<T>(
    tag: u8,
    mut from: Unpacker<'_>,
    take: impl FnOnce(Record<'_>) -> Result<T>,
) -> Result<T> {
    let bucket = &name(&mut from, BucketName::BYTES_MAX, BucketName::parse)?;
    if tag == tag::BUCKET_AT {
        let (last, forgotten) = (from.u64()?, from.u64()?);
        from.end()?;
        return take(Record::Change(Change::BucketAt { bucket, last, forgotten }));
    }
    let key = &name(&mut from, BucketKey::BYTES_MAX, BucketKey::parse)?;
    let (revision, time) = (from.u64()?, from.time()?);
    if tag == tag::ENDED {
        let expired = flag(&mut from)?;
        from.end()?;
        return take(Record::Change(Change::Ended { bucket, key, revision, time, expired }));
    }
    let end = maybe_time(&mut from)?;
    let value = &Bytes::copy_from_slice(from.take(from.left())?);
    take(Record::Change(Change::Put { bucket, key, revision, time, end, value }))
}

fn blob<T>(
    tag: u8,
    mut from: Unpacker<'_>,
    take: impl FnOnce(Record<'_>) -> Result<T>,
) -> Result<T> {
    let bucket = &name(&mut from, BucketName::BYTES_MAX, BucketName::parse)?;
    let key = &name(&mut from, BucketKey::BYTES_MAX, BucketKey::parse)?;
    if tag == tag::BLOB_REMOVED {
        from.end()?;
        return take(Record::BlobRemoved { bucket, key });
    }
    let (file, bytes, digest) = (from.u64()?, from.u64()?, EventHash::from_bytes(from.array()?));
    from.end()?;
    take(Record::BlobStored(BlobRecord { bucket, key, file, bytes, digest }))
}

fn stream_spec(from: &mut Unpacker<'_>) -> Result<StreamSpec> {
    let name = name(from, StreamName::BYTES_MAX, StreamName::parse)?;
    let count = from.u32()? as usize;
    if count.saturating_mul(FILTER_BYTES_MIN) > from.left() {
        return Err(corrupt("record has fewer filters than it says"));
    }
    let mut filters = Vec::with_capacity(count);
    for _ in 0..count {
        filters.push(self::name(from, Subject::BYTES_MAX, Filter::parse)?);
    }
    let retention = match from.u8()? {
        0 => Retention::WorkQueue,
        1 => Retention::AppendOnly,
        2 => Retention::Kept,
        _ => return Err(corrupt("record has an unknown retention")),
    };
    let dedupe_window = duration(from)?;
    let (messages_max, messages_per_subject_max) = (above_zero(from)?, above_zero(from)?);
    Ok(StreamSpec {
        name,
        filters,
        retention,
        dedupe_window,
        messages_max,
        messages_per_subject_max,
    })
}

fn consumer_spec(from: &mut Unpacker<'_>) -> Result<ConsumerSpec> {
    Ok(ConsumerSpec {
        stream: name(from, StreamName::BYTES_MAX, StreamName::parse)?,
        name: name(from, ConsumerName::BYTES_MAX, ConsumerName::parse)?,
        filter: name(from, Subject::BYTES_MAX, Filter::parse)?,
        lease: duration(from)?,
    })
}

fn name<T>(
    from: &mut Unpacker<'_>,
    bytes_max: usize,
    parse: impl FnOnce(&str) -> Result<T, SubjectError>,
) -> Result<T> {
    parse(from.text(bytes_max)?).map_err(|why| corrupt("record has a bad name").because(why))
}

/// How many entries of `bytes` each come; they must be all that is left.
fn counted(from: &mut Unpacker<'_>, bytes: usize) -> Result<usize> {
    let count = from.u32()? as usize;
    if count.checked_mul(bytes) != Some(from.left()) {
        return Err(corrupt("record has another number of entries than it says"));
    }
    Ok(count)
}

fn maybe_time(from: &mut Unpacker<'_>) -> Result<Option<Timestamp>> {
    if flag(from)? { from.time().map(Some) } else { Ok(None) }
}

fn flag(from: &mut Unpacker<'_>) -> Result<bool> {
    match from.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(corrupt("record has a flag that is neither 0 nor 1")),
    }
}

fn duration(from: &mut Unpacker<'_>) -> Result<Duration> {
    let (seconds, nanos) = (from.u64()?, from.u32()?);
    if nanos >= 1_000_000_000 {
        return Err(corrupt("record has a duration with a second of nanoseconds"));
    }
    Ok(Duration::new(seconds, nanos))
}

fn above_zero(from: &mut Unpacker<'_>) -> Result<NonZeroU64> {
    NonZeroU64::new(from.u64()?).ok_or_else(|| corrupt("record has a limit of zero"))
}

/// Bytes of one remembered id: hash, position, time.
const ID_BYTES: usize = 40;

/// Bytes of the shortest filter with its length.
const FILTER_BYTES_MIN: usize = 3;
