//! Where a new process life begins its chains: behind an earlier one's last message, if it can.

use bus_envelope::{ChainHead, ChainScope, MessageEnvelope, wire};
use bus_subjects::Subject;

use super::{Endpoint, chain::Place};

impl Endpoint {
    /// The place of this incarnation's first message on `subject` (D5).
    ///
    /// On a durable subject that is behind the subject's last message, when that can be read and is
    /// this agent's own, of an earlier life; else at the chain's own beginning. That one is always
    /// sound, so whatever stands in the way of the other leads there: nobody may read it, it has
    /// left the stream, somebody else wrote last, or the engine does not answer.
    ///
    /// Two lives of one agent at once may both go on from one message. That is no fork: what each
    /// of them sends stays one line, and the lines branch where they were taken up.
    pub(super) async fn begin(&self, subject: &Subject) -> Place {
        let genesis = || Place::at(self.genesis(subject));
        // What is stored where there is one chain for all may be a record of that other chain.
        if !ChainScope::may_continue(subject) {
            return genesis();
        }
        let Ok(Some(stored)) = self.engine().last(subject.clone()).await else { return genesis() };
        if stored.frame.subject != *subject {
            return genesis();
        }
        let Ok(last) = wire::decode(&stored.frame.headers, &stored.frame.body) else {
            return genesis();
        };
        self.behind(subject, &last).unwrap_or_else(genesis)
    }

    /// The place behind `last` when it is a message of an earlier life of this agent, signed and
    /// allowed, made for this subject.
    fn behind(&self, subject: &Subject, last: &MessageEnvelope) -> Option<Place> {
        let lineage = &last.lineage;
        let is_own = last.subject == *subject
            && lineage.workspace == *self.workspace()
            && lineage.agent == *self.agent()
            && lineage.incarnation != self.incarnation()
            && lineage.seq_num < MessageEnvelope::SEQ_MAX;
        if !is_own {
            return None;
        }
        let hash = last.compute_hash();
        self.0.parts.roster.verify_hashed(last, &hash).ok()?;
        let head = ChainHead::of_leaf(last, hash);
        Some(Place { head, continues: Some(lineage.incarnation) })
    }
}
