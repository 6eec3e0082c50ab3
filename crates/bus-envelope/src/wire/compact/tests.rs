//! Laws of the compact form: what it writes is postcard, and what it reads is what it writes.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::{TAG_BYTES, VERSION, decode, encode, encode_into, seal_into, view};
use crate::samples::{any_envelope, full};
use crate::{MessageEnvelope, Seal};

/// The attributes as postcard itself writes and reads them.
#[derive(Serialize, Deserialize)]
struct Postcard<'a> {
    id: &'a str,
    source: &'a str,
    event_type: &'a str,
    unix_ns: i128,
    content_type: Option<&'a str>,
    subject: &'a str,
    trace_id: [u8; 16],
    span_id: [u8; 8],
    flags: u8,
    tracestate: &'a str,
    workspace: &'a str,
    session: Option<&'a str>,
    agent: &'a str,
    incarnation: [u8; 16],
    seq: u64,
    prev_hash: [u8; 32],
    cause: Option<[u8; 32]>,
    #[serde(borrow)]
    seal: Option<(&'a str, &'a str, [u8; 12])>,
    #[serde(borrow)]
    signature: Option<(&'a str, [u8; 32], [u8; 32])>,
    #[serde(borrow)]
    extensions: Vec<(&'a str, &'a str)>,
}

/// The whole form, written with postcard.
fn written_with_postcard(envelope: &MessageEnvelope) -> Vec<u8> {
    let lineage = &envelope.lineage;
    let attributes = Postcard {
        id: &envelope.id,
        source: &envelope.source,
        event_type: &envelope.event_type,
        unix_ns: envelope.time.unix_ns(),
        content_type: envelope.content_type.as_deref(),
        subject: envelope.subject.as_str(),
        trace_id: *envelope.trace.trace_id(),
        span_id: *envelope.trace.span_id(),
        flags: envelope.trace.flags(),
        tracestate: envelope.trace.tracestate().as_str(),
        workspace: lineage.workspace.as_str(),
        session: lineage.session.as_ref().map(|session| session.as_str()),
        agent: lineage.agent.as_str(),
        incarnation: *lineage.incarnation.as_bytes(),
        seq: lineage.seq_num,
        prev_hash: *lineage.prev_event_hash.as_bytes(),
        cause: lineage.cause.map(|cause| *cause.as_bytes()),
        seal: envelope.seal.as_ref().map(|seal| (&*seal.key_id, &*seal.algorithm, seal.nonce)),
        signature: envelope.signature.as_ref().map(|signature| {
            let (left, right) = signature.bytes.split_at(32);
            (&*signature.signer, left.try_into().unwrap(), right.try_into().unwrap())
        }),
        extensions: envelope.extensions.iter().map(|(name, value)| (&**name, &**value)).collect(),
    };
    let mut bytes = postcard::to_extend(&attributes, vec![VERSION]).unwrap();
    bytes.extend_from_slice(&(envelope.payload.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&envelope.payload);
    bytes
}

/// Stands for a cipher: mixes the additional data into every byte, and into the tag.
fn cipher(aad: &[u8], data: &mut [u8]) -> [u8; TAG_BYTES] {
    let sum = aad.iter().fold(1_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte));
    data.iter_mut().for_each(|byte| *byte ^= sum);
    [sum; TAG_BYTES]
}

/// One byte of a compact envelope changed, left out or put in.
fn any_damage() -> impl Strategy<Value = Vec<u8>> {
    (any_envelope(), any::<prop::sample::Index>(), any::<u8>(), 0..3).prop_map(
        |(envelope, at, byte, kind)| {
            let mut bytes = encode(&envelope);
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
            bytes
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_postcard_to_the_byte(envelope in any_envelope()) {
        prop_assert_eq!(encode(&envelope), written_with_postcard(&envelope));
    }

    #[test]
    fn sealing_into_a_buffer_writes_the_sealed_envelope_and_tells_its_leaf(
        plain in any_envelope(),
        nonce in any::<[u8; 12]>(),
    ) {
        let (key_id, algorithm) = ("acme.main.life".to_owned(), "AES-256-GCM".to_owned());
        let seal = Seal { key_id, algorithm, nonce };
        let (mut sealed, mut payload) = (plain.clone(), plain.payload.to_vec());
        (sealed.seal, sealed.signature) = (Some(seal.clone()), None);
        let tag = cipher(&sealed.aad(), &mut payload);
        sealed.payload = [payload, tag.to_vec()].concat().into();

        let mut bytes = b"before".to_vec();
        let leaf = seal_into(&plain, seal.by_ref(), &mut bytes, |aad, data| {
            Ok::<_, ()>(cipher(aad, data))
        });

        prop_assert_eq!(leaf, Ok(sealed.compute_hash()));
        prop_assert_eq!(bytes, [b"before", encode(&sealed).as_slice()].concat());
    }

    #[test]
    fn what_is_read_postcard_reads_too(bytes in any_damage()) {
        if let Ok(envelope) = decode(&bytes) {
            let (read, _) = postcard::take_from_bytes::<Postcard<'_>>(&bytes[1..]).unwrap();
            prop_assert_eq!(read.id, envelope.id.as_str());
            prop_assert_eq!(written_with_postcard(&envelope), bytes);
        }
    }

    #[test]
    fn a_view_accepts_what_a_decoder_accepts_and_says_the_same(bytes in any_damage()) {
        match (view(&bytes), decode(&bytes)) {
            (Ok(view), Ok(envelope)) => prop_assert_eq!(view.to_envelope(), Ok(envelope)),
            (view, envelope) => prop_assert_eq!(view.err(), envelope.err()),
        }
    }

    #[test]
    fn whatever_is_accepted_keeps_every_rule_of_an_envelope(bytes in any_damage()) {
        if let Ok(envelope) = decode(&bytes) {
            prop_assert_eq!(envelope.check(), Ok(()));
        }
    }
}

#[test]
fn a_view_says_what_its_envelope_says() {
    let (envelope, bytes) = (full(), encode(&full()));
    let (view, lineage) = (view(&bytes).unwrap(), &envelope.lineage);
    assert_eq!((view.id(), view.source()), (&*envelope.id, &*envelope.source));
    assert_eq!((view.event_type(), view.time()), (&*envelope.event_type, envelope.time));
    assert_eq!(view.content_type(), envelope.content_type.as_deref());
    assert_eq!((view.subject(), view.trace()), (envelope.subject.as_str(), &envelope.trace));
    assert_eq!((view.workspace(), view.agent()), (lineage.workspace.as_str(), "coder-1"));
    assert_eq!((view.session(), view.incarnation()), (Some("s1"), lineage.incarnation));
    assert_eq!((view.seq_num(), view.prev_event_hash()), (1, lineage.prev_event_hash));
    assert_eq!((view.cause(), view.signer()), (lineage.cause, Some("UABC")));
    assert_eq!(view.key_id(), envelope.seal.as_ref().map(|seal| &*seal.key_id));
    assert!(view.extensions().eq([("priority", "high")]));
    assert_eq!(view.payload(), envelope.payload);
}

#[test]
fn a_kept_buffer_is_appended_to() {
    let mut bytes = b"before".to_vec();
    encode_into(&full(), &mut bytes);
    assert_eq!(bytes.strip_prefix(b"before").unwrap(), encode(&full()));
}

#[test]
fn a_cipher_that_refuses_leaves_the_buffer_as_it_was() {
    let mut bytes = b"before".to_vec();
    let seal = full().seal.unwrap();
    let refused = seal_into(&full(), seal.by_ref(), &mut bytes, |_, _| Err("used up"));
    assert_eq!((refused, bytes), (Err("used up"), b"before".to_vec()));
}

#[test]
fn extensions_out_of_order_are_not_canonical() {
    let mut envelope = full();
    envelope.extensions =
        [("aaa".to_owned(), "1".to_owned()), ("bbb".to_owned(), "2".to_owned())].into();
    let mut bytes = encode(&envelope);
    let at = bytes.windows(3).position(|name| name == b"aaa").unwrap();
    bytes[at..at + 3].copy_from_slice(b"ccc");
    let expected = crate::EnvelopeError::NotCanonical { form: "compact" };
    assert_eq!(decode(&bytes), Err(expected));
}
