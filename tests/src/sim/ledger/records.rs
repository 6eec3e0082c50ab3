//! The books as a whole: every answer of the broker is entered, and refused when it cannot be.

mod operate;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bus_core::{
    Error, ErrorKind, Expect, Frame, FrameId, Receipt, Result as BusResult, Seq, Verdict,
};
use bus_envelope::Timestamp;
use bus_mem::core::{Claim, Message};

use super::{
    super::{
        Violation,
        command::{Lease, Plane},
        letter::Letter,
    },
    evidence::Evidence,
    ids::Ids,
    work::{End, Work},
};

/// What must be true, told by nothing but the answers that went out.
#[derive(Debug)]
pub(in super::super) struct Ledger {
    work: BTreeMap<Plane, Work>,
    /// The ids of receipts and dead letters.
    record_ids: BTreeMap<Plane, Ids>,
    record_last: BTreeMap<Plane, u64>,
    evidence: Evidence,
    /// By what they are about: where the letter is stored, and its frame.
    letters: BTreeMap<(Plane, u64), (Seq, Frame)>,
    pub(in super::super) counts: Counts,
}

/// What went through the books.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) struct Counts {
    pub(in super::super) stored: u64,
    pub(in super::super) known: u64,
    pub(in super::super) claims: u64,
    pub(in super::super) redeliveries: u64,
    pub(in super::super) late: u64,
    pub(in super::super) lost_races: u64,
}

impl Ledger {
    /// Books over queues `0..queues` of work and `queues..queues + inboxes` of inboxes.
    pub(in super::super) fn new(
        windows: &BTreeMap<Plane, Duration>,
        lease: Duration,
        queues: usize,
        inboxes: usize,
    ) -> Self {
        let window = |plane| windows.get(&plane).copied().unwrap_or_default();
        let records = [Plane::Receipts, Plane::Letters];
        Self {
            work: BTreeMap::from([
                (Plane::Work, Work::new(window(Plane::Work), lease, 0..queues)),
                (Plane::Inbox, Work::new(window(Plane::Inbox), lease, queues..queues + inboxes)),
            ]),
            record_ids: records.into_iter().map(|p| (p, Ids::new(window(p)))).collect(),
            record_last: BTreeMap::new(),
            evidence: Evidence::default(),
            letters: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    /// A task was answered.
    pub(in super::super) fn task_stored(
        &mut self,
        (plane, queue): (Plane, usize),
        frame: &Frame,
        answer: &BusResult<Receipt>,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let receipt = answer.as_ref().map_err(|error| refused(&frame.id, error))?;
        if receipt.duplicate {
            self.counts.known += 1;
        } else {
            self.counts.stored += 1;
        }
        let Some(work) = self.work.get_mut(&plane) else { return Ok(()) };
        work.stored(queue, frame, receipt, now)
    }

    /// A batch was answered: all of it is stored, or nothing.
    pub(in super::super) fn batch_stored(
        &mut self,
        plane: Plane,
        frames: &[(usize, Frame)],
        answer: &BusResult<Vec<Receipt>>,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let ids: BTreeSet<&FrameId> = frames.iter().map(|(_, frame)| &frame.id).collect();
        let receipts = match answer {
            Err(error) if ids.len() < frames.len() && error.kind() == ErrorKind::Invalid => {
                return Ok(());
            }
            Err(error) => {
                return Err(Violation::new("a rightful append is taken", error.to_string()));
            }
            Ok(receipts) => receipts,
        };
        let is_whole = ids.len() == frames.len() && receipts.len() == frames.len();
        Violation::unless(is_whole, "a batch is stored whole or not", || {
            let (count, different) = (frames.len(), ids.len());
            format!("{count} frames of {different} ids got {} receipts", receipts.len())
        })?;
        let Some(work) = self.work.get_mut(&plane) else { return Ok(()) };
        for ((queue, frame), receipt) in frames.iter().zip(receipts) {
            let count =
                if receipt.duplicate { &mut self.counts.known } else { &mut self.counts.stored };
            *count += 1;
            work.stored(*queue, frame, receipt, now)?;
        }
        Ok(())
    }

    /// A receipt or a dead letter was answered; `stored` is what the broker has at that position.
    pub(in super::super) fn record_stored(
        &mut self,
        plane: Plane,
        (frame, expect): (&Frame, Expect),
        answer: &BusResult<Receipt>,
        stored: Option<&Message>,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let Some(ids) = self.record_ids.get_mut(&plane) else { return Ok(()) };
        let known = ids.find(&frame.id, now);
        let holds = known.is_some() || self.evidence.holds(&frame.subject, expect);
        let receipt = match answer {
            Err(error) if error.kind() == ErrorKind::Conflict && !holds => {
                self.counts.lost_races += 1;
                return Ok(());
            }
            Err(error) => return Err(refused(&frame.id, error)),
            Ok(receipt) => receipt,
        };
        Violation::unless(holds, "an expectation is held", || {
            format!("{} was stored although {expect:?} does not hold", frame.id)
        })?;
        let last = self.record_last.entry(plane).or_default();
        let expected = (known.unwrap_or(*last + 1), known.is_some());
        let got = (receipt.seq.0, receipt.duplicate);
        Violation::unless(got == expected, "ids are known within the window", || {
            format!("{}: answered {got:?}: expected {expected:?}", frame.id)
        })?;
        if receipt.duplicate {
            self.counts.known += 1;
            return Ok(());
        }
        *last = receipt.seq.0;
        ids.remember(&frame.id, receipt.seq.0, now);
        let Some(stored) = stored.filter(|stored| stored.frame.id == frame.id) else {
            let what = format!("{} was acknowledged and is not stored", frame.id);
            return Err(Violation::new("nothing acknowledged is lost", what));
        };
        Violation::unless(*stored.frame == *frame, "a message is not changed", || {
            format!("{} is stored otherwise than it was appended", frame.id)
        })?;
        match plane {
            Plane::Letters => self.letter_stored(stored),
            _ => self.evidence.stored(stored),
        }
    }

    fn letter_stored(&mut self, stored: &Message) -> Result<(), Violation> {
        let id = &stored.frame.id;
        let Some(letter) = Letter::parse(&stored.frame.body) else {
            let what = format!("{id} cannot be read");
            return Err(Violation::new("a dead letter is kept as it was written", what));
        };
        let original = self.work.get(&letter.plane).and_then(|work| work.id_of(letter.seq.0));
        Violation::unless(
            original == Some(letter.id.as_str()),
            "every dead letter has its original",
            || format!("{id} is about {letter:?}, the books have {original:?} there"),
        )?;
        let place = (letter.plane, letter.seq.0);
        let earlier = self.letters.insert(place, (stored.seq, Frame::clone(&stored.frame)));
        Violation::unless(earlier.is_none(), "one dead letter an original", || {
            format!("{id} is the second one about {letter:?}")
        })
    }

    /// A claim was answered; `None`: nothing was ready.
    pub(in super::super) fn claimed(
        &mut self,
        plane: Plane,
        queue: usize,
        claim: Option<(Lease, &Claim)>,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let Some(queue) = self.work.get_mut(&plane).and_then(|work| work.queues.get_mut(&queue))
        else {
            return Ok(());
        };
        queue.advance(now);
        let Some((lease, claim)) = claim else { return queue.nothing_claimed() };
        queue.claimed(lease, claim, now)?;
        self.counts.claims += 1;
        self.counts.redeliveries += u64::from(claim.attempt > 1);
        Ok(())
    }

    /// The broker says when it looks next: never later than a message becomes ready.
    pub(in super::super) fn deadline(
        &self,
        plane: Plane,
        queue: usize,
        deadline: Option<Timestamp>,
    ) -> Result<(), Violation> {
        let queue = self.work.get(&plane).and_then(|work| work.queues.get(&queue));
        let Some(due) = queue.and_then(super::queue::Queue::next_timer) else { return Ok(()) };
        Violation::unless(deadline.is_some_and(|at| at <= due), "an alarm is never late", || {
            format!("the broker looks at {deadline:?}, a message is ready at {due}")
        })
    }

    /// A verdict was answered; `letter` is what the broker holds where the letter should be.
    pub(in super::super) fn settled(
        &mut self,
        plane: Plane,
        lease: Lease,
        verdict: &Verdict,
        taken: bool,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let Some(work) = self.work.get_mut(&plane) else { return Ok(()) };
        let Some(queue) = work.queues.get_mut(&lease.queue) else { return Ok(()) };
        queue.advance(now);
        let Some(seq) = queue.answered(lease, taken, now)? else {
            self.counts.late += 1;
            return Ok(());
        };
        let Some(gone) = queue.settle(seq, verdict, now) else { return Ok(()) };
        let id = gone.frame.id.as_str();
        match verdict {
            Verdict::Reject { .. } => {
                work.ended(seq, End::Buried, id);
                let stored = self.letters.contains_key(&(plane, seq));
                Violation::unless(
                    stored,
                    "the dead letter is stored before the original goes",
                    || format!("{id} ({seq}) went without one"),
                )
            }
            _ => {
                work.ended(seq, End::Done, id);
                let stored = self.evidence.has(&format!("{id}.receipt"));
                Violation::unless(stored, "the receipt is stored before the task goes", || {
                    format!("{id} ({seq}) went without one")
                })
            }
        }
    }

    /// An extension was answered.
    pub(in super::super) fn extended(
        &mut self,
        plane: Plane,
        lease: Lease,
        taken: bool,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let Some(work) = self.work.get_mut(&plane) else { return Ok(()) };
        let Some(queue) = work.queues.get_mut(&lease.queue) else { return Ok(()) };
        queue.advance(now);
        match queue.answered(lease, taken, now)? {
            Some(seq) => queue.extend(seq, lease, now),
            None => self.counts.late += 1,
        }
        Ok(())
    }

    /// A stream was read as a whole.
    pub(in super::super) fn audited(
        &self,
        plane: Plane,
        stored: &[Message],
    ) -> Result<(), Violation> {
        if let Some(work) = self.work.get(&plane) {
            return work.audited(stored);
        }
        let expected = match plane {
            Plane::Letters => self.letters.len(),
            _ => self.evidence.count(),
        };
        Violation::unless(stored.len() == expected, "nothing acknowledged is lost", || {
            format!("{plane:?} holds {} messages: expected {expected}", stored.len())
        })?;
        if plane == Plane::Letters {
            for (seq, frame) in self.letters.values() {
                let at = stored.binary_search_by_key(seq, |message| message.seq).ok();
                let kept = at.and_then(|at| stored.get(at)).is_some_and(|s| *s.frame == *frame);
                Violation::unless(kept, "nothing acknowledged is lost", || {
                    format!("the dead letter {} is not there any more", frame.id)
                })?;
            }
            return Ok(());
        }
        let mut again = Evidence::default();
        stored.iter().try_for_each(|message| again.stored(message))
    }

    /// How a message ended; `None` while it is stored, an error when the books never had it.
    pub(in super::super) fn end_of(
        &self,
        plane: Plane,
        seq: Seq,
    ) -> Result<Option<End>, Violation> {
        let work = self.work.get(&plane);
        let end = work.and_then(|work| work.end_of(seq.0));
        let known = end.is_some() || work.is_some_and(|work| work.task(seq.0).is_some());
        Violation::unless(known, "nothing acknowledged is lost", || {
            format!("{plane:?} {} was acknowledged and is in no book", seq.0)
        })?;
        Ok(end)
    }

    /// Messages of work that are stored now.
    pub(in super::super) fn stored_now(&self) -> u64 {
        self.work.values().map(Work::len).sum()
    }

    /// How many messages left, and how.
    pub(in super::super) fn ends(&self) -> BTreeMap<End, u64> {
        let mut ends = BTreeMap::new();
        for (end, count) in self.work.values().flat_map(Work::counts) {
            *ends.entry(end).or_default() += count;
        }
        ends
    }
}

fn refused(id: &FrameId, error: &Error) -> Violation {
    let what = format!("{id}: {error}");
    Violation::new("a rightful append is taken", what)
}
