//! Tries what roles may and may not: what is allowed by mistake stores nothing all the same.

use std::sync::Arc;

use bus_core::{
    Engine, Error, ErrorKind, Expect, Frame, FrameId, Identity, Result as BusResult, Seq, planes,
};
use bus_subjects::{Address, AgentId, RoleName, SessionId, Subject, WorkspaceId};

use super::{
    checks::{self, Probe},
    finding::Finding,
    local::told,
};
use crate::{
    error::CliError,
    workspace::{Part, Workspace},
};

/// Somebody as whom something is tried.
pub(super) enum Asker {
    /// A connection on which the other side alone decides.
    Engine(Arc<dyn Engine>),
    /// Nobody, and why.
    Away(Finding),
}

/// The workspace's own agent for a part; why there is none, and what makes it.
pub(super) fn identity(workspace: &Workspace, part: Part) -> Result<Identity, Finding> {
    let wrong = |error: CliError| told(CHECK, &error);
    let name = AgentId::parse(part.name()).map_err(|error| wrong(error.into()))?;
    // One that is not there yet is not made for this.
    if !workspace.has_agent(&name) {
        let why = format!("workspace {} has no agent {name} yet", workspace.name());
        return Err(Finding::skipped(CHECK, why).mend(match part {
            Part::Worker => "the first worker makes it: vakbus worker -- COMMAND; then ask again",
            _ => "vakbus queue ls makes it; then ask again",
        }));
    }
    workspace.identity(&name).map_err(wrong)
}

/// What an operator must be able to do, and what a worker must not. A probe that is not answered is
/// a finding of its own.
pub(super) async fn look(
    (operator, worker): (Asker, Asker),
    workspace: &WorkspaceId,
    found: &mut Vec<Finding>,
) {
    let (mut probes, before) = (Vec::new(), found.len());
    match operator {
        Asker::Engine(engine) => {
            match planes::work_stream(workspace) {
                Ok(stream) => {
                    let listed = engine.consumers(stream).await.map(drop);
                    let what = "an operator that lists the queues";
                    note((&mut probes, found), (what, true), listed);
                }
                Err(error) => found.push(told(CHECK, &error.into())),
            }
            // It may find no way through its connection any more; nothing waits for it.
            let _closed = engine.close().await;
        }
        Asker::Away(why) => found.push(why),
    }
    match worker {
        Asker::Engine(engine) => {
            if let Err(error) = of_worker(&*engine, workspace, (&mut probes, found)).await {
                found.push(told(CHECK, &error));
            }
            let _closed = engine.close().await;
        }
        Asker::Away(why) => found.push(why),
    }
    if !probes.is_empty() || found.len() == before {
        found.extend(checks::permissions(&probes));
    }
}

/// Tries what a worker may and may not.
async fn of_worker(
    engine: &dyn Engine,
    workspace: &WorkspaceId,
    (probes, found): (&mut Vec<Probe>, &mut Vec<Finding>),
) -> Result<(), CliError> {
    let workspace = workspace.clone();
    let session = SessionId::parse("doctor")?;
    let operator = AgentId::parse(Part::Operator.name())?;
    let task = Address::Task { workspace: workspace.clone(), role: RoleName::parse("doctor")? };
    let mailbox = Address::Inbox { workspace: workspace.clone(), agent: operator };
    let approval = Subject::parse(&format!("vak.approvals.{workspace}.{session}.request"))?;
    let receipts = Address::Receipt { workspace, session };
    // No queue was ever so long: where it is let through the expectation does not hold.
    let frame = Frame::new(task.subject(), FrameId::parse("doctor")?, Vec::new());
    let forged = engine.append(frame, Expect::LastOfSubject(Seq(u64::MAX))).await;
    let what = ("a worker that forges a task", false);
    note((&mut *probes, &mut *found), what, forged.map(drop));
    for (what, may, subject) in [
        ("a worker that reads an approval", false, approval),
        ("a worker that reads a mailbox", false, mailbox.subject()),
        ("a worker that reads receipts", true, receipts.subject()),
    ] {
        let read = engine.last(subject).await.map(drop);
        note((&mut *probes, &mut *found), (what, may), read);
    }
    Ok(())
}

/// Notes whether something was let through. Who got no answer knows nothing, and says so.
fn note(
    (probes, found): (&mut Vec<Probe>, &mut Vec<Finding>),
    (what, may): (&'static str, bool),
    tried: BusResult<()>,
) {
    let is_unanswered = |error: &Error| {
        matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable | ErrorKind::Closed)
    };
    let was_let = match tried {
        Err(error) if error.kind() == ErrorKind::Denied => false,
        Err(error) if is_unanswered(&error) => {
            let finding = Finding::bad(CHECK, format!("{what}: no answer: {error}"));
            found.push(finding.mend("see that the engine answers: vakbus status"));
            return;
        }
        // Refused for another reason than the right to it.
        Ok(()) | Err(_) => true,
    };
    probes.push(Probe { what, may, was_let });
}

const CHECK: &str = "permissions";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_is_not_answered_takes_no_other_with_it() {
        let (mut probes, mut found) = (Vec::new(), Vec::new());
        let denied = Error::new(ErrorKind::Denied, "read", "no");
        let late = Error::new(ErrorKind::Timeout, "read", "no answer came");
        note((&mut probes, &mut found), ("one", false), Err(denied));
        note((&mut probes, &mut found), ("two", false), Err(late));
        note((&mut probes, &mut found), ("three", true), Ok(()));
        let tried: Vec<_> = probes.iter().map(|probe| (probe.what, probe.was_let)).collect();
        assert_eq!(tried, [("one", false), ("three", true)]);
        let said: Vec<_> = found.iter().map(|finding| finding.found.as_str()).collect();
        assert!(matches!(said[..], [said] if said.contains("two: no answer")), "{said:?}");
    }
}
