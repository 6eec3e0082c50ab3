//! Cancel marks: an operator's word that a task is not wanted any more.
//!
//! A mark is kept under the place where its task is stored, as a claim mark is: a task that is
//! redriven has another place and is wanted again.

use std::time::Duration;

use bus_subjects::{BucketName, Filter};
use serde::{Deserialize, Serialize};

use crate::{
    Endpoint, Error, ErrorKind, KeyState, Put, Result, Revision, Watch, WatchItem, claims::Claimed,
};

/// That a task is not wanted any more, and who says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelMark {
    /// Who cancelled it.
    pub by: String,
    /// When, in canonical form.
    pub at: String,
    /// Why, if a reason was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl CancelMark {
    /// The longest reason, in bytes.
    pub const REASON_BYTES_MAX: usize = 1024;

    /// How long a mark stays: longer than a lease and all retries after it.
    const TTL: Duration = Duration::from_secs(7 * 24 * 3600);

    /// What a dead letter says of a task that was cancelled.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.reason {
            Some(reason) => format!("cancelled by {}: {reason}", self.by),
            None => format!("cancelled by {}", self.by),
        }
    }
}

/// Hears whether one task is cancelled.
#[derive(Debug)]
pub(crate) struct CancelWatch(Option<Watch>);

impl CancelWatch {
    /// Hears nothing, ever.
    pub(crate) const fn deaf() -> Self {
        Self(None)
    }

    /// Waits until the task is cancelled; for ever, when it is not. Cancel safe.
    ///
    /// A watch that ends or fails says so in the log and is not listened to any more: the task
    /// itself goes on.
    pub(crate) async fn told(&mut self) -> CancelMark {
        while let Some(watch) = &mut self.0 {
            match watch.next().await {
                Some(Ok(WatchItem::Changed(change))) => {
                    if let Some(mark) = mark_of(&change.state) {
                        return mark;
                    }
                }
                Some(Ok(WatchItem::Current | WatchItem::Resync)) => {}
                Some(Err(error)) => {
                    tracing::warn!(%error, "a running task cannot hear any more that it is cancelled");
                    self.0 = None;
                }
                None => self.0 = None,
            }
        }
        std::future::pending().await
    }
}

impl Endpoint {
    /// Marks the task `of` as not wanted any more.
    pub(crate) async fn mark_cancel(&self, of: &Claimed, mark: &CancelMark) -> Result<Revision> {
        let json = serde_json::to_vec(mark).map_err(|error| {
            Error::new(ErrorKind::Invalid, "cancel", "cannot be written as JSON").because(error)
        })?;
        let put = Put::new(json).ttl(CancelMark::TTL);
        self.engine().put(BucketName::cancels(self.workspace()), of.key()?, put).await
    }

    /// Listens for the cancelling of the task `of`; with the mark that is there already.
    pub(crate) async fn watch_cancel(
        &self,
        of: &Claimed,
    ) -> Result<(CancelWatch, Option<CancelMark>)> {
        let bucket = BucketName::cancels(self.workspace());
        let key = Filter::parse(of.key()?.as_str())?;
        let mut watch = self.engine().watch(bucket, key, Revision::START).await?;
        while let Some(item) = watch.next().await {
            match item? {
                WatchItem::Current => break,
                WatchItem::Resync => {}
                WatchItem::Changed(change) => {
                    if let Some(mark) = mark_of(&change.state) {
                        return Ok((CancelWatch::deaf(), Some(mark)));
                    }
                }
            }
        }
        Ok((CancelWatch(Some(watch)), None))
    }
}

/// A mark that cannot be read still says that somebody who may cancel did.
pub(crate) fn mark_of(state: &KeyState) -> Option<CancelMark> {
    let KeyState::Value(value) = state else { return None };
    Some(serde_json::from_slice(value).unwrap_or_else(|_| CancelMark {
        by: "an unreadable mark".to_owned(),
        at: String::new(),
        reason: None,
    }))
}
