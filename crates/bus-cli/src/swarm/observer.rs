//! Watches the run's live events: checks their chains, counts what is lost, shows the output.

use std::num::NonZeroUsize;

use bus_core::{EventFeed, Incoming, Opened};
use bus_envelope::{ChainLimits, ChainScope, ChainSet, ChainTotals};
use bus_runner::{TERMINAL_END, TERMINAL_PTY, TERMINAL_STDERR, TERMINAL_STDOUT, TerminalEnd};
use tokio_util::sync::CancellationToken;

use super::show::{Chunk, Show};

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

/// Watches until its connection is closed; with `follow` it shows the output until `given_up`.
pub(super) async fn watch(mut feed: EventFeed, follow: bool, given_up: CancellationToken) -> Seen {
    let mut seen = Seen::default();
    let mut chains = ChainSet::new(ChainLimits { chains_max: CHAINS_MAX, window: WINDOW });
    let show = follow.then(|| Show::start(given_up));
    while let Some(incoming) = feed.next().await {
        match incoming {
            Incoming::Message(opened) => {
                seen.events += 1;
                chains.feed(ChainScope::incarnation_of(&opened.envelope), &opened.envelope);
                if let Some(show) = &show {
                    show_output(show, &opened).await;
                }
            }
            Incoming::Checkpoint(checkpoint) => {
                let envelope = &checkpoint.opened.envelope;
                chains.feed(ChainScope::incarnation_of(envelope), envelope);
                let forged = checkpoint.vouching.contradicted.len() as u64;
                if forged > 0 {
                    let subject = &envelope.subject;
                    tracing::error!(%subject, forged, "live messages are not their sender's");
                    seen.refused = seen.refused.saturating_add(forged);
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
    let extension = |name: &str| envelope.extensions.get(name);
    match envelope.event_type.as_str() {
        stream @ (TERMINAL_STDOUT | TERMINAL_STDERR | TERMINAL_PTY) => {
            show.chunk(Chunk {
                task: extension("task").map_or("?", String::as_str).to_owned(),
                stream: stream.to_owned(),
                offset: extension("offset").and_then(|offset| offset.parse().ok()),
                bytes: opened.payload.clone(),
            })
            .await;
        }
        TERMINAL_END => {
            if let Some(task) = extension("task") {
                // What cannot be read is of a newer runner.
                let end = TerminalEnd::parse(&opened.payload);
                let left_out = end.map_or(0, |end| end.shown_lost_bytes);
                show.ended(task.clone(), left_out).await;
            }
        }
        _ => {}
    }
}
