//! What somebody wants to do now, held byte by byte against what was allowed.

use bus_core::Authorization;
use bus_subjects::{AgentId, SessionId};

use super::{Approval, Refusal};

/// A use that is asked for.
///
/// Texts count as they are: nothing is trimmed, folded or normalised, and no run is not an empty
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask<'a> {
    /// What is to be done.
    pub action: &'a str,
    /// What it is to be done to.
    pub target: &'a str,
    /// The run it belongs to.
    pub run: Option<&'a str>,
    /// Who does it.
    pub asker: &'a AgentId,
    /// In which session.
    pub session: &'a SessionId,
}

impl Ask<'_> {
    /// The first thing in which it differs from what was allowed.
    pub(super) fn check(&self, approval: &Approval, what: &Authorization) -> Result<(), Refusal> {
        if *self.asker != *approval.asker() {
            return Err(Refusal::AskerMismatch);
        }
        if *self.session != *approval.session() {
            return Err(Refusal::SessionMismatch);
        }
        if self.run != what.run() {
            return Err(Refusal::RunMismatch);
        }
        if self.action != what.action() {
            return Err(Refusal::ActionMismatch);
        }
        if self.target != what.target() {
            return Err(Refusal::TargetMismatch);
        }
        Ok(())
    }
}
