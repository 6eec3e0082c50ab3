//! Puts the tasks onto the queue, in order.

use std::sync::Arc;

use bus_core::{Endpoint, Error, ErrorKind, Frame, Result, Sent};
use bus_envelope::Draft;
use bus_subjects::Address;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{away::Away, ledger::Ledger, plan::Plan};

/// What was put onto the queue.
#[derive(Debug, Default)]
pub(super) struct Fed {
    /// The ids of the tasks that were sent, in the order of the plan.
    pub(super) ids: Vec<String>,
    /// The frames that were stored, when evidence is wanted.
    pub(super) frames: Vec<Frame>,
}

/// Sends every task; stops early when told to. When one cannot be sent the run is drained.
pub(super) async fn feed(
    orchestrator: Endpoint,
    plan: Arc<Plan>,
    ledger: Arc<Ledger>,
    drain: CancellationToken,
) -> Fed {
    let mut fed = Fed::default();
    // However this ends before all are sent: nobody may wait for the rest.
    let drain_at_end = drain.clone().drop_guard();
    match send_all(&orchestrator, &plan, &drain, &mut fed).await {
        Ok(()) => drop(drain_at_end.disarm()),
        Err(error) => ledger.fail(format!("the tasks could not be sent: {error}")),
    }
    fed
}

async fn send_all(
    orchestrator: &Endpoint,
    plan: &Plan,
    drain: &CancellationToken,
    fed: &mut Fed,
) -> Result<()> {
    let (workspace, role) = (orchestrator.workspace().clone(), plan.role.clone());
    let subject = Address::Task { workspace, role }.subject();
    for task in &plan.tasks {
        if drain.is_cancelled() {
            break;
        }
        let payload = bytes::Bytes::copy_from_slice(task.text.as_bytes());
        let mut draft = Draft::new(subject.clone(), "vak.task", payload)
            .content_type("text/plain; charset=utf-8");
        if let Some(trace) = &plan.trace {
            draft = draft.trace(trace.clone());
        }
        // An id of its own makes a draft safe to be given again.
        let id = match &task.id {
            Some(id) => id.clone(),
            None => new_id(orchestrator)?,
        };
        let Some(sent) = send(orchestrator, draft.id(&id), drain).await? else { break };
        fed.ids.push(sent.id);
        if plan.evidence.is_some() {
            fed.frames.push(sent.frame);
        }
        // The queue takes tasks faster than workers run them; let them.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Sends one task, also to an engine that is away for a while; none when the run is drained first.
async fn send(
    orchestrator: &Endpoint,
    draft: Draft,
    drain: &CancellationToken,
) -> Result<Option<Sent>> {
    let mut away = Away::default();
    loop {
        match orchestrator.send(draft.clone()).await {
            Err(error) if away.may_end(&error, Instant::now()) => {
                tracing::warn!(%error, "the engine is away: a task is sent again");
                tokio::select! {
                    () = sleep(Away::PAUSE) => {}
                    () = drain.cancelled() => return Ok(None),
                }
            }
            sent => return sent.map(Some),
        }
    }
}

fn new_id(orchestrator: &Endpoint) -> Result<String> {
    let id = super::run_id(orchestrator.clock(), orchestrator.entropy());
    id.map_err(|error| Error::new(ErrorKind::Unavailable, "send", error.what().to_owned()))
}
