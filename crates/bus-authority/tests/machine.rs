//! Each cause has its own code, and the codes are those of the specification.
#![expect(clippy::unwrap_used, reason = "a story that cannot be told fails")]

use std::time::Duration;

use bus_authority::{
    Approval, ApprovalName, Ask, Asked, Command, Effect, End, Event, Found, Refusal, State, Verdict,
};
use bus_core::{ApprovalRequest, Authorization, EndKind, Seq};
use bus_envelope::{EventHash, Timestamp};
use bus_subjects::{AgentId, SessionId};

const NOON: &str = "2026-05-01T12:00:00.000000000Z";

fn noon() -> Timestamp {
    Timestamp::parse(NOON).unwrap()
}

fn agent(name: &str) -> AgentId {
    AgentId::parse(name).unwrap()
}

fn session() -> SessionId {
    SessionId::parse("s1").unwrap()
}

fn request() -> ApprovalRequest {
    let request = ApprovalRequest::new("deploy", "web-1", &["yes", "no", "later"]).unwrap();
    request.run("r-1").unwrap().answer_until(noon().plus(Duration::from_secs(60)))
}

fn open() -> Approval {
    let asked = Asked { id: "ask-1".to_owned(), at: noon(), request: request() };
    Approval::asked(EventHash::of(b"request"), session(), agent("coder-1"), asked)
}

fn verdict(choice: &str) -> Box<Verdict> {
    Box::new(Verdict {
        leaf: EventHash::of(b"verdict"),
        request_id: "ask-1".to_owned(),
        by: agent("otto"),
        at: noon(),
        choice: choice.to_owned(),
        note: None,
        authorization: Some(Authorization::of(&request())),
        valid_until: Some(noon().plus(Duration::from_secs(3600))),
        trace: None,
    })
}

fn resolved(choice: &str) -> Approval {
    let mut approval = open();
    assert!(approval.see(Event::Verdict { verdict: verdict(choice), may_resolve: true }));
    approval
}

fn end(kind: EndKind, by: &str) -> End {
    let (leaf, seq) = (EventHash::of(b"end"), Seq(7));
    End { kind, leaf, seq, by: agent(by), at: noon(), instead: None }
}

/// The exact use, with one thing changed.
fn use_of(approval: &Approval, change: impl FnOnce(&mut Ask<'_>)) -> Result<Effect, Refusal> {
    let (asker, session) = (agent("coder-1"), session());
    let mut ask = Ask {
        action: "deploy",
        target: "web-1",
        run: Some("r-1"),
        asker: &asker,
        session: &session,
    };
    change(&mut ask);
    approval.decide(&Command::Consume(ask), noon())
}

#[test]
fn the_exact_use_is_allowed() {
    assert_eq!(use_of(&resolved("yes"), |_| {}), Ok(Effect::Consumed));
}

#[test]
fn each_end_has_its_own_code() {
    let codes = ["decision-consumed", "decision-withdrawn", "decision-superseded"];
    for (kind, code) in EndKind::ALL.into_iter().zip(codes) {
        let mut approval = resolved("yes");
        assert!(approval.see(Event::Ended(end(kind, "coder-1"))));
        assert_eq!(use_of(&approval, |_| {}).unwrap_err().code(), code);
        assert_eq!(approval.state_at(noon()), State::from(kind));
    }
}

#[test]
fn what_nobody_answered_is_open() {
    assert_eq!(use_of(&open(), |_| {}), Err(Refusal::Open));
}

#[test]
fn an_expired_verdict_is_refused_from_that_very_moment() {
    let approval = resolved("yes");
    let until = noon().plus(Duration::from_secs(3600));
    let (asker, session) = (agent("coder-1"), session());
    let ask = Ask {
        action: "deploy",
        target: "web-1",
        run: Some("r-1"),
        asker: &asker,
        session: &session,
    };
    let just_before = Timestamp::from_unix_ns(until.unix_ns() - 1);
    assert_eq!(approval.decide(&Command::Consume(ask), just_before), Ok(Effect::Consumed));
    assert_eq!(approval.decide(&Command::Consume(ask), until), Err(Refusal::Expired));
    assert_eq!(approval.state_at(until), State::Expired { at: until });
}

#[test]
fn an_expired_request_is_answered_no_more() {
    let until = noon().plus(Duration::from_secs(60));
    let by = agent("otto");
    let command = Command::Resolve { by: &by, may_resolve: true, choice: "yes" };
    assert_eq!(open().decide(&command, until), Err(Refusal::Expired));
    assert!(open().decide(&command, noon()).is_ok());
}

#[test]
fn a_verdict_that_names_nothing_is_unbound() {
    let mut approval = open();
    let mut bare = verdict("yes");
    (bare.authorization, bare.valid_until) = (None, None);
    assert!(approval.see(Event::Verdict { verdict: bare, may_resolve: true }));
    assert_eq!(use_of(&approval, |_| {}).unwrap_err().code(), "decision-unbound");
}

#[test]
fn an_answer_other_than_the_approving_one_is_a_refusal() {
    for choice in ["no", "later"] {
        assert_eq!(use_of(&resolved(choice), |_| {}).unwrap_err().code(), "choice-refused");
    }
}

#[test]
fn each_thing_that_differs_has_its_own_code() {
    let (other, elsewhere) = (agent("coder-2"), SessionId::parse("s2").unwrap());
    // Also where the answer was no: who asks for something else learns nothing of it.
    for choice in ["yes", "no"] {
        let approval = resolved(choice);
        for action in ["", "Deploy", "deploy ", "deploy.production"] {
            assert_eq!(use_of(&approval, |ask| ask.action = action), Err(Refusal::ActionMismatch));
        }
        for target in ["", "web-2", "WEB-1", "web-1 ", "web\u{2011}1"] {
            assert_eq!(use_of(&approval, |ask| ask.target = target), Err(Refusal::TargetMismatch));
        }
        for run in [None, Some(""), Some("r-2")] {
            assert_eq!(use_of(&approval, |ask| ask.run = run), Err(Refusal::RunMismatch));
        }
        assert_eq!(use_with(&approval, &other, &session()), "asker-mismatch");
        assert_eq!(use_with(&approval, &agent("coder-1"), &elsewhere), "session-mismatch");
    }
}

fn use_with(approval: &Approval, asker: &AgentId, session: &SessionId) -> &'static str {
    let ask = Ask { action: "deploy", target: "web-1", run: Some("r-1"), asker, session };
    approval.decide(&Command::Consume(ask), noon()).unwrap_err().code()
}

#[test]
fn only_an_operator_who_did_not_ask_resolves_what_was_offered_and_once() {
    let resolve = |approval: &Approval, by: &str, may_resolve, choice| {
        let by = agent(by);
        approval.decide(&Command::Resolve { by: &by, may_resolve, choice }, noon())
    };
    assert_eq!(resolve(&open(), "otto", false, "yes"), Err(Refusal::NotResolver));
    assert_eq!(resolve(&open(), "coder-1", true, "yes"), Err(Refusal::NotResolver));
    assert_eq!(resolve(&open(), "otto", true, "perhaps"), Err(Refusal::OptionMissing));
    assert_eq!(resolve(&resolved("no"), "otto", true, "yes"), Err(Refusal::AlreadyResolved));
    let valid_until = noon().plus(Duration::from_secs(3600));
    assert_eq!(resolve(&open(), "otto", true, "yes"), Ok(Effect::Resolved { valid_until }));
}

#[test]
fn an_operator_withdraws_what_is_open_and_who_asked_what_was_answered_too() {
    let withdraw = |approval: &Approval, by: &str, may_resolve| {
        let by = agent(by);
        approval.decide(&Command::Withdraw { by: &by, may_resolve }, noon())
    };
    assert_eq!(withdraw(&open(), "otto", true), Ok(Effect::Withdrawn));
    assert_eq!(withdraw(&open(), "coder-2", false), Err(Refusal::AskerMismatch));
    assert_eq!(withdraw(&resolved("yes"), "coder-1", false), Ok(Effect::Withdrawn));
    assert_eq!(withdraw(&resolved("yes"), "otto", true), Err(Refusal::AlreadyResolved));
}

#[test]
fn an_end_by_somebody_else_is_ignored() {
    let mut approval = resolved("yes");
    for kind in EndKind::ALL {
        assert!(!approval.see(Event::Ended(end(kind, "coder-2"))));
    }
    assert_eq!(use_of(&approval, |_| {}), Ok(Effect::Consumed));
}

#[test]
fn codes_differ_and_are_lower_case_words() {
    let all = [
        Refusal::Unknown,
        Refusal::Superseded,
        Refusal::Withdrawn,
        Refusal::Consumed,
        Refusal::Expired,
        Refusal::Open,
        Refusal::Unbound,
        Refusal::AskerMismatch,
        Refusal::SessionMismatch,
        Refusal::RunMismatch,
        Refusal::ActionMismatch,
        Refusal::TargetMismatch,
        Refusal::ChoiceRefused,
        Refusal::NotResolver,
        Refusal::OptionMissing,
        Refusal::AlreadyResolved,
    ];
    let codes: std::collections::BTreeSet<&str> =
        all.iter().map(|refusal| refusal.code()).collect();
    assert_eq!(codes.len(), all.len());
    assert!(codes.iter().all(|code| code.bytes().all(|c| c.is_ascii_lowercase() || c == b'-')));
    assert!(!codes.contains("decision-mismatch"), "it is kept for class against policy");
}

#[test]
fn a_leaf_in_full_names_one_approval_whatever_ids_there_are() {
    let (one, two) = (EventHash::of(b"one"), EventHash::of(b"two"));
    let full = ApprovalName::new(&one.to_string());
    // The second one was asked for under the first one's name.
    let all = || [(one, "ask-1".to_owned(), 1), (two, one.to_string(), 2)];
    assert_eq!(full.find(all()), Found::One(1));
    let short = ApprovalName::new(&one.to_string()[..8]);
    assert_eq!(short.find(all()), Found::One(1));
    assert_eq!(ApprovalName::new("ask-1").find(all()), Found::One(1));
    assert_eq!(ApprovalName::new(&one.to_string()[..7]).find(all()), Found::None);
    let same = [(one, "ask-1".to_owned(), 1), (two, "ask-1".to_owned(), 2)];
    assert_eq!(ApprovalName::new("ask-1").find(same), Found::Several);
}
