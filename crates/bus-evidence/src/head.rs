//! The head of a session's log as it grows, for who signs it and proves nothing.

use bus_core::Identity;
use bus_envelope::{MessageEnvelope, tree::MerkleFrontier};
use bus_subjects::{SessionId, WorkspaceId};

use crate::{
    Checkpoint, ProofError,
    entry::line_of,
    log::{Log, Place},
    proof,
};

/// The head of the receipts of one session: as [`SessionLog`](crate::SessionLog), in some hundred
/// bytes however long the log is, and without proofs.
///
/// # Examples
/// ```
/// use bus_evidence::{SessionHead, SessionLog};
///
/// let (workspace, session) = ("acme".parse()?, "s1".parse()?);
/// let (head, log) =
///     (SessionHead::receipts(&workspace, &session), SessionLog::receipts(&workspace, &session));
/// assert_eq!((head.origin(), head.size()), (log.origin(), log.size()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct SessionHead {
    place: Place,
    tree: MerkleFrontier,
}

impl SessionHead {
    /// The receipts of a session, before the first one.
    #[must_use]
    pub fn receipts(workspace: &WorkspaceId, session: &SessionId) -> Self {
        let place = Place { workspace: workspace.clone(), session: session.clone() };
        Self { place, tree: MerkleFrontier::new() }
    }

    /// Adds the next entry of the log and returns its index. A bundle has the same lines.
    ///
    /// # Errors
    /// [`ProofError::Misplaced`] when it is of another session or no receipt.
    pub fn append(&mut self, envelope: &MessageEnvelope) -> Result<u64, ProofError> {
        match Log::Receipts.misplaced(&self.place, envelope) {
            Some(reason) => Err(ProofError::Misplaced(reason)),
            None => Ok(self.tree.append(&line_of(envelope))),
        }
    }

    /// How many entries there are.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.tree.size()
    }

    /// The name of the log, as its checkpoints have it.
    #[must_use]
    pub fn origin(&self) -> String {
        self.place.origin(Log::Receipts.name())
    }

    /// Signs the head of the log as it is now.
    ///
    /// # Errors
    /// [`ProofError::Recorder`] when the recorder is a worker, an observer or a view.
    pub fn checkpoint(&self, recorder: &Identity) -> Result<Checkpoint, ProofError> {
        proof::sign(&self.origin(), (self.size(), self.tree.root()), recorder)
    }
}
