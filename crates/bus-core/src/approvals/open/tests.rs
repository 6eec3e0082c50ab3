//! Who opens and who closes a request, told by hand-made records.

use bus_envelope::{ChainHead, ChainScope, Draft, Stamp};
use bus_subjects::Subject;
use proptest::prelude::*;

use super::*;

const CHOICES: [&str; 2] = ["yes", "no"];

/// A record as an endpoint would have opened it.
fn record(agent: &str, id: &str, draft: Draft) -> Opened {
    let workspace: bus_subjects::WorkspaceId = "w1".parse().unwrap();
    let subject = draft.subject.clone();
    let head = ChainHead::genesis(&ChainScope::Subject { workspace: workspace.clone(), subject });
    let payload = draft.payload.clone();
    let stamp = Stamp {
        id: id.to_owned(),
        time: Timestamp::from_unix_ns(1_780_000_000_000_000_000),
        trace: TraceContext::new([1; 16], [2; 8], 1).unwrap(),
        workspace,
        agent: agent.parse().unwrap(),
        incarnation: uuid::Uuid::from_u128(7),
        head,
    };
    let envelope = draft.stamp(stamp).unwrap();
    let hash = envelope.compute_hash();
    Opened { envelope, payload, hash, standing: crate::Standing::Signed }
}

fn subject(session: &str) -> Subject {
    Subject::parse(&format!("vak.approvals.w1.{session}.request")).unwrap()
}

fn request() -> ApprovalRequest {
    ApprovalRequest::new("deploy.production", "web", &CHOICES).unwrap()
}

fn ask(id: &str) -> Opened {
    let json = request().to_json().unwrap();
    record("coder-1", id, Draft::new(subject("s1"), ApprovalRequest::EVENT_TYPE, json))
}

fn verdict(id: &str, request: &ApprovalRequest, choice: &str) -> ApprovalVerdict {
    let now = Timestamp::from_unix_ns(1_780_000_000_000_000_000);
    ApprovalVerdict::new(id, request, choice, None, now).unwrap()
}

fn withdrawal(by: &str, asked: &Opened) -> Opened {
    let json = ApprovalEnd::withdrawn(asked.hash).to_json().unwrap();
    let draft = Draft::new(subject("s1"), EndKind::Withdrawn.event_type(), json);
    record(by, &format!("{}.withdrawn", asked.hash), draft.cause(asked.hash))
}

/// A request of `asker` that takes the place of `old`.
fn instead(asker: &str, old: &Opened) -> Opened {
    let json = request().supersedes(old.hash).to_json().unwrap();
    record(asker, "ask-new", Draft::new(subject("s1"), ApprovalRequest::EVENT_TYPE, json))
}

fn answer(by: &str, asked: &Opened, choice: &str) -> Opened {
    let verdict = verdict(&asked.envelope.id, &request(), choice);
    let json = verdict.to_json().unwrap();
    let draft = Draft::new(subject("s1"), ApprovalVerdict::EVENT_TYPE, json).cause(asked.hash);
    record(by, &format!("{}.{by}.{choice}", asked.hash), draft)
}

#[test]
fn a_request_is_open_until_its_verdict() {
    let (mut open, asked) = (OpenApprovals::default(), ask("ask-1"));
    assert_eq!(open.apply(Seq(1), &asked, false), Applied::Asked);
    assert_eq!(open.get(&asked.hash).map(|approval| approval.asker.as_str()), Some("coder-1"));
    assert_eq!(open.apply(Seq(2), &answer("otto", &asked, "yes"), true), Applied::Resolved);
    assert!(open.is_empty());
}

#[test]
fn the_first_verdict_wins() {
    let asked = ask("ask-1");
    let mut open = OpenApprovals::watching(asked.hash);
    open.apply(Seq(1), &asked, false);
    open.apply(Seq(2), &answer("otto", &asked, "no"), true);
    assert_eq!(open.apply(Seq(3), &answer("olga", &asked, "yes"), true), Applied::Ignored);
    let Some(Closed::Resolved(resolved)) = open.closed_as() else { panic!("{open:?}") };
    assert_eq!((resolved.by.as_str(), resolved.verdict.choice()), ("otto", "no"));
}

#[test]
fn a_verdict_of_somebody_who_may_not_resolve_is_none() {
    let (mut open, asked) = (OpenApprovals::default(), ask("ask-1"));
    open.apply(Seq(1), &asked, false);
    assert_eq!(open.apply(Seq(2), &answer("coder-2", &asked, "yes"), false), Applied::Ignored);
    assert_eq!(open.len(), 1);
}

#[test]
fn a_verdict_of_who_asked_is_none() {
    let (mut open, asked) = (OpenApprovals::default(), ask("ask-1"));
    open.apply(Seq(1), &asked, false);
    assert_eq!(open.apply(Seq(2), &answer("coder-1", &asked, "yes"), true), Applied::Ignored);
}

#[test]
fn a_verdict_on_another_request_of_the_same_id_is_none() {
    let (mut open, asked) = (OpenApprovals::default(), ask("ask-1"));
    open.apply(Seq(1), &asked, false);
    let other = ask("ask-2");
    let verdict = verdict("ask-1", &request(), "yes");
    let draft = Draft::new(subject("s1"), ApprovalVerdict::EVENT_TYPE, verdict.to_json().unwrap());
    let by_cause = record("otto", "v1", draft.clone().cause(other.hash));
    assert_eq!(open.apply(Seq(2), &by_cause, true), Applied::Ignored);
    assert_eq!(open.apply(Seq(3), &record("otto", "v2", draft), true), Applied::Ignored);
}

#[test]
fn a_verdict_in_another_session_or_with_another_choice_is_none() {
    let (mut open, asked) = (OpenApprovals::default(), ask("ask-1"));
    open.apply(Seq(1), &asked, false);
    for (session, choice) in [("s2", "yes"), ("s1", "perhaps")] {
        let offered = ApprovalRequest::new("a", "t", &[choice, "other"]).unwrap();
        let verdict = verdict("ask-1", &offered, choice);
        let json = verdict.to_json().unwrap();
        let draft = Draft::new(subject(session), ApprovalVerdict::EVENT_TYPE, json);
        let record = record("otto", "v1", draft.cause(asked.hash));
        assert_eq!(open.apply(Seq(2), &record, true), Applied::Ignored, "{session} {choice}");
    }
}

#[test]
fn a_request_stored_again_after_its_verdict_is_not_open_again() {
    let (mut open, asked) = (OpenApprovals::default(), ask("ask-1"));
    open.apply(Seq(1), &asked, false);
    open.apply(Seq(2), &answer("otto", &asked, "yes"), true);
    assert_eq!(open.apply(Seq(3), &asked, false), Applied::Ignored);
    assert!(open.is_empty());
}

#[test]
fn who_asked_and_who_resolves_may_withdraw_and_nobody_else() {
    let asked = ask("ask-1");
    for (by, may_resolve, applied) in [
        ("coder-1", false, Applied::Withdrawn),
        ("otto", true, Applied::Withdrawn),
        ("coder-2", false, Applied::Ignored),
    ] {
        let mut open = OpenApprovals::default();
        open.apply(Seq(1), &asked, false);
        assert_eq!(open.apply(Seq(2), &withdrawal(by, &asked), may_resolve), applied, "{by}");
        assert_eq!(open.is_empty(), applied == Applied::Withdrawn, "{by}");
    }
}

#[test]
fn of_a_verdict_and_a_withdrawal_the_first_one_counts() {
    let asked = ask("ask-1");
    let mut open = OpenApprovals::watching(asked.hash);
    open.apply(Seq(1), &asked, false);
    open.apply(Seq(2), &withdrawal("coder-1", &asked), false);
    assert_eq!(open.apply(Seq(3), &answer("otto", &asked, "yes"), true), Applied::Ignored);
    assert!(
        matches!(open.closed_as(), Some(Closed::Withdrawn { by, .. }) if by.as_str() == "coder-1")
    );
    assert_eq!(open.watched().map(|approval| approval.hash), Some(asked.hash));
}

#[test]
fn a_request_takes_the_place_of_one_of_the_same_agent() {
    let asked = ask("ask-1");
    let mut open = OpenApprovals::watching(asked.hash);
    open.apply(Seq(1), &asked, false);
    let other = instead("coder-2", &asked);
    assert_eq!(open.apply(Seq(2), &other, false), Applied::Asked);
    let own = instead("coder-1", &asked);
    assert_eq!(open.apply(Seq(3), &own, false), Applied::Superseded);
    assert!(open.get(&asked.hash).is_none() && open.get(&own.hash).is_some());
    assert!(matches!(open.closed_as(), Some(Closed::Superseded { by, .. }) if *by == own.hash));
}

#[test]
fn what_is_no_request_and_no_verdict_is_ignored() {
    let mut open = OpenApprovals::default();
    let other = record("coder-1", "x", Draft::new(subject("s1"), "vak.note", "{}"));
    assert_eq!(open.apply(Seq(1), &other, true), Applied::Ignored);
    let damaged = Draft::new(subject("s1"), ApprovalRequest::EVENT_TYPE, "{}");
    assert_eq!(open.apply(Seq(2), &record("coder-1", "y", damaged), true), Applied::Ignored);
    let elsewhere = Subject::parse("vak.agent.w1.otto.inbox").unwrap();
    let json = request().to_json().unwrap();
    let elsewhere = Draft::new(elsewhere, ApprovalRequest::EVENT_TYPE, json);
    assert_eq!(open.apply(Seq(3), &record("coder-1", "z", elsewhere), true), Applied::Ignored);
}

proptest! {
    #[test]
    fn open_are_exactly_those_that_were_asked_and_not_answered(
        steps in prop::collection::vec((0usize..6, any::<bool>()), 0..40)
    ) {
        let asked: Vec<Opened> = (0..6).map(|n| ask(&format!("ask-{n}"))).collect();
        let mut open = OpenApprovals::default();
        let (mut opened, mut closed) = (Vec::new(), Vec::new());
        for (at, (n, is_answer)) in steps.into_iter().enumerate() {
            let seq = Seq(at as u64 + 1);
            if is_answer {
                open.apply(seq, &answer("otto", &asked[n], "yes"), true);
                if opened.contains(&n) && !closed.contains(&n) {
                    closed.push(n);
                }
            } else {
                open.apply(seq, &asked[n], false);
                if !opened.contains(&n) {
                    opened.push(n);
                }
            }
        }
        let expected: Vec<_> =
            opened.iter().filter(|n| !closed.contains(n)).map(|n| asked[*n].hash).collect();
        let listed: Vec<_> = open.list().iter().map(|approval| approval.hash).collect();
        prop_assert_eq!(listed, expected);
    }
}

#[test]
fn of_requests_that_are_open_no_more_no_id_is_held() {
    let mut open = OpenApprovals::default();
    for number in 1..=3 {
        let asked = ask(&format!("ask-{number}"));
        open.apply(Seq(3 * number), &asked, false);
        // Another takes its place, and is taken back.
        let newer = instead("coder-1", &asked);
        open.apply(Seq(3 * number + 1), &newer, false);
        open.apply(Seq(3 * number + 2), &withdrawal("coder-1", &newer), false);
    }
    assert!(open.is_empty());
    assert!(open.by_id.is_empty(), "{:?}", open.by_id);
}

#[test]
fn an_id_that_a_newer_request_has_taken_over_is_held_for_that_one() {
    let (mut open, first) = (OpenApprovals::default(), ask("ask-1"));
    open.apply(Seq(1), &first, false);
    let json = ApprovalRequest::new("deploy.staging", "web", &CHOICES).unwrap().to_json().unwrap();
    let draft = Draft::new(subject("s1"), ApprovalRequest::EVENT_TYPE, json);
    let second = record("coder-1", "ask-1", draft);
    assert_eq!(open.apply(Seq(2), &second, false), Applied::Superseded);
    let held: Vec<_> = open.by_id.values().copied().collect();
    assert_eq!(held, [second.hash]);
}
