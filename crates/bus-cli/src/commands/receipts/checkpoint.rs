//! `vakbus receipts checkpoint`, and where proofs and checkpoints are written.

use std::{fs::OpenOptions, io::Write as _, path::Path};

use bus_envelope::MessageEnvelope;
use bus_evidence::{ProofError, SessionLog};
use bus_subjects::SessionId;
use serde_json::{Value, json};

use super::record;
use crate::{
    args::{CheckpointArgs, Global},
    engine::Agent,
    error::{CliError, Exit},
    print as out,
};

/// Signs the head of a session's log as it is now.
pub(super) async fn run(
    args: &CheckpointArgs,
    agent: &Agent,
    global: &Global,
) -> Result<Exit, CliError> {
    let found = record::beginning(&agent.endpoint, &args.session, |_| None).await?;
    if let Some(left_out) = &found.left_out {
        // A head that was signed now would say that this is all.
        let what = format!("no head is signed: {}", left_out.told());
        return Err(CliError::new(Exit::Failed, what)
            .next(format!("vakbus receipts show {} shows it", left_out.from.0)));
    }
    let log = log_of(agent, &args.session, found.shown.iter().map(|(_, kept)| &kept.envelope))?;
    let checkpoint = log.checkpoint(agent.endpoint.identity()).map_err(|error| refused(&error))?;
    let about = json!({ "origin": checkpoint.origin(), "entries": checkpoint.size() });
    hand_out(checkpoint.text(), "checkpoint", about, args.output.as_deref(), global)
}

/// The log of a session, of these envelopes.
pub(super) fn log_of<'a>(
    agent: &Agent,
    session: &SessionId,
    envelopes: impl IntoIterator<Item = &'a MessageEnvelope>,
) -> Result<SessionLog, CliError> {
    let mut log = SessionLog::receipts(agent.endpoint.workspace(), session);
    for envelope in envelopes {
        log.append(envelope).map_err(|error| refused(&error))?;
    }
    Ok(log)
}

/// The failure to prove or sign something.
pub(super) fn refused(error: &ProofError) -> CliError {
    let failed = CliError::new(Exit::Failed, error.to_string());
    match error {
        ProofError::Recorder(_) => CliError::new(Exit::Refused, error.to_string())
            .next("leave --as out, or name an auditor, operator, orchestrator or keeper"),
        ProofError::OtherLog { .. } | ProofError::Empty => CliError::usage(error.to_string())
            .next("vakbus receipts checkpoint --session S makes one that fits"),
        ProofError::Shorter { .. } | ProofError::Rewritten { .. } => failed.next(
            "the log is not the one that was vouched for: compare it with DATA_DIR/audit and with \
             your backups",
        ),
        _ => failed,
    }
}

/// Writes a text into a new file, or to stdout.
pub(super) fn hand_out(
    text: &str,
    name: &str,
    about: Value,
    file: Option<&Path>,
    global: &Global,
) -> Result<Exit, CliError> {
    if let Some(file) = file {
        write_new(file, text)?;
    }
    match (file, global.json) {
        (None, false) => out::text(text)?,
        (None, true) => out::json(&out::with(about, json!({ name: text })))?,
        (Some(file), true) => {
            out::json(&out::with(about, json!({ "file": file.display().to_string() })))?;
        }
        (Some(file), false) => out::remark(&format!("{name} written to {}", file.display())),
    }
    Ok(Exit::Done)
}

/// Writes a new file; one that is there may be all that somebody kept.
fn write_new(file: &Path, text: &str) -> Result<(), CliError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let written = options.open(file).and_then(|mut opened| {
        opened.write_all(text.as_bytes())?;
        opened.sync_all()
    });
    written.map_err(|error| {
        let what = format!("cannot write {}: {error}", file.display());
        CliError::new(Exit::Failed, what).next("name a new file with -o")
    })
}
