//! The dead letters of a workspace: looked through, sent again, or thrown away.

mod bulk;
mod filter;
mod letter;
mod list;
mod redrive;

use bus_subjects::{Filter, Subject};

pub use self::{
    bulk::{BulkReport, DiscardReport, DiscardSurvey, LetterCount, RedriveSurvey},
    filter::{LetterFilter, LetterOrder},
    letter::{DeadLetter, LetterContent},
    list::Letters,
    redrive::{Redrive, Redriven},
};
use crate::{Endpoint, Error, ErrorKind, Result, Seq, Stored, planes};

/// The dead letters of one workspace, as an agent may see and treat them.
///
/// A letter that cannot be opened, because it is damaged, forged, or sealed under a key that this
/// process lacks, is shown as such and never hidden.
///
/// Every method is cancel safe as the engine's are: what was begun may have happened or not, and
/// may be repeated.
#[derive(Debug, Clone)]
pub struct DeadLetters {
    endpoint: Endpoint,
}

impl DeadLetters {
    /// The longest reason for throwing a letter away, in bytes.
    pub const DISCARD_REASON_BYTES_MAX: usize = 1024;

    /// The dead letters of the endpoint's workspace.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    /// The letter at position `seq`.
    ///
    /// # Errors
    /// `NotFound` when there is none; `Denied`, `Closed`, `Unavailable`.
    pub async fn show(&self, seq: Seq) -> Result<DeadLetter> {
        let stored = self.stored("show dead letter", seq).await?;
        Ok(self.open(stored))
    }

    /// Throws the letter at `seq` away with what it holds, and returns what it was. The reason
    /// goes to the log, with the letter's position and the task's id.
    ///
    /// # Errors
    /// `Invalid` when the reason is empty or longer than
    /// [`DeadLetters::DISCARD_REASON_BYTES_MAX`]; `NotFound` when there is no such letter, also
    /// when somebody else was faster; `Denied` to all but operators and keepers; `Closed`;
    /// `Timeout` and `Unavailable` with outcome unknown.
    pub async fn discard(&self, seq: Seq, reason: &str) -> Result<DeadLetter> {
        const OP: &str = "discard dead letter";
        Self::check_reason(reason)?;
        self.may_discard(OP)?;
        let letter = self.open(self.stored(OP, seq).await?);
        if !self.remove(seq).await? {
            return Err(not_found(OP, seq));
        }
        let (agent, task) = (self.endpoint.agent(), letter.task_id().unwrap_or("unknown"));
        tracing::warn!(seq = seq.0, task, by = %agent, reason, "dead letter discarded");
        Ok(letter)
    }

    /// The letter at `seq` as it is stored, of this workspace and for this agent's eyes.
    async fn stored(&self, op: &'static str, seq: Seq) -> Result<Stored> {
        let stream = planes::dead_letters_stream()?;
        let stored = self.endpoint.engine().read(stream, seq).await?;
        let stored = stored.ok_or_else(|| not_found(op, seq))?;
        // A keeper, who sweeps, may write letters and not list them; it may treat one it knows.
        let subject = &stored.frame.subject;
        if self.endpoint.may_publish(op, subject).is_err() {
            self.endpoint.may_subscribe(op, &Filter::from(subject))?;
        }
        Ok(stored)
    }

    fn open(&self, stored: Stored) -> DeadLetter {
        DeadLetter::open(&self.endpoint, stored)
    }

    fn check_reason(reason: &str) -> Result<()> {
        let (bytes, bytes_max) = (reason.len(), Self::DISCARD_REASON_BYTES_MAX);
        if (1..=bytes_max).contains(&bytes) {
            return Ok(());
        }
        let detail = format!("the reason has {bytes} bytes: expected 1 to {bytes_max}");
        Err(Error::new(ErrorKind::Invalid, "discard dead letter", detail))
    }

    /// The engine is asked under the subject of a server's own API; who may not is refused here.
    fn may_discard(&self, op: &'static str) -> Result<()> {
        let stream = planes::dead_letters_stream()?;
        let subject = Subject::parse(&format!("$JS.API.STREAM.MSG.DELETE.{stream}"))?;
        self.endpoint.may_publish(op, &subject)
    }

    async fn remove(&self, seq: Seq) -> Result<bool> {
        self.endpoint.engine().discard(planes::dead_letters_stream()?, seq).await
    }
}

fn not_found(op: &'static str, seq: Seq) -> Error {
    Error::new(ErrorKind::NotFound, op, format!("there is no dead letter at {}", seq.0))
}
