//! The laws of addresses, and what is refused.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::{Address, AddressKind, Plane, Subject, SubjectError, WorkspaceId};

#[test]
fn the_registered_patterns_are_written_as_specified() {
    let written: Vec<_> = AddressKind::ALL.iter().map(ToString::to_string).collect();
    let specified = [
        "vak.events.*.*.tokens",
        "vak.events.*.*.terminal",
        "vak.events.*.*.telemetry",
        "vak.events.*.*.alert",
        "vak.work.*.*.task",
        "vak.agent.*.*.inbox",
        "vak.receipts.*.*.completed",
        "vak.approvals.*.*.request",
        "vak.dlq.*.*.failed",
        "vak.room.*.*.message",
        "vak.room.*.*.control",
        "vak.keys.*.*.grant",
        "vak.state.*.*.changed",
        "vak.outbox.*.*.record",
        "vak.history.*.*.*",
        "vak.call.*.*.*",
        "vak.conditions.*.*.*",
    ];
    assert_eq!(written, specified);
}

#[test]
fn no_two_patterns_share_a_subject() {
    for a in AddressKind::ALL {
        for b in AddressKind::ALL {
            assert_eq!(a.filter(None).overlaps(&b.filter(None)), a == b, "{a} {b}");
        }
    }
}

#[test]
fn live_events_and_changes_are_ephemeral_calls_are_answered_all_else_is_durable() {
    for kind in AddressKind::ALL {
        let expected = match kind.word() {
            "events" | "state" => Plane::Ephemeral,
            "call" => Plane::Call,
            _ => Plane::Durable,
        };
        assert_eq!(kind.plane(), expected, "{kind}");
    }
}

#[test]
fn receipts_approvals_and_room_control_are_evidence() {
    let evidence: Vec<_> = AddressKind::ALL.into_iter().filter(|k| k.is_evidence()).collect();
    let expected = [AddressKind::Receipt, AddressKind::Approval, AddressKind::RoomControl];
    assert_eq!(evidence, expected);
}

#[test]
fn a_subject_without_a_registered_pattern_is_refused() {
    for text in [
        "vak",
        "vak.events.w1.s1",
        "vak.events.w1.s1.other",
        "vak.events.w1.s1.x.tokens",
        "vak.events.w1.s1.tokens.x",
        "vak.work.w1.coder.tokens",
        "vak.nothing.w1.s1.tokens",
        "xak.events.w1.s1.tokens",
        "VAK.events.w1.s1.tokens",
        "$JS.API.STREAM.INFO.x",
    ] {
        let refused = Address::parse(&Subject::parse(text).unwrap());
        assert_eq!(refused, Err(SubjectError::NotRegistered { subject: text.into() }));
    }
}

#[test]
fn an_id_that_is_no_id_is_refused_by_name() {
    for (text, field) in [
        ("vak.events.w*.s1.tokens", "workspace"),
        ("vak.events.w1.s:1.tokens", "session"),
        ("vak.agent.w1.a@b.inbox", "agent"),
        ("vak.work.w1.co$er.task", "role"),
        ("vak.room.w1.é.message", "room"),
        ("vak.call.w1.m/n.get", "module"),
        ("vak.call.w1.m.get!", "verb"),
        ("vak.history.w1.k=.x", "kind"),
        ("vak.history.w1.k.x=", "key"),
    ] {
        let refused = Address::parse(&Subject::parse(text).unwrap());
        let named = matches!(refused, Err(SubjectError::Character { field: f, .. }) if f == field);
        assert!(named, "{text} gave {refused:?}");
    }
}

#[test]
fn the_filters_of_a_workspace_span_its_addresses_only() {
    let ids = |text: &str| WorkspaceId::parse(text).unwrap();
    for kind in AddressKind::ALL {
        let inside = sample(kind, "w1", "x", "y");
        let outside = sample(kind, "w10", "x", "y");
        let filter = kind.filter(Some(&ids("w1")));
        assert!(filter.matches(&inside.subject()), "{filter} {inside}");
        assert!(!filter.matches(&outside.subject()), "{filter} {outside}");
        let whole = Address::filter_workspace(&ids("w1"));
        assert!(whole.covers(&filter), "{whole} {filter}");
        assert!(!whole.matches(&outside.subject()), "{whole} {outside}");
    }
}

#[test]
fn the_named_filters_are_written_as_documented() {
    let w1 = WorkspaceId::parse("w1").unwrap();
    let s1 = "s1".parse().unwrap();
    let written: BTreeSet<_> = [
        Address::filter_work(&w1),
        Address::filter_inboxes(&w1),
        Address::filter_receipts(&w1),
        Address::filter_approvals(&w1),
        Address::filter_dead_letters(&w1),
        Address::filter_events(&w1),
        Address::filter_session_events(&w1, &s1),
    ]
    .iter()
    .map(ToString::to_string)
    .collect();
    let documented = [
        "vak.work.w1.*.task",
        "vak.agent.w1.*.inbox",
        "vak.receipts.w1.*.completed",
        "vak.approvals.w1.*.request",
        "vak.dlq.w1.*.failed",
        "vak.events.w1.>",
        "vak.events.w1.s1.>",
    ];
    assert_eq!(written, documented.map(String::from).into());
}

proptest! {
    #[test]
    fn reading_back_what_was_written_gives_the_same_address(address in any_address()) {
        prop_assert_eq!(Address::parse(&address.subject()).unwrap(), address.clone());
        prop_assert_eq!(address.to_string(), address.subject().to_string());
    }

    #[test]
    fn writing_what_was_read_gives_the_same_subject(
        text in "vak\\.(call|dlq|room)\\.[a~]{1,2}\\.[a~.]{1,4}\\.(failed|message|[a~]{1,3})",
    ) {
        if let Ok(address) = text.parse::<Address>() {
            prop_assert_eq!(address.subject().to_string(), text);
        }
    }

    #[test]
    fn no_two_addresses_are_written_alike(a in small_address(), b in small_address()) {
        prop_assert_eq!(a.subject() == b.subject(), a == b);
    }

    #[test]
    fn the_kind_of_a_subject_is_that_of_its_address(
        root in "vak|a",
        word in "events|work|call|a",
        ids in proptest::collection::vec("[a-z~.!]{1,3}", 2),
        last in "tokens|task|[a-z~!]{1,3}",
    ) {
        if let Ok(subject) = Subject::parse(&format!("{root}.{word}.{}.{last}", ids.join("."))) {
            let parsed = Address::parse(&subject).map(|address| address.kind());
            prop_assert_eq!(Address::kind_of(&subject), parsed);
        }
    }

    #[test]
    fn an_address_lies_in_the_pattern_of_its_kind(address in any_address()) {
        let filter = address.kind().filter(Some(address.workspace()));
        prop_assert!(filter.matches(&address.subject()));
    }
}

fn any_address() -> impl Strategy<Value = Address> {
    let id = || "[A-Za-z0-9_~-]{1,64}";
    (0..AddressKind::ALL.len(), id(), id(), id())
        .prop_map(|(kind, w, x, y)| sample(AddressKind::ALL[kind], &w, &x, &y))
}

/// Ids that look like the words of the patterns, so that collisions would show.
fn small_address() -> impl Strategy<Value = Address> {
    let id = || "a|task|message|control|changed|grant|vak";
    (0..AddressKind::ALL.len(), id(), id(), id())
        .prop_map(|(kind, w, x, y)| sample(AddressKind::ALL[kind], &w, &x, &y))
}

fn sample(kind: AddressKind, workspace: &str, x: &str, y: &str) -> Address {
    let workspace = workspace.parse().unwrap();
    match kind {
        AddressKind::Tokens => Address::Tokens { workspace, session: x.parse().unwrap() },
        AddressKind::Terminal => Address::Terminal { workspace, session: x.parse().unwrap() },
        AddressKind::Telemetry => Address::Telemetry { workspace, session: x.parse().unwrap() },
        AddressKind::Alert => Address::Alert { workspace, session: x.parse().unwrap() },
        AddressKind::Task => Address::Task { workspace, role: x.parse().unwrap() },
        AddressKind::Inbox => Address::Inbox { workspace, agent: x.parse().unwrap() },
        AddressKind::Receipt => Address::Receipt { workspace, session: x.parse().unwrap() },
        AddressKind::Approval => Address::Approval { workspace, session: x.parse().unwrap() },
        AddressKind::DeadLetter => Address::DeadLetter { workspace, agent: x.parse().unwrap() },
        AddressKind::RoomMessage => Address::RoomMessage { workspace, room: x.parse().unwrap() },
        AddressKind::RoomControl => Address::RoomControl { workspace, room: x.parse().unwrap() },
        AddressKind::KeyGrant => Address::KeyGrant { workspace, agent: x.parse().unwrap() },
        AddressKind::StateChanged => Address::StateChanged { workspace, kind: x.parse().unwrap() },
        AddressKind::Outbox => Address::Outbox { workspace, agent: x.parse().unwrap() },
        AddressKind::History => {
            Address::History { workspace, kind: x.parse().unwrap(), key: y.parse().unwrap() }
        }
        AddressKind::Call => {
            Address::Call { workspace, module: x.parse().unwrap(), verb: y.parse().unwrap() }
        }
        AddressKind::Condition => {
            Address::Condition { workspace, kind: x.parse().unwrap(), key: y.parse().unwrap() }
        }
    }
}
