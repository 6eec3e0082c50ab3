//! The dead letters of a session, as far as their chains can be shown.

use std::collections::HashMap;

use bus_core::{Endpoint, Stored, planes};
use bus_envelope::{ChainHead, ChainScope, MessageEnvelope, wire};
use bus_subjects::{AddressKind, SessionId};

use super::signer::Kept;
use crate::error::CliError;

/// The dead letters of a session, each chain up to the first letter that is gone: what was redriven
/// or discarded is not kept, and what follows cannot be shown to follow it.
#[derive(Default)]
pub(super) struct Letters {
    pub(super) shown: Vec<Kept>,
    /// How many stand behind one that is gone.
    pub(super) left_out: u64,
    heads: HashMap<ChainScope, Option<ChainHead>>,
}

impl Letters {
    /// Reads those of `session`.
    pub(super) async fn of(endpoint: &Endpoint, session: &SessionId) -> Result<Self, CliError> {
        let filter = AddressKind::DeadLetter.filter(Some(endpoint.workspace()));
        let mut stored = endpoint.replay(planes::dead_letters_stream()?, filter).await?;
        let mut letters = Self::default();
        while let Some(stored) = stored.next().await {
            let Stored { frame, time, .. } = stored?;
            // Whose it is, nobody can say of what is damaged.
            let Ok(envelope) = wire::decode(&frame.headers, &frame.body) else { continue };
            if envelope.lineage.session.as_ref() == Some(session) {
                letters.add(Kept { stored: time, envelope });
            }
        }
        Ok(letters)
    }

    fn add(&mut self, letter: Kept) {
        let envelope = &letter.envelope;
        let scope = ChainScope::incarnation_of(envelope);
        let is_next = match self.heads.get(&scope) {
            Some(Some(head)) => head.is_followed_by(envelope),
            Some(None) => false,
            None => self.begins(&scope, envelope),
        };
        self.heads.insert(scope, is_next.then(|| ChainHead::of(envelope)));
        if is_next {
            self.shown.push(letter);
        } else {
            self.left_out += 1;
        }
    }

    /// Whether an envelope is the first of its chain, or goes on from one that is not shown or ends
    /// with what it names.
    fn begins(&self, scope: &ChainScope, envelope: &MessageEnvelope) -> bool {
        if ChainHead::genesis(scope).is_followed_by(envelope) {
            return true;
        }
        let Some(earlier) = envelope.continues().and_then(|life| scope.of_life(life)) else {
            return false;
        };
        match self.heads.get(&earlier) {
            None => true,
            Some(head) => head.is_some_and(|head| head.is_followed_by(envelope)),
        }
    }
}

#[cfg(test)]
mod tests {
    use bus_envelope::{Draft, Stamp, Timestamp, TraceContext};
    use bus_subjects::Subject;
    use uuid::Uuid;

    use super::*;

    /// So many letters of one life of an agent, one after the other.
    fn chain(life: u128, count: usize) -> Vec<MessageEnvelope> {
        let (workspace, agent) = ("w1".parse().unwrap(), "ann".parse().unwrap());
        let subject = Subject::parse("vak.dlq.w1.ann.failed").unwrap();
        let incarnation = Uuid::from_u128(life);
        let scope = ChainScope::Incarnation { workspace, agent, incarnation, subject };
        let mut head = ChainHead::genesis(&scope);
        let ChainScope::Incarnation { workspace, agent, subject, .. } = scope else {
            unreachable!()
        };
        (0..count)
            .map(|number| {
                let stamp = Stamp {
                    id: format!("{life}-{number}"),
                    time: Timestamp::from_unix_ns(1_767_225_600_000_000_000),
                    trace: TraceContext::new([7; 16], [8; 8], 1).unwrap(),
                    workspace: workspace.clone(),
                    agent: agent.clone(),
                    incarnation,
                    head,
                };
                let draft = Draft::new(subject.clone(), "vak.dlq.failed", "x");
                let envelope = draft.stamp(stamp).unwrap();
                head = ChainHead::of(&envelope);
                envelope
            })
            .collect()
    }

    fn shown(envelopes: impl IntoIterator<Item = MessageEnvelope>) -> (usize, u64) {
        let mut letters = Letters::default();
        for envelope in envelopes {
            letters.add(Kept { stored: envelope.time, envelope });
        }
        (letters.shown.len(), letters.left_out)
    }

    #[test]
    fn letters_of_whole_chains_are_all_shown() {
        assert_eq!(shown(chain(1, 3).into_iter().chain(chain(2, 2))), (5, 0));
    }

    #[test]
    fn letters_behind_one_that_was_taken_away_are_left_out_and_counted() {
        let mut letters = chain(1, 4);
        letters.remove(1);
        assert_eq!(shown(letters.into_iter().chain(chain(2, 2))), (3, 2));
    }

    #[test]
    fn a_chain_whose_first_letter_was_taken_away_is_left_out() {
        assert_eq!(shown(chain(1, 3).into_iter().skip(1)), (0, 2));
    }
}
