//! What is printed of tasks and their ends.

use bus_core::{LeftOut, QueuedState, QueuedTask, ResultOutput, Results, output_hash};
use bus_envelope::{EventHash, Timestamp};
use bus_subjects::AgentId;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::end::{Dead, Done, End};
use crate::{
    args::{Global, Raw, TaskState},
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
    (raw, global): (Option<Raw>, &Global),
) -> Result<Exit, CliError> {
    match end {
        End::Done(result) => done(agent, id, result, (raw, global)).await,
        End::Dead(letter) => {
            if global.json {
                dead_line(letter, global)?;
            } else {
                let reason = out::harmless(&letter.event.failure_reason);
                out::talk(&format!("task {id} was given up: {reason}"));
                let number = letter.letter.0;
                out::talk(&format!("  its dead letter: vakbus dlq show {number}"));
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

async fn done(
    agent: &Agent,
    id: &str,
    done: &Done,
    (raw, global): (Option<Raw>, &Global),
) -> Result<Exit, CliError> {
    let printed = (!global.json).then(|| out::Others::new(raw == Some(Raw::Force)));
    let output = Output::read(agent, done, printed).await?;
    if let Some(output) = &output {
        output.check_lengths(id, done)?;
    }
    let is_verified = output.as_ref().is_some_and(|output| output.is_vouched_for(done));
    if global.json {
        let found = json!({
            "verified": is_verified,
            "output": output.as_ref().map_or(Value::Null, Output::text),
            "output_bytes": output.as_ref().map(|output| output.bytes),
            "not_kept": not_kept(done),
            "output_tail": output.as_ref().map_or(Value::Null, Output::tail_text),
            "left_out": output.as_ref().and_then(|output| output.left_out).map(|left_out| json!({
                "at": left_out.at,
                "bytes": left_out.bytes,
                "stdout_hash": left_out.stdout_hash.to_string(),
                "hash_verified": output.as_ref().is_some_and(|it| it.is_whole_vouched_for(done)),
            })),
        });
        out::json(&out::with(done_json(id, done), found))?;
    } else {
        let lost;
        let said = match (&output, &done.receipt) {
            (None, _) => match not_kept(done) {
                Some(reason) => {
                    lost = format!("done; its output was not kept: {}", out::harmless(reason));
                    &lost
                }
                None => "done; its output was not kept, or is not there any more",
            },
            (Some(_), None) => "done; its receipt is not found",
            (Some(output), Some(_)) if output.is_whole_vouched_for(done) => {
                let worker = done.result.as_ref().map_or("?", |result| result.worker.as_str());
                lost = format!(
                    "done; shown by the word of {worker}: its signed receipt vouches only for the \
                     hash of the whole output"
                );
                &lost
            }
            (Some(_), Some(_)) if is_verified => "done; its signed receipt vouches for the output",
            (Some(_), Some(_)) => "done; its receipt is of another attempt than the output",
        };
        out::remark(&format!("task {id}: {said}"));
    }
    Ok(Exit::Done)
}

/// Why the output was not kept, when its worker said so.
fn not_kept(done: &Done) -> Option<&str> {
    match &done.result.as_ref()?.output {
        ResultOutput::NotKept { reason } => Some(reason),
        ResultOutput::Inline(_) | ResultOutput::Blob { .. } => None,
    }
}

/// The output of a task, as it was read.
struct Output {
    /// What it was, unless it went to stdout.
    kept: Option<Vec<u8>>,
    bytes: u64,
    hash: EventHash,
    left_out: Option<LeftOut>,
}

impl Output {
    /// Reads it to its end: straight to where it is printed, or else into memory.
    async fn read(
        agent: &Agent,
        done: &Done,
        mut printed: Option<out::Others>,
    ) -> Result<Option<Self>, CliError> {
        let Some(result) = &done.result else { return Ok(None) };
        let results = Results::new(agent.endpoint.clone());
        let Some(mut reader) = results.output(result).await? else { return Ok(None) };
        let (mut hash, mut bytes) = (Sha256::new(), 0_u64);
        let mut kept = printed.is_none().then(Vec::new);
        while let Some(part) = reader.next().await {
            let part = part?;
            hash.update(&part);
            let before = bytes;
            bytes = bytes.saturating_add(part.len() as u64);
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(&part);
            }
            let Some(printed) = &mut printed else { continue };
            let gap = result.left_out.filter(|gap| (before..bytes).contains(&gap.at));
            let head = gap.map_or(0, |gap| usize::try_from(gap.at - before).unwrap_or(0));
            let (head, rest) = part.split_at_checked(head).unwrap_or((&part, &[]));
            // When nobody reads it any more, the rest is only hashed.
            printed.write(head)?;
            if let Some(gap) = gap {
                printed.part()?;
                say_left_out(&gap);
            }
            printed.write(rest)?;
        }
        if let Some(printed) = printed {
            printed.finish()?;
            if let Some(gap) = result.left_out.filter(|gap| gap.at >= bytes) {
                say_left_out(&gap);
            }
        }
        let (hash, left_out) = (EventHash::from_bytes(hash.finalize().into()), result.left_out);
        Ok(Some(Self { kept, bytes, hash, left_out }))
    }

    /// Whether the receipt vouches for the hash of an output of which only parts are kept.
    fn is_whole_vouched_for(&self, done: &Done) -> bool {
        let (Some(result), Some(receipt)) = (&done.result, &done.receipt) else { return false };
        self.left_out.is_some_and(|left_out| {
            receipt.output_hash == output_hash(&left_out.stdout_hash, &result.stderr_hash)
        })
    }

    /// Refuses parts that cannot be of the output that the receipt is of: they have another length.
    fn check_lengths(&self, id: &str, done: &Done) -> Result<(), CliError> {
        let (Some(left_out), Some(receipt)) = (self.left_out, &done.receipt) else { return Ok(()) };
        let (kept, gone, all) = (self.bytes, left_out.bytes, receipt.stdout_bytes);
        if !self.is_whole_vouched_for(done) || kept.checked_add(gone) == Some(all) {
            return Ok(());
        }
        let what = format!(
            "the output of task {id} is not what its receipt is of: {kept} bytes are kept and \
             {gone} left out, and the receipt says {all}"
        );
        Err(CliError::new(Exit::Refused, what).next("do not rely on it; ask who runs the worker"))
    }

    fn is_vouched_for(&self, done: &Done) -> bool {
        let (Some(result), Some(receipt)) = (&done.result, &done.receipt) else { return false };
        receipt.output_hash == output_hash(&self.hash, &result.stderr_hash)
    }

    fn text(&self) -> Value {
        self.parts().map_or(Value::Null, |(head, _)| text(head))
    }

    /// The text of what stands after the part that is left out.
    fn tail_text(&self) -> Value {
        match (self.left_out, self.parts()) {
            (Some(_), Some((_, tail))) => text(tail),
            _ => Value::Null,
        }
    }

    /// What stands before the part that is left out, and what after it.
    fn parts(&self) -> Option<(&[u8], &[u8])> {
        let kept = self.kept.as_deref()?;
        let at = self.left_out.and_then(|left_out| usize::try_from(left_out.at).ok());
        Some(kept.split_at_checked(at.unwrap_or(kept.len())).unwrap_or((kept, &[])))
    }
}

fn text(bytes: &[u8]) -> Value {
    // JSON holds no other bytes; without --json they come as they are.
    std::str::from_utf8(bytes).map_or(Value::Null, Value::from)
}

fn say_left_out(gap: &LeftOut) {
    out::talk(&format!("{} left out here", out::counted(gap.bytes, "byte is", "bytes are")));
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
    let id = out::harmless(&event.envelope_id);
    out::line(&format!("{id}  dead  {attempts}  letter {}  {reason}", dead.letter.0))
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

#[cfg(test)]
mod tests {
    use bus_core::TaskResult;
    use bus_evidence::WorkReceipt;

    use super::*;

    fn done(stdout_bytes: u64) -> (Output, Done) {
        let (stdout_hash, stderr_hash) = (EventHash::of(b"all"), EventHash::of(b""));
        let left_out = Some(LeftOut { at: 5, bytes: 6, stdout_hash });
        let worker: AgentId = "ann".parse().unwrap();
        let receipt = WorkReceipt {
            task_id: "t-1".to_owned(),
            role: "r".parse().unwrap(),
            worker: worker.clone(),
            attempt: 1,
            exit_code: 0,
            output_hash: output_hash(&stdout_hash, &stderr_hash),
            stdout_bytes,
            stderr_bytes: 0,
            started: Timestamp::from_unix_ns(0),
            finished: Timestamp::from_unix_ns(1),
        };
        let result = TaskResult {
            task_id: "t-1".to_owned(),
            task: EventHash::of(b"task"),
            attempt: 1,
            worker,
            session: "s".parse().unwrap(),
            receipt: None,
            stderr_hash,
            output: ResultOutput::Inline("01234bcdef".into()),
            left_out,
        };
        let output = Output { kept: None, bytes: 10, hash: EventHash::of(b"parts"), left_out };
        (output, Done { result: Some(result), receipt: Some(receipt) })
    }

    #[test]
    fn parts_that_do_not_add_up_to_the_receipts_output_are_refused() {
        let (output, fits) = done(16);
        assert!(output.check_lengths("t-1", &fits).is_ok());
        let (output, forged) = done(17);
        let error = output.check_lengths("t-1", &forged).unwrap_err();
        assert_eq!(error.code(), Exit::Refused, "{error}");
    }
}
