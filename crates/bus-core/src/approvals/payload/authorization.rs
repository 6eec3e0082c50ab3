//! What a verdict is for, byte by byte: the operator's copy of what was asked.

use serde::{Deserialize, Serialize};

use super::{ApprovalRequest, text};
use crate::Result;

/// What an approval allows: one action on one target, under one choice, in one run.
///
/// Nothing of it is trimmed, folded or normalised: two of them are the same when their bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Authorization {
    action: String,
    target: String,
    approval_choice: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<String>,
}

impl Authorization {
    /// What a verdict on `request` is for.
    #[must_use]
    pub fn of(request: &ApprovalRequest) -> Self {
        Self {
            action: request.action().to_owned(),
            target: request.target().to_owned(),
            approval_choice: request.approving_choice().to_owned(),
            run: request.of_run().map(str::to_owned),
        }
    }

    /// What may be done.
    #[must_use]
    pub fn action(&self) -> &str {
        &self.action
    }

    /// What it may be done to; may be empty.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The choice that allows it; every other one refuses it.
    #[must_use]
    pub fn approval_choice(&self) -> &str {
        &self.approval_choice
    }

    /// The run it is for; without one it is for uses that name none.
    #[must_use]
    pub fn run(&self) -> Option<&str> {
        self.run.as_deref()
    }

    pub(super) fn check(&self) -> Result<()> {
        text("action", &self.action, 1, ApprovalRequest::ACTION_BYTES_MAX)?;
        text("target", &self.target, 0, ApprovalRequest::TARGET_BYTES_MAX)?;
        text("approval choice", &self.approval_choice, 1, ApprovalRequest::CHOICE_BYTES_MAX)?;
        match &self.run {
            Some(run) => text("run", run, 1, ApprovalRequest::RUN_BYTES_MAX),
            None => Ok(()),
        }
    }
}
