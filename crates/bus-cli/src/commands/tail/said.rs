//! What a message says, in one line for people and as JSON.

use bus_core::{Alert, DeadLetterEvent, GivenUpCause, Opened};
use bus_envelope::Timestamp;
use bus_evidence::{RECEIPT_COMPLETED, WorkReceipt};
use bus_subjects::Address;
use serde_json::{Value, json};

use crate::{args::TailKind, commands::live::message_json, print as out};

/// A line about a message: when, who, what, and what it says.
pub(super) fn line(kind: TailKind, opened: &Opened, position: Option<u64>) -> String {
    let envelope = &opened.envelope;
    let (time, agent) = (clock(envelope.time), &envelope.lineage.agent);
    let words = words(kind, opened, position);
    format!("{time} {agent}  {}  {}", kind.one(), out::harmless(&cut(&words)))
}

/// A line about a record that cannot be opened.
pub(super) fn unreadable(kind: TailKind, time: Timestamp, error: &bus_core::Error) -> String {
    let why = out::harmless(&error.to_string());
    format!("{} ?  {}  cannot be opened: {why}", clock(time), kind.one())
}

/// A message as JSON, with its kind, and its position where it is kept.
pub(super) fn as_json(kind: TailKind, opened: &Opened, position: Option<u64>) -> Value {
    out::with(message_json(opened), json!({ "kind": kind.as_str(), "position": position }))
}

fn words(kind: TailKind, opened: &Opened, position: Option<u64>) -> String {
    let text = || text_of(&opened.payload);
    let said = match kind {
        TailKind::Tokens | TailKind::Terminal => None,
        TailKind::Alerts => Alert::of(opened).ok().flatten().map(|alert| alert_words(&alert)),
        TailKind::Tasks => Some(task_words(opened)),
        TailKind::Receipts if opened.envelope.event_type == RECEIPT_COMPLETED => {
            WorkReceipt::parse(&opened.payload).ok().map(|receipt| receipt_words(&receipt))
        }
        TailKind::Receipts => Some(opened.envelope.event_type.clone()),
        TailKind::DeadLetters => letter_words(opened, position),
        TailKind::Approvals => Some(approval_words(opened)),
    };
    said.unwrap_or_else(text)
}

/// A payload as text, as far as a line has room for it: an event may hold 64 KiB, and a thousand of
/// them come in a second.
fn text_of(payload: &[u8]) -> String {
    let payload = payload.trim_ascii_end();
    match payload.get(..BYTES_MAX) {
        Some(first) => String::from_utf8_lossy(first).into_owned(),
        None => String::from_utf8_lossy(payload).trim_end().to_owned(),
    }
}

fn alert_words(alert: &Alert) -> String {
    match alert {
        Alert::DeadLetter(said) => {
            let letter = said.letter.map_or_else(String::new, |letter| format!(" {letter}"));
            let (kind, task, queue) = (said.kind, &said.task, &said.queue);
            format!("dead letter{letter}: {kind}, task {task} of {queue}")
        }
        Alert::DeadLetterFailed(said) => {
            let (why, task, queue) = (&said.error_kind, &said.task, &said.queue);
            format!("a dead letter could not be stored ({why}): task {task} of {queue}")
        }
    }
}

fn task_words(opened: &Opened) -> String {
    let envelope = &opened.envelope;
    let to = match Address::parse(&envelope.subject) {
        Ok(Address::Task { role, .. }) => role.to_string(),
        _ => envelope.subject.to_string(),
    };
    format!("{} for {to}: {}", envelope.id, String::from_utf8_lossy(&opened.payload))
}

fn receipt_words(receipt: &WorkReceipt) -> String {
    let WorkReceipt { task_id, attempt, exit_code, .. } = receipt;
    format!("task {task_id} done, exit {exit_code}, attempt {attempt}")
}

fn letter_words(opened: &Opened, position: Option<u64>) -> Option<String> {
    let event = DeadLetterEvent::from_json(&opened.payload).ok()?;
    let kind = GivenUpCause::of(&opened.envelope).map_or("unknown", GivenUpCause::as_str);
    let number = position.map_or_else(String::new, |position| format!("{position}  "));
    Some(format!("{number}{kind}  task {}: {}", event.envelope_id, event.failure_reason))
}

/// What is asked or answered, whatever else the record holds.
fn approval_words(opened: &Opened) -> String {
    let kind = opened.envelope.event_type.strip_prefix("vak.approval.");
    let kind = kind.unwrap_or(&opened.envelope.event_type);
    let said: Value = serde_json::from_slice(&opened.payload).unwrap_or_default();
    let member = |name: &str| said.get(name).and_then(Value::as_str);
    let mut words = kind.to_owned();
    for (before, name) in [(": ", "action"), (" on ", "target"), (": ", "choice")] {
        if let Some(value) = member(name) {
            words.push_str(before);
            words.push_str(value);
        }
    }
    words
}

/// The time of day, in UTC.
fn clock(time: Timestamp) -> String {
    let text = time.to_string();
    text.get(11..19).unwrap_or(&text).to_owned()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// How much a message says in a line, in characters.
const CHARS_MAX: usize = 200;

/// In so many bytes there is at least one character more.
const BYTES_MAX: usize = 4 * (CHARS_MAX + 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_text_is_shown_what_would_be_shown_of_all_of_it() {
        for text in ["word ", "ä€", "👍", "\u{3000}x", "\u{fffd}\n"] {
            for count in [1, 39, 40, 41, 200, 201, 5_000] {
                let all = text.repeat(count);
                let whole = cut(String::from_utf8_lossy(all.as_bytes()).trim_end());
                assert_eq!(cut(&text_of(all.as_bytes())), whole, "{count} times {text:?}");
            }
        }
    }

    #[test]
    fn blanks_at_the_end_are_no_text() {
        let text = [b"said".as_slice(), &[b' '; 70_000], b"\r\n"].concat();
        assert_eq!(cut(&text_of(&text)), "said");
    }
}
