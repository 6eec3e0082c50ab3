//! What tasks gave: sealed, under the task's id, for as long as somebody may ask.

mod output;
mod seal;
mod wire;

use std::time::Duration;

use bus_envelope::EventHash;
use bus_subjects::{AgentId, BucketKey, BucketName, Filter, SessionId};
use bytes::Bytes;

pub use self::output::{OutputReader, ResultWriter, output_hash};
use crate::{
    Endpoint, KeyState, Put, Result, Revision, Seq, Watch, WatchItem,
    results::seal::{Place, open, seal},
};

/// The results of one workspace's tasks, as an agent may write or read them.
///
/// A result is what a task's command wrote, beside the receipt that vouches for it: it is sealed
/// like every payload, and whoever reads it holds its hash to the one in the signed receipt. It is
/// kept under the task's *id*, so a later task with the same id takes its place.
#[derive(Debug, Clone)]
pub struct Results {
    endpoint: Endpoint,
}

/// What is kept of a finished task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskResult {
    /// The id of the task's envelope.
    pub task_id: String,
    /// Its leaf hash.
    pub task: EventHash,
    /// The attempt whose output this is.
    pub attempt: u32,
    /// Who made that attempt.
    pub worker: AgentId,
    /// The session whose receipts hold the one of this task.
    pub session: SessionId,
    /// Where in the stream of receipts it stands, when this attempt stored it.
    pub receipt: Option<Seq>,
    /// SHA-256 of what the command wrote to standard error, which is not kept.
    pub stderr_hash: EventHash,
    /// What it wrote to standard output: all of it, or its beginning and its end.
    pub output: ResultOutput,
    /// What stands between beginning and end and is not kept; none when the output is whole.
    pub left_out: Option<LeftOut>,
}

/// A part of an output that was too long to be kept whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// How many bytes of the kept output stand before it.
    pub at: u64,
    /// How many bytes it has; never 0.
    pub bytes: u64,
    /// SHA-256 of all that the command wrote to standard output, what is left out included. The
    /// receipt vouches for it, but nobody can compute it from what is kept.
    pub stdout_hash: EventHash,
}

/// Where the output of a task is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultOutput {
    /// Here: at most [`Results::INLINE_BYTES_MAX`].
    Inline(Bytes),
    /// In the blob store.
    Blob {
        /// Under which key.
        key: BucketKey,
        /// How many bytes it has in plain.
        bytes: u64,
    },
    /// Nowhere: it could not be kept.
    NotKept {
        /// Why.
        reason: String,
    },
}

/// Follows the result of one task.
#[derive(Debug)]
pub struct ResultWatch {
    results: Results,
    task_id: String,
    watch: Watch,
}

impl Results {
    /// The most output that is kept beside the result itself, in bytes (64 KiB); more goes to the
    /// blob store.
    pub const INLINE_BYTES_MAX: usize = 64 * 1024;

    /// How long a result is kept: a week.
    pub const TTL: Duration = Duration::from_secs(7 * 24 * 3600);

    /// The results of the endpoint's workspace.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    /// Begins to keep the output of the task `task_id`.
    ///
    /// # Errors
    /// `Unavailable` when the random source fails.
    pub fn writer(&self, task_id: &str) -> Result<ResultWriter> {
        ResultWriter::new(self.endpoint.clone(), task_id)
    }

    /// Keeps `result` for [`Results::TTL`], in place of an earlier one of this id.
    ///
    /// # Errors
    /// `Denied` to all but workers; `Full`, `TooLarge`, `Exhausted`, `Closed`; `Timeout` and
    /// `Unavailable` with outcome unknown.
    pub async fn put(&self, result: &TaskResult) -> Result<()> {
        let key = key_of(&result.task_id)?;
        let value = seal(&self.endpoint, &Place::entry(&key), wire::encode(result)?)?;
        let put = Put::new(value).ttl(Self::TTL);
        self.endpoint.engine().put(self.bucket(), key, put).await.map(drop)
    }

    /// The result of the task `task_id`; `None` when there is none, or none any more.
    ///
    /// # Errors
    /// `Denied` when the agent may not read results; `Corrupt` when it is damaged, `UnknownKey`
    /// when this process lacks its key; `Closed`, `Unavailable`.
    pub async fn get(&self, task_id: &str) -> Result<Option<TaskResult>> {
        let key = key_of(task_id)?;
        match self.endpoint.engine().get(self.bucket(), key.clone()).await? {
            Some(entry) => self.read(&key, &entry.value).map(Some),
            None => Ok(None),
        }
    }

    /// Every result that is kept now, in no order; one that cannot be opened is an error in its
    /// place.
    ///
    /// # Errors
    /// As [`Results::get`], but for single results.
    pub async fn list(&self) -> Result<Vec<Result<TaskResult>>> {
        let keys = Filter::parse("*")?;
        let mut watch = self.endpoint.engine().watch(self.bucket(), keys, Revision::START).await?;
        let mut found = Vec::new();
        while let Some(item) = watch.next().await {
            match item? {
                WatchItem::Current => break,
                WatchItem::Resync => found.clear(),
                WatchItem::Changed(change) => {
                    if let KeyState::Value(value) = &change.state {
                        found.push(self.read(&change.key, value));
                    }
                }
            }
        }
        Ok(found)
    }

    /// Follows the result of the task `task_id`, the one that is there first.
    ///
    /// # Errors
    /// As [`Results::get`].
    pub async fn watch(&self, task_id: &str) -> Result<ResultWatch> {
        let key = Filter::parse(key_of(task_id)?.as_str())?;
        let watch = self.endpoint.engine().watch(self.bucket(), key, Revision::START).await?;
        Ok(ResultWatch { results: self.clone(), task_id: task_id.to_owned(), watch })
    }

    /// Reads the output of a result; `None` when it was not kept, or is not there any more.
    ///
    /// # Errors
    /// As [`Results::get`].
    pub async fn output(&self, result: &TaskResult) -> Result<Option<OutputReader>> {
        OutputReader::open(&self.endpoint, &result.output).await
    }

    fn read(&self, key: &BucketKey, value: &Bytes) -> Result<TaskResult> {
        let plain = open(&self.endpoint, &Place::entry(key), value)?;
        let result = wire::decode(&plain)?;
        if key_of(&result.task_id)? != *key {
            return Err(wire::corrupt("the result is kept under the id of another task"));
        }
        Ok(result)
    }

    fn bucket(&self) -> BucketName {
        BucketName::results(self.endpoint.workspace())
    }
}

impl ResultWatch {
    /// Waits for the next result under this id; `None` when the bus was closed. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<TaskResult>> {
        loop {
            match self.watch.next().await? {
                Err(error) => return Some(Err(error)),
                Ok(WatchItem::Changed(change)) => {
                    if let KeyState::Value(value) = &change.state {
                        let key = match key_of(&self.task_id) {
                            Ok(key) => key,
                            Err(error) => return Some(Err(error)),
                        };
                        return Some(self.results.read(&key, value));
                    }
                }
                Ok(WatchItem::Current | WatchItem::Resync) => {}
            }
        }
    }
}

/// Where the result of a task is kept: ids are for senders to choose, keys have an alphabet.
fn key_of(task_id: &str) -> Result<BucketKey> {
    let name = EventHash::of(format!("vak-bus/result/v1:{task_id}").as_bytes());
    Ok(BucketKey::parse(&name.to_string())?)
}

#[cfg(test)]
mod tests;
