//! What is printed of tasks and their ends.

use std::io::{self, Write};

use bus_core::{QueuedState, QueuedTask, ResultOutput, Results, output_hash};
use bus_envelope::{EventHash, Timestamp};
use bus_subjects::AgentId;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::end::{Dead, Done, End};
use crate::{
    args::{Global, TaskState},
    engine::Agent,
    error::{CliError, Exit},
    print as out,
};

/// Prints the end of a task: what it wrote, and on stderr what stands behind it. The exit code
/// tells how it ended.
pub(super) async fn end(
    agent: &Agent,
    id: &str,
    end: &End,
    global: &Global,
) -> Result<Exit, CliError> {
    match end {
        End::Done(result) => done(agent, id, result, global).await,
        End::Dead(letter) => {
            if global.json {
                dead_line(letter, global)?;
            } else {
                let reason = out::harmless(&letter.event.failure_reason);
                out::talk(&format!("task {id} was given up: {reason}"));
                out::talk(&format!("  its dead letter is number {}", letter.letter.0));
            }
            Ok(Exit::Partly)
        }
    }
}

/// The failure of a wait that was too short.
pub(super) fn no_end(id: &str) -> CliError {
    let what = format!("task {id} did not end in time; it goes on");
    CliError::new(Exit::Timeout, what).next(format!("vakbus task result {id} --wait"))
}

async fn done(agent: &Agent, id: &str, done: &Done, global: &Global) -> Result<Exit, CliError> {
    let output = Output::read(agent, done, global.json).await?;
    let is_verified = output.as_ref().is_some_and(|output| output.is_vouched_for(done));
    if global.json {
        let found = json!({
            "verified": is_verified,
            "output": output.as_ref().map_or(Value::Null, Output::text),
            "output_bytes": output.as_ref().map(|output| output.bytes),
        });
        out::json(&out::with(done_json(id, done), found))?;
    } else {
        let said = match (&output, &done.receipt) {
            (None, _) => "done; its output was not kept, or is not there any more",
            (Some(_), None) => "done; its receipt is not found",
            (Some(_), Some(_)) if is_verified => "done; its signed receipt vouches for the output",
            (Some(_), Some(_)) => "done; its receipt is of another attempt than the output",
        };
        out::remark(&format!("task {id}: {said}"));
    }
    Ok(Exit::Done)
}

/// The output of a task, as it was read.
struct Output {
    /// What it was, unless it went to stdout.
    kept: Option<Vec<u8>>,
    bytes: u64,
    hash: EventHash,
}

impl Output {
    /// Reads it to its end: into memory for JSON, else straight to stdout.
    async fn read(agent: &Agent, done: &Done, is_kept: bool) -> Result<Option<Self>, CliError> {
        let Some(result) = &done.result else { return Ok(None) };
        let results = Results::new(agent.endpoint.clone());
        let Some(mut reader) = results.output(result).await? else { return Ok(None) };
        let (mut hash, mut bytes) = (Sha256::new(), 0_u64);
        let mut kept = is_kept.then(Vec::new);
        while let Some(part) = reader.next().await {
            let part = part?;
            hash.update(&part);
            bytes = bytes.saturating_add(part.len() as u64);
            match &mut kept {
                Some(kept) => kept.extend_from_slice(&part),
                None if write(&part)? => {}
                // Nobody reads it: the rest is only hashed.
                None => {}
            }
        }
        Ok(Some(Self { kept, bytes, hash: EventHash::from_bytes(hash.finalize().into()) }))
    }

    fn is_vouched_for(&self, done: &Done) -> bool {
        let (Some(result), Some(receipt)) = (&done.result, &done.receipt) else { return false };
        receipt.output_hash == output_hash(&self.hash, &result.stderr_hash)
    }

    fn text(&self) -> Value {
        match self.kept.as_deref().map(std::str::from_utf8) {
            Some(Ok(text)) => json!(text),
            // JSON holds no other bytes; without --json they come as they are.
            Some(Err(_)) | None => Value::Null,
        }
    }
}

/// Writes a part of the output; says whether somebody still reads.
fn write(part: &[u8]) -> Result<bool, CliError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(part).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(out::unwritten(&error)),
    }
}

/// A line about a task that is done.
pub(super) fn done_line(id: &str, done: &Done, global: &Global) -> Result<(), CliError> {
    if global.json {
        return out::json(&done_json(id, done));
    }
    let kept = match done.result.as_ref().map(|result| &result.output) {
        Some(ResultOutput::Inline(_) | ResultOutput::Blob { .. }) => "output kept",
        Some(ResultOutput::NotKept { .. }) | None => "output not kept",
    };
    let (worker, attempt) = done.made_by();
    let worker = worker.map_or("?", AgentId::as_str);
    out::line(&format!("{id}  done  attempt {} by {worker}  {kept}", attempt.unwrap_or(0)))
}

fn done_json(id: &str, done: &Done) -> Value {
    let Done { result, receipt } = done;
    let (worker, attempt) = done.made_by();
    json!({
        "task": id,
        "state": TaskState::Done.as_str(),
        "worker": worker.map(AgentId::as_str),
        "attempt": attempt,
        "exit_code": receipt.as_ref().map(|receipt| receipt.exit_code),
        "finished": receipt.as_ref().map(|receipt| receipt.finished.to_string()),
        "session": result.as_ref().map(|result| result.session.as_str()),
    })
}

/// A line about a task that was given up.
pub(super) fn dead_line(dead: &Dead, global: &Global) -> Result<(), CliError> {
    let event = &dead.event;
    if global.json {
        return out::json(&json!({
            "task": event.envelope_id,
            "state": TaskState::Dead.as_str(),
            "letter": dead.letter.0,
            "attempts": event.attempts,
            "reason": event.failure_reason,
            "worker": event.worker_id,
            "at": event.failed_at,
        }));
    }
    let attempts = out::counted(event.attempts.into(), "attempt", "attempts");
    let reason = out::harmless(&event.failure_reason);
    out::line(&format!(
        "{}  dead  {attempts}  letter {}  {reason}",
        event.envelope_id, dead.letter.0
    ))
}

/// A line about a task that is in its queue.
pub(super) fn queued(task: &QueuedTask, now: Timestamp, global: &Global) -> Result<(), CliError> {
    let state = state_of(&task.state);
    let age = now.since(task.stored);
    let role = task.role.as_ref().map_or("?", |role| role.as_str());
    let opened = task.content.as_ref();
    if global.json {
        let (worker, attempt) = match &task.state {
            QueuedState::Begun { worker, attempt, .. } => (Some(worker), Some(*attempt)),
            _ => (None, None),
        };
        let deadline = opened.ok().and_then(|opened| opened.envelope.extensions.get("deadline"));
        return out::json(&json!({
            "task": task.task_id(),
            "state": state.as_str(),
            "role": role,
            "seq": task.seq.0,
            "stored": task.stored.to_string(),
            "age_ms": u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            "priority": task.placement.priority.level(),
            "key": task.placement.key.as_ref().map(|key| key.as_str()),
            "not_before": task.placement.not_before.map(|time| time.to_string()),
            "deadline": deadline,
            "worker": worker,
            "attempt": attempt,
            "from": opened.ok().map(|opened| opened.envelope.lineage.agent.as_str()),
            "unreadable": opened.err().map(ToString::to_string),
        }));
    }
    let text = match opened {
        Ok(opened) => {
            let text = String::from_utf8_lossy(&opened.payload);
            out::harmless(&text.chars().take(TEXT_CHARS_MAX).collect::<String>())
        }
        Err(error) => format!("cannot be opened: {error}"),
    };
    let more = match &task.state {
        QueuedState::Begun { worker, attempt, .. } => format!("  attempt {attempt} by {worker}"),
        QueuedState::Scheduled(time) => format!("  not before {time}"),
        QueuedState::Cancelled { by } => format!("  by {by}"),
        QueuedState::Waiting => String::new(),
    };
    let age = humantime::format_duration(std::time::Duration::from_secs(age.as_secs()));
    out::line(&format!("{}  {}  {role}  {age}{more}  {text}", task.task_id(), state.as_str()))
}

/// Where a queued task stands, by the names of the command line.
pub(super) const fn state_of(state: &QueuedState) -> TaskState {
    match state {
        QueuedState::Waiting => TaskState::Waiting,
        QueuedState::Scheduled(_) => TaskState::Scheduled,
        QueuedState::Begun { .. } => TaskState::Running,
        QueuedState::Cancelled { .. } => TaskState::Cancelled,
    }
}

/// How much of a task's text is shown, in characters.
const TEXT_CHARS_MAX: usize = 60;
