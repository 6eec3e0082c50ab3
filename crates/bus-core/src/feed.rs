//! What subscribers and readers hold: streams in which loss is an item, never silence.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bus_envelope::Timestamp;
use futures_core::Stream;

use crate::{Frame, Result, Seq};

/// Live frames of one subscription.
///
/// Dropping it ends the subscription.
#[must_use = "a dropped subscription hears nothing"]
pub struct Subscription(Pin<Box<dyn Stream<Item = FeedItem> + Send>>);

/// What a subscription yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedItem {
    /// A frame, shared with the other subscribers that hear it.
    Frame(SharedFrame),
    /// The subscriber was too slow: this many frames were dropped here, the oldest first.
    Gap {
        /// How many frames are missing at this place; at least 1.
        missed: u64,
    },
}

/// A frame that several subscribers read in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedFrame(Arc<Frame>);

/// Stored messages, read in order.
#[must_use = "a replay reads nothing until it is polled"]
pub struct Replay(Pin<Box<dyn Stream<Item = Result<Stored>> + Send>>);

/// A message as its stream keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The frame.
    pub frame: Frame,
    /// Its position.
    pub seq: Seq,
    /// When the engine stored it.
    pub time: Timestamp,
}

impl SharedFrame {
    /// The frame by itself; copied when others still read it.
    #[must_use]
    pub fn into_frame(self) -> Frame {
        Arc::unwrap_or_clone(self.0)
    }
}

impl std::ops::Deref for SharedFrame {
    type Target = Frame;

    fn deref(&self) -> &Frame {
        &self.0
    }
}

impl From<Frame> for SharedFrame {
    fn from(frame: Frame) -> Self {
        Self(Arc::new(frame))
    }
}

impl From<Arc<Frame>> for SharedFrame {
    fn from(frame: Arc<Frame>) -> Self {
        Self(frame)
    }
}

impl Subscription {
    /// Wraps an engine's stream.
    pub fn new(stream: impl Stream<Item = FeedItem> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }

    /// The next item; `None` when the bus was closed. Cancel safe.
    pub async fn next(&mut self) -> Option<FeedItem> {
        std::future::poll_fn(|cx| self.0.as_mut().poll_next(cx)).await
    }
}

impl Stream for Subscription {
    type Item = FeedItem;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedItem>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl Replay {
    /// Wraps an engine's stream.
    pub fn new(stream: impl Stream<Item = Result<Stored>> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }

    /// The next message; `None` after the last one. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Stored>> {
        std::future::poll_fn(|cx| self.0.as_mut().poll_next(cx)).await
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Subscription")
    }
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Replay")
    }
}
