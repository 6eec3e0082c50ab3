//! What a watcher holds of a bucket; dropping it ends the watch.

use std::{
    collections::VecDeque,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};

use bus_core::{BoxFuture, Result, Revision, WatchItem};
use bus_subjects::{BucketName, Filter};
use futures_core::Stream;
use tokio::task::coop::consume_budget;

use crate::{
    bus::Connection,
    core::{Progress, WatchId},
};

/// One end of a watch. It reads when it is polled, and only then.
pub(crate) struct Watcher {
    connection: Arc<Connection>,
    watch: WatchId,
    items: VecDeque<WatchItem>,
    /// What it read is told when this is over.
    unsafe_yet: Option<BoxFuture<'static, Result<()>>>,
    /// What it read could not be kept.
    failed: bool,
}

impl Watcher {
    pub(crate) fn open(
        connection: Arc<Connection>,
        bucket: BucketName,
        keys: Filter,
        after: Revision,
    ) -> Result<Self> {
        let watch = connection.state().lock().held.store.watch(bucket, keys, after)?;
        Ok(Self { connection, watch, items: VecDeque::new(), unsafe_yet: None, failed: false })
    }

    /// Reads the next items when there are none; pending when it has to wait or gives way.
    fn poll_read(&mut self, cx: &Context<'_>) -> Poll<()> {
        if !self.items.is_empty() {
            return Poll::Ready(());
        }
        let mut locked = self.connection.state().lock();
        // Under the lock: `close` sets the mark first and then wakes those it finds here.
        if self.connection.is_closed() {
            return Poll::Ready(());
        }
        let now = locked.now;
        let progress = locked.held.store.read(self.watch, now, &mut self.items);
        let position = locked.held.store.position();
        if progress == Progress::Waits {
            locked.wait(self.watch, cx);
        }
        locked.finish();
        match progress {
            Progress::Items => {
                if !self.connection.safety().is_safe(position) {
                    self.unsafe_yet = Some(Box::pin(self.connection.safety().reached(position)));
                }
                Poll::Ready(())
            }
            Progress::Waits => Poll::Pending,
            Progress::Again => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

impl Stream for Watcher {
    type Item = Result<WatchItem>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // A watcher that always finds something must still let its siblings run.
        ready!(pin!(consume_budget()).poll(cx));
        ready!(self.poll_read(cx));
        if self.connection.is_closed() || self.failed {
            return Poll::Ready(None);
        }
        if let Some(safe) = &mut self.unsafe_yet {
            let safe = ready!(safe.as_mut().poll(cx));
            self.unsafe_yet = None;
            if let Err(error) = safe {
                self.failed = true;
                return Poll::Ready(Some(Err(error)));
            }
        }
        Poll::Ready(self.items.pop_front().map(Ok))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut locked = self.connection.state().lock();
        locked.unwatch(self.watch);
        locked.finish();
    }
}
