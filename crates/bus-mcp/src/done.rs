//! The end of a task that a client has done: its receipt, its result, and then the acknowledgement.

use bus_core::{Failure, Handled, Job, Recorded, ResultOutput, Results, TaskResult, output_hash};
use bus_envelope::{Draft, EventHash, Timestamp};
use bus_evidence::{RECEIPT_COMPLETED, RECEIPT_CONTENT_TYPE, WorkReceipt};
use bus_subjects::{Address, SessionId};

/// What a client gives as the result of its task.
#[derive(Debug)]
pub(crate) struct Output(pub Vec<u8>);

/// Stores the receipt of a task and what it gave.
///
/// # Errors
/// A failure to store the receipt is one of the attempt. A result that cannot be kept is told in
/// the log alone: the work is done, and must not be done again for it.
pub(crate) async fn keep(
    job: &Job<'_>,
    output: Output,
    started: Timestamp,
) -> Result<Handled, Failure> {
    let failed = |reason: String| Failure::Failed { reason };
    let Some(session) = job.endpoint.session().cloned() else {
        return Err(failed("the agent has no session to keep a receipt in".to_owned()));
    };
    let stderr_hash = EventHash::of(b"");
    let hash = output_hash(&EventHash::of(&output.0), &stderr_hash);
    let recorded = record(job, &session, (hash, output.0.len()), started).await;
    let recorded =
        recorded.map_err(|error| failed(format!("the receipt was not stored: {error}")))?;
    let results = Results::new(job.endpoint.clone());
    let receipt = match recorded {
        Recorded::Stored(sent) => Some(sent.receipt.seq),
        Recorded::AlreadyThere => None,
    };
    // The receipt is of an earlier attempt: so is the result, unless that one did not come to it.
    if receipt.is_none() && is_there(&results, job).await {
        return Ok(Handled);
    }
    let task_id = job.message.envelope.id.clone();
    let result = TaskResult {
        task: job.message.hash,
        attempt: job.attempt,
        worker: job.endpoint.agent().clone(),
        session,
        receipt,
        stderr_hash,
        output: kept(&results, &task_id, &output.0).await,
        left_out: None,
        task_id,
    };
    if let Err(error) = results.put(&result).await {
        tracing::warn!(task = %result.task_id, %error, "the result was not kept");
    }
    Ok(Handled)
}

async fn is_there(results: &Results, job: &Job<'_>) -> bool {
    let found = results.get(&job.message.envelope.id).await;
    found.is_ok_and(|found| found.is_some_and(|result| result.task == job.message.hash))
}

async fn kept(results: &Results, task_id: &str, output: &[u8]) -> ResultOutput {
    let stored = async {
        let mut writer = results.writer(task_id)?;
        writer.write(output).await?;
        writer.finish().await
    };
    stored.await.unwrap_or_else(|error| ResultOutput::NotKept { reason: error.to_string() })
}

async fn record(
    job: &Job<'_>,
    session: &SessionId,
    (hash, bytes): (EventHash, usize),
    started: Timestamp,
) -> bus_core::Result<Recorded> {
    let envelope = &job.message.envelope;
    let Address::Task { role, workspace } = Address::parse(&envelope.subject)? else {
        let detail = "the task came from no work queue";
        return Err(bus_core::Error::new(bus_core::ErrorKind::Invalid, "record", detail));
    };
    let receipt = WorkReceipt {
        task_id: envelope.id.clone(),
        role,
        worker: job.endpoint.agent().clone(),
        attempt: job.attempt,
        exit_code: 0,
        output_hash: hash,
        stdout_bytes: bytes as u64,
        stderr_bytes: 0,
        started,
        finished: job.endpoint.clock().now().max(started),
    };
    let subject = Address::Receipt { workspace, session: session.clone() }.subject();
    let draft = Draft::new(subject, RECEIPT_COMPLETED, receipt.to_json())
        .session(session.clone())
        .cause(job.message.hash)
        .trace(envelope.trace.clone())
        .content_type(RECEIPT_CONTENT_TYPE)
        // One a task, however often it is tried and whoever tries it: as every runner names it.
        .id(format!("{}.receipt", job.message.hash));
    job.endpoint.record(draft).await
}
