//! `vakbus dlq show`: all that is known of one dead letter, and the payload of its task.

use bus_core::{DeadLetter, DeadLetters, LetterContent, Opened};
use bus_envelope::Timestamp;
use data_encoding::BASE64;
use serde_json::{Value, json};

use super::{age, attempts, kind, letter_json, untreated};
use crate::{
    args::{DlqShowArgs, Global, Raw},
    error::{CliError, Exit},
    print as out,
};

/// Shows it; with `--payload` the task has to be one that can be opened.
pub(super) async fn run(
    letters: &DeadLetters,
    args: &DlqShowArgs,
    now: Timestamp,
    global: &Global,
) -> Result<Exit, CliError> {
    let number = args.letter.0;
    Raw::check(args.raw, &format!("vakbus dlq show {number} --payload"))?;
    let letter = letters.show(args.letter).await.map_err(|error| untreated(&error, number))?;
    let original = letter.content.as_ref().ok().map(|content| letters.original(content));
    if !args.payload {
        let original = original.as_ref().map(Result::as_ref);
        match global.json {
            true => out::json(&as_json(&letter, original, now))?,
            false => out::text(&as_text(&letter, original, now))?,
        }
        return Ok(Exit::Done);
    }
    let opened = match (original, letter.content.as_ref()) {
        (Some(Ok(opened)), _) => opened,
        (Some(Err(error)), _) => return Err(untreated(&error, number)),
        (None, Ok(_)) | (None, Err(_)) => {
            let why = letter.content.err().map_or_else(String::new, |error| error.to_string());
            let what = format!("letter {number} cannot be opened: {why}");
            return Err(CliError::new(Exit::Failed, what)
                .next(format!("vakbus dlq show {number} says what is known all the same")));
        }
    };
    if global.json {
        let payload = match std::str::from_utf8(&opened.payload) {
            Ok(text) => json!({ "payload": text }),
            Err(_) => json!({ "payload_base64": BASE64.encode(&opened.payload) }),
        };
        let shown = as_json(&letter, Some(Ok(&opened)), now);
        out::json(&out::with(shown, payload))?;
        return Ok(Exit::Done);
    }
    let mut printed = out::Others::new(args.raw == Some(Raw::Force));
    printed.write(&opened.payload)?;
    printed.finish()?;
    Ok(Exit::Done)
}

/// The task of a letter, or why it cannot be opened; none when the letter cannot.
type Original<'a> = Option<Result<&'a Opened, &'a bus_core::Error>>;

fn as_json(letter: &DeadLetter, original: Original<'_>, now: Timestamp) -> Value {
    let known = letter_json(letter, now);
    let Ok(content) = letter.content.as_ref() else { return known };
    let event = &content.event;
    let placement = event.original.placement.as_ref();
    let of_letter = json!({
        "failed_at": event.failed_at,
        "cause": content.cause.map(|cause| cause.to_string()),
        "frame": event.original.id,
        "headers": event.original.headers,
        "priority": placement.map(|placement| placement.priority),
        "key": placement.and_then(|placement| placement.key.as_ref()),
        "task_unreadable": original.and_then(Result::err).map(ToString::to_string),
    });
    let of_task = match original.and_then(Result::ok) {
        Some(opened) => {
            let envelope = &opened.envelope;
            let seal = envelope.seal.as_ref();
            json!({
                "type": envelope.event_type,
                "content_type": envelope.content_type,
                "from": envelope.lineage.agent.as_str(),
                "session": envelope.lineage.session.as_ref().map(|session| session.as_str()),
                "sent": envelope.time.to_string(),
                "traceparent": envelope.trace.traceparent(),
                "sealed_under": seal.map(|seal| &seal.key_id),
                "sealed_bytes": envelope.payload.len(),
            })
        }
        None => json!({}),
    };
    out::with(out::with(known, of_letter), of_task)
}

fn as_text(letter: &DeadLetter, original: Original<'_>, now: Timestamp) -> String {
    let agent = letter.agent.as_ref().map_or("?", |agent| agent.as_str());
    let mut text = format!("letter {}\n", letter.seq.0);
    let mut say = |name: &str, value: &str| {
        text.push_str(&format!("  {name:<13}{}\n", out::harmless(value)));
    };
    say("stored", &format!("{}, {} ago", letter.stored, age(letter, now)));
    say("given up by", agent);
    match letter.content.as_ref() {
        Ok(content) => say_content(content, original, &mut say),
        Err(error) => say("unreadable", &error.to_string()),
    }
    text
}

fn say_content(content: &LetterContent, original: Original<'_>, say: &mut impl FnMut(&str, &str)) {
    let event = &content.event;
    say("kind", kind(content));
    say("reason", &event.failure_reason);
    say("failed at", &event.failed_at);
    say("task", &event.envelope_id);
    say("sent to", &event.subject);
    say("attempts", &attempts(content));
    say("redrives", &content.redrives.to_string());
    if let Some(cause) = content.cause {
        say("cause", &cause.to_string());
    }
    match original {
        Some(Ok(opened)) => say_task(opened, say),
        Some(Err(error)) => say("task", &format!("cannot be opened: {error}")),
        None => {}
    }
    if let Some(placement) = &event.original.placement {
        say("priority", &placement.priority.to_string());
        if let Some(key) = &placement.key {
            say("key", key);
        }
    }
    for (name, value) in &event.original.headers {
        say("header", &format!("{name}: {value}"));
    }
}

fn say_task(opened: &Opened, say: &mut impl FnMut(&str, &str)) {
    let envelope = &opened.envelope;
    say("sent by", &format!("{} at {}", envelope.lineage.agent, envelope.time));
    say("traceparent", &envelope.trace.traceparent());
    if let Some(content_type) = &envelope.content_type {
        say("content type", content_type);
    }
    let under = envelope.seal.as_ref().map_or("no key", |seal| seal.key_id.as_str());
    let bytes = out::counted(envelope.payload.len() as u64, "byte", "bytes");
    say("payload", &format!("{bytes} sealed under {under}"));
}
