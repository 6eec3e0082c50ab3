//! The JSON form of an entry. Every engine on the board reads it, so each form has a version.

use bus_core::{Error, ErrorKind, OrderKey, Priority, Result};
use bus_envelope::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Entry, Hold, Standing};

/// The state of an entry; times are nanoseconds since 1970.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryForm {
    v: u8,
    seq: u64,
    origin: String,
    level: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    attempt: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    started: bool,
    since: i128,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    front: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held: Option<HoldForm>,
    /// Done for good, at `since`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    done: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HoldForm {
    nonce: String,
    until: i128,
}

pub(super) fn write_entry(entry: &Entry) -> Result<Vec<u8>> {
    let (since, front, held, done) = match &entry.standing {
        Standing::Waits { since, is_front } => (*since, *is_front, None, false),
        Standing::Held(Hold { nonce, since, until }) => {
            let held = HoldForm { nonce: nonce.clone(), until: until.unix_ns() };
            (*since, false, Some(held), false)
        }
        Standing::Done { at } => (*at, false, None, true),
    };
    let form = EntryForm {
        v: VERSION,
        seq: entry.seq,
        origin: entry.origin.clone(),
        level: entry.level.level(),
        key: entry.key.as_ref().map(|key| key.as_str().to_owned()),
        attempt: entry.attempt,
        started: entry.is_started,
        since: since.unix_ns(),
        front,
        held,
        done,
    };
    serde_json::to_vec(&form).map_err(|error| {
        Error::new(ErrorKind::Invalid, "write board", "cannot be written as JSON").because(error)
    })
}

pub(super) fn read_entry(json: &[u8]) -> Result<Entry> {
    if json.len() > FORM_BYTES_MAX {
        return Err(corrupt("a state on the board is longer than any"));
    }
    let form: EntryForm = serde_json::from_slice(json)
        .map_err(|error| corrupt("a state on the board cannot be read").because(error))?;
    if form.v != VERSION {
        return Err(corrupt("a state on the board is of another version: expected 2"));
    }
    if form.seq == 0 || form.attempt == 0 || form.origin.is_empty() {
        return Err(corrupt("a state on the board names no message, attempt or origin"));
    }
    let since = read_time(form.since)?;
    let standing = match (form.held, form.front, form.done) {
        (None, is_front, false) => Standing::Waits { since, is_front },
        (None, false, true) => Standing::Done { at: since },
        (Some(HoldForm { nonce, until }), false, false) => {
            Standing::Held(Hold { nonce, since, until: read_time(until)? })
        }
        _ => return Err(corrupt("a state on the board stands in two ways")),
    };
    let refused = |error| corrupt("a state on the board has a damaged placement").because(error);
    Ok(Entry {
        seq: form.seq,
        origin: form.origin,
        level: Priority::new(form.level).map_err(refused)?,
        key: form.key.as_deref().map(OrderKey::parse).transpose().map_err(refused)?,
        attempt: form.attempt,
        is_started: form.started,
        standing,
    })
}

fn read_time(unix_ns: i128) -> Result<Timestamp> {
    let time = Timestamp::from_unix_ns(unix_ns);
    if time.unix_ns() == unix_ns { Ok(time) } else { Err(corrupt("a time is of no calendar")) }
}

fn corrupt(why: &'static str) -> Error {
    Error::new(ErrorKind::Corrupt, "read board", why)
}

/// 1 had its frame in the stream alone.
const VERSION: u8 = 2;

/// No state is longer: names, a key and a subject have their own limits, far below.
const FORM_BYTES_MAX: usize = 8 * 1024;
