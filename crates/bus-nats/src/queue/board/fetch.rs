//! Who fetches placed messages.
//!
//! One engine at a time fetches for a consumer, and puts all it fetched on the board before it lets
//! another one do so. Otherwise a message could be claimed before an earlier one of its key that
//! another engine has fetched and not written yet, and no right to read the stream would show that
//! to whoever claims.

use bus_core::{Error, ErrorKind, Result};
use bus_envelope::Timestamp;
use serde::{Deserialize, Serialize};

/// The right to fetch, until a time; nobody's when that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fetch {
    /// The engine, by a text that nobody else makes.
    pub(crate) by: String,
    pub(crate) until: Timestamp,
}

/// May an engine fetch?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MayFetch {
    Yes,
    /// Another one is at it until then, unless it says before that it is done.
    NotBefore(Timestamp),
}

impl Fetch {
    /// Nobody fetches.
    pub(crate) fn nobody() -> Self {
        Self { by: String::new(), until: Timestamp::from_unix_ns(0) }
    }

    /// Whether nobody fetches.
    pub(crate) fn is_nobody(&self) -> bool {
        self.by.is_empty()
    }

    /// Whether the engine `own` may fetch when this is how it stands.
    pub(crate) fn may(fetch: Option<&Self>, own: &str, now: Timestamp) -> MayFetch {
        match fetch {
            Some(fetch) if !fetch.is_nobody() && fetch.by != own && fetch.until > now => {
                MayFetch::NotBefore(fetch.until)
            }
            _ => MayFetch::Yes,
        }
    }

    /// As it is stored.
    ///
    /// # Errors
    /// `Invalid` when it cannot be written.
    pub(crate) fn to_json(&self) -> Result<Vec<u8>> {
        let form = FetchForm { v: VERSION, by: self.by.clone(), until: self.until.unix_ns() };
        serde_json::to_vec(&form).map_err(|error| {
            let why = "who fetches cannot be written as JSON";
            Error::new(ErrorKind::Invalid, "write board", why).because(error)
        })
    }

    /// Reads what was stored; `None` when it is nothing that an engine wrote.
    pub(crate) fn from_json(json: &[u8]) -> Option<Self> {
        let FetchForm { v, by, until } = serde_json::from_slice(json).ok()?;
        (v == VERSION).then(|| Self { by, until: Timestamp::from_unix_ns(until) })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FetchForm {
    v: u8,
    by: String,
    until: i128,
}

const VERSION: u8 = 1;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_unix_ns(1_780_000_000_000_000_000).plus(Duration::from_secs(seconds))
    }

    fn by(engine: &str) -> Fetch {
        Fetch { by: engine.to_owned(), until: at(10) }
    }

    #[test]
    fn one_engine_at_a_time_fetches_until_its_time_is_over() {
        assert_eq!(Fetch::may(None, "a", at(0)), MayFetch::Yes);
        assert_eq!(Fetch::may(Some(&by("a")), "a", at(0)), MayFetch::Yes);
        assert_eq!(Fetch::may(Some(&by("b")), "a", at(9)), MayFetch::NotBefore(at(10)));
        assert_eq!(Fetch::may(Some(&by("b")), "a", at(10)), MayFetch::Yes);
        assert_eq!(Fetch::may(Some(&Fetch::nobody()), "a", at(0)), MayFetch::Yes);
    }

    #[test]
    fn what_is_stored_comes_back_and_what_nobody_wrote_is_nothing() {
        for fetch in [by("a"), Fetch::nobody()] {
            assert_eq!(Fetch::from_json(&fetch.to_json().unwrap()), Some(fetch));
        }
        for bad in
            ["", "{}", r#"{"v":2,"by":"a","until":1}"#, r#"{"v":1,"by":"a","until":1,"x":1}"#]
        {
            assert_eq!(Fetch::from_json(bad.as_bytes()), None, "{bad}");
        }
    }
}
