//! How records are shown.

use bus_envelope::wire;
use serde_json::{Value, json, value::RawValue};

use super::record::{Record, Said};
use crate::{args::Global, error::CliError, print as out};

/// A line about a record.
pub(super) fn line(record: &Record, global: &Global) -> Result<(), CliError> {
    if global.json {
        return out::json(&short(record));
    }
    let Record { seq, stored, session, .. } = record;
    let session = session.as_ref().map_or("?", |session| session.as_str());
    let words = match &record.said {
        Said::Receipt(receipt) => {
            let (task, worker) = (out::harmless(&receipt.task_id), &receipt.worker);
            let (attempt, code) = (receipt.attempt, receipt.exit_code);
            format!("{task}  done  attempt {attempt} by {worker}  exit code {code}")
        }
        Said::Other(_) => {
            let (kind, agent) = kind_and_agent(record);
            format!("{}  by {agent}", out::harmless(&kind))
        }
        Said::Unreadable(reason) => format!("cannot be opened: {}", out::harmless(reason)),
    };
    let doubt = match (&record.doubt, &record.said) {
        (Some(doubt), Said::Receipt(_) | Said::Other(_)) => {
            format!("  NOT VERIFIED: {}", out::harmless(doubt))
        }
        (Some(_), Said::Unreadable(_)) => "  NOT VERIFIED".to_owned(),
        (None, _) => String::new(),
    };
    out::line(&format!("{}  {stored}  {session}  {words}{doubt}", seq.0))
}

/// All that a record says.
pub(super) fn whole(record: &Record, global: &Global) -> Result<(), CliError> {
    if global.json {
        return out::json(&out::with(short(record), long(record)));
    }
    let mut lines = vec![format!("position    {}", record.seq.0)];
    let mut add = |name: &str, value: String| {
        lines.push(format!("{name:<11} {}", out::harmless(&value)));
    };
    add("stored", record.stored.to_string());
    add("session", record.session.as_ref().map_or("?".to_owned(), ToString::to_string));
    let (kind, agent) = kind_and_agent(record);
    add("type", kind);
    match &record.said {
        Said::Receipt(receipt) => {
            add("task", receipt.task_id.clone());
            add("queue", receipt.role.to_string());
            add("worker", receipt.worker.to_string());
            add("attempt", receipt.attempt.to_string());
            add("exit code", receipt.exit_code.to_string());
            add("output", receipt.output_hash.to_string());
            add("stdout", out::counted(receipt.stdout_bytes, "byte", "bytes"));
            add("stderr", out::counted(receipt.stderr_bytes, "byte", "bytes"));
            add("started", receipt.started.to_string());
            add("finished", receipt.finished.to_string());
        }
        Said::Other(payload) => {
            add("agent", agent);
            add("says", String::from_utf8_lossy(payload).into_owned());
        }
        Said::Unreadable(reason) => {
            add("agent", agent);
            add("unreadable", reason.clone());
        }
    }
    if let Some((envelope, leaf)) = &record.envelope {
        add("leaf", leaf.to_string());
        add("cause", envelope.lineage.cause.map_or("none".to_owned(), |cause| cause.to_string()));
        add("trace", envelope.trace.traceparent());
    }
    add("verified", record.doubt.as_ref().map_or("yes".into(), |doubt| format!("NO: {doubt}")));
    out::line(&lines.join("\n"))
}

/// The type of a record's event, and who sent it.
fn kind_and_agent(record: &Record) -> (String, String) {
    match &record.envelope {
        Some((envelope, _)) => (envelope.event_type.clone(), envelope.lineage.agent.to_string()),
        None => ("?".to_owned(), "?".to_owned()),
    }
}

fn short(record: &Record) -> Value {
    let envelope = record.envelope.as_ref();
    let base = json!({
        "position": record.seq.0,
        "stored": record.stored.to_string(),
        "session": record.session.as_ref().map(|session| session.as_str()),
        "type": envelope.map(|(envelope, _)| envelope.event_type.as_str()),
        "agent": envelope.map(|(envelope, _)| envelope.lineage.agent.as_str()),
        "leaf": envelope.map(|(_, leaf)| leaf.to_string()),
        "verified": record.doubt.is_none(),
    });
    let more = match &record.said {
        Said::Receipt(receipt) => json!({
            "task": receipt.task_id,
            "worker": receipt.worker.as_str(),
            "attempt": receipt.attempt,
            "exit_code": receipt.exit_code,
            "output_hash": receipt.output_hash.to_string(),
            "started": receipt.started.to_string(),
            "finished": receipt.finished.to_string(),
        }),
        Said::Other(payload) => json!({ "says": text_or_json(payload) }),
        Said::Unreadable(reason) => json!({ "unreadable": reason }),
    };
    let base = out::with(base, more);
    match &record.doubt {
        Some(doubt) => out::with(base, json!({ "doubt": doubt })),
        None => base,
    }
}

fn long(record: &Record) -> Value {
    let envelope = record.envelope.as_ref().map(|(envelope, _)| {
        let json = String::from_utf8(wire::json::encode(envelope)).unwrap_or_default();
        RawValue::from_string(json).ok()
    });
    let mut more = json!({ "envelope": envelope });
    if let Some(receipt) = record.receipt() {
        more = out::with(
            more,
            json!({
                "queue": receipt.role.as_str(),
                "stdout_bytes": receipt.stdout_bytes,
                "stderr_bytes": receipt.stderr_bytes,
            }),
        );
    }
    more
}

/// A payload as the JSON that it is, else as text.
fn text_or_json(payload: &[u8]) -> Value {
    serde_json::from_slice(payload)
        .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(payload).into_owned()))
}
