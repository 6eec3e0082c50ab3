//! One thing at a time that goes on beside everything else.

use std::pin::Pin;

/// Something that is under way, or nothing.
pub(super) struct Work<'a, T>(Option<Pin<Box<dyn Future<Output = T> + 'a>>>);

impl<'a, T> Work<'a, T> {
    /// Nothing.
    pub(super) const NONE: Self = Self(None);

    /// Begins something; what was under way is dropped.
    pub(super) fn begin(&mut self, work: impl Future<Output = T> + 'a) {
        self.0 = Some(Box::pin(work));
    }

    /// Whether something is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.0.is_some()
    }

    /// Drops what is under way.
    pub(super) fn stop(&mut self) {
        self.0 = None;
    }

    /// Waits for the end of what is under way; for ever, when nothing is. Cancel safe.
    pub(super) async fn done(&mut self) -> T {
        let Some(work) = &mut self.0 else { return std::future::pending().await };
        let done = work.await;
        self.0 = None;
        done
    }
}
