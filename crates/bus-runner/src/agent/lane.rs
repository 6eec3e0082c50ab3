//! Output that is nobody's command: published as it comes, by who can wait for a slow bus.

use std::{sync::Arc, time::Duration};

use bus_core::{Endpoint, Error, ErrorKind, Result};
use bytes::Bytes;
use tokio::time::timeout;

use super::{
    shown::{ShownLane, ShownQueue},
    stream::TerminalStream,
};
use crate::{CHUNK_BYTES_MAX, EventPlace, OutputStream};

/// Publishes output as live events, from a task of its own.
///
/// A bus that is away holds nobody up: the newest 1 MiB is kept for it, what is older is lost and
/// counted, which the log tells once, and once more when it is back.
pub struct TerminalLane {
    lane: ShownLane,
    vouching: TerminalStream,
}

impl TerminalLane {
    /// Begins; offsets count from 0. Needs a tokio runtime.
    #[must_use]
    pub fn start(endpoint: Endpoint, place: EventPlace) -> Self {
        let vouching = TerminalStream::new(endpoint.clone(), place.clone());
        Self { lane: ShownLane::start(TerminalStream::new(endpoint, place)), vouching }
    }

    /// Takes bytes of one of the streams. Waits while the bus is slower, but not for one that is
    /// away. A dropped call took a beginning of them.
    pub async fn write(&self, stream: OutputStream, mut bytes: Bytes) {
        let queue: &Arc<ShownQueue> = self.lane.queue();
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(CHUNK_BYTES_MAX));
            queue.push_with_room(stream, piece).await;
        }
    }

    /// Publishes what waits and vouches for it, for as long as `late`.
    ///
    /// # Errors
    /// `Unavailable` when some was not published, with how many bytes that are; `Timeout`, and
    /// those of [`Endpoint::finish_live`].
    pub async fn finish(self, late: Duration) -> Result<()> {
        let lost = self.lane.finish(late).await;
        if lost > 0 {
            let detail = format!("{lost} bytes of output were not published");
            return Err(Error::new(ErrorKind::Unavailable, "publish", detail));
        }
        let vouched = timeout(late, self.vouching.vouch()).await;
        vouched.unwrap_or_else(|_late| {
            Err(Error::new(ErrorKind::Timeout, "publish", "no answer to a checkpoint"))
        })
    }
}

impl std::fmt::Debug for TerminalLane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TerminalLane").field("task", &self.vouching.task()).finish_non_exhaustive()
    }
}
