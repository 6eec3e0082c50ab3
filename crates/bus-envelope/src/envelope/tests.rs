//! Rules and laws of the bytes that get bound, hashed and signed.

use bytes::Bytes;
use proptest::prelude::*;
use uuid::Uuid;

use crate::samples::{any_envelope, chain, full, plain};
use crate::{ChainScope, EnvelopeError, EventHash, MessageEnvelope, TraceContext, TraceState};
use bus_subjects::{AgentId, SessionId, Subject, WorkspaceId};

type Change = (&'static str, fn(&mut MessageEnvelope));

/// A change of every attribute that the additional data of a seal binds.
const BOUND_BY_SEAL: [Change; 22] = [
    ("id", |e| e.id.push('x')),
    ("source", |e| e.source.push('x')),
    ("type", |e| e.event_type.push('x')),
    ("time", |e| e.time = e.time.plus(std::time::Duration::from_nanos(1))),
    ("content type", |e| e.content_type = Some("text/plain".to_owned())),
    ("no content type", |e| e.content_type = None),
    ("subject", |e| e.subject = Subject::parse("vak.receipts.acme.s2.completed").unwrap()),
    ("trace id", |e| e.trace = TraceContext::new([8; 16], [1; 8], 1).unwrap()),
    ("workspace", |e| e.lineage.workspace = WorkspaceId::parse("other").unwrap()),
    ("session", |e| e.lineage.session = Some(SessionId::parse("s2").unwrap())),
    ("no session", |e| e.lineage.session = None),
    ("agent", |e| e.lineage.agent = AgentId::parse("coder-2").unwrap()),
    ("incarnation", |e| e.lineage.incarnation = Uuid::from_u128(2)),
    ("seq", |e| e.lineage.seq_num += 1),
    ("prev hash", |e| e.lineage.prev_event_hash = EventHash::of(b"other")),
    ("cause", |e| e.lineage.cause = Some(EventHash::of(b"other"))),
    ("no cause", |e| e.lineage.cause = None),
    ("key id", |e| e.seal.as_mut().unwrap().key_id.push('x')),
    ("algorithm", |e| e.seal.as_mut().unwrap().algorithm.push('x')),
    ("extension value", |e| e.extensions.values_mut().for_each(|value| value.push('x'))),
    ("no extension", |e| e.extensions.clear()),
    ("another extension", |e| drop(e.extensions.insert("zone".to_owned(), "x".to_owned()))),
];

/// What only the signature binds.
const BOUND_BY_SIGNATURE: [Change; 4] = [
    ("payload", |e| e.payload = Bytes::from_static(b"other")),
    ("nonce", |e| e.seal.as_mut().unwrap().nonce = [8; 12]),
    ("signer", |e| e.signature.as_mut().unwrap().signer.push('A')),
    ("no seal", |e| e.seal = None),
];

/// The attributes of the leaf.
const IN_LEAF: [&str; 9] =
    ["id", "source", "type", "time", "workspace", "agent", "seq", "prev hash", "payload"];

fn changed(change: fn(&mut MessageEnvelope)) -> MessageEnvelope {
    let mut envelope = full();
    change(&mut envelope);
    envelope
}

fn signed(envelope: &MessageEnvelope) -> Vec<u8> {
    envelope.signature_input(&envelope.compute_hash())
}

fn signature_input(leaf: &str, rest: &str) -> Vec<u8> {
    let hash = |hex: &str| *EventHash::parse(hex).unwrap().as_bytes();
    [b"vak-bus/signature/v1".as_slice(), &hash(leaf), &hash(rest)].concat()
}

/// The answers below were computed by another program from the table in the README.
#[test]
fn the_bytes_of_a_sealed_and_signed_envelope_are_pinned() {
    let leaf = "f082c58bc08c7c1f7732f75e0db6f123fe52aa8b00d8db87426fd628a23ab70e";
    let list = "884858df6e6ce267b914400e8c4f90037766374282c1e1d6c6ec9fabfbb9bb1c";
    let rest = "1b12fb0dff0657edfac7e411692d1a05f75d371aa2a09720ad4e5674ae1d41d2";
    let envelope = full();
    assert_eq!(envelope.compute_hash().to_string(), leaf);
    let aad = format!("019b7f1e-0000-7000-8000-00000000000a:vak.receipt:acme:1:{list}");
    assert_eq!(String::from_utf8(envelope.aad()).unwrap(), aad);
    assert_eq!(signed(&envelope), signature_input(leaf, rest));
}

#[test]
fn the_bytes_of_a_plain_envelope_are_pinned() {
    let leaf = "82d8c212ff9405662e0d460bb58586c9aa1577fefda96d4531b8b7c0d81c784a";
    let list = "61d3c2b4bec50990f370bc556b0da5b0b2b08e7bbbf812761ebc6d0d81d401de";
    let rest = "b44d3be9f6d34bbc3176ac988891646c82ebcb090a2945599c4c777cca4bc151";
    let envelope = plain();
    assert_eq!(envelope.compute_hash().to_string(), leaf);
    assert!(String::from_utf8(envelope.aad()).unwrap().ends_with(list));
    assert_eq!(signed(&envelope), signature_input(leaf, rest));
}

#[test]
fn the_genesis_hashes_are_pinned() {
    let own = "412df7dc5daf0447c7276ae7a30e8cd4ac3bf9decf43170f8181ee919b3eafc5";
    let shared = "623091c2ff57d31d04b6516045caf1cceffab594dbf48535168cd9a5c1fc2037";
    let genesis = |scope: ChainScope| scope.genesis().to_string();
    assert_eq!(genesis(ChainScope::incarnation_of(&plain())), own);
    assert_eq!(genesis(ChainScope::subject_of(&plain())), shared);
}

#[test]
fn every_attribute_that_a_receiver_acts_on_is_bound_by_the_seal() {
    let before = full().aad();
    let unbound: Vec<_> = BOUND_BY_SEAL
        .iter()
        .filter(|(_, change)| changed(*change).aad() == before)
        .map(|(name, _)| name)
        .collect();
    assert!(unbound.is_empty(), "{unbound:?}");
}

#[test]
fn every_attribute_that_a_receiver_acts_on_is_under_the_signature() {
    let before = signed(&full());
    let unbound: Vec<_> = BOUND_BY_SEAL
        .iter()
        .chain(&BOUND_BY_SIGNATURE)
        .filter(|(_, change)| signed(&changed(*change)) == before)
        .map(|(name, _)| name)
        .collect();
    assert!(unbound.is_empty(), "{unbound:?}");
}

#[test]
fn the_leaf_holds_the_ten_documented_fields_and_no_other() {
    let before = full().compute_hash();
    let in_leaf: Vec<_> = BOUND_BY_SEAL
        .iter()
        .chain(&BOUND_BY_SIGNATURE)
        .filter(|(_, change)| changed(*change).compute_hash() != before)
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(in_leaf, IN_LEAF);
}

#[test]
fn span_flags_tracestate_and_signature_bytes_may_change_on_the_way() {
    let mut envelope = full();
    envelope.trace = TraceContext::new([7; 16], [2; 8], 0).unwrap();
    envelope.trace = envelope.trace.with_tracestate(TraceState::parse("a=1").unwrap());
    envelope.signature.as_mut().unwrap().bytes = [6; 64];
    assert_eq!((envelope.aad(), signed(&envelope)), (full().aad(), signed(&full())));
}

#[test]
fn the_nonce_is_no_part_of_the_additional_data() {
    assert_eq!(changed(|e| e.seal.as_mut().unwrap().nonce = [8; 12]).aad(), full().aad());
}

#[test]
fn colons_do_not_make_two_envelopes_share_their_additional_data() {
    let with = |id: &str, event_type: &str| {
        let mut envelope = plain();
        (envelope.id, envelope.event_type) = (id.to_owned(), event_type.to_owned());
        envelope.aad()
    };
    let (one, other) = (with("m1", "a:b"), with("m1:a", "b"));
    assert!(one.starts_with(b"m1:a:b:acme:1:") && other.starts_with(b"m1:a:b:acme:1:"));
    assert_ne!(one, other);
}

#[test]
fn the_additional_data_begins_with_the_documented_text() {
    assert!(full().aad().starts_with(b"019b7f1e-0000-7000-8000-00000000000a:vak.receipt:acme:1:"));
}

#[test]
fn the_signer_can_be_named_before_there_is_a_signature() {
    let mut envelope = full();
    let leaf = envelope.compute_hash();
    let before = envelope.signature_input(&leaf);
    envelope.signature = None;
    assert_eq!(envelope.signature_input_as(&leaf, "UABC"), before);
}

#[test]
fn a_successor_is_linked() {
    let chain = chain(2);
    assert!(MessageEnvelope::verify_merkle_link(&chain[0], &chain[1]));
}

#[test]
fn reordering_omission_and_injection_break_the_link() {
    let chain = chain(3);
    let mut injected = chain[0].clone();
    injected.id.push('x');
    assert!(!MessageEnvelope::verify_merkle_link(&chain[1], &chain[0]));
    assert!(!MessageEnvelope::verify_merkle_link(&chain[0], &chain[2]));
    assert!(!MessageEnvelope::verify_merkle_link(&injected, &chain[1]));
}

#[test]
fn a_payload_changed_after_the_fact_breaks_the_link() {
    let mut chain = chain(2);
    chain[0].payload = Bytes::from_static(b"{\"n\":9}");
    assert!(!MessageEnvelope::verify_merkle_link(&chain[0], &chain[1]));
}

#[test]
fn a_wrong_sequence_number_breaks_the_link() {
    let mut chain = chain(2);
    chain[1].lineage.seq_num = 3;
    assert!(!MessageEnvelope::verify_merkle_link(&chain[0], &chain[1]));
}

#[test]
fn a_field_over_its_limit_is_refused_by_name() {
    let mut envelope = plain();
    envelope.id = "x".repeat(129);
    let refused = envelope.check().unwrap_err();
    assert_eq!(refused, EnvelopeError::TooLong { field: "id".into(), bytes: 129, bytes_max: 128 });
}

#[test]
fn sequence_numbers_go_from_one_to_two_to_the_53_minus_one() {
    let check = |seq| {
        let mut envelope = plain();
        envelope.lineage.seq_num = seq;
        envelope.check().is_ok()
    };
    assert_eq!([0, 1, (1 << 53) - 1, 1 << 53].map(check), [false, true, true, false]);
}

#[test]
fn a_reserved_name_is_no_extension() {
    let mut envelope = plain();
    envelope.extensions.insert("session".to_owned(), "s1".to_owned());
    assert_eq!(envelope.check().unwrap_err().field_name(), Some("session"));
}

#[test]
fn a_debug_text_does_not_show_the_payload() {
    let mut envelope = plain();
    envelope.payload = Bytes::from_static(b"hunter2");
    assert!(!format!("{envelope:?}").contains("hunter2"));
}

proptest! {
    #[test]
    fn leaf_and_additional_data_are_the_same_together_as_apart(envelope in any_envelope()) {
        let mut aad = b"before".to_vec();
        prop_assert_eq!(envelope.leaf_and_aad(&mut aad), envelope.compute_hash());
        prop_assert_eq!(aad, [b"before", envelope.aad().as_slice()].concat());
    }

    #[test]
    fn different_tuples_give_different_additional_data(
        one in ("[a:]{1,3}", "[a:]{1,3}", "[a-b]{1,2}", 1_u64..3),
        other in ("[a:]{1,3}", "[a:]{1,3}", "[a-b]{1,2}", 1_u64..3),
    ) {
        let aad = |tuple: &(String, String, String, u64)| {
            let mut envelope = plain();
            envelope.id.clone_from(&tuple.0);
            envelope.event_type.clone_from(&tuple.1);
            envelope.lineage.workspace = WorkspaceId::parse(&tuple.2).unwrap();
            envelope.lineage.seq_num = tuple.3;
            envelope.aad()
        };
        prop_assert_eq!(one == other, aad(&one) == aad(&other));
    }

    #[test]
    fn two_envelopes_with_one_leaf_and_one_signature_input_differ_only_in_what_may_change(
        one in any_envelope(),
        other in any_envelope(),
    ) {
        prop_assert_eq!(signed(&one) == signed(&other), one == other);
    }
}
