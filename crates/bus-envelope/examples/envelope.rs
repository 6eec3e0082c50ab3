//! Makes a chain of three events, writes each in another wire form, and finds the one that was
//! changed on the way.

use std::error::Error;
use std::io::Write as _;
use std::num::NonZeroUsize;

use uuid::Uuid;

use bus_envelope::{
    ChainHead, ChainScope, ChainVerdict, ChainVerifier, Draft, Stamp, Timestamp, TraceContext,
    WireForm, wire,
};
use bus_subjects::{AgentId, Subject, WorkspaceId};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout();
    let (workspace, agent) = (WorkspaceId::parse("acme")?, AgentId::parse("coder-1")?);
    let subject = Subject::parse("vak.events.acme.s1.tokens")?;
    let incarnation = Uuid::parse_str("019b7f1e-0000-7000-8000-000000000001")?;
    let scope = ChainScope::Incarnation {
        workspace: workspace.clone(),
        agent: agent.clone(),
        incarnation,
        subject: subject.clone(),
    };
    let mut span = TraceContext::new([7; 16], [1; 8], TraceContext::SAMPLED)?;
    let mut head = ChainHead::genesis(&scope);
    let mut frames = Vec::new();
    for (number, form) in [WireForm::Binary, WireForm::Json, WireForm::Compact].iter().enumerate() {
        span = span.child_span((number as u64 + 2).to_be_bytes());
        let draft = Draft::new(subject.clone(), "vak.token", format!(r#"{{"token":{number}}}"#))
            .content_type("application/json");
        let envelope = draft.stamp(Stamp {
            id: format!("event-{number}"),
            time: Timestamp::from_unix_ns(1_767_323_045_000_000_000 + number as i128),
            trace: span.clone(),
            workspace: workspace.clone(),
            agent: agent.clone(),
            incarnation,
            head,
        })?;
        head = head.after(&envelope);
        let (headers, body) = wire::encode(*form, &envelope);
        writeln!(out, "{form:?}: {} headers, {} bytes of body", headers.len(), body.len())?;
        frames.push((headers, body));
    }

    let mut verifier = ChainVerifier::new(scope, NonZeroUsize::MIN.saturating_add(15));
    for (number, (headers, body)) in frames.iter().enumerate() {
        let mut envelope = wire::decode(headers, body)?;
        if number == 1 {
            envelope.payload = r#"{"token":"forged"}"#.into();
        }
        let verdict = verifier.feed(&envelope);
        writeln!(out, "{}: {verdict:?}", envelope.id)?;
        // A changed event shows at its successor, whose link no longer fits.
        let expected = if number == 2 { ChainVerdict::Altered } else { ChainVerdict::Linked };
        assert_eq!(verdict, expected);
    }
    assert!(!verifier.is_complete());
    Ok(())
}
