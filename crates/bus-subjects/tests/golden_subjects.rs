//! Addresses, tokens, filters, names and rights against the golden vectors of the specification.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]
#![expect(clippy::indexing_slicing, reason = "a missing member must fail the test")]
#![expect(clippy::panic, reason = "a damaged vector file must fail the test")]

use std::fmt::Display;

use bus_subjects::{
    AclPolicy, AclScope, Address, AddressKind, BucketKey, BucketName, ConsumerName, Filter, Plane,
    Role, StreamName, Subject, SubjectError, Token,
};
use serde_json::{Value, json};

#[path = "../../../docs/spec/vectors/golden.rs"]
mod golden;

#[test]
fn subjects_are_as_the_specification_says() {
    golden::check("subjects.json", 156, |case| out(case).unwrap_or_else(|error| refused(&error)));
}

fn out(case: &Value) -> Result<Value, SubjectError> {
    let text = |name: &str| case[name].as_str().unwrap_or_else(|| panic!("no {name} in {case}"));
    Ok(match text("do") {
        "render" => render(case)?,
        "read" => read(&Address::parse(&Subject::parse(text("subject"))?)?),
        "subject" => shown(Subject::parse(text("text"))?),
        "filter" => shown(Filter::parse(text("text"))?),
        "escape" => shown(Token::escape("name", text("name"))?),
        "unescape" => shown(Token::parse("name", text("token"))?.unescape("name")?),
        "match" => {
            let subject = Subject::parse(text("subject"))?;
            Filter::parse(text("filter"))?.matches(&subject).into()
        }
        "compare" => {
            let (one, other) = (Filter::parse(text("one"))?, Filter::parse(text("other"))?);
            json!({ "covers": one.covers(&other), "overlaps": one.overlaps(&other) })
        }
        "name" => match text("field") {
            "stream" => shown(StreamName::parse(text("text"))?),
            "consumer" => shown(ConsumerName::parse(text("text"))?),
            "bucket" => shown(BucketName::parse(text("text"))?),
            _ => shown(BucketKey::parse(text("text"))?),
        },
        "bucket" => {
            let workspace = text("workspace").parse()?;
            shown(BucketName::of_workspace(text("purpose"), &workspace)?)
        }
        "bucket-key" => shown(BucketKey::from_token(&Token::parse("key", text("token"))?)),
        "rights" => policy(case)?.rules().map(|rule| rule.to_string()).collect(),
        "may" => {
            let (policy, filter) = (policy(case)?, Filter::parse(text("filter"))?);
            let is_publish = text("action") == "publish";
            let may = if is_publish {
                policy.can_publish_filter(&filter)
            } else {
                policy.can_subscribe(&filter)
            };
            may.into()
        }
        other => panic!("nobody knows how to {other}"),
    })
}

fn render(case: &Value) -> Result<Value, SubjectError> {
    let workspace = case["workspace"].as_str().unwrap().parse()?;
    let id = |at: usize| case["ids"][at].as_str().unwrap();
    let address = match case["kind"].as_str().unwrap() {
        "tokens" => Address::Tokens { workspace, session: id(0).parse()? },
        "terminal" => Address::Terminal { workspace, session: id(0).parse()? },
        "telemetry" => Address::Telemetry { workspace, session: id(0).parse()? },
        "alert" => Address::Alert { workspace, session: id(0).parse()? },
        "task" => Address::Task { workspace, role: id(0).parse()? },
        "inbox" => Address::Inbox { workspace, agent: id(0).parse()? },
        "receipt" => Address::Receipt { workspace, session: id(0).parse()? },
        "approval" => Address::Approval { workspace, session: id(0).parse()? },
        "dead-letter" => Address::DeadLetter { workspace, agent: id(0).parse()? },
        "room-message" => Address::RoomMessage { workspace, room: id(0).parse()? },
        "room-control" => Address::RoomControl { workspace, room: id(0).parse()? },
        "key-grant" => Address::KeyGrant { workspace, agent: id(0).parse()? },
        "state-changed" => Address::StateChanged { workspace, kind: id(0).parse()? },
        "outbox" => Address::Outbox { workspace, agent: id(0).parse()? },
        "history" => Address::History { workspace, kind: id(0).parse()?, key: id(1).parse()? },
        "call" => Address::Call { workspace, module: id(0).parse()?, verb: id(1).parse()? },
        "condition" => Address::Condition { workspace, kind: id(0).parse()?, key: id(1).parse()? },
        other => panic!("no address is called {other}"),
    };
    let plane = match address.plane() {
        Plane::Ephemeral => "live",
        Plane::Durable => "durable",
        Plane::Call => "call",
    };
    let chain = if address.is_evidence() { "subject" } else { "sender" };
    Ok(json!({ "subject": address.to_string(), "plane": plane, "chain": chain }))
}

fn read(address: &Address) -> Value {
    // The levels are the address's own: reading and writing is lossless.
    let subject = address.subject();
    let mut ids: Vec<&str> = subject.levels().skip(3).collect();
    if address.kind().verb().is_some() {
        ids.pop();
    }
    json!({ "kind": name(address.kind()), "workspace": address.workspace().as_str(), "ids": ids })
}

fn name(kind: AddressKind) -> &'static str {
    match kind {
        AddressKind::Tokens => "tokens",
        AddressKind::Terminal => "terminal",
        AddressKind::Telemetry => "telemetry",
        AddressKind::Alert => "alert",
        AddressKind::Task => "task",
        AddressKind::Inbox => "inbox",
        AddressKind::Receipt => "receipt",
        AddressKind::Approval => "approval",
        AddressKind::DeadLetter => "dead-letter",
        AddressKind::RoomMessage => "room-message",
        AddressKind::RoomControl => "room-control",
        AddressKind::KeyGrant => "key-grant",
        AddressKind::StateChanged => "state-changed",
        AddressKind::Outbox => "outbox",
        AddressKind::History => "history",
        AddressKind::Call => "call",
        AddressKind::Condition => "condition",
    }
}

fn policy(case: &Value) -> Result<AclPolicy, SubjectError> {
    let optional = |name: &str| case[name].as_str();
    let scope = AclScope {
        workspace: case["workspace"].as_str().unwrap().parse()?,
        agent: case["agent"].as_str().unwrap().parse()?,
        session: optional("session").map(str::parse).transpose()?,
        role_name: optional("queue").map(str::parse).transpose()?,
    };
    let roles = case["roles"].as_array().unwrap();
    let policies: Result<Vec<_>, _> = roles
        .iter()
        .map(|role| Ok(AclPolicy::for_role(role.as_str().unwrap().parse::<Role>()?, &scope)))
        .collect();
    Ok(AclPolicy::union(policies?))
}

fn shown(text: impl Display) -> Value {
    text.to_string().into()
}

fn refused(error: &SubjectError) -> Value {
    let reason = match error {
        SubjectError::Empty { field } => format!("empty {field}"),
        SubjectError::TooLong { field, .. } => format!("too-long {field}"),
        SubjectError::Character { field, .. } => format!("character {field}"),
        SubjectError::EmptyLevel { field } => format!("empty-level {field}"),
        SubjectError::Wildcard { field, .. } => format!("wildcard {field}"),
        SubjectError::TailNotLast { field } => format!("tail-not-last {field}"),
        SubjectError::Escape { field } => format!("escape {field}"),
        SubjectError::NotRegistered { .. } => "not-registered".to_owned(),
        other => panic!("no vector expects {other}"),
    };
    json!({ "refused": reason })
}
