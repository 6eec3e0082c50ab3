//! Approvals and refusals, for people and for programs.

use std::time::Duration;

use bus_authority::{Approval, ApprovalName, NotUsed, Refusal, State};
use bus_core::Outcome;
use bus_envelope::{EventHash, Timestamp};
use serde_json::{Value, json};

use crate::{
    args::Global,
    error::{CliError, Exit},
    print as out,
};

/// As many digits of a name as people need.
pub(super) fn short(leaf: &EventHash) -> String {
    leaf.to_string().chars().take(12).collect()
}

/// One approval on one line.
pub(super) fn line(approval: &Approval, now: Timestamp, global: &Global) -> Result<(), CliError> {
    if global.json {
        return out::json(&listed(approval, now));
    }
    let Some(asked) = approval.request() else { return Ok(()) };
    let age = Duration::from_secs(now.since(asked.at).as_secs());
    let request = &asked.request;
    let words = request.in_words().map_or_else(String::new, |words| format!("  {words}"));
    out::line(&out::harmless(&format!(
        "{}  {}  {}  {}  {}  {}{words}",
        short(&approval.leaf()),
        humantime::format_duration(age),
        approval.state_at(now).as_str(),
        approval.asker(),
        request.action(),
        request.target(),
    )))
}

/// All that is known of one approval.
pub(super) fn show(approval: &Approval, now: Timestamp, global: &Global) -> Result<(), CliError> {
    if global.json {
        let verdict = approval.verdict().map(|verdict| {
            json!({
                "choice": verdict.choice,
                "by": verdict.by.as_str(),
                "note": verdict.note,
                "at": verdict.at.to_string(),
                "leaf": verdict.leaf.to_string(),
                "valid_until": verdict.valid_until.map(|until| until.to_string()),
            })
        });
        let end = approval.end().map(|end| {
            json!({
                "state": State::from(end.kind).as_str(),
                "at": end.at.to_string(),
                "by": end.by.as_str(),
                "record": end.seq.0,
                "instead": end.instead,
            })
        });
        let more = json!({ "verdict": verdict, "end": end });
        return out::json(&out::with(listed(approval, now), more));
    }
    let mut lines = question(approval);
    lines.push(field("state", approval.state_at(now).as_str()));
    if let Some(verdict) = approval.verdict() {
        let note = verdict.note.as_deref().map_or_else(String::new, |note| format!(": {note}"));
        let words = format!("{} by {} at {}{note}", verdict.choice, verdict.by, verdict.at);
        lines.push(field("answer", &words));
        let until = verdict.valid_until.map(|until| until.to_string());
        lines.push(field("usable until", until.as_deref().unwrap_or("never: it names nothing")));
    }
    if let Some(end) = approval.end() {
        let instead =
            end.instead.as_deref().map_or_else(String::new, |id| format!(", in favour of {id}"));
        let state = State::from(end.kind).as_str();
        let words = format!("{state} by {} at {}{instead} (record {})", end.by, end.at, end.seq.0);
        lines.push(field("end", &words));
    }
    lines.iter().try_for_each(|line| out::line(line))
}

/// What is asked, line by line, as whoever answers has to see it.
pub(super) fn question(approval: &Approval) -> Vec<String> {
    let mut lines = vec![field("approval", &approval.leaf().to_string())];
    let Some(asked) = approval.request() else { return lines };
    let request = &asked.request;
    lines.push(field("action", request.action()));
    lines.push(field("target", request.target()));
    lines.push(field("asked by", approval.asker().as_str()));
    lines.push(field("session", approval.session().as_str()));
    lines.push(field("run", request.of_run().unwrap_or("none")));
    lines.push(field("question", request.in_words().unwrap_or("none")));
    let others: Vec<&str> = request
        .choices()
        .iter()
        .map(String::as_str)
        .filter(|choice| *choice != request.approving_choice())
        .collect();
    let allows = match request.can_be_used() {
        true => request.approving_choice(),
        false => "no answer",
    };
    lines.push(field("allowed by", allows));
    lines.push(field("refused by", &others.join(", ")));
    lines.push(field("id", &asked.id));
    lines.push(field("asked", &asked.at.to_string()));
    if let Some(until) = request.expires() {
        lines.push(field("answer until", &until.to_string()));
    }
    lines.push(field("usable for", &humantime::format_duration(request.validity()).to_string()));
    lines
}

fn field(name: &str, value: &str) -> String {
    out::harmless(&format!("{name:<13} {value}"))
}

fn listed(approval: &Approval, now: Timestamp) -> Value {
    let line = json!({
        "approval": approval.leaf().to_string(),
        "session": approval.session().as_str(),
        "asker": approval.asker().as_str(),
        "state": approval.state_at(now).as_str(),
    });
    let Some(asked) = approval.request() else { return line };
    let request = &asked.request;
    let age_ms = u64::try_from(now.since(asked.at).as_millis()).unwrap_or(u64::MAX);
    let more = json!({
        "id": asked.id,
        "asked": asked.at.to_string(),
        "age_ms": age_ms,
        "question": request.in_words(),
        "authorization": {
            "action": request.action(),
            "target": request.target(),
            "approvalChoice": request.approving_choice(),
        },
        "choices": request.choices(),
        "run": request.of_run(),
        "answer_until": request.expires().map(|until| until.to_string()),
        "valid_s": request.validity().as_secs(),
        "supersedes": request.replaces().map(|old| old.to_string()),
    });
    out::with(line, more)
}

/// A use that did not come about, as `--json` has it.
pub(super) fn refusal_json(name: &ApprovalName, refused: &NotUsed) -> Value {
    let line = json!({ "approval": name.to_string(), "code": refused.code() });
    match refused {
        NotUsed::Declined(verdict) => out::with(
            line,
            json!({ "choice": verdict.choice, "by": verdict.by.as_str(), "note": verdict.note }),
        ),
        _ => line,
    }
}

/// The failure to tell when the approval `name` was not used, or perhaps was.
pub(super) fn refused(name: &ApprovalName, refused: &NotUsed) -> CliError {
    let what = format!("refused: {refused}");
    let show = format!("vakbus approvals show {name}");
    let refusal = match refused {
        NotUsed::Failed(error) => {
            let told = |next: String| CliError::new(Exit::of_error(error), what).next(next);
            return match error.outcome() {
                Outcome::Unknown => {
                    told(format!("do not act on it: {show} says whether it was used"))
                }
                Outcome::NotDone => told("it was not used: try it again".to_owned()),
            };
        }
        NotUsed::Declined(_) => Refusal::ChoiceRefused,
        NotUsed::Refused(refusal) => *refusal,
    };
    let (exit, next) = match refusal {
        Refusal::Open => {
            (Exit::Timeout, format!("{show} says how it stands; try it again once it is answered"))
        }
        Refusal::Ambiguous => (
            Exit::Usage,
            "an id was used twice: name it by its digits, as vakbus approvals ls --json has them"
                .to_owned(),
        ),
        Refusal::ChoiceRefused => {
            (Exit::Refused, "leave it; or ask again: vakbus approvals request".to_owned())
        }
        Refusal::AskerMismatch
        | Refusal::SessionMismatch
        | Refusal::RunMismatch
        | Refusal::ActionMismatch
        | Refusal::TargetMismatch => {
            (Exit::Refused, format!("it can still be used for exactly what was asked: {show}"))
        }
        _ => (Exit::Refused, "ask again: vakbus approvals request".to_owned()),
    };
    // That nobody has answered yet is no refusal.
    let what = if refusal == Refusal::Open { refused.to_string() } else { what };
    CliError::new(exit, what).next(next)
}
