//! What happened but is not safe yet, so that nobody may see it: messages that were stored, and
//! messages with a key that have left and let the next one of that key stand in line.

use std::{collections::VecDeque, sync::Arc};

use bus_core::{Frame, OrderKey};

use super::broker::ConsumerKey;
use crate::journal::Position;

/// Both in the order in which they happened.
#[derive(Debug, Default)]
pub(crate) struct Unshown {
    messages: VecDeque<Message>,
    departures: VecDeque<(Position, Departure)>,
}

/// A message that its consumer is through with.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(crate) consumer: ConsumerKey,
    pub(crate) seq: u64,
    pub(crate) key: OrderKey,
}

#[derive(Debug)]
struct Message {
    position: Position,
    stream: usize,
    seq: u64,
    frame: Arc<Frame>,
}

impl Unshown {
    /// A message that is safe when the journal is up to `position`.
    pub(crate) fn push(&mut self, position: Position, place: (usize, u64), frame: Arc<Frame>) {
        let (stream, seq) = place;
        self.messages.push_back(Message { position, stream, seq, frame });
    }

    /// A departure that is safe when the journal is up to `position`.
    pub(crate) fn push_departure(&mut self, position: Position, departure: Departure) {
        self.departures.push_back((position, departure));
    }

    /// Takes the next message out that is safe up to `position`: its stream, its position there,
    /// and its frame.
    pub(crate) fn pop(&mut self, position: Position) -> Option<(usize, u64, Arc<Frame>)> {
        let Message { stream, seq, frame, .. } =
            self.messages.pop_front_if(|message| message.position <= position)?;
        Some((stream, seq, frame))
    }

    /// Takes the next departure out that is safe up to `position`.
    pub(crate) fn pop_departure(&mut self, position: Position) -> Option<Departure> {
        let (_, departure) = self.departures.pop_front_if(|(at, _)| *at <= position)?;
        Some(departure)
    }
}
