//! What `record` takes, and what it takes to record beside other work.

use std::time::Duration;

use bus_runner::{RecordingKinds, RecordingPolicy, Window};
use bus_subjects::SessionId;
use clap::Args;

use super::{duration, size::size};

/// Keep what a session says live, for who comes late.
#[derive(Debug, Args)]
#[command(after_help = RECORD_HELP)]
pub(crate) struct RecordArgs {
    /// The session: the one that `vakbus swarm --json` or `vakbus worker` names, or any other.
    #[arg(long, value_name = "NAME", value_parser = SessionId::parse)]
    pub(crate) session: SessionId,
    /// What is kept, with commas between.
    #[arg(long, value_name = "KINDS", default_value = "tokens,terminal")]
    #[arg(value_parser = RecordingKinds::parse)]
    pub(crate) kinds: RecordingKinds,
    /// How much is kept; beyond it the oldest goes.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = some_size)]
    pub(crate) max: u64,
}

impl RecordArgs {
    pub(crate) fn policy(&self) -> RecordingPolicy {
        RecordingPolicy { kinds: self.kinds, bytes_max: self.max, ..RecordingPolicy::default() }
    }
}

/// Recording beside the work of a command.
#[derive(Debug, Args)]
pub(crate) struct BesideArgs {
    /// Record what the tasks write and say, for who comes late; the newest SIZE of it is kept,
    /// 64MiB when none is given.
    #[arg(long, value_name = "SIZE", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "64MiB", value_parser = some_size)]
    record: Option<u64>,
}

impl BesideArgs {
    /// How it is to be recorded, if it is.
    pub(crate) fn policy(&self) -> Option<RecordingPolicy> {
        let bytes_max = self.record?;
        Some(RecordingPolicy { bytes_max, ..RecordingPolicy::default() })
    }
}

/// Reads a window of the past: so many events, so many bytes, or so much time.
pub(super) fn window(text: &str) -> Result<Window, String> {
    let all = Window { bytes: RecordingPolicy::BYTES_MAX, events: u64::MAX, age: None };
    if let Ok(events) = text.parse::<u64>() {
        return match events {
            0 => Err("expected at least one event".to_owned()),
            events => Ok(Window { events, ..all }),
        };
    }
    // Units of sizes end in a B, those of time never do.
    if text.ends_with(['B', 'b']) {
        return some_size(text).map(|bytes| Window { bytes, ..all });
    }
    match duration(text) {
        Ok(age) if age > Duration::ZERO => Ok(Window { age: Some(age), ..all }),
        _ => Err("expected a number of events, a size or a time (500, 64KiB, 10m)".to_owned()),
    }
}

fn some_size(text: &str) -> Result<u64, String> {
    match size(text)? {
        0 => Err("expected more than nothing".to_owned()),
        bytes => Ok(bytes),
    }
}

const RECORD_HELP: &str = "\
Hears the session's tokens and terminals and stores them, sealed and signed as they came, twice a
second. It slows nobody: what it is too slow for is missing in the recording and told there. Ctrl-C
stores what came until then and ends it; started again, it goes on where it ended. One recorder
keeps a session: a newer one takes over, and the older one ends.

`vakbus swarm` and `vakbus worker` record their own session with --record. What was recorded is seen
with `vakbus sub --session NAME --window 500`, by whoever may hear the session.

Examples:
  vakbus record --session s1
  vakbus record --session s1 --kinds tokens --max 1GiB";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_number_a_size_or_a_time() {
        let of = |text: &str| window(text).map(|it| (it.events, it.bytes, it.age));
        let (bytes, events) = (RecordingPolicy::BYTES_MAX, u64::MAX);
        assert_eq!(of("500"), Ok((500, bytes, None)));
        assert_eq!(of("64KiB"), Ok((events, 65_536, None)));
        assert_eq!(of("10m"), Ok((events, bytes, Some(Duration::from_secs(600)))));
        for text in ["", "0", "0B", "0s", "10x", "-1"] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
