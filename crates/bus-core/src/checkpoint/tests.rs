//! Rules of checkpoints.

use bus_envelope::{ChainHead, Draft, Stamp, Timestamp, TraceContext};
use bus_subjects::Subject;
use uuid::Uuid;

use super::*;

fn leaf(n: u8) -> EventHash {
    EventHash::of(&[n])
}

/// A checkpoint message at the place behind `head`.
fn message(head: ChainHead, event_type: &str) -> MessageEnvelope {
    let subject = Subject::parse("vak.events.w1.s1.tokens").unwrap();
    let stamp = Stamp {
        id: "c-1".to_owned(),
        time: Timestamp::from_unix_ns(0),
        trace: TraceContext::new([1; 16], [1; 8], 1).unwrap(),
        workspace: "w1".parse().unwrap(),
        agent: "coder-1".parse().unwrap(),
        incarnation: Uuid::from_u128(7),
        head,
    };
    Draft::new(subject, event_type, "").stamp(stamp).unwrap()
}

fn behind(seq: u64, last: EventHash) -> MessageEnvelope {
    message(ChainHead { seq, hash: last }, LiveCheckpoint::EVENT_TYPE)
}

fn refused(envelope: &MessageEnvelope, payload: &[u8]) -> String {
    let error = LiveCheckpoint::read(envelope, payload).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    error.detail().to_owned()
}

#[test]
fn a_checkpoint_lists_what_stands_right_before_it() {
    let payload = LiveCheckpoint::payload([&leaf(4), &leaf(5)]);
    let checkpoint = LiveCheckpoint::read(&behind(5, leaf(5)), &payload).unwrap();
    let listed: Vec<_> = checkpoint.leaves().collect();
    assert_eq!(listed, [(4, &leaf(4)), (5, &leaf(5))]);
}

#[test]
fn a_checkpoint_that_ends_with_another_message_than_the_one_before_it_is_refused() {
    let payload = LiveCheckpoint::payload([&leaf(4), &leaf(5)]);
    let why = refused(&behind(5, leaf(6)), &payload);
    assert_eq!(why, "the last message a checkpoint lists is not the one before it");
}

#[test]
fn a_checkpoint_of_nothing_is_refused() {
    assert_eq!(refused(&behind(5, leaf(5)), b""), "a checkpoint lists 1 to 512 messages");
}

#[test]
fn a_checkpoint_of_too_many_is_refused() {
    let payload = LiveCheckpoint::payload(&[leaf(5); LiveCheckpoint::LEAVES_MAX + 1]);
    assert_eq!(refused(&behind(999, leaf(5)), &payload), "a checkpoint lists 1 to 512 messages");
}

#[test]
fn a_checkpoint_of_the_most_is_read() {
    let payload = LiveCheckpoint::payload(&[leaf(5); LiveCheckpoint::LEAVES_MAX]);
    let checkpoint = LiveCheckpoint::read(&behind(512, leaf(5)), &payload).unwrap();
    assert_eq!(checkpoint.leaves().len(), 512);
}

#[test]
fn half_a_hash_is_refused() {
    let why = refused(&behind(5, leaf(5)), &leaf(5).as_bytes()[..31]);
    assert_eq!(why, "a checkpoint lists whole hashes of 32 bytes");
}

#[test]
fn a_checkpoint_of_more_than_came_before_it_is_refused() {
    let payload = LiveCheckpoint::payload([&leaf(0), &leaf(1)]);
    let why = refused(&behind(1, leaf(1)), &payload);
    assert_eq!(why, "a checkpoint lists more messages than came before it");
}

#[test]
fn a_message_of_another_type_is_no_checkpoint() {
    let envelope = message(ChainHead { seq: 5, hash: leaf(5) }, "vak.token");
    let payload = LiveCheckpoint::payload([&leaf(5)]);
    assert_eq!(refused(&envelope, &payload), "the message is no checkpoint");
}

#[test]
fn a_policy_of_none_or_of_more_than_a_checkpoint_lists_is_refused() {
    for events in [0, 513] {
        let refused = CheckpointPolicy::new(events, Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{events}");
    }
    assert_eq!(CheckpointPolicy::new(512, Duration::ZERO).unwrap().events(), 512);
}
