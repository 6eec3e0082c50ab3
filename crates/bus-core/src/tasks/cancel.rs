//! Cancelling a task: taken out when it waits, told to its worker when it runs.

use bus_envelope::Draft;
use bus_subjects::Address;
use bytes::Bytes;

use super::{QueuedTask, Tasks};
use crate::{
    CancelMark, DeadLetterEvent, Error, ErrorKind, GivenUpCause, OriginalFrame, Result, Stored,
    claims::Claimed, planes,
};

/// What became of a task that was cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cancelled {
    /// It waited: it is out of its queue, and its dead letter says who cancelled it.
    TakenOut,
    /// A worker has begun it. It is marked, and its worker is told if it listens; if that worker is
    /// gone, whoever gets the task next gives it up.
    Told {
        /// Who works on it, or did.
        worker: String,
    },
    /// It had left its queue before.
    Gone,
}

impl Tasks {
    /// Cancels a task, and says what became of it. May be repeated.
    ///
    /// A mark is left first. A worker looks for marks after leaving its own, so of the two that
    /// meet at a task one sees the other, and there is one dead letter whoever stores it.
    ///
    /// # Errors
    /// `Denied` to all but operators; `Invalid` when the reason is longer than
    /// [`CancelMark::REASON_BYTES_MAX`]; those of the engine. After the mark is left, which an
    /// error does not tell, the task will not be begun any more by a worker that listens.
    pub async fn cancel(&self, task: &QueuedTask, reason: Option<&str>) -> Result<Cancelled> {
        const OP: &str = "cancel";
        if let Some(reason) = reason
            && reason.len() > CancelMark::REASON_BYTES_MAX
        {
            let (bytes, bytes_max) = (reason.len(), CancelMark::REASON_BYTES_MAX);
            let detail = format!("the reason has {bytes} bytes: at most {bytes_max} are allowed");
            return Err(Error::new(ErrorKind::Invalid, OP, detail));
        }
        let stream = planes::work_stream(self.endpoint.workspace())?;
        let claimed = Claimed::at(stream.clone(), task.stored, task.seq);
        let mark = CancelMark {
            by: self.endpoint.agent().to_string(),
            at: self.endpoint.clock().now().to_string(),
            reason: reason.map(str::to_owned),
        };
        self.endpoint.mark_cancel(&claimed, &mark).await?;
        let begun = match self.endpoint.last_claim(&claimed).await {
            Err(error) if error.kind() == ErrorKind::Corrupt => None,
            begun => begun?,
        };
        let engine = self.endpoint.engine();
        let Some(stored) = engine.read(stream.clone(), task.seq).await? else {
            return Ok(Cancelled::Gone);
        };
        if let Some(claim) = begun {
            return Ok(Cancelled::Told { worker: claim.worker });
        }
        let letter = self.give_up(task, &stored, &mark).await?;
        if engine.discard(stream, task.seq).await? {
            tracing::info!(task = task.task_id(), by = %mark.by, "task cancelled");
            return Ok(Cancelled::TakenOut);
        }
        // Somebody ended it in between. When that was no worker that saw the mark, the letter says
        // what did not happen.
        if let Some(seq) = letter {
            engine.discard(planes::dead_letters_stream()?, seq).await?;
        }
        Ok(Cancelled::Gone)
    }

    /// Stores the dead letter of a task that is taken out; the position if it was not there before.
    async fn give_up(
        &self,
        task: &QueuedTask,
        stored: &Stored,
        mark: &CancelMark,
    ) -> Result<Option<crate::Seq>> {
        let (workspace, agent) = (self.endpoint.workspace().clone(), self.endpoint.agent().clone());
        let stream = planes::work_stream(&workspace)?;
        let event = DeadLetterEvent {
            envelope_id: task.task_id().to_owned(),
            subject: stored.frame.subject.to_string(),
            stream: stream.to_string(),
            seq: stored.seq.0,
            // What attempts there were before its last rest is known to its engine alone.
            attempts: 0,
            failure_reason: mark.reason(),
            failed_at: mark.at.clone(),
            worker_id: None,
            original: OriginalFrame::of(&stored.frame),
        };
        let subject = Address::DeadLetter { workspace, agent }.subject();
        let id = DeadLetterEvent::id_at(&stream, stored.time, stored.seq);
        let mut draft =
            Draft::new(subject, DeadLetterEvent::EVENT_TYPE, Bytes::from(event.to_json()?))
                .content_type("application/json")
                .id(id);
        draft = GivenUpCause::Cancelled.name_in(draft)?;
        if let Ok(opened) = &task.content {
            draft = draft.cause(opened.hash).trace(opened.envelope.trace.clone());
        }
        let is_same = |opened: &crate::Opened| {
            DeadLetterEvent::from_json(&opened.payload).is_ok_and(|letter| {
                (letter.seq, &letter.original) == (event.seq, &event.original)
                    && letter.stream == event.stream
            })
        };
        self.endpoint.send_letter(draft, is_same).await
    }
}
