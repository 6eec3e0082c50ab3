//! Tries what roles may and may not: what is allowed by mistake stores nothing all the same.

use std::sync::Arc;

use bus_core::{
    Engine, Error, ErrorKind, Expect, Frame, FrameId, Result as BusResult, Seq, planes,
};
use bus_subjects::{Address, AgentId, RoleName, SessionId, Subject, WorkspaceId};

use super::{
    checks::{self, Probe},
    finding::Finding,
};
use crate::{error::CliError, workspace::Part};

/// Somebody as whom something is tried.
pub(super) enum Asker {
    /// A connection on which the other side alone decides.
    Engine(Arc<dyn Engine>),
    /// Nobody, and why.
    Away(String),
}

/// The workspace's own agent for a part.
pub(super) fn name(part: Part) -> Result<AgentId, CliError> {
    Ok(AgentId::parse(part.name())?)
}

/// What an operator must be able to do, and what a worker must not.
pub(super) async fn findings(
    operator: Asker,
    worker: Asker,
    workspace: &WorkspaceId,
) -> Result<Vec<Finding>, CliError> {
    let (mut probes, mut findings) = (Vec::new(), Vec::new());
    match operator {
        Asker::Engine(engine) => {
            let listed = engine.consumers(planes::work_stream(workspace)?).await;
            let what = "an operator that lists the queues";
            note(&mut probes, (what, true), listed.map(drop))?;
            // It may find no way through its connection any more; nothing waits for it.
            let _closed = engine.close().await;
        }
        Asker::Away(why) => findings.push(Finding::skipped("permissions", why)),
    }
    match worker {
        Asker::Engine(engine) => {
            for (what, may, tried) in of_worker(&*engine, workspace).await? {
                note(&mut probes, (what, may), tried)?;
            }
            let _closed = engine.close().await;
        }
        Asker::Away(why) => findings.push(Finding::skipped("permissions", why)),
    }
    if !probes.is_empty() || findings.is_empty() {
        findings.extend(checks::permissions(&probes));
    }
    Ok(findings)
}

/// What a worker tries, whether it may, and what came of it.
async fn of_worker(
    engine: &dyn Engine,
    workspace: &WorkspaceId,
) -> Result<Vec<(&'static str, bool, BusResult<()>)>, CliError> {
    let workspace = workspace.clone();
    let session = SessionId::parse("doctor")?;
    let task = Address::Task { workspace: workspace.clone(), role: RoleName::parse("doctor")? };
    let mailbox = Address::Inbox { workspace: workspace.clone(), agent: name(Part::Operator)? };
    let approval = Subject::parse(&format!("vak.approvals.{workspace}.{session}.request"))?;
    let receipts = Address::Receipt { workspace, session };
    // No queue was ever so long: where it is let through the expectation does not hold.
    let frame = Frame::new(task.subject(), FrameId::parse("doctor")?, Vec::new());
    let forged = engine.append(frame, Expect::LastOfSubject(Seq(u64::MAX))).await;
    Ok(vec![
        ("a worker that forges a task", false, forged.map(drop)),
        ("a worker that reads an approval", false, engine.last(approval).await.map(drop)),
        ("a worker that reads a mailbox", false, engine.last(mailbox.subject()).await.map(drop)),
        ("a worker that reads receipts", true, engine.last(receipts.subject()).await.map(drop)),
    ])
}

/// Notes whether something was let through. Who got no answer knows nothing.
fn note(
    probes: &mut Vec<Probe>,
    (what, may): (&'static str, bool),
    tried: BusResult<()>,
) -> Result<(), Error> {
    let was_let = match tried {
        Err(error) if error.kind() == ErrorKind::Denied => false,
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::Timeout | ErrorKind::Unavailable | ErrorKind::Closed
            ) =>
        {
            return Err(error);
        }
        // Refused for another reason than the right to it.
        Ok(()) | Err(_) => true,
    };
    probes.push(Probe { what, may, was_let });
    Ok(())
}
