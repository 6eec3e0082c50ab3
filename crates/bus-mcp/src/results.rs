//! How a task ended, for who sent it: its result held to the signed receipt, or its dead letter.

use std::time::Duration;

use bus_core::{
    DeadLetterEvent, Endpoint, ErrorKind, Follow, Result, ResultOutput, Results, Seq, Standing,
    TaskResult, output_hash, planes,
};
use bus_envelope::EventHash;
use bus_evidence::{RECEIPT_COMPLETED, WorkReceipt};
use bus_subjects::{Address, AddressKind, Filter};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use crate::data;

/// Waits for the end of a task; none when it did not come in time. Another task with the same id is
/// not meant where `hash` says which one is.
pub(crate) async fn wait(
    endpoint: &Endpoint,
    id: &str,
    hash: Option<EventHash>,
    wait: Duration,
) -> Result<Option<Value>> {
    let until = Instant::now() + wait;
    let is_meant = |result: &TaskResult| hash.is_none_or(|hash| hash == result.task);
    let results = Results::new(endpoint.clone());
    let mut watch = results.watch(id).await?;
    let filter = AddressKind::DeadLetter.filter(Some(endpoint.workspace()));
    let mut letters = Follow::new(endpoint.clone(), planes::dead_letters_stream()?, filter, Seq(1));
    if let Some(result) = results.get(id).await?.filter(is_meant) {
        return done(endpoint, &results, &result).await.map(Some);
    }
    loop {
        if let Some(letter) = letter(endpoint, &mut letters, id, hash).await? {
            return Ok(Some(letter));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        tokio::select! {
            result = watch.next() => match result {
                Some(result) => {
                    let result = result?;
                    if is_meant(&result) {
                        return done(endpoint, &results, &result).await.map(Some);
                    }
                }
                None => {
                    let detail = "the bus was closed";
                    return Err(bus_core::Error::new(ErrorKind::Closed, "wait", detail));
                }
            },
            () = sleep(LOOK_EVERY) => {}
            () = sleep_until(until) => {}
        }
    }
}

/// A task that is done, with what it gave.
async fn done(endpoint: &Endpoint, results: &Results, result: &TaskResult) -> Result<Value> {
    let receipt = receipt(endpoint, result).await?;
    let (bytes, is_whole) = output(results, result).await?;
    let hash = output_hash(&EventHash::of(&bytes), &result.stderr_hash);
    let is_vouched = receipt.as_ref().is_some_and(|receipt| receipt.output_hash == hash);
    let mut body = data::body(None, &bytes);
    if let Some(body) = body.as_object_mut() {
        body.remove("content_type");
        body.insert("whole".to_owned(), json!(is_whole));
    }
    Ok(json!({
        "task": result.task_id,
        "state": "done",
        "attempt": result.attempt,
        // Beside what it gave: who, and whether a receipt that it signed vouches for these bytes.
        "from": { "agent": result.worker.as_str(), "verified": is_whole && is_vouched },
        "receipt": result.receipt.map(|seq| seq.0),
        "body": body,
    }))
}

/// The signed receipt that a result names.
async fn receipt(endpoint: &Endpoint, result: &TaskResult) -> Result<Option<WorkReceipt>> {
    let Some(seq) = result.receipt else { return Ok(None) };
    let workspace = endpoint.workspace().clone();
    let subject = Address::Receipt { workspace, session: result.session.clone() }.subject();
    let stream = planes::receipts_stream()?;
    let mut stored = endpoint.replay_from(stream, Filter::from(&subject), seq).await?;
    let Some(stored) = stored.next().await.transpose()?.filter(|stored| stored.seq == seq) else {
        return Ok(None);
    };
    let Ok(opened) = endpoint.open_record(&stored) else { return Ok(None) };
    let is_about = opened.envelope.event_type == RECEIPT_COMPLETED
        && opened.envelope.lineage.cause == Some(result.task)
        && opened.envelope.lineage.agent == result.worker;
    Ok(WorkReceipt::parse(&opened.payload).ok().filter(|_| is_about))
}

/// What a task gave, and whether that is all of it.
async fn output(results: &Results, result: &TaskResult) -> Result<(Vec<u8>, bool)> {
    if let ResultOutput::NotKept { .. } = &result.output {
        return Ok((Vec::new(), false));
    }
    let Some(mut reader) = results.output(result).await? else { return Ok((Vec::new(), false)) };
    let mut bytes = Vec::new();
    while let Some(piece) = reader.next().await {
        let piece = piece?;
        let room = BYTES_SHOWN_MAX.saturating_sub(bytes.len());
        bytes.extend(piece.iter().take(room));
        if piece.len() > room {
            return Ok((bytes, false));
        }
    }
    Ok((bytes, result.left_out.is_none()))
}

async fn letter(
    endpoint: &Endpoint,
    letters: &mut Follow,
    id: &str,
    hash: Option<EventHash>,
) -> Result<Option<Value>> {
    let mut found = None;
    letters
        .look(|stored| {
            let Ok(opened) = endpoint.open(&stored.frame) else { return };
            let Ok(event) = DeadLetterEvent::from_json(&opened.payload) else { return };
            let cause = opened.envelope.lineage.cause;
            if event.envelope_id == id && hash.is_none_or(|hash| cause == Some(hash)) {
                let verified = opened.standing == Standing::Signed;
                found = Some(json!({
                    "task": id,
                    "state": "dead-lettered",
                    "attempts": event.attempts,
                    "letter": stored.seq.0,
                    "from": { "agent": opened.envelope.lineage.agent.as_str(), "verified": verified },
                    "reason": data::clean(event.failure_reason.as_bytes()),
                }));
            }
        })
        .await?;
    Ok(found)
}

/// How often dead letters are looked for while somebody waits.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How much of a result a tool answers, in bytes; `vakbus task result` has all of it.
const BYTES_SHOWN_MAX: usize = 256 * 1024;
