//! What a specification must hold before a server is asked.

use bus_core::{Error, ErrorKind, Result, StreamSpec};
use bus_subjects::{Filter, Subject};

use crate::codec::UNKEPT;

/// Refuses a specification that no engine takes.
///
/// # Errors
/// `Invalid`, not done.
pub(super) fn check_spec(spec: &StreamSpec) -> Result<()> {
    let refuse = |why: String| Err(Error::new(ErrorKind::Invalid, "declare", why).at(&spec.name));
    if is_own_name(spec.name.as_str()) {
        return refuse("the name is one of the engine's own".to_owned());
    }
    if spec.filters.is_empty() {
        return refuse("a stream keeps at least one subject".to_owned());
    }
    let count = spec.filters.len();
    if count > FILTERS_MAX {
        return refuse(format!("{count} filters: a stream has at most {FILTERS_MAX}"));
    }
    for (at, filter) in spec.filters.iter().enumerate() {
        if is_reserved_filter(filter) {
            return refuse(format!("{filter} reaches into the reserved subjects"));
        }
        if let Some(plane) = UNKEPT.into_iter().find(|plane| reaches(filter, plane)) {
            return refuse(format!("{filter} reaches into {plane}>, which no stream keeps"));
        }
        let mut earlier = spec.filters.iter().take(at);
        if let Some(earlier) = earlier.find(|earlier| earlier.overlaps(filter)) {
            return refuse(format!("{filter} overlaps {earlier}"));
        }
    }
    Ok(())
}

/// Whether a filter could match a subject of a plane.
fn reaches(filter: &Filter, plane: &str) -> bool {
    let all = Filter::parse(&format!("{plane}>"));
    all.is_ok_and(|all| all.overlaps(filter))
}

/// Whether no stream may keep a subject: an append to it would be a call of the server, or a
/// message that this engine takes for its own.
pub(super) fn is_reserved(subject: &Subject) -> bool {
    is_own_level(first_level(subject.as_str()))
}

/// Whether a filter could match a reserved subject.
fn is_reserved_filter(filter: &Filter) -> bool {
    let first = first_level(filter.as_str());
    is_own_level(first) || matches!(first, "*" | ">")
}

fn first_level(text: &str) -> &str {
    text.split('.').next().unwrap_or_default()
}

/// `vakp` stands before placed messages, `vakq` before the records of work queues, and `vakqr`
/// before what a board that was made by an earlier engine tells of them.
fn is_own_level(level: &str) -> bool {
    let is_inbox = level.starts_with("_INBOX");
    level.starts_with('$') || is_inbox || matches!(level, "vakp" | "vakq" | "vakqr")
}

/// Buckets, objects and the engine's records are streams as well, declared elsewhere.
fn is_own_name(name: &str) -> bool {
    let is_store = name.starts_with("KV_") || name.starts_with("OBJ_");
    is_store || matches!(name, "VAK_BOARD" | "VAK_LATEST")
}

/// Each filter is held against all others, and stands in the stream twice: plain and placed.
const FILTERS_MAX: usize = 1000;
