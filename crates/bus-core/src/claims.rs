//! Claim marks: who works on a task, written before the work begins.

use bus_envelope::EventHash;
use bus_subjects::{BucketKey, BucketName, Token};
use serde::{Deserialize, Serialize};

use crate::{Endpoint, Error, ErrorKind, ExpectRevision, Put, Result};

/// The mark a worker leaves before it starts, so that the last worker of a lost task is known
/// even where the engine cannot tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimMark {
    /// The attempt it was left for.
    pub attempt: u32,
    /// The worker.
    pub worker: String,
    /// When, in canonical form.
    pub claimed: String,
    /// Set when the task was given up and its dead letter could not be stored yet: whoever gets
    /// it next stores the letter and does not run the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<GivenUp>,
    /// Set when the work was done and the task could not be removed: whoever gets it next only
    /// acknowledges it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_done: bool,
}

/// The verdict on a task whose dead letter could not be stored yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenUp {
    /// How many attempts were made.
    pub attempts: u32,
    /// The worker that made the last one, if one is known.
    pub worker: Option<String>,
    /// Why it was given up; at most 4,096 bytes.
    pub reason: String,
}

impl Endpoint {
    /// Leaves a mark for the task `task_id`, replacing an older one.
    pub(crate) async fn mark_claim(&self, task_id: &str, mark: &ClaimMark) -> Result<()> {
        let json = serde_json::to_vec(mark).map_err(|error| {
            Error::new(ErrorKind::Invalid, "claim", "cannot be written as JSON").because(error)
        })?;
        let (bucket, key) = self.claim_place(task_id)?;
        self.engine().put(bucket, key, Put::new(json)).await?;
        Ok(())
    }

    /// The last mark left for `task_id`.
    pub(crate) async fn last_claim(&self, task_id: &str) -> Result<Option<ClaimMark>> {
        let (bucket, key) = self.claim_place(task_id)?;
        let Some(entry) = self.engine().get(bucket, key).await? else {
            return Ok(None);
        };
        serde_json::from_slice(&entry.value).map(Some).map_err(|error| {
            Error::new(ErrorKind::Corrupt, "claim", "is not a claim mark's JSON").because(error)
        })
    }

    /// Wipes the mark of a task that is settled.
    pub(crate) async fn clear_claim(&self, task_id: &str) -> Result<()> {
        let (bucket, key) = self.claim_place(task_id)?;
        self.engine().delete(bucket, key, ExpectRevision::Any).await
    }

    fn claim_place(&self, task_id: &str) -> Result<(BucketName, BucketKey)> {
        // A foreign task's id may be longer than a token: then its hash names the mark.
        let key = match Token::escape("task", task_id) {
            Ok(token) => BucketKey::from_token(&token),
            Err(_) => BucketKey::parse(&EventHash::of(task_id.as_bytes()).to_string())?,
        };
        Ok((BucketName::claims(self.workspace()), key))
    }
}
