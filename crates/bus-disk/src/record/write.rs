//! From a record to bytes.

use std::time::Duration;

use bus_core::{
    ConsumerSpec, Retention, StreamSpec,
    packed::{pack_frame, pack_text, pack_time},
};
use bus_envelope::Timestamp;
use bus_mem::journal::Change;

use super::{BlobRecord, Record, tag};

/// Appends tag and fields.
pub(super) fn payload(record: &Record<'_>, out: &mut Vec<u8>) {
    match record {
        Record::Change(change) => self::change(change, out),
        Record::Opened { epoch, time } => {
            out.push(tag::OPENED);
            number(*epoch, out);
            pack_time(*time, out);
        }
        Record::BlobStored(blob) => self::blob(blob, out),
        Record::BlobRemoved { bucket, key } => {
            out.push(tag::BLOB_REMOVED);
            pack_text(bucket.as_str(), out);
            pack_text(key.as_str(), out);
        }
    }
}

fn change(change: &Change<'_>, out: &mut Vec<u8>) {
    match change {
        Change::Declared { stream, spec, key } => {
            out.push(tag::DECLARED);
            small(*stream, out);
            out.extend_from_slice(key);
            stream_spec(spec, out);
        }
        Change::Stored { stream, seq, time, frame } => {
            out.push(tag::STORED);
            small(*stream, out);
            number(*seq, out);
            pack_time(*time, out);
            pack_frame(frame, out);
        }
        Change::Removed { stream, seq } => {
            out.push(tag::REMOVED);
            small(*stream, out);
            number(*seq, out);
        }
        Change::StreamAt { stream, last, ids } => {
            out.push(tag::STREAM_AT);
            small(*stream, out);
            number(*last, out);
            small(count(ids.len()), out);
            for ([high, low], seq, time) in *ids {
                number(*high, out);
                number(*low, out);
                number(*seq, out);
                pack_time(*time, out);
            }
        }
        Change::ConsumerMade { .. }
        | Change::ConsumerRemoved { .. }
        | Change::Paused { .. }
        | Change::Leased { .. }
        | Change::Waits { .. }
        | Change::Done { .. }
        | Change::ConsumerAt { .. } => consumer_change(change, out),
        Change::Put { .. } | Change::Ended { .. } | Change::BucketAt { .. } => {
            bucket_change(change, out);
        }
    }
}

fn consumer_change(change: &Change<'_>, out: &mut Vec<u8>) {
    match change {
        Change::ConsumerMade { consumer, stream, spec } => {
            out.push(tag::CONSUMER_MADE);
            number(*consumer, out);
            small(*stream, out);
            consumer_spec(spec, out);
        }
        Change::ConsumerRemoved { consumer } => {
            out.push(tag::CONSUMER_REMOVED);
            number(*consumer, out);
        }
        Change::Paused { consumer, until } => {
            out.push(tag::PAUSED);
            number(*consumer, out);
            maybe_time(*until, out);
        }
        Change::Leased { consumer, seq, token, attempt, since, deadline } => {
            out.push(tag::LEASED);
            number(*consumer, out);
            number(*seq, out);
            number(*token, out);
            small(*attempt, out);
            pack_time(*since, out);
            pack_time(*deadline, out);
        }
        Change::Waits { consumer, seq, attempt, since, handed_back } => {
            out.push(tag::WAITS);
            number(*consumer, out);
            number(*seq, out);
            small(*attempt, out);
            pack_time(*since, out);
            out.push(u8::from(*handed_back));
        }
        Change::Done { consumer, seq } => {
            out.push(tag::DONE);
            number(*consumer, out);
            number(*seq, out);
        }
        Change::ConsumerAt { consumer, from, fresh, token } => {
            out.push(tag::CONSUMER_AT);
            number(*consumer, out);
            number(*from, out);
            number(*token, out);
            small(count(fresh.len()), out);
            fresh.iter().for_each(|seq| number(*seq, out));
        }
        _ => {}
    }
}

fn bucket_change(change: &Change<'_>, out: &mut Vec<u8>) {
    match change {
        Change::Put { bucket, key, revision, time, end, value } => {
            out.push(tag::PUT);
            pack_text(bucket.as_str(), out);
            pack_text(key.as_str(), out);
            number(*revision, out);
            pack_time(*time, out);
            maybe_time(*end, out);
            out.extend_from_slice(value);
        }
        Change::Ended { bucket, key, revision, time, expired } => {
            out.push(tag::ENDED);
            pack_text(bucket.as_str(), out);
            pack_text(key.as_str(), out);
            number(*revision, out);
            pack_time(*time, out);
            out.push(u8::from(*expired));
        }
        Change::BucketAt { bucket, last, forgotten } => {
            out.push(tag::BUCKET_AT);
            pack_text(bucket.as_str(), out);
            number(*last, out);
            number(*forgotten, out);
        }
        _ => {}
    }
}

fn blob(blob: &BlobRecord<'_>, out: &mut Vec<u8>) {
    out.push(tag::BLOB_STORED);
    pack_text(blob.bucket.as_str(), out);
    pack_text(blob.key.as_str(), out);
    number(blob.file, out);
    number(blob.bytes, out);
    out.extend_from_slice(blob.digest.as_bytes());
}

fn stream_spec(spec: &StreamSpec, out: &mut Vec<u8>) {
    pack_text(spec.name.as_str(), out);
    small(count(spec.filters.len()), out);
    spec.filters.iter().for_each(|filter| pack_text(filter.as_str(), out));
    out.push(match spec.retention {
        Retention::WorkQueue => 0,
        Retention::AppendOnly => 1,
        Retention::Kept => 2,
    });
    duration(spec.dedupe_window, out);
    number(spec.messages_max.get(), out);
    number(spec.messages_per_subject_max.get(), out);
}

fn consumer_spec(spec: &ConsumerSpec, out: &mut Vec<u8>) {
    pack_text(spec.stream.as_str(), out);
    pack_text(spec.name.as_str(), out);
    pack_text(spec.filter.as_str(), out);
    duration(spec.lease, out);
}

fn maybe_time(time: Option<Timestamp>, out: &mut Vec<u8>) {
    out.push(u8::from(time.is_some()));
    if let Some(time) = time {
        pack_time(time, out);
    }
}

fn duration(duration: Duration, out: &mut Vec<u8>) {
    number(duration.as_secs(), out);
    small(duration.subsec_nanos(), out);
}

fn number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn small(number: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// A length in four bytes; a longer list is over every limit, and stays so.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
