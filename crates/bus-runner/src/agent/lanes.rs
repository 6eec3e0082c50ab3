//! Where the output of an attempt goes: one lane shows it, another keeps it.
//!
//! The command waits for neither the bus nor who listens; it waits for the store alone, once more
//! than a little waits for that.

use std::{sync::Arc, time::Duration};

use bus_core::Job;
use bytes::Bytes;
use tokio::sync::oneshot;

use super::{
    keep::{Kept, KeptLane},
    shown::{ShownLane, ShownQueue},
    stream::TerminalStream,
};
use crate::{EventPlace, OutputSink, OutputStream, Probe, RunReport, TerminalSize};

/// The sink of one attempt. Dropping it ends both lanes at once.
pub(super) struct Lanes {
    probe: Option<oneshot::Sender<Probe>>,
    shown: ShownLane,
    kept: Option<KeptLane>,
}

impl Lanes {
    /// Begins both lanes, that for keeping if up to `kept_max` bytes are to be kept.
    pub(super) fn start(
        job: &Job<'_>,
        place: EventPlace,
        probe: oneshot::Sender<Probe>,
        kept_max: Option<u64>,
    ) -> Self {
        let stream = TerminalStream::new(job.endpoint.clone(), place);
        Self {
            probe: Some(probe),
            shown: ShownLane::start(stream),
            kept: kept_max.map(|bytes_max| KeptLane::start(job, bytes_max)),
        }
    }

    /// What waits to be shown, for what is shown beside the output.
    pub(super) fn shown(&self) -> &Arc<ShownQueue> {
        self.shown.queue()
    }

    /// Ends both lanes. Returns what was kept, if that is wanted, the run succeeded and `job` was
    /// not cancelled meanwhile, and how many bytes were not shown.
    pub(super) async fn finish(self, job: &Job<'_>, report: &RunReport) -> (Option<Kept>, u64) {
        let Self { shown, kept, .. } = self;
        let queue = Arc::clone(shown.queue());
        let late = late(job);
        let keeping = async {
            match kept.filter(|_| report.is_success()) {
                Some(kept) => tokio::select! {
                    biased;
                    () = job.cancel.cancelled() => None,
                    kept = kept.finish(report) => Some(kept),
                },
                None => None,
            }
        };
        let (kept, lost_bytes) = tokio::join!(keeping, shown.finish(late));
        let lost = queue.untold();
        if lost > 0 {
            let task = &job.message.envelope.id;
            tracing::info!(%task, lost, "so many bytes of output were not shown");
        }
        (kept, lost_bytes)
    }
}

impl OutputSink for Lanes {
    fn started(&mut self, pid: u32) {
        if let Some(probe) = self.probe.take() {
            // Nobody watches any more: then nobody needs the figures.
            let _unwatched = probe.send(Probe::new(pid));
        }
    }

    async fn chunk(&mut self, stream: OutputStream, bytes: Bytes) {
        self.shown.queue().push(stream, bytes.clone());
        match (stream, &self.kept) {
            // Of it the hash is kept, which the run makes.
            (OutputStream::Stderr, _) | (_, None) => {}
            (OutputStream::Stdout | OutputStream::Terminal, Some(kept)) => kept.stdout(bytes).await,
        }
    }

    async fn resized(&mut self, size: TerminalSize) {
        self.shown.queue().resize(size);
    }
}

/// How long the end of an attempt waits for what is to be published still.
pub(super) fn late(job: &Job<'_>) -> Duration {
    if job.cancel.is_cancelled() { LATE_WHEN_CANCELLED } else { LATE }
}

const LATE: Duration = Duration::from_secs(2);

/// The worker drops an attempt that was cancelled five seconds later, and the command has three.
const LATE_WHEN_CANCELLED: Duration = Duration::from_millis(500);
