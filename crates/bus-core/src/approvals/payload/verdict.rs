//! A verdict: the choice, and for how long it allows exactly what.

use bus_envelope::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    ApprovalRequest, Authorization, ID_BYTES_MAX, corrupt, invalid, read, text, time, write,
};
use crate::Result;

/// The answer to a request, as the verdict's payload (JSON).
///
/// It says again what was asked for, signed by who answers: so a use is held to what the answering
/// person saw, by somebody who cannot read the request any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalVerdict {
    request_id: String,
    choice: String,
    note: Option<String>,
    authorization: Option<Authorization>,
    valid_until: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VerdictForm {
    request_id: String,
    choice: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authorization: Option<Authorization>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    valid_until: Option<String>,
}

impl ApprovalVerdict {
    /// The CloudEvents type of a verdict.
    pub const EVENT_TYPE: &'static str = "vak.approval.resolved";
    /// The longest note, in bytes.
    pub const NOTE_BYTES_MAX: usize = 4096;

    /// The verdict `choice` on the request `request` with the id `request_id`, given at `now`.
    ///
    /// # Errors
    /// `Invalid` when the choice was not offered, or the note is empty or too long.
    pub fn new(
        request_id: &str,
        request: &ApprovalRequest,
        choice: &str,
        note: Option<&str>,
        now: Timestamp,
    ) -> Result<Self> {
        if !request.choices().iter().any(|offered| offered == choice) {
            return Err(invalid("the choice is none of those that were offered"));
        }
        Self {
            request_id: request_id.to_owned(),
            choice: choice.to_owned(),
            note: note.map(str::to_owned),
            authorization: Some(Authorization::of(request)),
            valid_until: Some(now.plus(request.validity())),
        }
        .check()
    }

    /// The id of the request that is answered.
    #[must_use]
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// The choice.
    #[must_use]
    pub fn choice(&self) -> &str {
        &self.choice
    }

    /// What was added to it.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// What it is for; a verdict that does not say so cannot be used.
    #[must_use]
    pub const fn authorization(&self) -> Option<&Authorization> {
        self.authorization.as_ref()
    }

    /// From when on it cannot be used any more.
    #[must_use]
    pub const fn valid_until(&self) -> Option<Timestamp> {
        self.valid_until
    }

    /// Whether both say the same about the same request; they may have been given at different
    /// times.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        let said = |verdict: &Self| {
            (verdict.request_id.clone(), verdict.choice.clone(), verdict.note.clone())
        };
        said(self) == said(other)
    }

    /// Reads a verdict.
    ///
    /// # Errors
    /// `Corrupt` when it is not a verdict's JSON or breaks one of its limits.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        let form: VerdictForm = read(json, "is not an approval verdict's JSON")?;
        let valid_until = form.valid_until.map(|text| time("valid_until", &text)).transpose();
        Self {
            request_id: form.request_id,
            choice: form.choice,
            note: form.note,
            authorization: form.authorization,
            valid_until: valid_until.map_err(corrupt)?,
        }
        .check()
        .map_err(corrupt)
    }

    /// Writes it in its one canonical form.
    ///
    /// # Errors
    /// None in practice: its texts can all be written as JSON.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        write(&VerdictForm {
            request_id: self.request_id.clone(),
            choice: self.choice.clone(),
            note: self.note.clone(),
            authorization: self.authorization.clone(),
            valid_until: self.valid_until.map(|until| until.to_string()),
        })
    }

    fn check(self) -> Result<Self> {
        text("request id", &self.request_id, 1, ID_BYTES_MAX)?;
        text("choice", &self.choice, 1, ApprovalRequest::CHOICE_BYTES_MAX)?;
        let note = self.note.as_ref().map_or(1, String::len);
        if !(1..=Self::NOTE_BYTES_MAX).contains(&note) {
            let detail = format!("note has {note} bytes: expected 1 to {}", Self::NOTE_BYTES_MAX);
            return Err(invalid(detail));
        }
        if let Some(authorization) = &self.authorization {
            authorization.check()?;
        }
        if self.authorization.is_some() != self.valid_until.is_some() {
            let detail = "a verdict says what it is for and until when, or neither";
            return Err(invalid(detail));
        }
        Ok(self)
    }
}
