//! The items of a stream that sends as much as its reader asked for.

use bus_core::Error;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::line::{Opened, Sink};
use crate::wire::{Fault, Item, ToServer};

/// What comes under the id of a stream.
#[derive(Debug)]
pub(crate) enum Event {
    Item(Item, Vec<Bytes>),
    End(Option<Fault>),
}

/// The reader's side of an open stream.
pub(crate) struct Inbox {
    events: mpsc::UnboundedReceiver<Event>,
    opened: Opened,
    /// Taken and not asked for again yet.
    taken: u32,
    window: u32,
    has_ended: bool,
}

/// What a reader finds.
#[derive(Debug)]
pub(crate) enum Found {
    Item(Item, Vec<Bytes>),
    /// The stream has ended, as it should.
    End,
    /// The stream has ended with the server's error.
    Failed(Error),
    /// The connection broke.
    Broken,
}

/// The way in of a new stream, and the place where its items arrive.
pub(crate) fn channel() -> (Sink, mpsc::UnboundedReceiver<Event>) {
    // Bounded by what is asked for.
    let (sender, receiver) = mpsc::unbounded_channel();
    (Sink::Inbox(sender), receiver)
}

impl Inbox {
    /// Reads a stream of which `window` items were asked for when it was opened.
    pub(crate) fn new(opened: Opened, events: mpsc::UnboundedReceiver<Event>, window: u32) -> Self {
        Self { events, opened, taken: 0, window, has_ended: false }
    }

    /// What comes next. Cancel safe.
    pub(crate) async fn next(&mut self, op: &'static str) -> Found {
        if self.has_ended {
            return Found::End;
        }
        match self.events.recv().await {
            Some(Event::Item(item, parts)) => {
                self.taken += 1;
                if self.taken >= self.window.div_ceil(2) {
                    let items = std::mem::take(&mut self.taken);
                    self.opened.line.tell(&ToServer::Credit { id: self.opened.id, items });
                }
                Found::Item(item, parts)
            }
            Some(Event::End(why)) => {
                self.has_ended = true;
                why.map_or(Found::End, |why| Found::Failed(why.into_error(op)))
            }
            None => Found::Broken,
        }
    }
}
