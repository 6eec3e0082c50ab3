//! Live messages of one subscription, opened and checked.

use super::{Endpoint, Opened};
use crate::{Error, FeedItem, Subscription};

/// What an endpoint's subscription yields. Dropping it ends the subscription.
#[must_use = "a dropped feed hears nothing"]
pub struct EventFeed {
    endpoint: Endpoint,
    frames: Subscription,
    is_over: bool,
}

/// One item of a feed: a message, or what is known about one that is missing.
#[derive(Debug)]
pub enum Incoming {
    /// A message that was checked and opened.
    Message(Box<Opened>),
    /// The reader was too slow: this many messages were dropped here, the oldest first.
    Gap {
        /// How many; at least 1.
        missed: u64,
    },
    /// A message that was refused.
    Refused(Error),
}

impl EventFeed {
    pub(super) fn new(endpoint: Endpoint, frames: Subscription) -> Self {
        Self { endpoint, frames, is_over: false }
    }

    /// The next item; `None` when the bus was closed. Cancel safe.
    ///
    /// Once the reader's own certificate has ended it hears nothing more: the next item says so as
    /// a refusal of kind `Denied`, and then the feed is over.
    pub async fn next(&mut self) -> Option<Incoming> {
        if self.is_over {
            return None;
        }
        let item = self.frames.next().await?;
        if let Err(error) = self.endpoint.check_certificate("hear") {
            self.is_over = true;
            return Some(Incoming::Refused(error));
        }
        Some(match item {
            FeedItem::Gap { missed } => Incoming::Gap { missed },
            FeedItem::Frame(frame) => match self.endpoint.open(&frame) {
                Ok(opened) => Incoming::Message(Box::new(opened)),
                Err(error) => Incoming::Refused(error),
            },
        })
    }
}

impl std::fmt::Debug for EventFeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventFeed").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
