//! What the records of the board say, whoever wrote them.

use bus_core::{Error, ErrorKind, Result};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, StreamName};
use serde::{Deserialize, Serialize};

use super::{
    board::{BoardPlace, Entry},
    consumer::PLACED_MARK,
    pull::Place,
};

/// How a task stands by its record.
#[derive(Debug)]
pub(super) enum Stands {
    /// There is no record, or none that an engine wrote.
    Nowhere,
    /// It is over: an operator took it out of its stream, or somebody did it whom the server gave
    /// it after another one.
    Discarded,
    OnBoard(Entry),
}

/// Until when a consumer hands out nothing, as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PauseForm {
    v: u8,
    until: i128,
}

/// What a record says of the task that its subject names.
pub(super) fn read_state(subject: &str, body: &[u8]) -> Stands {
    if body.is_empty() {
        return Stands::Nowhere;
    }
    if body == DISCARDED || body == DONE {
        return Stands::Discarded;
    }
    match Entry::from_json(body) {
        Ok(entry) if belongs(subject, &entry) => return Stands::OnBoard(entry),
        Ok(_) => tracing::warn!(subject, "a record on the board is about another task"),
        Err(error) => warn_unread(subject, &error),
    }
    Stands::Nowhere
}

pub(super) fn warn_unread(subject: &str, error: &Error) {
    tracing::warn!(subject, %error, "a record on the board is left alone");
}

/// Whether an entry says about itself what its subject says: nothing is acknowledged but the task
/// that it stands for, whoever wrote it.
fn belongs(subject: &str, entry: &Entry) -> bool {
    let Some((stream, name, making)) = BoardPlace::owner(subject) else { return false };
    let (Ok(stream_name), Ok(consumer)) = (StreamName::parse(stream), ConsumerName::parse(name))
    else {
        return false;
    };
    let place = BoardPlace::new(&stream_name, &consumer, making);
    let is_there = place.state(entry.key.as_ref(), entry.seq) == subject;
    let is_own =
        |(of, by): (&str, &str)| of == stream && by.strip_suffix(PLACED_MARK).unwrap_or(by) == name;
    let origin = Place::read(&entry.origin).filter(|origin| origin.seq == entry.seq);
    is_there && origin.is_some() && Place::of(&entry.origin).is_some_and(is_own)
}

/// What stands in the state's place of a task that was done, and for how many seconds.
///
/// One that the server gave out more than once was somebody's before, who may have stood still
/// since and is about to put it on the board: that is refused as long as this stands.
pub(super) fn last_word(entry: &Entry) -> (&'static [u8], &'static str) {
    match Place::read(&entry.origin) {
        Some(Place { delivered: 0 | 1, .. }) => (b"", GONE_FOR),
        _ => (DONE, DONE_FOR),
    }
}

/// The time in a pause record; `None` when it was lifted.
pub(super) fn read_pause(body: &[u8]) -> Option<Timestamp> {
    let form: PauseForm = serde_json::from_slice(body).ok()?;
    (form.v == VERSION).then(|| Timestamp::from_unix_ns(form.until))
}

/// A pause as it is stored.
///
/// # Errors
/// `Invalid` when it cannot be written.
pub(super) fn write_pause(op: &'static str, until: Timestamp) -> Result<Vec<u8>> {
    let form = PauseForm { v: VERSION, until: until.unix_ns() };
    serde_json::to_vec(&form).map_err(|error| {
        Error::new(ErrorKind::Invalid, op, "cannot be written as JSON").because(error)
    })
}

const VERSION: u8 = 1;
/// What stands in the state's place of a task that was discarded.
pub(super) const DISCARDED: &[u8] = b"discarded";
/// The same of one that was done after the server gave it out again.
const DONE: &[u8] = b"done";
/// How long that stands, in seconds: longer than any step that has begun takes.
const DONE_FOR: &str = "900";
/// How long it can be seen that a record is gone, in seconds.
pub(super) const GONE_FOR: &str = "1";

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: &str = "vakq.WORK.coder.m1._.7.state";
    const OWN: &str = "$JS.ACK.WORK.coder.1.7.3.1796.0";

    fn state(origin: &str) -> Stands {
        let entry = Entry::fresh((7, Timestamp::from_unix_ns(0)), origin.to_owned(), None);
        read_state(SUBJECT, &entry.to_json().unwrap())
    }

    #[test]
    fn a_record_names_a_delivery_of_its_own_queue() {
        for origin in [
            OWN,
            "$JS.ACK.WORK.coder+p.1.7.3.1796.0",
            "$JS.ACK.hub.HASH.WORK.coder.1.7.3.1796.0",
            "$JS.ACK.hub.HASH.WORK.coder.1.7.3.1796.0.random",
        ] {
            assert!(matches!(state(origin), Stands::OnBoard(_)), "{origin}");
        }
    }

    #[test]
    fn a_record_that_would_have_anything_else_told_is_left_alone() {
        for origin in [
            "vak.work.w1.coder.task",
            "$JS.API.STREAM.DELETE.WORK.coder.1.7.3",
            "secret.WORK.coder.1.7.3.1796.0",
            "$JS.ACK.WORK.judge.1.7.3.1796.0",
            "$JS.ACK.WORK.coder+q.1.7.3.1796.0",
            "$JS.ACK.OTHER.coder.1.7.3.1796.0",
            "$JS.ACK.WORK.coder.1.8.3.1796.0",
            "$JS.ACK.WORK.coder.1.7.*.1796.0",
            "$JS.ACK.WORK.coder.1.7.3.1796.>",
            "$JS.ACK.WORK.coder.WORK.coder.1.7.3.1796.0.x.y",
            "$JS.ACK.hub.HASH.OTHER.coder.1.7.3.1796.0",
            "$JS.ACK.WORK.coder.1.7.3.1796",
        ] {
            assert!(matches!(state(origin), Stands::Nowhere), "{origin}");
        }
    }

    #[test]
    fn what_was_given_out_again_and_is_done_stays_known_as_over() {
        let word = |origin: &str| {
            let entry = Entry::fresh((7, Timestamp::from_unix_ns(0)), origin.to_owned(), None);
            read_state(SUBJECT, last_word(&entry).0)
        };
        assert!(matches!(word(OWN), Stands::Nowhere));
        let again = "$JS.ACK.WORK.coder.2.7.3.1796.0";
        assert!(matches!(word(again), Stands::Discarded));
    }

    #[test]
    fn a_task_that_was_discarded_is_not_one_without_a_record() {
        assert!(matches!(read_state(SUBJECT, DISCARDED), Stands::Discarded));
        assert!(matches!(read_state(SUBJECT, b""), Stands::Nowhere));
    }
}
