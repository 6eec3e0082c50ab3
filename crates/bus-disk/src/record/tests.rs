//! Every record comes back, has one form, and nothing else is taken for one.

use std::{sync::Arc, time::Duration};

use bus_core::{ConsumerSpec, Frame, FrameId, Retention, StreamSpec};
use bus_mem::journal::Change;
use bus_subjects::{ConsumerName, Filter, StreamName, Subject};
use bytes::Bytes;
use proptest::prelude::*;

use super::*;

/// The bytes of one record of every kind, without their lengths.
pub(crate) fn one_of_each() -> Vec<Vec<u8>> {
    let name = StreamName::parse("s").unwrap();
    let filter = Filter::parse("a.>").unwrap();
    let spec = StreamSpec::new(name.clone(), vec![filter.clone()], Retention::WorkQueue);
    let lease = Duration::from_millis(1_500);
    let consumer = ConsumerName::parse("c").unwrap();
    let made = ConsumerSpec { stream: name, name: consumer, filter, lease };
    let subject = Subject::parse("a.b").unwrap();
    let frame = Arc::new(Frame::new(subject, FrameId::parse("i").unwrap(), "body"));
    let (bucket, key) = (BucketName::parse("b").unwrap(), BucketKey::parse("k").unwrap());
    let (bucket, key) = (&bucket, &key);
    let (time, value) = (Timestamp::from_unix_ns(7), Bytes::from_static(b"value"));
    let digest = EventHash::of(b"x");
    let changes = [
        Change::Declared { stream: 1, spec: &spec, key: [9; 16] },
        Change::Stored { stream: 1, seq: 2, time, frame: &frame },
        Change::Removed { stream: 1, seq: 2 },
        Change::ConsumerMade { consumer: 3, stream: 1, spec: &made },
        Change::ConsumerRemoved { consumer: 3 },
        Change::Paused { consumer: 3, until: Some(time) },
        Change::Paused { consumer: 3, until: None },
        Change::Leased { consumer: 3, seq: 2, token: 5, attempt: 1, since: time, deadline: time },
        Change::Waits { consumer: 3, seq: 2, attempt: 2, since: time, handed_back: true },
        Change::Done { consumer: 3, seq: 2 },
        Change::Put { bucket, key, revision: 4, time, end: Some(time), value: &value },
        Change::Ended { bucket, key, revision: 5, time, expired: true },
        Change::StreamAt { stream: 1, last: 2, ids: &[([1, 2], 3, time)] },
        Change::ConsumerAt { consumer: 3, from: 1, fresh: &[1, 2], token: 5 },
        Change::BucketAt { bucket, last: 5, forgotten: 1 },
    ];
    let own = [
        Record::Opened { epoch: 2, time },
        Record::BlobStored(BlobRecord { bucket, key, file: 1, bytes: 2, digest }),
        Record::BlobRemoved { bucket, key },
    ];
    let records = changes.into_iter().map(Record::Change).chain(own);
    records
        .map(|record| {
            let payload = payload(&record);
            Record::read(&payload, |read| {
                assert_eq!(read, record);
                Ok(())
            })
            .unwrap();
            payload
        })
        .collect()
}

fn payload(record: &Record<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    record.write(&mut out);
    out.split_off(LENGTH_BYTES)
}

/// What is read is written as the same bytes; says whether it was read.
fn is_canonical(bytes: &[u8]) -> bool {
    Record::read(bytes, |record| {
        assert_eq!(payload(&record), bytes);
        Ok(())
    })
    .is_ok()
}

#[test]
fn every_kind_of_record_comes_back() {
    assert_eq!(one_of_each().len(), 18);
}

#[test]
fn a_record_that_is_cut_short_is_refused() {
    for record in one_of_each() {
        for end in 0..record.len() {
            let cut = record.get(..end).unwrap();
            // A value goes on to the end of its record: a shorter one is another value.
            let is_refused = !is_canonical(cut) || record.first() == Some(&tag::PUT);
            assert!(is_refused, "{record:?} up to {end}");
        }
    }
}

#[test]
fn a_record_that_claims_more_entries_than_it_has_is_refused_before_it_takes_memory() {
    let mut claims = vec![tag::STREAM_AT];
    claims.extend([0; 12]);
    claims.extend(u32::MAX.to_le_bytes());
    assert!(!is_canonical(&claims));
}

#[test]
fn records_must_fill_their_batch() {
    let mut body = Vec::new();
    Record::Change(Change::Removed { stream: 1, seq: 2 }).write(&mut body);
    let read = |body: &[u8], count| Record::read_all(body, count, |_| Ok(()));
    assert!(read(&body, 1).is_ok());
    assert_eq!(read(&body, 2).unwrap_err().kind(), ErrorKind::Corrupt);
    body.push(0);
    assert_eq!(read(&body, 1).unwrap_err().kind(), ErrorKind::Corrupt);
}

proptest! {
    #[test]
    fn whatever_is_taken_for_a_record_has_no_other_form(
        kind in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let records = one_of_each();
        let mut bytes = records[kind.index(records.len())].clone();
        for (at, to) in changes {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        is_canonical(&bytes);
    }
}
