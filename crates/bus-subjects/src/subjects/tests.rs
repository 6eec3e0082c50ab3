//! Wildcard matching and the least privilege of a worker (S0.92, S0.93).

use crate::{AclPolicy, AgentId, Filter, RoleName, SessionId, Subject, WorkspaceId};

#[test]
fn subject_pattern_matching() {
    let matches = |filter: &str, subject: &str| {
        Filter::parse(filter).unwrap().matches(&Subject::parse(subject).unwrap())
    };
    for (filter, subject) in [
        ("vak.events.w1.s1.tokens", "vak.events.w1.s1.tokens"),
        ("vak.events.*.s1.tokens", "vak.events.w1.s1.tokens"),
        ("vak.events.*.*.*", "vak.events.w1.s1.tokens"),
        ("vak.events.w1.>", "vak.events.w1.s1.tokens"),
        ("vak.>", "vak.events.w1.s1.tokens"),
        (">", "vak"),
        ("vak.*", "vak.*x"),
        ("vak.e*", "vak.e*"),
    ] {
        assert!(matches(filter, subject), "{filter} must match {subject}");
    }
    for (filter, subject) in [
        ("vak.events.w1.s1.tokens", "vak.events.w1.s1.terminal"),
        ("vak.events.*", "vak.events.w1.s1.tokens"),
        ("vak.events.w1.s1.tokens.>", "vak.events.w1.s1.tokens"),
        ("vak.events.w1.>", "vak.events.w1"),
        ("vak.events.w1.>", "vak.events.w10.s1.tokens"),
        ("*.*", "vak"),
        ("vak.e*", "vak.events"),
        ("vak.*", "vak"),
    ] {
        assert!(!matches(filter, subject), "{filter} must not match {subject}");
    }
}

#[test]
fn acl_worker_enforcement() {
    let policy = AclPolicy::for_worker(
        WorkspaceId::parse("w1").unwrap(),
        SessionId::parse("s1").unwrap(),
        AgentId::parse("a1").unwrap(),
        RoleName::parse("coder").unwrap(),
    );
    let filter = |text: &str| Filter::parse(text).unwrap();

    for subject in [
        "vak.events.w1.s1.tokens",
        "vak.events.w1.s1.terminal",
        "vak.receipts.w1.s1.completed",
        "vak.approvals.w1.s1.request",
        "vak.dlq.w1.a1.failed",
        "$KV.VAK_CLAIMS_w1.task-1",
    ] {
        assert!(policy.can_publish(&Subject::parse(subject).unwrap()), "publish {subject}");
    }
    for subject in [
        "vak.work.w1",
        "vak.work.w1.coder.task",
        "vak.work.w1.reviewer.task",
        "vak.events.w1.s2.tokens",
        "vak.events.w10.s1.tokens",
        "vak.events.w2.s1.tokens",
        "vak.receipts.w1.s2.completed",
        "vak.approvals.w1.s2.request",
        "vak.dlq.w1.a2.failed",
        "vak.agent.w1.a1.inbox",
        "vak.agent.w1.a2.inbox",
        "$KV.VAK_CLAIMS_w2.task-1",
    ] {
        assert!(!policy.can_publish(&Subject::parse(subject).unwrap()), "publish {subject}");
    }
    for wildcard in ["vak.events.w1.*.tokens", "vak.events.w1.s1.*", "vak.events.w1.s1.>", ">"] {
        assert!(!policy.can_publish_filter(&filter(wildcard)), "publish {wildcard}");
    }

    for asked in [
        "vak.agent.w1.a1.inbox",
        "vak.work.w1.coder.task",
        "vak.receipts.w1.s1.completed",
        "_INBOX.a1.>",
        "_INBOX.a1.x.y",
        "$KV.VAK_CLAIMS_w1.*",
    ] {
        assert!(policy.can_subscribe(&filter(asked)), "subscribe {asked}");
    }
    for asked in [
        "vak.approvals.w1.s1.request",
        "vak.approvals.*.s1.request",
        "vak.*.w1.s1.request",
        "*.approvals.w1.>",
        "vak.>",
        ">",
        "vak.agent.w1.*.inbox",
        "vak.agent.*.a1.inbox",
        "vak.agent.w1.a2.inbox",
        "vak.work.w1.*.task",
        "vak.work.w1.>",
        "vak.events.w1.s1.tokens",
        "_INBOX.>",
        "_INBOX.a2.x",
        "$KV.VAK_CLAIMS_w1.>",
    ] {
        assert!(!policy.can_subscribe(&filter(asked)), "subscribe {asked}");
    }
}
