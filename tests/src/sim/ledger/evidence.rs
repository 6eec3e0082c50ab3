//! What the ledger knows of receipts: one chain a subject, one receipt a task.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
};

use bus_core::{Expect, Seq};
use bus_envelope::{ChainScope, ChainVerdict, ChainVerifier, wire::compact};
use bus_mem::core::Message;
use bus_subjects::Subject;

use super::super::Violation;

/// Every chain of receipts.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    chains: BTreeMap<Subject, Chain>,
    receipts: BTreeSet<String>,
}

#[derive(Debug)]
struct Chain {
    last: Seq,
    verifier: ChainVerifier,
}

impl Evidence {
    /// Whether an append to `subject` under this expectation must be taken.
    pub(super) fn holds(&self, subject: &Subject, expect: Expect) -> bool {
        let last = self.chains.get(subject).map_or(Seq(0), |chain| chain.last);
        matches!(expect, Expect::Any) || expect == Expect::LastOfSubject(last)
    }

    pub(super) fn has(&self, receipt: &str) -> bool {
        self.receipts.contains(receipt)
    }

    pub(super) fn count(&self) -> usize {
        self.receipts.len()
    }

    /// Takes in what the broker really stored.
    pub(super) fn stored(&mut self, stored: &Message) -> Result<(), Violation> {
        let subject = &stored.frame.subject;
        let envelope = compact::decode_shared(&stored.frame.body).map_err(|error| {
            let what = format!("receipt {} on {subject}: {error}", stored.frame.id);
            Violation::new("a receipt is kept as it was made", what)
        })?;
        let chain = self.chains.entry(subject.clone()).or_insert_with(|| {
            let scope = ChainScope::subject_of(&envelope);
            Chain { last: Seq(0), verifier: ChainVerifier::new(scope, WINDOW) }
        });
        chain.last = stored.seq;
        let verdict = chain.verifier.feed(&envelope);
        Violation::unless(verdict == ChainVerdict::Linked, "no chain forks", || {
            format!("{} ({}) on {subject} is {verdict:?}", envelope.id, stored.seq.0)
        })?;
        let is_new = self.receipts.insert(envelope.id.clone());
        Violation::unless(is_new, "one receipt a task", || {
            format!("{} is there twice", envelope.id)
        })
    }
}

const WINDOW: NonZeroUsize = NonZeroUsize::new(64).unwrap();
