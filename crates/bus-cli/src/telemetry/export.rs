//! The thread that posts spans: batch by batch, again where it may help, and told once.

use std::{
    hash::{BuildHasher, RandomState},
    sync::mpsc::SyncSender,
    time::Duration,
};

use bus_otel::{Batch, Batches, Spans};
use tokio::{
    signal::unix::SignalKind,
    time::{sleep, timeout},
};

use super::{collector::Collector, signals::Deadly};
use crate::http::Failed;

/// Says that it listens for signals, posts until the queue is closed and empty, then says so.
///
/// A signal that nobody else hears would end the process at once: what waits is posted before, for
/// as long as the settings allow and a second at most, and then it does. The next one ends it at
/// once.
pub(super) fn run(
    collector: &Collector,
    mut batches: Batches,
    (spans, exit_wait): (Spans, Duration),
    (listens, said): (SyncSender<()>, SyncSender<()>),
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::warn!("spans are not exported: {error}");
            return;
        }
    };
    let ended = runtime.block_on(async {
        let mut deadly = Deadly::listen();
        // Whoever starts this waits for that.
        let _heard = listens.try_send(());
        let mut exporter = Exporter { collector, spans: spans.clone(), is_away: false };
        let work = exporter.work(&mut batches);
        tokio::pin!(work);
        tokio::select! {
            () = &mut work => None,
            signal = deadly.next_until_done(&spans) => {
                spans.close();
                let wait = exit_wait.min(SIGNAL_WAIT_MAX);
                tokio::select! {
                    _in_time = timeout(wait, &mut work) => Some(signal),
                    second = deadly.next() => Some(second),
                }
            }
        }
    });
    match ended {
        Some(signal) => end(signal),
        // Nobody waits any more when the process ends otherwise.
        None => drop(said.try_send(())),
    }
}

/// Ends the process by the signal, as if nobody had heard it.
fn end(signal: SignalKind) {
    // It fails for signals that nobody knows, and this one came.
    let _ended = signal_hook::low_level::emulate_default_handler(signal.as_raw_value());
}

struct Exporter<'a> {
    collector: &'a Collector,
    spans: Spans,
    /// Whether it was told that the collector takes nothing.
    is_away: bool,
}

impl Exporter<'_> {
    async fn work(&mut self, batches: &mut Batches) {
        while let Some(batch) = batches.next().await {
            self.deliver(&batch).await;
        }
    }

    /// Posts one batch, several times if need be; once the queue is closed only once more.
    async fn deliver(&mut self, batch: &Batch) {
        let mut pause = PAUSE_MIN;
        for tried in 1..=TRIES_MAX {
            let is_last = tried == TRIES_MAX || self.spans.is_closed();
            let failed = match self.collector.post(batch).await {
                Ok(()) => return self.is_there(),
                Err(failed) => failed,
            };
            self.tell(batch, &failed);
            if is_last || !may_pass(&failed) {
                break;
            }
            tokio::select! {
                () = sleep(jittered(pause)) => {}
                () = self.spans.closed() => {}
            }
            pause = PAUSE_MAX.min(pause * 2);
        }
        self.spans.give_up(batch);
    }

    fn is_there(&mut self) {
        if std::mem::take(&mut self.is_away) {
            tracing::info!(collector = %self.collector, "spans are exported again");
        }
    }

    /// Tells a failure, the first of several in a row.
    fn tell(&mut self, batch: &Batch, failed: &Failed) {
        let (spans, collector) = (batch.spans, self.collector);
        if std::mem::replace(&mut self.is_away, true) {
            tracing::debug!(spans, %collector, "spans are not exported: {failed}");
        } else {
            tracing::warn!(spans, %collector, "spans are not exported: {failed}");
        }
    }
}

/// Whether the same may be taken a moment later.
fn may_pass(failed: &Failed) -> bool {
    match failed {
        Failed::TooLate(_) | Failed::Broken(_) => true,
        // Those that OTLP names.
        Failed::Status(status) => matches!(status, 429 | 502 | 503 | 504),
    }
}

/// The pause, or up to a quarter less: a fleet that lost its collector together does not come back
/// to it together.
fn jittered(pause: Duration) -> Duration {
    // Each of these has keys of its own, which are random enough for this.
    let random = RandomState::new().hash_one(0_u8);
    let less = u32::try_from(random % 256).unwrap_or(0);
    pause.saturating_sub(pause * less / 1024)
}

/// How long a signal that ends the process is kept back at most.
const SIGNAL_WAIT_MAX: Duration = Duration::from_secs(1);

/// How often one batch is posted.
const TRIES_MAX: u32 = 6;

/// How long it rests before the second time, and at most; each time twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(8);
