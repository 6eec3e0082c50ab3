//! Live messages of one subscription, opened and checked.

use bus_envelope::EventHash;

use super::{Endpoint, Opened};
use crate::{
    Error, ErrorKind, FeedItem, LiveCheckpoint, LiveLimits, LiveVerifier, Result, Standing,
    Subscription, Vouching,
};

/// What an endpoint's subscription yields. Dropping it ends the subscription.
///
/// A live message comes at once, [`Standing::Sealed`] as a rule; the checkpoint that vouches for it
/// comes later, as an item of its own. The feed remembers as much as [`LiveLimits`] say.
#[must_use = "a dropped feed hears nothing"]
pub struct EventFeed {
    endpoint: Endpoint,
    frames: Subscription,
    live: LiveVerifier,
    is_over: bool,
}

/// One item of a feed: a message, or what is known about one that is missing.
#[derive(Debug)]
pub enum Incoming {
    /// A message that was checked and opened; its `standing` says what stands behind it by now.
    Message(Box<Opened>),
    /// A sender vouched for live messages that were heard before.
    Checkpoint(Box<Checkpointed>),
    /// The reader was too slow: this many messages were dropped here, the oldest first.
    Gap {
        /// How many; at least 1.
        missed: u64,
    },
    /// A message that was refused: damaged, forged, or another one is vouched for in its place.
    Refused(Error),
}

/// A checkpoint and what it changes.
#[derive(Debug, Clone)]
pub struct Checkpointed {
    /// The checkpoint itself: a signed message of the same chain.
    pub opened: Opened,
    /// What it says about messages heard before. One that it contradicts is forged, although its
    /// seal was good and it was told as a message.
    pub vouching: Vouching,
}

impl EventFeed {
    pub(super) fn new(endpoint: Endpoint, frames: Subscription) -> Self {
        let live = LiveVerifier::new(LiveLimits::default());
        Self { endpoint, frames, live, is_over: false }
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
            FeedItem::Frame(frame) => {
                let judged = self.endpoint.open(&frame).and_then(|opened| self.judge(opened));
                judged.unwrap_or_else(Incoming::Refused)
            }
        })
    }

    /// Compares a message with the checkpoints heard, and a checkpoint with the messages.
    fn judge(&mut self, mut opened: Opened) -> Result<Incoming> {
        let envelope = &opened.envelope;
        if LiveCheckpoint::is_meant_by(envelope) {
            let checkpoint = LiveCheckpoint::read(envelope, &opened.payload)?;
            let vouching = self.live.checkpoint(envelope, opened.hash, &checkpoint);
            return Ok(Incoming::Checkpoint(Box::new(Checkpointed { opened, vouching })));
        }
        if opened.standing == Standing::Sealed {
            opened.standing = self.live.event(envelope, opened.hash);
        }
        if opened.standing == Standing::Contradicted {
            let detail = "its sender vouches for another message in its place";
            let subject = &opened.envelope.subject;
            return Err(Error::new(ErrorKind::Corrupt, "hear", detail).at(subject));
        }
        Ok(Incoming::Message(Box::new(opened)))
    }
}

impl Checkpointed {
    /// Whether the message with this leaf hash is one that was vouched for just now.
    #[must_use]
    pub fn vouches_for(&self, hash: &EventHash) -> bool {
        self.vouching.vouched.contains(hash)
    }
}

impl std::fmt::Debug for EventFeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventFeed").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
