//! The members that wait, by consumer, and when each consumer must be looked after.

use std::collections::BTreeSet;

use bus_envelope::Timestamp;

use crate::{aftermath::Aftermath, core::ConsumerKey, waiters::Waiters};

/// One seat for each consumer that exists.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    /// By the two indices of its consumer.
    seats: Vec<Vec<Option<Seat>>>,
    /// The alarms of all seats.
    alarms: BTreeSet<(Timestamp, ConsumerKey)>,
}

/// Who waits for one consumer.
#[derive(Debug)]
pub(crate) struct Seat {
    key: ConsumerKey,
    pub(crate) waiters: Waiters,
    /// Its entry among the alarms: not later than it must be looked after, and maybe earlier.
    alarm: Option<Timestamp>,
}

impl Seats {
    /// The seat of `key`, unless its consumer was removed.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: ConsumerKey) -> Option<&mut Seat> {
        let (stream, index) = key.place();
        let seat = self.seats.get_mut(stream)?.get_mut(index)?.as_mut()?;
        // The number says it all, and is one comparison.
        Some(seat).filter(|seat| seat.key.number() == key.number())
    }

    /// Makes a seat for a consumer that has none yet.
    pub(crate) fn add(&mut self, key: ConsumerKey) {
        if self.get_mut(key).is_some() {
            return;
        }
        let (stream, index) = key.place();
        if self.seats.len() <= stream {
            self.seats.resize_with(stream + 1, Vec::new);
        }
        let Some(seats) = self.seats.get_mut(stream) else { return };
        if seats.len() <= index {
            seats.resize_with(index + 1, || None);
        }
        if let Some(seat) = seats.get_mut(index) {
            *seat = Some(Seat { key, waiters: Waiters::default(), alarm: None });
        }
    }

    /// Removes the seat of a consumer that was removed, and wakes who waits there.
    pub(crate) fn remove(&mut self, key: ConsumerKey, aftermath: &mut Aftermath) {
        let (stream, index) = key.place();
        let seat = self.seats.get_mut(stream).and_then(|seats| seats.get_mut(index));
        if let Some(mut seat) = seat.and_then(Option::take) {
            seat.waiters.wake_all(aftermath);
            if let Some(alarm) = seat.alarm {
                self.alarms.remove(&(alarm, key));
            }
        }
    }

    /// Makes sure that the seat of `key` has an alarm at `due` or before.
    pub(crate) fn set_alarm(&mut self, key: ConsumerKey, due: Timestamp) {
        let Some(seat) = self.get_mut(key) else { return };
        // An early one is left: moving it on each claim would cost more than one look too many.
        if seat.alarm.is_some_and(|alarm| alarm <= due) {
            return;
        }
        let old = seat.alarm.replace(due);
        if let Some(old) = old {
            self.alarms.remove(&(old, key));
        }
        self.alarms.insert((due, key));
    }

    /// Takes the seats out whose alarm rings until `now`.
    pub(crate) fn ring(&mut self, now: Timestamp) -> Vec<ConsumerKey> {
        let mut due = Vec::new();
        while let Some(&(alarm, key)) = self.alarms.first().filter(|(alarm, _)| *alarm <= now) {
            self.alarms.remove(&(alarm, key));
            if let Some(seat) = self.get_mut(key) {
                seat.alarm = None;
                due.push(key);
            }
        }
        due
    }

    /// The next alarm.
    pub(crate) fn next_alarm(&self) -> Option<Timestamp> {
        self.alarms.first().map(|&(alarm, _)| alarm)
    }

    /// Wakes everybody who waits for any consumer.
    pub(crate) fn wake_all(&mut self, aftermath: &mut Aftermath) {
        let seats = self.seats.iter_mut().flatten().flatten();
        seats.for_each(|seat| seat.waiters.wake_all(aftermath));
    }
}
