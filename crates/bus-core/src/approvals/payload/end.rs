//! An end: what its asker did with an approval, once and for all.

use bus_envelope::EventHash;
use serde::{Deserialize, Serialize};

use super::{
    ApprovalRequest, Authorization, ID_BYTES_MAX, corrupt, invalid, leaf, read, text, write,
};
use crate::Result;

/// How an approval ends, as the payload (JSON) of an event of its kind's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalEnd {
    kind: EndKind,
    approval: EventHash,
    request_id: Option<String>,
    verdict: Option<EventHash>,
    authorization: Option<Authorization>,
    choice: Option<String>,
    by: Option<String>,
}

/// The ends that are stored. That its time is over is no event: it follows from the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndKind {
    /// Its one use was taken.
    Consumed,
    /// Who asked, or an operator while it was open, took it back.
    Withdrawn,
    /// Another request took its place.
    Superseded,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndForm {
    approval: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verdict: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authorization: Option<Authorization>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    choice: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

impl EndKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Consumed, Self::Withdrawn, Self::Superseded];

    /// The CloudEvents type of such an end.
    #[must_use]
    pub const fn event_type(self) -> &'static str {
        match self {
            Self::Consumed => "vak.approval.consumed",
            Self::Withdrawn => "vak.approval.withdrawn",
            Self::Superseded => "vak.approval.superseded",
        }
    }

    /// The kind of the ends of this CloudEvents type.
    #[must_use]
    pub fn of(event_type: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.event_type() == event_type)
    }
}

impl ApprovalEnd {
    /// The use of the verdict with the leaf hash `verdict` on the request `approval` with the id
    /// `request_id`: it chose `choice`, for what `authorization` says.
    ///
    /// # Errors
    /// `Invalid` when an id or a choice is empty or too long.
    pub fn consumed(
        approval: EventHash,
        request_id: &str,
        verdict: EventHash,
        authorization: Authorization,
        choice: &str,
    ) -> Result<Self> {
        let mut end = Self::bare(EndKind::Consumed, approval);
        end.request_id = Some(request_id.to_owned());
        end.verdict = Some(verdict);
        end.authorization = Some(authorization);
        end.choice = Some(choice.to_owned());
        end.check()
    }

    /// The withdrawal of the request `approval`.
    #[must_use]
    pub const fn withdrawn(approval: EventHash) -> Self {
        Self::bare(EndKind::Withdrawn, approval)
    }

    /// The request `approval` gives way to the one with the id `by`.
    ///
    /// # Errors
    /// `Invalid` when the id is empty or too long.
    pub fn superseded(approval: EventHash, by: &str) -> Result<Self> {
        let mut end = Self::bare(EndKind::Superseded, approval);
        end.by = Some(by.to_owned());
        end.check()
    }

    /// How it ends.
    #[must_use]
    pub const fn kind(&self) -> EndKind {
        self.kind
    }

    /// The leaf hash of the request.
    #[must_use]
    pub const fn approval(&self) -> EventHash {
        self.approval
    }

    /// The id of the request's envelope, where who ended it knew it.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// The leaf hash of the stored verdict that was used.
    #[must_use]
    pub const fn verdict(&self) -> Option<EventHash> {
        self.verdict
    }

    /// What was allowed, as the verdict said it.
    #[must_use]
    pub const fn authorization(&self) -> Option<&Authorization> {
        self.authorization.as_ref()
    }

    /// What was chosen.
    #[must_use]
    pub fn choice(&self) -> Option<&str> {
        self.choice.as_deref()
    }

    /// The id of the request that took its place.
    #[must_use]
    pub fn by(&self) -> Option<&str> {
        self.by.as_deref()
    }

    /// Reads an end of `kind`.
    ///
    /// # Errors
    /// `Corrupt` when it is not such an end's JSON, breaks one of its limits, or has not the
    /// members of its kind.
    pub fn from_json(kind: EndKind, json: &[u8]) -> Result<Self> {
        let form: EndForm = read(json, "is not the JSON of an approval's end")?;
        let approval = leaf("approval", &form.approval).map_err(corrupt)?;
        let verdict = form.verdict.map(|text| leaf("verdict", &text)).transpose();
        Self {
            kind,
            approval,
            request_id: form.request_id,
            verdict: verdict.map_err(corrupt)?,
            authorization: form.authorization,
            choice: form.choice,
            by: form.by,
        }
        .check()
        .map_err(corrupt)
    }

    /// Writes it in its one canonical form.
    ///
    /// # Errors
    /// None in practice: its texts can all be written as JSON.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        write(&EndForm {
            approval: self.approval.to_string(),
            request_id: self.request_id.clone(),
            verdict: self.verdict.map(|verdict| verdict.to_string()),
            authorization: self.authorization.clone(),
            choice: self.choice.clone(),
            by: self.by.clone(),
        })
    }

    const fn bare(kind: EndKind, approval: EventHash) -> Self {
        Self {
            kind,
            approval,
            request_id: None,
            verdict: None,
            authorization: None,
            choice: None,
            by: None,
        }
    }

    /// Each kind has its own members and no others.
    fn check(self) -> Result<Self> {
        if let Some(id) = &self.request_id {
            text("request id", id, 1, ID_BYTES_MAX)?;
        }
        let is_use = self.kind == EndKind::Consumed;
        if is_use && self.request_id.is_none() {
            return Err(invalid("a use says the id of the request"));
        }
        let uses = [self.verdict.is_some(), self.authorization.is_some(), self.choice.is_some()];
        if uses.iter().any(|is_there| *is_there != is_use) {
            let detail = "a use says which verdict, what for and which choice, and no other end";
            return Err(invalid(detail));
        }
        if self.by.is_some() != (self.kind == EndKind::Superseded) {
            return Err(invalid("only what is superseded says by what, and it has to"));
        }
        if let Some(authorization) = &self.authorization {
            authorization.check()?;
        }
        if let Some(choice) = &self.choice {
            text("choice", choice, 1, ApprovalRequest::CHOICE_BYTES_MAX)?;
        }
        if let Some(by) = &self.by {
            text("by", by, 1, ID_BYTES_MAX)?;
        }
        Ok(self)
    }
}
