//! The form of messages, callers and targets.

use serde_json::{Value, json};

use super::support::{Stage, chat, definition};
use crate::{
    BusEdge, BusEnvelope, BusError, BusPayload, CallerIdentity, CallerKind, ChannelOrigin,
    DeliveryState, JournalRecord, PeerTarget, Recipient,
};

fn envelope() -> BusEnvelope {
    BusEnvelope {
        message_id: "6f2d2b1e-0f5e-4f3c-9a55-3c8e1f6a7b90".into(),
        ts: "2026-05-01T12:00:00.000000000Z".into(),
        in_reply_to: None,
        edge: BusEdge::AssistantAssistant,
        from: CallerIdentity {
            definition_id: Some("chief".into()),
            ..CallerIdentity::instance("chief~0000002a")
        },
        to: Recipient { instance_id: Some("coder~0000002b".into()), definition_id: None },
        delivery_state: DeliveryState::Dropped,
        payload: BusPayload::PeerRequest { text: "look".into() },
    }
}

fn origin() -> ChannelOrigin {
    ChannelOrigin {
        connector: "slack".into(),
        human_sender: "U1".into(),
        channel: "C1".into(),
        workspace: "T1".into(),
    }
}

#[test]
fn envelope_round_trips_json() {
    let whole = BusEnvelope { in_reply_to: Some("m0".into()), ..envelope() };
    for envelope in [whole, envelope()] {
        let text = serde_json::to_string(&envelope).unwrap();
        assert_eq!(serde_json::from_str::<BusEnvelope>(&text).unwrap(), envelope);
    }
}

#[test]
fn envelope_matches_doc60_field_names() {
    let value = serde_json::to_value(envelope()).unwrap();
    let expected = json!({
        "message_id": "6f2d2b1e-0f5e-4f3c-9a55-3c8e1f6a7b90",
        "ts": "2026-05-01T12:00:00.000000000Z",
        "edge": "assistant_assistant",
        "from": {
            "kind": "assistant_instance",
            "instance_id": "chief~0000002a",
            "definition_id": "chief",
        },
        "to": { "instance_id": "coder~0000002b" },
        "delivery_state": "dropped",
        "payload": { "type": "peer_request", "text": "look" },
    });
    assert_eq!(value, expected);
}

#[test]
fn every_edge_kind_and_state_has_its_name() {
    let names = |values: &[Value]| -> Vec<String> {
        values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    let edges =
        json!([BusEdge::UserAssistant, BusEdge::AssistantSubagent, BusEdge::AssistantAssistant]);
    let kinds = json!([CallerKind::User, CallerKind::AssistantInstance, CallerKind::Channel]);
    let states = json!([
        DeliveryState::Queued,
        DeliveryState::Delivered,
        DeliveryState::Acked,
        DeliveryState::Dropped
    ]);
    let all = [edges, kinds, states].map(|list| names(list.as_array().unwrap()));
    assert_eq!(all[0], ["user_assistant", "assistant_subagent", "assistant_assistant"]);
    assert_eq!(all[1], ["user", "assistant_instance", "channel"]);
    assert_eq!(all[2], ["queued", "delivered", "acked", "dropped"]);
}

#[tokio::test]
async fn envelope_ids_are_unique() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let _inbox = stage.inbox(&coder).await;
    let mut ids = std::collections::HashSet::new();
    for _ in 0..50 {
        let sent = stage.send(&chief, &definition("coder"), "hello").await.unwrap();
        let id = uuid::Uuid::parse_str(&sent.message_id).unwrap();
        assert_eq!(id.get_version_num(), 4);
        ids.insert(id);
    }
    assert_eq!(ids.len(), 50);
}

#[test]
fn peer_request_is_declinable() {
    let declined = BusPayload::PeerResponse { accepted: false, text: "not now".into() };
    let value = serde_json::to_value(declined).unwrap();
    assert_eq!(value, json!({"type": "peer_response", "accepted": false, "text": "not now"}));
}

#[test]
fn caller_validation_rejects_bare_peer() {
    let bare = CallerIdentity { instance_id: None, ..CallerIdentity::instance("") };
    for caller in [bare, CallerIdentity::instance("")] {
        assert!(matches!(caller.validate(), Err(BusError::InvalidCaller { .. })));
    }
}

#[test]
fn caller_validation_accepts_user() {
    let user = CallerIdentity {
        kind: CallerKind::User,
        instance_id: None,
        ..CallerIdentity::instance("")
    };
    assert_eq!(user.validate(), Ok(()));
}

#[test]
fn channel_caller_requires_origin() {
    let channel = |channel_origin| CallerIdentity {
        kind: CallerKind::Channel,
        channel_origin,
        ..CallerIdentity::instance("")
    };
    let unsigned = ChannelOrigin { human_sender: String::new(), ..origin() };
    assert!(matches!(channel(None).validate(), Err(BusError::InvalidCaller { .. })));
    assert!(matches!(channel(Some(unsigned)).validate(), Err(BusError::InvalidCaller { .. })));
    assert_eq!(channel(Some(origin())).validate(), Ok(()));
}

#[test]
fn peer_edge_derives_assistant_assistant() {
    assert_eq!(CallerKind::AssistantInstance.peer_edge(), Ok(BusEdge::AssistantAssistant));
}

#[test]
fn peer_edge_rejects_user_and_channel() {
    for kind in [CallerKind::User, CallerKind::Channel] {
        assert_eq!(kind.peer_edge(), Err(BusError::CallerKindNotPermitted { kind }));
    }
}

#[test]
fn target_prefers_instance_when_both_supplied() {
    let both = Recipient {
        instance_id: Some("coder~0000002a".into()),
        definition_id: Some("coder".into()),
    };
    assert_eq!(PeerTarget::parse(both), Ok(PeerTarget::Instance("coder~0000002a".into())));
}

#[test]
fn target_requires_one_id() {
    let none = PeerTarget::parse(Recipient::default());
    assert!(matches!(none, Err(BusError::InvalidTarget { .. })));
    let empty = Recipient { instance_id: Some(String::new()), ..Recipient::default() };
    assert!(matches!(PeerTarget::parse(empty), Err(BusError::InvalidTarget { .. })));
}

#[tokio::test]
async fn a_channel_origin_that_a_peer_claims_is_left_out() {
    let stage = Stage::new();
    let (chief, coder) = (stage.peer("chief").await, stage.peer("coder").await);
    let _inbox = stage.inbox(&coder).await;
    let from =
        CallerIdentity { channel_origin: Some(origin()), ..CallerIdentity::instance(&chief.id) };
    let to = definition("coder");
    let sent = stage.bus.publish(&chief.secret, from, &to, chat("hello"), None).await.unwrap();
    assert_eq!(sent.from.channel_origin, None);
    assert_eq!(stage.envelopes()[0].from.channel_origin, None);
}

#[test]
fn a_line_that_is_neither_message_nor_miss_is_refused() {
    for line in ["{}", r#"{"record":"other"}"#, "[]", ""] {
        assert!(JournalRecord::parse(line.as_bytes()).is_err(), "{line}");
    }
}
