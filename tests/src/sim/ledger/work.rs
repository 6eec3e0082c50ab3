//! What the ledger knows of a stream of work: its queues, its ids, and how each message ended.

use std::{collections::BTreeMap, time::Duration};

use bus_core::{Frame, Lag, Receipt};
use bus_envelope::Timestamp;
use bus_mem::core::Message;

use super::{
    super::Violation,
    ids::Ids,
    queue::{Queue, Task},
};

/// One stream of work with its queues.
#[derive(Debug)]
pub(super) struct Work {
    ids: Ids,
    last: u64,
    /// By the number of the queue.
    pub(super) queues: BTreeMap<usize, Queue>,
    /// How each message that left ended.
    ended: BTreeMap<u64, (End, String)>,
}

/// How a message left its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// A worker did it.
    Done,
    /// It was given up.
    Buried,
    /// An operator removed it.
    Discarded,
}

impl Work {
    pub(super) fn new(
        window: Duration,
        lease: Duration,
        queues: impl Iterator<Item = usize>,
    ) -> Self {
        let queues = queues.map(|queue| (queue, Queue::new(lease))).collect();
        Self { ids: Ids::new(window), last: 0, queues, ended: BTreeMap::new() }
    }

    /// A message was answered with a receipt.
    pub(super) fn stored(
        &mut self,
        queue: usize,
        frame: &Frame,
        receipt: &Receipt,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let Receipt { seq, duplicate, .. } = *receipt;
        let known = self.ids.find(&frame.id, now);
        let expected = known.unwrap_or(self.last + 1);
        Violation::unless(duplicate == known.is_some(), "ids are known within the window", || {
            format!("{}: the answer was duplicate={duplicate}, known at {known:?}", frame.id)
        })?;
        Violation::unless(seq.0 == expected, "positions count up by one", || {
            format!("{} is stored at {}: expected {expected}", frame.id, seq.0)
        })?;
        if duplicate {
            return Ok(());
        }
        self.last = seq.0;
        self.ids.remember(&frame.id, seq.0, now);
        if let Some(queue) = self.queues.get_mut(&queue) {
            queue.advance(now);
            queue.push(seq.0, frame, now);
        }
        Ok(())
    }

    /// Notes how a message left.
    pub(super) fn ended(&mut self, seq: u64, end: End, id: &str) {
        self.ended.insert(seq, (end, id.to_owned()));
    }

    /// The id that a message has or had.
    pub(super) fn id_of(&self, seq: u64) -> Option<&str> {
        let ended = self.ended.get(&seq).map(|(_, id)| id.as_str());
        ended.or_else(|| self.task(seq).map(|task| task.frame.id.as_str()))
    }

    pub(super) fn end_of(&self, seq: u64) -> Option<End> {
        self.ended.get(&seq).map(|&(end, _)| end)
    }

    pub(super) fn task(&self, seq: u64) -> Option<&Task> {
        self.queues.values().find_map(|queue| queue.tasks().get(&seq))
    }

    /// The queue that holds a message.
    pub(super) fn queue_of(&mut self, seq: u64) -> Option<&mut Queue> {
        self.queues.values_mut().find(|queue| queue.tasks().contains_key(&seq))
    }

    pub(super) fn len(&self) -> u64 {
        self.queues.values().map(|queue| queue.tasks().len() as u64).sum()
    }

    pub(super) fn counts(&self) -> BTreeMap<End, u64> {
        let mut counts = BTreeMap::new();
        self.ended.values().for_each(|(end, _)| *counts.entry(*end).or_default() += 1);
        counts
    }

    /// The gauge is what it counts.
    pub(super) fn counted(&mut self, lag: Lag, now: Timestamp) -> Result<(), Violation> {
        self.queues.values_mut().for_each(|queue| queue.advance(now));
        let in_flight = self.queues.values().map(Queue::leased).sum();
        let first = self.queues.values().filter_map(|queue| queue.tasks().first_key_value());
        let first = first.min_by_key(|(seq, _)| **seq);
        let expected = Lag {
            pending: self.len() - in_flight,
            in_flight,
            oldest: first.map(|(_, task)| now.since(task.stored)),
        };
        Violation::unless(lag == expected, "the gauges are exact", || {
            format!("the broker counts {lag:?}: expected {expected:?}")
        })
    }

    /// The stream holds exactly what is in the books.
    pub(super) fn audited(&self, stored: &[Message]) -> Result<(), Violation> {
        for message in stored {
            let (seq, id) = (message.seq.0, &message.frame.id);
            let task = self.task(seq);
            Violation::unless(
                task.is_some_and(|task| {
                    task.frame == *message.frame && task.stored == message.time
                }),
                "what has left is gone",
                || format!("{id} ({seq}) is stored, in the books it is not"),
            )?;
        }
        let (found, expected) = (stored.len() as u64, self.len());
        Violation::unless(found == expected, "nothing acknowledged is lost", || {
            let is_stored = |seq: &u64| stored.iter().any(|message| message.seq.0 == *seq);
            let mut tasks = self.queues.values().flat_map(Queue::tasks);
            let lost = tasks.find(|(seq, _)| !is_stored(seq));
            let lost = lost.map(|(seq, task)| format!("{} ({seq})", task.frame.id));
            format!("{found} messages are stored: expected {expected}; {lost:?} is missing")
        })
    }
}
