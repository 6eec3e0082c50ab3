//! Workers at work, until a story has seen enough.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use bus_core::{Handled, Handler, Result, Stop, TaskEvent, Worker};

use crate::{Doing, Ran, Told};

/// Works until `enough` says so of what was reported, and returns that.
///
/// # Errors
/// Those of [`Worker::run`].
pub async fn work<H: Handler>(
    worker: &Worker,
    handler: &H,
    enough: impl Fn(&[TaskEvent]) -> bool + Send + Sync,
) -> Result<Vec<TaskEvent>> {
    let (stop, events) = (Stop::default(), Mutex::new(Vec::new()));
    let report = |event| {
        let mut events = events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(event);
        if enough(&events) {
            stop.drain.cancel();
        }
    };
    worker.run(handler, &stop, report).await?;
    Ok(events.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The one word for what became of a delivery: `completed`, `retried` and so on.
#[must_use]
pub const fn word(event: &TaskEvent) -> &'static str {
    match event {
        TaskEvent::Completed { .. } => "completed",
        TaskEvent::Retried { .. } => "retried",
        TaskEvent::DeadLettered { .. } => "dead-lettered",
        TaskEvent::Released { .. } => "released",
        TaskEvent::Unsettled { .. } => "unsettled",
    }
}

/// What became of each delivery, in one word each.
#[must_use]
pub fn words(events: &[TaskEvent]) -> Vec<&'static str> {
    events.iter().map(word).collect()
}

/// How often a handler began and finished.
#[derive(Debug, Default)]
pub struct Counts {
    /// Runs that began.
    pub starts: AtomicU32,
    /// Runs that came to their end.
    pub ends: AtomicU32,
}

/// A handler that takes `time` and then succeeds.
pub fn slow(time: std::time::Duration) -> (impl Handler, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let counted = Arc::clone(&counts);
    let handler = Doing(move |_: Told| -> Ran {
        let counted = Arc::clone(&counted);
        Box::pin(async move {
            counted.starts.fetch_add(1, Ordering::Relaxed);
            let _over = tokio::time::timeout(time, std::future::pending::<()>()).await;
            counted.ends.fetch_add(1, Ordering::Relaxed);
            Ok(Handled)
        })
    });
    (handler, counts)
}
