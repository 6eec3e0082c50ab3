//! Watches the run's live events: checks their chains, counts what is lost, shows the output.

use std::num::NonZeroUsize;

use bus_core::{EventFeed, Incoming, Opened};
use bus_envelope::{ChainLimits, ChainScope, ChainSet, ChainTotals};
use bus_runner::{TERMINAL_STDERR, TERMINAL_STDOUT};

use super::show::Show;

/// What the observer saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Live messages that were checked and opened.
    pub(super) events: u64,
    /// Live messages that were dropped because the observer was too slow.
    pub(super) missed: u64,
    /// Live messages that were refused: damaged or forged.
    pub(super) refused: u64,
    /// What was found in their chains.
    pub(super) chains: ChainTotals,
}

/// How many chains are followed: two a worker.
const CHAINS_MAX: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// How many events of each are remembered.
const WINDOW: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// Watches until the bus is closed.
pub(super) async fn watch(mut feed: EventFeed, follow: bool) -> Seen {
    let mut seen = Seen::default();
    let mut chains = ChainSet::new(ChainLimits { chains_max: CHAINS_MAX, window: WINDOW });
    let show = follow.then(Show::start);
    while let Some(incoming) = feed.next().await {
        match incoming {
            Incoming::Message(opened) => {
                seen.events += 1;
                chains.feed(ChainScope::incarnation_of(&opened.envelope), &opened.envelope);
                if let Some(show) = &show {
                    show_output(show, &opened).await;
                }
            }
            Incoming::Gap { missed } => {
                seen.missed = seen.missed.saturating_add(missed);
                if let Some(show) = &show {
                    show.gap(missed).await;
                }
            }
            Incoming::Refused(error) => {
                tracing::error!(%error, "a live message was refused");
                seen.refused += 1;
            }
        }
    }
    if let Some(show) = show {
        show.finish().await;
    }
    seen.chains = chains.totals();
    seen
}

async fn show_output(show: &Show, opened: &Opened) {
    let envelope = &opened.envelope;
    if [TERMINAL_STDOUT, TERMINAL_STDERR].contains(&envelope.event_type.as_str()) {
        let task = envelope.extensions.get("task").map_or("?", String::as_str);
        show.chunk(task, &envelope.event_type, opened.payload.clone()).await;
    }
}
