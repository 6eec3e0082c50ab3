//! The model of a stream: plain lists, looked through from end to end.

use std::{collections::BTreeMap, time::Duration};

use bus_core::{ErrorKind, Retention};

use super::queue::Queue;

/// A stream with its consumers.
#[derive(Debug)]
pub(super) struct StreamModel {
    pub(super) retention: Retention,
    pub(super) messages_max: usize,
    pub(super) per_subject_max: usize,
    pub(super) window: Duration,
    /// What is stored, by position.
    pub(super) messages: BTreeMap<u64, Kept>,
    /// Every message that was ever stored: its id, position and time.
    pub(super) ids: Vec<(String, u64, Duration)>,
    pub(super) consumers: BTreeMap<u8, Queue>,
}

/// A message of the model.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) id: String,
    pub(super) subject: u8,
    pub(super) stored: Duration,
    pub(super) not_before: Option<Duration>,
    pub(super) level: u8,
    pub(super) key: Option<u8>,
}

/// What an append must answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Appended {
    Stored(u64),
    Duplicate(u64),
    Full,
    Conflict,
}

impl StreamModel {
    pub(super) fn last_of(&self, subject: u8) -> u64 {
        let of_subject = self.messages.iter().filter(|(_, message)| message.subject == subject);
        of_subject.map(|(seq, _)| *seq).max().unwrap_or(0)
    }

    /// Where `id` was stored within the window.
    pub(super) fn known(&self, id: &str, now: Duration) -> Option<u64> {
        let is_it = |(other, _, stored): &&(String, u64, Duration)| {
            other == id && now < *stored + self.window
        };
        self.ids.iter().rfind(is_it).map(|(_, seq, _)| *seq)
    }

    pub(super) fn append(&mut self, message: Kept, expect: Option<u64>) -> Appended {
        if let Some(seq) = self.known(&message.id, message.stored) {
            return Appended::Duplicate(seq);
        }
        if expect.is_some_and(|expected| expected != self.last_of(message.subject)) {
            return Appended::Conflict;
        }
        if !self.has_room(std::slice::from_ref(&message)) {
            return Appended::Full;
        }
        Appended::Stored(self.store(message))
    }

    /// Why a batch is refused, where it is.
    pub(super) fn append_all(&mut self, batch: Vec<Kept>) -> Result<Vec<Appended>, ErrorKind> {
        let is_known = |message: &&Kept| self.known(&message.id, message.stored).is_some();
        let known = batch.iter().filter(is_known).count();
        if known > 0 && known < batch.len() {
            return Err(ErrorKind::Conflict);
        }
        if known == 0 && !self.has_room(&batch) {
            return Err(ErrorKind::Full);
        }
        Ok(batch.into_iter().map(|message| self.append(message, None)).collect())
    }

    pub(super) fn discard(&mut self, seq: u64) -> bool {
        for queue in self.consumers.values_mut() {
            queue.items.remove(&seq);
        }
        self.messages.remove(&seq).is_some()
    }

    /// A consumer is through with `seq`.
    pub(super) fn leave(&mut self, seq: u64) {
        if self.retention == Retention::WorkQueue {
            self.messages.remove(&seq);
        }
    }

    pub(super) fn tick(&mut self, now: Duration) {
        self.consumers.values_mut().for_each(|queue| queue.tick(now));
    }

    /// Waiting, held, age of the oldest; of a work queue, where no message is held twice.
    pub(super) fn lag(&self, now: Duration) -> (u64, u64, Option<Duration>) {
        let held: usize = self.consumers.values().map(Queue::held).sum();
        let waiting = self.messages.len() - held;
        let oldest = self.messages.values().map(|message| now - message.stored).max();
        (waiting as u64, held as u64, oldest)
    }

    fn has_room(&self, new: &[Kept]) -> bool {
        let fits = |subject: u8| {
            let there = self.messages.values().filter(|message| message.subject == subject).count();
            let more = new.iter().filter(|message| message.subject == subject).count();
            more == 0 || there + more <= self.per_subject_max
        };
        let total = self.messages.len() + new.len();
        new.is_empty() || total <= self.messages_max && (0..=u8::MAX).all(fits)
    }

    fn store(&mut self, message: Kept) -> u64 {
        let seq = self.ids.len() as u64 + 1;
        self.ids.push((message.id.clone(), seq, message.stored));
        for queue in self.consumers.values_mut() {
            queue.take_in(seq, &message, message.stored);
        }
        self.messages.insert(seq, message);
        seq
    }
}
