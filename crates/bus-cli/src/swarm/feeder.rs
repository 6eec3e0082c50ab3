//! Puts the tasks onto the queue, in order.

use std::sync::Arc;

use bus_core::{Endpoint, Frame, Result};
use bus_envelope::Draft;
use bus_subjects::Address;
use tokio_util::sync::CancellationToken;

use super::{ledger::Ledger, plan::Plan};

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
        if let Some(id) = &task.id {
            draft = draft.id(id);
        }
        let sent = orchestrator.send(draft).await?;
        fed.ids.push(sent.id);
        if plan.evidence.is_some() {
            fed.frames.push(sent.frame);
        }
        // The queue takes tasks faster than workers run them; let them.
        tokio::task::yield_now().await;
    }
    Ok(())
}
