//! A stream as the server knows it: what is asked for, and where the server's differs.

use std::{num::NonZeroU64, time::Duration};

use bus_core::{Error, ErrorKind, Result, Retention, StreamSpec};
use bus_subjects::{Filter, StreamName};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{codec::placed_filter, profile::Profile};

/// The configuration of a stream as JSON.
pub(super) type Config = Map<String, Value>;

/// The configuration that keeps what `spec` promises.
///
/// # Errors
/// None in practice: a specification can be written as JSON.
pub(super) fn wanted(spec: &StreamSpec, profile: Profile) -> Result<Config> {
    let is_append_only = spec.retention == Retention::AppendOnly;
    let retention = match spec.retention {
        Retention::WorkQueue => "workqueue",
        Retention::AppendOnly | Retention::Kept => "limits",
    };
    let plain = spec.filters.iter().map(|filter| filter.as_str().to_owned());
    let subjects: Vec<_> = plain.chain(spec.filters.iter().map(placed_filter)).collect();
    let config = json!({
        "name": spec.name.as_str(),
        "subjects": subjects,
        "retention": retention,
        "storage": "file",
        "discard": "new",
        "discard_new_per_subject": true,
        "max_msgs": as_bound(spec.messages_max),
        "max_msgs_per_subject": as_bound(spec.messages_per_subject_max),
        "max_consumers": CONSUMERS_MAX,
        "max_bytes": -1,
        "max_age": 0,
        "max_msg_size": -1,
        "duplicate_window": window_ns(spec.dedupe_window),
        (COPIES): profile.replicas(),
        "allow_direct": true,
        "allow_atomic": true,
        "deny_delete": is_append_only,
        "deny_purge": is_append_only,
        "metadata": { SPEC: write_spec(spec)? },
    });
    match config {
        Value::Object(config) => Ok(config),
        _ => Err(damaged("is no object")),
    }
}

/// Every way in which `actual` differs from `wanted`, in words.
pub(super) fn drift(wanted: &Config, actual: &Config) -> Vec<String> {
    let mut differences = Vec::new();
    for (name, wanted) in wanted {
        let (wanted, actual) = match (name.as_str(), actual.get(name)) {
            // The server adds notes of its own.
            ("metadata", held) => (wanted.get(SPEC), held.and_then(|held| held.get(SPEC))),
            (_, held) => (Some(wanted), held),
        };
        let (wanted, actual) = (sorted(wanted), sorted(actual));
        // More copies than asked for keep all that is promised.
        if name == COPIES && actual.as_u64() > wanted.as_u64() {
            continue;
        }
        if wanted != actual && !(is_nothing(&wanted) && is_nothing(&actual)) {
            differences.push(format!("{name} is {actual}, expected {wanted}"));
        }
    }
    for name in UNWANTED {
        let actual = actual.get(name).unwrap_or(&Value::Null);
        if !is_nothing(actual) {
            differences.push(format!("{name} is {actual}, expected none"));
        }
    }
    differences
}

/// The specification that a stream was declared with; `None` for a stream of somebody else.
pub(super) fn read_spec(config: &Config) -> Option<StreamSpec> {
    let text = config.get("metadata")?.get(SPEC)?.as_str()?;
    let text: SpecText = serde_json::from_str(text).ok()?;
    let filters: Option<Vec<_>> = text.filters.iter().map(|one| Filter::parse(one).ok()).collect();
    let name = config.get("name")?.as_str()?;
    Some(StreamSpec {
        name: StreamName::parse(name).ok()?,
        filters: filters?,
        retention: match text.retention.as_str() {
            "work-queue" => Retention::WorkQueue,
            "append-only" => Retention::AppendOnly,
            "kept" => Retention::Kept,
            _ => return None,
        },
        dedupe_window: Duration::new(text.dedupe_s, text.dedupe_ns),
        messages_max: text.messages_max,
        messages_per_subject_max: text.messages_per_subject_max,
    })
}

fn write_spec(spec: &StreamSpec) -> Result<String> {
    let text = SpecText {
        filters: spec.filters.iter().map(|filter| filter.as_str().to_owned()).collect(),
        retention: match spec.retention {
            Retention::WorkQueue => "work-queue",
            Retention::AppendOnly => "append-only",
            Retention::Kept => "kept",
        }
        .to_owned(),
        dedupe_s: spec.dedupe_window.as_secs(),
        dedupe_ns: spec.dedupe_window.subsec_nanos(),
        messages_max: spec.messages_max,
        messages_per_subject_max: spec.messages_per_subject_max,
    };
    serde_json::to_string(&text).map_err(|error| damaged("cannot be written").because(error))
}

/// A specification in the notes of its stream. What the server cannot count as far stands here as
/// it was asked for.
#[derive(Serialize, Deserialize)]
struct SpecText {
    filters: Vec<String>,
    retention: String,
    dedupe_s: u64,
    dedupe_ns: u32,
    messages_max: NonZeroU64,
    messages_per_subject_max: NonZeroU64,
}

/// The server counts with a sign.
fn as_bound(bound: NonZeroU64) -> i64 {
    i64::try_from(bound.get()).unwrap_or(i64::MAX)
}

/// The server takes no window below 100 ms, and 0 for its own default.
fn window_ns(window: Duration) -> i64 {
    i64::try_from(window.max(WINDOW_MIN).as_nanos()).unwrap_or(i64::MAX)
}

/// A list in the order of its values: that of subjects means nothing.
fn sorted(value: Option<&Value>) -> Value {
    let mut value = value.cloned().unwrap_or_default();
    if let Value::Array(list) = &mut value {
        list.sort_by_key(ToString::to_string);
    }
    value
}

/// Whether a setting says what its absence says.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => matches!(number.as_i64(), Some(-1 | 0)),
        Value::String(text) => text.is_empty() || text == "none",
        Value::Array(list) => list.is_empty(),
        Value::Object(held) => held.values().all(is_nothing),
        Value::Bool(true) => false,
    }
}

fn damaged(why: &'static str) -> Error {
    Error::new(ErrorKind::Invalid, "declare", why)
}

/// Settings that would change what a stream keeps, or let others write into it.
const UNWANTED: [&str; 13] = [
    "no_ack",
    "sealed",
    "mirror",
    "sources",
    "subject_transform",
    "republish",
    "allow_rollup_hdrs",
    "allow_msg_ttl",
    "allow_msg_counter",
    "allow_msg_schedules",
    "allow_batched",
    "persist_mode",
    "first_seq",
];

/// The setting of how many copies there are.
pub(super) const COPIES: &str = "num_replicas";
/// The note that holds the specification.
const SPEC: &str = "vak.spec";
/// Explicit, because the server's own default is 1000.
const CONSUMERS_MAX: u32 = 100_000;
const WINDOW_MIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
