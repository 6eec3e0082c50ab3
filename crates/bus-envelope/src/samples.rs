//! Envelopes for tests: one of each kind, chains, and any at all.

use std::num::NonZeroUsize;

use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use uuid::Uuid;

use crate::{
    ChainHead, ChainScope, EventHash, Lineage, MessageEnvelope, Seal, Signature, Timestamp,
    TraceContext, TraceState, rules,
};
use bus_subjects::{AgentId, SessionId, Subject, WorkspaceId};

/// A plain JSON event with every optional field absent.
pub(crate) fn plain() -> MessageEnvelope {
    MessageEnvelope {
        id: "019b7f1e-0000-7000-8000-00000000000a".to_owned(),
        source: "vak://acme/coder-1".to_owned(),
        event_type: "vak.receipt".to_owned(),
        time: Timestamp::from_unix_ns(1_767_323_045_000_000_006),
        content_type: Some("application/json".to_owned()),
        subject: Subject::parse("vak.receipts.acme.s1.completed").unwrap(),
        trace: TraceContext::new([7; 16], [1; 8], 1).unwrap(),
        lineage: Lineage {
            workspace: WorkspaceId::parse("acme").unwrap(),
            session: None,
            agent: AgentId::parse("coder-1").unwrap(),
            incarnation: Uuid::from_u128(0x019b_7f1e_0000_7000_8000_0000_0000_0001),
            seq_num: 1,
            prev_event_hash: EventHash::of(b"before"),
            cause: None,
        },
        seal: None,
        signature: None,
        extensions: [("priority".to_owned(), "high".to_owned())].into(),
        payload: Bytes::from_static(br#"{"ok": true}"#),
    }
}

/// A sealed and signed event with every optional field present.
pub(crate) fn full() -> MessageEnvelope {
    let mut envelope = plain();
    let tracestate = TraceState::parse("rojo=1,congo=2").unwrap();
    envelope.trace = envelope.trace.with_tracestate(tracestate);
    envelope.lineage.session = Some(SessionId::parse("s1").unwrap());
    envelope.lineage.cause = Some(EventHash::of(b"cause"));
    envelope.seal = Some(Seal {
        key_id: "acme.main.019b7f1e".to_owned(),
        algorithm: "AES-256-GCM".to_owned(),
        nonce: [9; 12],
    });
    envelope.signature = Some(Signature { signer: "UABC".to_owned(), bytes: [5; 64] });
    envelope.payload = Bytes::from_static(b"\xff\xfe\x00sealed");
    envelope
}

/// The scope of all events made from [`plain`].
pub(crate) fn scope() -> ChainScope {
    ChainScope::subject_of(&plain())
}

/// `count` events, each linked to the one before.
pub(crate) fn chain(count: u64) -> Vec<MessageEnvelope> {
    chain_from(ChainHead::genesis(&scope()), count, plain())
}

/// `count` events after `head`, made from `template`.
pub(crate) fn chain_from(
    mut head: ChainHead,
    count: u64,
    template: MessageEnvelope,
) -> Vec<MessageEnvelope> {
    (0..count)
        .map(|_| {
            let mut event = template.clone();
            event.id = format!("e-{}", head.next_seq());
            event.payload = Bytes::from(format!("{{\"n\":{}}}", head.next_seq()));
            event.lineage.seq_num = head.next_seq();
            event.lineage.prev_event_hash = head.hash;
            head = head.after(&event);
            event
        })
        .collect()
}

/// A number of remembered events.
pub(crate) fn window(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

/// Any envelope that `check` accepts.
pub(crate) fn any_envelope() -> impl Strategy<Value = MessageEnvelope> {
    let about = (
        "[!-~]{1,128}",
        "[a-z]{1,8}://[a-z0-9/._~-]{1,40}",
        "[!-~]{1,128}",
        (Timestamp::MIN.unix_ns()..=Timestamp::MAX.unix_ns()).prop_map(Timestamp::from_unix_ns),
        option::of(any_content_type()),
        "[!-)+-=?-~é]{1,12}(\\.[!-)+-=?-~é]{1,12}){0,4}"
            .prop_filter_map("a subject", |text| Subject::parse(&text).ok()),
        any_payload(),
    );
    let rest = (
        any_trace(),
        any_lineage(),
        option::of(any_seal()),
        option::of(any_signature()),
        btree_map("[a-z0-9]{1,20}", "[ -~äöü€😀]{0,40}", 0..5).prop_map(|mut extensions| {
            extensions.retain(|name, value| rules::extension(name, value).is_ok());
            extensions
        }),
    );
    (about, rest).prop_map(|(about, rest)| {
        let (id, source, event_type, time, content_type, subject, payload) = about;
        let (trace, lineage, seal, signature, extensions) = rest;
        MessageEnvelope {
            id,
            source,
            event_type,
            time,
            content_type,
            subject,
            trace,
            lineage,
            seal,
            signature,
            extensions,
            payload,
        }
    })
}

fn any_content_type() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("application/json".to_owned()),
        Just("application/vnd.x+json; charset=utf-8".to_owned()),
        Just("application/octet-stream".to_owned()),
        "[a-z]{1,10}/[a-z.+-]{1,20}",
    ]
}

fn any_payload() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        vec(any::<u8>(), 0..200).prop_map(Bytes::from),
        "[ -~\n]{0,40}".prop_map(Bytes::from),
        prop_oneof![
            Just("null"),
            Just("{ \"a\" : [1.50, \"\\u00e9\"] }"),
            Just(" 1"),
            Just("\"text\""),
            Just("1e999"),
            Just("{\"a\":1,\"a\":2}"),
        ]
        .prop_map(Bytes::from),
    ]
}

fn any_trace() -> impl Strategy<Value = TraceContext> {
    let state = vec(("[a-z0-9][a-z0-9_*/@-]{0,8}", "[!-+.-<>-~]{1,10}"), 0..4);
    (1..=u128::MAX, 1..=u64::MAX, 0_u8..4, state).prop_map(|(trace, span, flags, members)| {
        let list: Vec<String> =
            members.iter().map(|(key, value)| format!("{key}={value}")).collect();
        TraceContext::new(trace.to_be_bytes(), span.to_be_bytes(), flags)
            .unwrap()
            .with_tracestate(TraceState::parse(&list.join(",")).unwrap())
    })
}

fn any_lineage() -> impl Strategy<Value = Lineage> {
    let id = "[A-Za-z0-9_~-]{1,64}";
    (
        id,
        option::of(id),
        id,
        any::<u128>(),
        1..=rules::SEQ_MAX,
        any::<[u8; 32]>(),
        option::of(any::<[u8; 32]>()),
    )
        .prop_map(|(workspace, session, agent, incarnation, seq_num, prev, cause)| Lineage {
            workspace: WorkspaceId::parse(&workspace).unwrap(),
            session: session.map(|id| SessionId::parse(&id).unwrap()),
            agent: AgentId::parse(&agent).unwrap(),
            incarnation: Uuid::from_u128(incarnation),
            seq_num,
            prev_event_hash: EventHash::from_bytes(prev),
            cause: cause.map(EventHash::from_bytes),
        })
}

fn any_seal() -> impl Strategy<Value = Seal> {
    ("[!-~]{1,166}", "[!-~]{1,32}", any::<[u8; 12]>()).prop_map(|(key_id, algorithm, nonce)| Seal {
        key_id,
        algorithm,
        nonce,
    })
}

fn any_signature() -> impl Strategy<Value = Signature> {
    ("[A-Z2-7]{56}", vec(any::<u8>(), 64))
        .prop_map(|(signer, bytes)| Signature { signer, bytes: bytes.try_into().unwrap() })
}
