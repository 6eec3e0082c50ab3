//! Which subjects a stream may keep.

use bus_core::{Error, ErrorKind, Result, StreamSpec};
use bus_subjects::Filter;

use super::{Broker, Stream};

impl Broker {
    pub(super) fn check_filters(&self, spec: &StreamSpec) -> Result<()> {
        let refuse = |kind, why: String| Err(Error::new(kind, "declare", why).at(&spec.name));
        if spec.filters.is_empty() {
            return refuse(ErrorKind::Invalid, "a stream keeps at least one subject".to_owned());
        }
        let count = spec.filters.len();
        if count > FILTERS_MAX {
            let why = format!("{count} filters: a stream has at most {FILTERS_MAX}");
            return refuse(ErrorKind::Invalid, why);
        }
        for (at, filter) in spec.filters.iter().enumerate() {
            if is_reserved(filter) {
                let why = format!("{filter} reaches into the reserved subjects");
                return refuse(ErrorKind::Invalid, why);
            }
            let mut earlier = spec.filters.iter().take(at);
            if let Some(earlier) = earlier.find(|earlier| earlier.overlaps(filter)) {
                return refuse(ErrorKind::Invalid, format!("{filter} overlaps {earlier}"));
            }
            let others = self.streams.iter().map(Stream::spec);
            let mut others = others.flat_map(|other| other.filters.iter().map(move |f| (other, f)));
            if let Some((other, theirs)) = others.find(|(_, theirs)| theirs.overlaps(filter)) {
                let why = format!("{filter} overlaps {theirs} of the stream {}", other.name);
                return refuse(ErrorKind::Conflict, why);
            }
        }
        Ok(())
    }
}

/// Whether a filter could match a subject of the system's own.
fn is_reserved(filter: &Filter) -> bool {
    let first = filter.as_str().split('.').next().unwrap_or_default();
    first.starts_with('$') || matches!(first, "_INBOX" | "*" | ">")
}

/// Filters of one stream at most: each is held against all others under the lock of the broker, and
/// all of them are one record of a journal.
const FILTERS_MAX: usize = 1000;
