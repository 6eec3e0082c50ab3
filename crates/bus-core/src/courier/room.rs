//! Where the hub has no room, and who waits for it: in the order of the outbox, whatever the time.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bus_subjects::Subject;
use tokio::time::Instant;

use super::carry::Parcel;
use crate::{Error, ErrorKind, Result, Seq, Verdict};

/// The records that were handed back because there was no room where they go.
///
/// A record passes when none of its subject that was stored before it waits. What time it is does
/// not let it pass: an answer may take longer than the rest of those that wait for room.
#[derive(Default)]
pub(super) struct Rooms {
    /// By subject and place in the outbox; when each comes again, `None` while it is in hand.
    waiting: BTreeMap<Subject, BTreeMap<Seq, Option<Instant>>>,
    /// Those that are in hand.
    in_hand: BTreeSet<(Subject, Seq)>,
}

impl Rooms {
    /// Forgets who waits: everything comes again in its order.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.in_hand.clear();
    }

    /// Whether a parcel may go now; one that may not waits with those of its subject before it.
    ///
    /// # Errors
    /// `Unavailable` when one of those has not come again for long: everything is to be taken anew,
    /// in its order, whatever became of that one.
    pub(super) fn lets_pass(&mut self, parcel: &mut Parcel<'_>) -> Result<bool> {
        let Some(frame) = &parcel.frame else { return Ok(true) };
        let waiting = self.waiting.get(&frame.subject);
        let before = waiting.and_then(|waiting| waiting.range(..parcel.delivery.seq).next());
        let Some((_, due)) = before else {
            self.left(parcel);
            return Ok(true);
        };
        let now = Instant::now();
        if due.is_some_and(|due| now >= due + OVERDUE_MAX) {
            let why = "a record that waits for room did not come again: all are taken anew";
            return Err(Error::new(ErrorKind::Unavailable, "carry", why));
        }
        let after = due.map_or(FULL_REST, |due| due.saturating_duration_since(now).max(AGAIN_MIN));
        self.hold(parcel, after);
        Ok(false)
    }

    /// There is no room for a parcel: it is handed back, and those of its subject wait for it.
    pub(super) fn full(&mut self, parcel: &mut Parcel<'_>) {
        self.hold(parcel, FULL_REST);
    }

    fn hold(&mut self, parcel: &mut Parcel<'_>, after: Duration) {
        *parcel.verdict = Verdict::Release { after };
        let Some(frame) = &parcel.frame else { return };
        let (subject, seq) = (frame.subject.clone(), parcel.delivery.seq);
        self.waiting.entry(subject.clone()).or_default().insert(seq, None);
        self.in_hand.insert((subject, seq));
    }

    /// A parcel waits for no room any more.
    pub(super) fn left(&mut self, parcel: &Parcel<'_>) {
        let Some(frame) = &parcel.frame else { return };
        let Some(waiting) = self.waiting.get_mut(&frame.subject) else { return };
        waiting.remove(&parcel.delivery.seq);
        if waiting.is_empty() {
            self.waiting.remove(&frame.subject);
        }
        self.in_hand.remove(&(frame.subject.clone(), parcel.delivery.seq));
    }

    /// What was in hand has been handed back: its rest begins now.
    pub(super) fn handed_back(&mut self) {
        let due = Instant::now() + FULL_REST;
        for (subject, seq) in std::mem::take(&mut self.in_hand) {
            if let Some(waits) = self.waiting.get_mut(&subject).and_then(|w| w.get_mut(&seq)) {
                *waits = Some(due);
            }
        }
    }
}

/// How long what goes to a place without room waits before it is tried again.
const FULL_REST: Duration = Duration::from_secs(30);
/// How long those behind a record wait for it, after it should have come, before all come anew.
const OVERDUE_MAX: Duration = Duration::from_secs(30);
/// The shortest wait for a record that is due.
const AGAIN_MIN: Duration = Duration::from_millis(100);
