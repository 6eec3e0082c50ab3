//! The lane of live output: a bounded queue that the command never waits for.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bus_core::Result;
use bytes::Bytes;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::stream::{Chunk, Piece, TerminalStream};
use crate::{OutputStream, TerminalSize};

/// Shows output as it comes, from a task of its own; its end takes the task along.
///
/// What waits for the bus is bounded: beyond that the oldest goes, and is counted.
pub(crate) struct ShownLane {
    queue: Arc<ShownQueue>,
    publishing: JoinSet<()>,
}

/// What waits to be shown.
pub(crate) struct ShownQueue {
    state: Mutex<State>,
    news: Notify,
    room: Notify,
}

#[derive(Default)]
struct State {
    chunks: VecDeque<Chunk>,
    cost: usize,
    stdout_bytes: u64,
    stderr_bytes: u64,
    terminal_bytes: u64,
    lost_bytes: u64,
    /// How many bytes are on their way to the bus: lost, too, when nobody hears that they came.
    under_way: u64,
    /// How many of them the log has told.
    told_bytes: u64,
    is_closed: bool,
    /// Whether the bus does not take what is shown.
    is_away: bool,
}

/// How many bytes may wait in one lane.
pub(crate) const SHOWN_WAITING_MAX: usize = 1024 * 1024;

impl ShownLane {
    pub(crate) fn start(stream: TerminalStream) -> Self {
        let queue = Arc::new(ShownQueue::new());
        let mut publishing = JoinSet::new();
        publishing.spawn(publish_all(stream, Arc::clone(&queue)));
        Self { queue, publishing }
    }

    /// The queue, for who has something to show beside the command itself.
    pub(crate) fn queue(&self) -> &Arc<ShownQueue> {
        &self.queue
    }

    /// Ends the lane after what waits in it, or after `late`; returns how many bytes were not
    /// shown in all.
    pub(crate) async fn finish(mut self, late: Duration) -> u64 {
        self.queue.close();
        // Nothing is left to be told of a task that broke: what it held is counted as lost.
        let _late = timeout(late, self.publishing.join_next()).await;
        self.publishing.shutdown().await;
        self.queue.lost()
    }
}

impl ShownQueue {
    fn new() -> Self {
        Self { state: Mutex::default(), news: Notify::new(), room: Notify::new() }
    }

    /// Takes what was written; never waits.
    pub(crate) fn push(&self, stream: OutputStream, bytes: Bytes) {
        self.add(stream, Piece::Bytes(bytes));
    }

    /// As [`ShownQueue::push`], but waits for room while the bus is only slow. Cancel safe: then
    /// nothing was taken.
    pub(crate) async fn push_with_room(&self, stream: OutputStream, bytes: Bytes) {
        loop {
            let room = self.room.notified();
            let is_free = {
                let state = self.state();
                state.is_away || state.is_closed || state.cost < SLOW_WAITING_MAX
            };
            if is_free {
                return self.push(stream, bytes);
            }
            room.await;
        }
    }

    /// Notes whether the bus takes what is shown; says whether that is news.
    fn set_away(&self, is_away: bool) -> bool {
        let was_away = std::mem::replace(&mut self.state().is_away, is_away);
        self.room.notify_one();
        was_away != is_away
    }

    /// Takes the size that the terminal has from here on; never waits.
    pub(crate) fn resize(&self, size: TerminalSize) {
        self.add(OutputStream::Terminal, Piece::Size(size));
    }

    fn add(&self, stream: OutputStream, piece: Piece) {
        let mut state = self.state();
        if state.is_closed {
            return;
        }
        let count = match stream {
            OutputStream::Stdout => &mut state.stdout_bytes,
            OutputStream::Terminal => &mut state.terminal_bytes,
            OutputStream::Stderr => &mut state.stderr_bytes,
        };
        let offset = *count;
        *count = count.saturating_add(piece.len() as u64);
        state.add(Chunk { stream, offset, piece });
        drop(state);
        self.news.notify_one();
    }

    /// The oldest that waits; none when the queue is closed and empty. Cancel safe.
    async fn next(&self) -> Option<Chunk> {
        loop {
            {
                let mut state = self.state();
                if let Some(chunk) = state.take() {
                    state.under_way = chunk.piece.len() as u64;
                    self.room.notify_one();
                    return Some(chunk);
                }
                if state.is_closed {
                    return None;
                }
            }
            self.news.notified().await;
        }
    }

    fn close(&self) {
        self.state().is_closed = true;
        self.news.notify_one();
    }

    /// How many bytes were lost, those included that still wait or are under way: nobody shows
    /// them any more.
    fn lost(&self) -> u64 {
        let mut state = self.state();
        state.lost_bytes = state.lost_bytes.saturating_add(std::mem::take(&mut state.under_way));
        while let Some(chunk) = state.take() {
            state.lose(&chunk);
        }
        state.lost_bytes
    }

    /// What came last out of the queue has been shown, or is lost.
    fn settle(&self, is_shown: bool) {
        let mut state = self.state();
        let bytes = std::mem::take(&mut state.under_way);
        if !is_shown {
            state.lost_bytes = state.lost_bytes.saturating_add(bytes);
        }
    }

    /// How many bytes were lost since this was asked last.
    pub(crate) fn untold(&self) -> u64 {
        let mut state = self.state();
        let untold = state.lost_bytes.saturating_sub(state.told_bytes);
        state.told_bytes = state.lost_bytes;
        untold
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, chunk: Chunk) {
        let cost = cost(&chunk);
        self.cost += cost;
        let all = WAITING.fetch_add(cost, Ordering::Relaxed) + cost;
        self.chunks.push_back(chunk);
        let max = if all > ALL_WAITING_MAX { FAIR_SHARE } else { SHOWN_WAITING_MAX };
        while self.cost > max && self.chunks.len() > 1 {
            if let Some(oldest) = self.take() {
                self.lose(&oldest);
            }
        }
    }

    fn take(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.pop_front()?;
        let cost = cost(&chunk);
        self.cost -= cost;
        WAITING.fetch_sub(cost, Ordering::Relaxed);
        Some(chunk)
    }

    fn lose(&mut self, chunk: &Chunk) {
        self.lost_bytes = self.lost_bytes.saturating_add(chunk.piece.len() as u64);
    }
}

impl Drop for State {
    fn drop(&mut self) {
        WAITING.fetch_sub(self.cost, Ordering::Relaxed);
    }
}

/// Publishes until the queue is closed and empty. A bus that is away is told once, and once more
/// when it is back; what does not reach it meanwhile is lost.
async fn publish_all(stream: TerminalStream, queue: Arc<ShownQueue>) {
    while let Some(chunk) = queue.next().await {
        let (task, error) = (stream.task(), published(&stream, &queue, &chunk).await.err());
        queue.settle(error.is_none());
        match error {
            None if queue.set_away(false) => {
                let lost = queue.untold();
                tracing::warn!(task, lost, "output is shown again; so many bytes of it were not");
            }
            None => {}
            Some(error) => {
                if queue.set_away(true) {
                    tracing::warn!(task, %error, "output is not shown now; the command goes on");
                }
                sleep(REST).await;
            }
        }
    }
}

/// Publishes a chunk; a bus that does not answer for long counts as away meanwhile.
async fn published(stream: &TerminalStream, queue: &ShownQueue, chunk: &Chunk) -> Result<()> {
    let publishing = stream.publish(chunk);
    tokio::pin!(publishing);
    if let Ok(published) = timeout(AWAY_AFTER, &mut publishing).await {
        return published;
    }
    if queue.set_away(true) {
        tracing::warn!(task = stream.task(), "output is not shown now: the bus does not answer");
    }
    publishing.await
}

/// What a chunk costs: a little more than its bytes, so that the number of tiny ones is bounded.
fn cost(chunk: &Chunk) -> usize {
    chunk.piece.len().max(CHUNK_COST_MIN)
}

const CHUNK_COST_MIN: usize = 256;

/// How much waits for a bus that is only slow, before who can wait does.
const SLOW_WAITING_MAX: usize = 64 * 1024;

/// After how long without an answer the bus counts as away.
const AWAY_AFTER: Duration = Duration::from_secs(2);

/// How long a bus that is away is left alone.
const REST: Duration = Duration::from_millis(200);

/// What waits in all lanes of this process together.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// How many bytes may wait in all lanes of a process together, each with its fair share beside.
const ALL_WAITING_MAX: usize = 64 * 1024 * 1024;

/// What a lane may hold when all together hold too much.
const FAIR_SHARE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn queue() -> ShownQueue {
        ShownQueue::new()
    }

    proptest! {
        #[test]
        fn what_waits_is_bounded_and_the_rest_is_counted(
            sizes in proptest::collection::vec(1..70_000_usize, 0..120),
        ) {
            let queue = queue();
            for size in &sizes {
                queue.push(OutputStream::Stdout, Bytes::from(vec![0; *size]));
                prop_assert!(queue.state().cost <= SHOWN_WAITING_MAX);
            }
            let pushed: usize = sizes.iter().sum();
            let mut state = queue.state();
            let lost = state.lost_bytes;
            let mut next = lost;
            while let Some(chunk) = state.take() {
                prop_assert_eq!(chunk.offset, next, "only the oldest are lost");
                next += chunk.piece.len() as u64;
            }
            prop_assert_eq!((next, state.cost), (pushed as u64, 0));
        }
    }

    #[test]
    fn tiny_pieces_are_bounded_in_number() {
        let queue = queue();
        for _ in 0..10_000 {
            queue.push(OutputStream::Stderr, Bytes::from_static(b"x"));
        }
        assert_eq!(queue.state().chunks.len(), SHOWN_WAITING_MAX / CHUNK_COST_MIN);
    }

    #[test]
    fn what_is_lost_is_told_once() {
        let queue = queue();
        queue.push(OutputStream::Stdout, Bytes::from_static(b"lost"));
        assert_eq!((queue.lost(), queue.untold(), queue.untold()), (4, 4, 0));
    }

    #[tokio::test]
    async fn what_is_under_way_at_the_end_is_lost() {
        let queue = queue();
        queue.push(OutputStream::Stdout, Bytes::from_static(b"shown"));
        queue.push(OutputStream::Stdout, Bytes::from_static(b"cut"));
        queue.push(OutputStream::Stdout, Bytes::from_static(b"waits"));
        queue.next().await.unwrap();
        queue.settle(true);
        queue.next().await.unwrap();
        assert_eq!((queue.lost(), queue.lost()), (8, 8));
    }

    #[test]
    fn a_closed_queue_takes_nothing() {
        let queue = queue();
        queue.close();
        queue.push(OutputStream::Stdout, Bytes::from_static(b"late"));
        assert!(queue.state().chunks.is_empty());
    }
}
