//! The picture of one consumer: what it holds, what waits again, what was never handed out.

use bus_core::Priority;

use super::{Consumer, Lease, Waiting};
use crate::{
    core::picture::{ConsumerPart, Piece},
    journal::Statement,
};

impl Consumer {
    /// Says what it is, and returns from which position on everything was fresh at that time:
    /// `end`, when it looked at all that is stored.
    pub(crate) fn picture_head(&self, stream: u32, end: u64, piece: &mut Piece<'_>) -> u64 {
        let (consumer, spec) = (self.number, self.spec.clone());
        let from = self.backlog.as_ref().map_or(end, |backlog| backlog.next());
        let token = self.leases.last_token();
        piece.say(Statement::ConsumerMade { consumer, stream, spec });
        piece.say(Statement::Paused { consumer, until: self.paused_until });
        piece.say(Statement::ConsumerAt { consumer, from, fresh: Vec::new(), token });
        from
    }

    /// Says some of `part`, of positions before `from`, and returns which comes next. What was
    /// handed out behind that was so since the picture of this consumer was begun.
    pub(crate) fn picture(
        &self,
        from: u64,
        part: ConsumerPart,
        piece: &mut Piece<'_>,
    ) -> Option<ConsumerPart> {
        Some(match part {
            ConsumerPart::Leases(token) => {
                let leases = self.leases.fresh_from(token);
                self.picture_leases(from, leases, piece)
                    .map_or(ConsumerPart::Extended(0), ConsumerPart::Leases)
            }
            ConsumerPart::Extended(token) => {
                let leases = self.leases.extended_from(token);
                self.picture_leases(from, leases, piece)
                    .map_or(ConsumerPart::Places(0), ConsumerPart::Extended)
            }
            ConsumerPart::Places(seq) => self.picture_places((seq, from), piece),
            ConsumerPart::Lane(level, seq) => {
                if level > Priority::HIGHEST.level() {
                    return None;
                }
                self.picture_lane(level, (seq, from), piece)
            }
        })
    }

    /// Returns the token to go on with.
    fn picture_leases<'a>(
        &self,
        from: u64,
        leases: impl Iterator<Item = (u64, &'a Lease)>,
        piece: &mut Piece<'_>,
    ) -> Option<u64> {
        let consumer = self.number;
        for (token, lease) in leases {
            if piece.is_full() {
                return Some(token);
            }
            let &Lease { seq, attempt, since, deadline, .. } = lease;
            if seq < from {
                let leased = Statement::Leased { consumer, seq, token, attempt, since, deadline };
                piece.say(leased);
            }
        }
        None
    }

    fn picture_places(&self, (seq, from): (u64, u64), piece: &mut Piece<'_>) -> ConsumerPart {
        let consumer = self.number;
        let mut fresh = Vec::new();
        let mut next = ConsumerPart::Lane(0, 0);
        for &seq in self.places.range(seq..from).map(|(seq, _)| seq) {
            if piece.is_full() {
                next = ConsumerPart::Places(seq);
                break;
            }
            let Some(waiting) = self.waiting(seq) else { continue };
            let &Waiting { attempt, since, handed_back, ref key, .. } = waiting;
            // What has a key holds it once it was handed out, so that must be told apart. Of what
            // has none, this may be its first turn: it is fresh to who does not know it yet.
            let is_started = key.as_ref().is_none_or(|key| self.keys.is_started(key, seq));
            if is_started {
                piece.say(Statement::Waits { consumer, seq, attempt, since, handed_back });
            }
            if attempt == 1 && !handed_back {
                fresh.push(seq);
            }
        }
        self.say_fresh(fresh, from, piece);
        next
    }

    fn picture_lane(
        &self,
        level: u8,
        (seq, from): (u64, u64),
        piece: &mut Piece<'_>,
    ) -> ConsumerPart {
        let mut fresh = Vec::new();
        let mut next = ConsumerPart::Lane(level + 1, 0);
        for seq in self.lanes.from(level, seq).take_while(|&seq| seq < from) {
            if piece.is_full() {
                next = ConsumerPart::Lane(level, seq);
                break;
            }
            fresh.push(seq);
        }
        self.say_fresh(fresh, from, piece);
        next
    }

    fn say_fresh(&self, fresh: Vec<u64>, from: u64, piece: &mut Piece<'_>) {
        if !fresh.is_empty() {
            let (consumer, token) = (self.number, self.leases.last_token());
            piece.say(Statement::ConsumerAt { consumer, from, fresh, token });
        }
    }
}
