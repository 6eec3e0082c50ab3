//! The bytes of a data directory against the golden vectors of the specification.

use std::path::Path;

use bus_core::{ConsumerSpec, Frame, Retention, StreamSpec};
use bus_envelope::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::{
    batch::BatchHeader,
    files::read_from,
    record::{BlobRecord, LENGTH_BYTES},
    segment,
    snapshot::SnapshotWriter,
};

const VECTORS: &str = include_str!("../../../../docs/spec/vectors/journals.json");

#[test]
fn a_data_directory_is_as_the_specification_says() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let cases = vectors["cases"].as_array().unwrap();
    for case in cases {
        assert_eq!(found(&case["in"]), case["out"], "{}", case["id"]);
    }
    assert_eq!(cases.len(), 31);
}

fn found(case: &Value) -> Value {
    let number = |name: &str| case[name].as_u64().unwrap();
    match case["do"].as_str().unwrap() {
        "record" => record(&bytes(&case["payload"])),
        "segment" => json!(hex(&segment::header(number("number"), number("salt")))),
        "batch" => {
            let records = records(case);
            let header = BatchHeader {
                length: records.len() as u32,
                count: payloads(case).len() as u32,
                segment: number("segment"),
                first: number("first"),
                synced: number("synced"),
            };
            let mut batch = [vec![0; BatchHeader::BYTES], records].concat();
            header.seal(number("salt"), &mut batch);
            json!(hex(&batch))
        }
        _ => json!(hex(&picture(case, number("position"), number("segment")))),
    }
}

fn picture(case: &Value, position: u64, segment: u64) -> Vec<u8> {
    let (files, home) = (FaultyFiles::default(), Home::layout(Path::new(DIR)));
    let mut writer = SnapshotWriter::begin(&files, &home, position, segment).unwrap();
    for payload in payloads(case) {
        let added = Record::read(&payload, |record| Ok(writer.add(&record).unwrap()));
        assert_eq!(added.unwrap(), 0, "all of it fits into one piece");
    }
    let snapshot = writer.finish(position + 1).unwrap();
    let name = format!("{position:016x}-{:016x}.snap", position + 1);
    let path = home.snapshots().join(name);
    read_from(&*files.open(&path).unwrap(), 0, snapshot.bytes).unwrap()
}

/// What a record says; what is read is written as the same bytes.
fn record(payload: &[u8]) -> Value {
    let read = Record::read(payload, |record| {
        let mut written = Vec::new();
        record.write(&mut written);
        assert_eq!(written.split_off(LENGTH_BYTES), payload);
        Ok(said(&record))
    });
    match read {
        Ok((kind, fields)) => json!({ "kind": kind, "fields": fields }),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            json!({ "refused": "record" })
        }
    }
}

fn said(record: &Record<'_>) -> (&'static str, Value) {
    match record {
        Record::Change(change) => change_said(change),
        Record::Opened { epoch, time: at } => ("opened", json!([epoch, time(*at)])),
        Record::BlobStored(BlobRecord { bucket, key, file, bytes, digest }) => {
            let (bucket, key) = (bucket.as_str(), key.as_str());
            ("blob-stored", json!([bucket, key, file, bytes, digest.to_string()]))
        }
        Record::BlobRemoved { bucket, key } => {
            ("blob-removed", json!([bucket.as_str(), key.as_str()]))
        }
    }
}

fn change_said(change: &Change<'_>) -> (&'static str, Value) {
    match change {
        Change::Declared { stream, spec, key } => ("declared", declared(*stream, spec, key)),
        Change::Stored { stream, seq, time: at, frame } => {
            ("stored", json!([stream, seq, time(*at), frame_said(frame)]))
        }
        Change::Removed { stream, seq } => ("removed", json!([stream, seq])),
        Change::ConsumerMade { consumer, stream, spec } => {
            let ConsumerSpec { stream: of, name, filter, lease } = spec;
            let (of, name, filter) = (of.as_str(), name.as_str(), filter.as_str());
            ("consumer-made", json!([consumer, stream, of, name, filter, duration(*lease)]))
        }
        Change::ConsumerRemoved { consumer } => ("consumer-removed", json!([consumer])),
        Change::Paused { consumer, until } => ("paused", json!([consumer, until.map(time)])),
        Change::Leased { consumer, seq, token, attempt, since, deadline } => {
            let (since, deadline) = (time(*since), time(*deadline));
            ("leased", json!([consumer, seq, token, attempt, since, deadline]))
        }
        Change::Waits { consumer, seq, attempt, since, handed_back } => {
            ("waits", json!([consumer, seq, attempt, time(*since), handed_back]))
        }
        Change::Done { consumer, seq } => ("done", json!([consumer, seq])),
        Change::Put { bucket, key, revision, time: at, end, value } => {
            let (bucket, key, end) = (bucket.as_str(), key.as_str(), end.map(time));
            ("put", json!([bucket, key, revision, time(*at), end, hex(value)]))
        }
        Change::Ended { bucket, key, revision, time: at, expired } => {
            ("ended", json!([bucket.as_str(), key.as_str(), revision, time(*at), expired]))
        }
        Change::StreamAt { stream, last, ids } => {
            let id = |([one, other], seq, at): &([u64; 2], u64, Timestamp)| {
                json!([one, other, seq, time(*at)])
            };
            ("stream-at", json!([stream, last, ids.iter().map(id).collect::<Vec<_>>()]))
        }
        Change::ConsumerAt { consumer, from, fresh, token } => {
            ("consumer-at", json!([consumer, from, token, fresh]))
        }
        Change::BucketAt { bucket, last, forgotten } => {
            ("bucket-at", json!([bucket.as_str(), last, forgotten]))
        }
    }
}

fn declared(stream: u32, spec: &StreamSpec, key: &[u8]) -> Value {
    let filters: Vec<_> = spec.filters.iter().map(|filter| filter.as_str()).collect();
    let retention = match spec.retention {
        Retention::WorkQueue => 0,
        Retention::AppendOnly => 1,
        Retention::Kept => 2,
    };
    let (window, name) = (duration(spec.dedupe_window), spec.name.as_str());
    let (all, each) = (spec.messages_max, spec.messages_per_subject_max);
    json!([stream, hex(key), name, filters, retention, window, all, each])
}

fn frame_said(frame: &Frame) -> Value {
    let mut said = json!({
        "subject": frame.subject.as_str(),
        "id": frame.id.as_str(),
        "headers": frame.headers.iter().collect::<Vec<_>>(),
        "body": hex(&frame.body),
    });
    if let Some(reply) = &frame.reply {
        said["reply"] = json!(reply.as_str());
    }
    if let Some(placement) = &frame.placement {
        said["priority"] = json!(placement.priority.level());
        if let Some(at) = placement.not_before {
            said["not_before"] = json!(time(at));
        }
        if let Some(key) = &placement.key {
            said["key"] = json!(key.as_str());
        }
    }
    said
}

fn time(time: Timestamp) -> i64 {
    i64::try_from(time.unix_ns()).unwrap()
}

fn duration(duration: std::time::Duration) -> Value {
    json!([duration.as_secs(), duration.subsec_nanos()])
}

fn payloads(case: &Value) -> Vec<Vec<u8>> {
    case["payloads"].as_array().unwrap().iter().map(bytes).collect()
}

/// The payloads, each behind its length.
fn records(case: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for payload in payloads(case) {
        let written = Record::read(&payload, |record| {
            record.write(&mut out);
            Ok(())
        });
        written.unwrap();
    }
    out
}

fn bytes(hex: &Value) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(hex.as_str().unwrap().as_bytes()).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}
