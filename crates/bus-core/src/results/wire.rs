//! A result as bytes, before it is sealed: its JSON behind a length, then the output.

use bus_envelope::EventHash;
use bus_subjects::{AgentId, BucketKey, SessionId};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{LeftOut, ResultOutput, Results, TaskResult};
use crate::{Error, ErrorKind, Result, Seq};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    task_id: String,
    task: String,
    attempt: u32,
    worker: String,
    session: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    receipt: Option<u64>,
    stderr_hash: String,
    output: OutputPlace,
    // Only where something is left out: readers from before know no such member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left_out: Option<Gap>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Gap {
    at: u64,
    bytes: u64,
    stdout_hash: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum OutputPlace {
    Inline,
    Blob { key: String, bytes: u64 },
    NotKept { reason: String },
}

/// The bytes of `result`.
pub(super) fn encode(result: &TaskResult) -> Result<Vec<u8>> {
    let (output, inline) = match &result.output {
        ResultOutput::Inline(bytes) => (OutputPlace::Inline, bytes.clone()),
        ResultOutput::Blob { key, bytes } => {
            (OutputPlace::Blob { key: key.to_string(), bytes: *bytes }, Bytes::new())
        }
        ResultOutput::NotKept { reason } => {
            (OutputPlace::NotKept { reason: reason.clone() }, Bytes::new())
        }
    };
    let (bytes, bytes_max) = (inline.len(), Results::INLINE_BYTES_MAX);
    if bytes > bytes_max {
        let detail = format!("the output has {bytes} bytes: at most {bytes_max} are kept here");
        return Err(Error::new(ErrorKind::TooLarge, "result", detail));
    }
    let head = Head {
        task_id: result.task_id.clone(),
        task: result.task.to_string(),
        attempt: result.attempt,
        worker: result.worker.to_string(),
        session: result.session.to_string(),
        receipt: result.receipt.map(|seq| seq.0),
        stderr_hash: result.stderr_hash.to_string(),
        output,
        left_out: result.left_out.map(|left_out| Gap {
            at: left_out.at,
            bytes: left_out.bytes,
            stdout_hash: left_out.stdout_hash.to_string(),
        }),
    };
    let json = serde_json::to_vec(&head).map_err(|error| {
        Error::new(ErrorKind::Invalid, "result", "cannot be written as JSON").because(error)
    })?;
    let length = u32::try_from(json.len()).map_err(|error| {
        Error::new(ErrorKind::TooLarge, "result", "what is said of it is too long").because(error)
    })?;
    let mut all = Vec::with_capacity(4 + json.len() + inline.len());
    all.extend_from_slice(&length.to_be_bytes());
    all.extend_from_slice(&json);
    all.extend_from_slice(&inline);
    Ok(all)
}

/// The result that `bytes` are.
pub(super) fn decode(bytes: &[u8]) -> Result<TaskResult> {
    let short = || corrupt("a result is cut off");
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| short())?;
    let (json, inline) = rest.split_at_checked(length).ok_or_else(short)?;
    let head: Head = serde_json::from_slice(json)
        .map_err(|error| corrupt("what is said of it is not its JSON").because(error))?;
    let output = match head.output {
        OutputPlace::Inline => ResultOutput::Inline(Bytes::copy_from_slice(inline)),
        _ if !inline.is_empty() => return Err(corrupt("there is more than it says")),
        OutputPlace::Blob { key, bytes } => {
            ResultOutput::Blob { key: BucketKey::parse(&key)?, bytes }
        }
        OutputPlace::NotKept { reason } => ResultOutput::NotKept { reason },
    };
    let left_out = head.left_out.map(|gap| gap.within(&output)).transpose()?;
    Ok(TaskResult {
        task_id: head.task_id,
        task: hash(&head.task, "the task's hash is none")?,
        attempt: head.attempt,
        worker: AgentId::parse(&head.worker)?,
        session: SessionId::parse(&head.session)?,
        receipt: head.receipt.map(Seq),
        stderr_hash: hash(&head.stderr_hash, "the hash of standard error is none")?,
        output,
        left_out,
    })
}

impl Gap {
    /// What is left out, if that can be said of `output`.
    fn within(self, output: &ResultOutput) -> Result<LeftOut> {
        let kept = match output {
            ResultOutput::Inline(bytes) => bytes.len() as u64,
            ResultOutput::Blob { bytes, .. } => *bytes,
            ResultOutput::NotKept { .. } => {
                return Err(corrupt("a part is left out of an output that is not kept"));
            }
        };
        if self.bytes == 0 || self.at > kept || self.bytes.checked_add(kept).is_none() {
            return Err(corrupt("what is left out is not within the output"));
        }
        let stdout_hash = hash(&self.stdout_hash, "the hash of standard output is none")?;
        Ok(LeftOut { at: self.at, bytes: self.bytes, stdout_hash })
    }
}

fn hash(text: &str, what: &'static str) -> Result<EventHash> {
    text.parse().map_err(|_| corrupt(what))
}

/// A result that is damaged or forged.
pub(super) fn corrupt(what: &'static str) -> Error {
    Error::new(ErrorKind::Corrupt, "result", what)
}
