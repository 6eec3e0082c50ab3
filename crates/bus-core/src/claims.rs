//! Claim marks: who works on a task, written before the work begins.
//!
//! A mark is kept under the place where its task is stored, not under an id: ids are for senders to
//! choose and may come again, and a task that is redriven begins anew. What was said of one stored
//! message is never taken for said of another.

use std::time::Duration;

use bus_envelope::Timestamp;
use bus_subjects::{AgentId, BucketKey, BucketName, StreamName};
use serde::{Deserialize, Serialize};

use crate::{
    Delivery, Endpoint, Error, ErrorKind, ExpectRevision, GivenUpCause, Put, Result, Revision, Seq,
};

/// The mark a worker leaves before it starts, so that the last worker of a lost task is known
/// even where the engine cannot tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimMark {
    /// The id of the task's frame.
    pub task: String,
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
    /// The same for the metrics.
    #[serde(default)]
    pub cause: GivenUpCause,
}

/// The stored message that a mark is about.
#[derive(Debug, Clone)]
pub(crate) struct Claimed {
    stream: StreamName,
    stored: Timestamp,
    seq: Seq,
}

impl ClaimMark {
    /// How long a mark stays that nobody clears, as when the answer to the last verdict was lost:
    /// longer than a task is under way from one attempt to the next.
    const TTL: Duration = Duration::from_secs(7 * 24 * 3600);

    /// Refuses names that are none: every worker may write marks, and a name goes into the dead
    /// letter, where a longer one would leave no room for the task.
    fn check(&self) -> Result<()> {
        let last = self.given_up.as_ref().and_then(|verdict| verdict.worker.as_deref());
        let mut names = [Some(self.worker.as_str()), last].into_iter().flatten();
        names.try_for_each(|name| AgentId::parse(name).map(drop)).map_err(|error| {
            Error::new(ErrorKind::Corrupt, "claim", "names no worker").because(error)
        })
    }
}

impl Claimed {
    pub(crate) fn of(delivery: &Delivery) -> Self {
        Self { stream: delivery.stream().clone(), stored: delivery.stored, seq: delivery.seq }
    }

    pub(crate) fn at(stream: StreamName, stored: Timestamp, seq: Seq) -> Self {
        Self { stream, stored, seq }
    }

    pub(crate) fn key(&self) -> Result<BucketKey> {
        // Keys know no `~`, as in `BucketKey::from_token`.
        let stream = self.stream.as_str().replace('~', "=");
        Ok(BucketKey::parse(&format!("{stream}/{}/{}", self.stored.unix_ns(), self.seq.0))?)
    }
}

impl Endpoint {
    /// Leaves a mark for the task `of`, replacing an older one.
    pub(crate) async fn mark_claim(&self, of: &Claimed, mark: &ClaimMark) -> Result<Revision> {
        let json = serde_json::to_vec(mark).map_err(|error| {
            Error::new(ErrorKind::Invalid, "claim", "cannot be written as JSON").because(error)
        })?;
        let put = Put::new(json).ttl(ClaimMark::TTL);
        self.engine().put(BucketName::claims(self.workspace()), of.key()?, put).await
    }

    /// The last mark left for the task `of`.
    pub(crate) async fn last_claim(&self, of: &Claimed) -> Result<Option<ClaimMark>> {
        let bucket = BucketName::claims(self.workspace());
        let Some(entry) = self.engine().get(bucket, of.key()?).await? else {
            return Ok(None);
        };
        let mark: ClaimMark = serde_json::from_slice(&entry.value).map_err(|error| {
            Error::new(ErrorKind::Corrupt, "claim", "is not a claim mark's JSON").because(error)
        })?;
        mark.check()?;
        Ok(Some(mark))
    }

    /// Wipes the mark of the task `of` when it is the one that is expected.
    pub(crate) async fn clear_claim(&self, of: &Claimed, expect: ExpectRevision) -> Result<()> {
        self.engine().delete(BucketName::claims(self.workspace()), of.key()?, expect).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(stream: &str, stored: i128, seq: u64) -> String {
        let stream = StreamName::parse(stream).unwrap();
        let claimed = Claimed { stream, stored: Timestamp::from_unix_ns(stored), seq: Seq(seq) };
        claimed.key().unwrap().to_string()
    }

    #[test]
    fn a_mark_is_kept_under_the_place_of_its_task_whatever_the_stream_is_called() {
        assert_eq!(key("VAK_WORK_w1", 1_780_000_000, 7), "VAK_WORK_w1/1780000000/7");
        assert_eq!(key("VAK_WORK_a~b", 0, 1), "VAK_WORK_a=b/0/1");
        let long = "x".repeat(StreamName::BYTES_MAX);
        assert!(key(&long, 4_102_444_800_000_000_000, u64::MAX).starts_with(&long));
    }
}
