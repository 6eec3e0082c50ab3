//! How a delivery ends: acknowledged, put back, handed back, or dead-lettered and then removed.

use std::time::Duration;

use bus_crypto::CryptoError;
use bus_envelope::Draft;
use bus_subjects::Address;
use bytes::Bytes;

use super::{TaskEvent, Worker};
use crate::{
    ClaimMark, DeadLetterEvent, Decision, Delivery, Error, ErrorKind, Failure, GivenUp, Opened,
    OriginalFrame, Result, Verdict, dead_letter::cut_reason, redrive::put_back_delay,
};

/// How long a message rests that cannot be worked on here now, before anybody may look at it.
const PARKED: Duration = Duration::from_secs(5);

/// Who and what a dead letter is about, as far as it is known.
struct Given<'a> {
    opened: Option<&'a Opened>,
    verdict: GivenUp,
}

/// What a delivery is to come to.
pub(super) enum Redelivery {
    /// It is to be worked on.
    Try,
    /// An earlier attempt did the work and could not say so: it is only to be removed.
    Done,
    /// It was given up before and only its dead letter is missing, or more attempts than allowed
    /// ended without a verdict.
    GivenUp(GivenUp),
}

impl Worker {
    pub(super) async fn complete(&self, delivery: Delivery, opened: &Opened) -> TaskEvent {
        let task_id = opened.envelope.id.clone();
        let attempt = delivery.attempt;
        match delivery.settle(Verdict::Ack).await {
            Ok(()) => {
                // A mark that stays is harmless: the next claim of this id overwrites it.
                let _cleared = self.endpoint.clear_claim(&task_id).await;
                TaskEvent::Completed { task_id, attempt }
            }
            Err(error) => {
                self.mark_done(attempt, &task_id).await;
                TaskEvent::Unsettled { task_id, error }
            }
        }
    }

    /// Leaves word that the work is done, so that the next delivery is not tried again and not
    /// given up: it is only acknowledged.
    pub(super) async fn mark_done(&self, attempt: u32, task_id: &str) {
        let mark = ClaimMark { is_done: true, ..self.mark(attempt) };
        // Best effort: without it the task may run once more, which is what at-least-once means.
        let _marked = self.endpoint.mark_claim(task_id, &mark).await;
    }

    /// This worker's mark for an attempt that begins now.
    pub(super) fn mark(&self, attempt: u32) -> ClaimMark {
        ClaimMark {
            attempt,
            worker: self.endpoint.agent().to_string(),
            claimed: self.endpoint.clock().now().to_string(),
            given_up: None,
            is_done: false,
        }
    }

    pub(super) async fn fail(
        &self,
        delivery: Delivery,
        opened: &Opened,
        failure: Failure,
    ) -> TaskEvent {
        let attempt = delivery.attempt;
        let why = match &failure {
            Failure::Failed { reason } | Failure::Hopeless { reason } => reason.clone(),
            Failure::Interrupted => String::new(),
        };
        match self.spec.retry.decide(attempt, failure, self.random()) {
            Decision::Release => {
                self.release(delivery, opened, "the worker was stopped", Duration::ZERO).await
            }
            Decision::Retry { after } => {
                let task_id = opened.envelope.id.clone();
                match delivery.settle(Verdict::Retry { after }).await {
                    Ok(()) => TaskEvent::Retried { task_id, attempt, after, reason: why },
                    Err(error) => TaskEvent::Unsettled { task_id, error },
                }
            }
            Decision::DeadLetter { reason } => {
                let worker = Some(self.endpoint.agent().to_string());
                let verdict = GivenUp { attempts: attempt, worker, reason };
                self.give_up(delivery, Given { opened: Some(opened), verdict }).await
            }
        }
    }

    /// What a delivery is to come to, as far as the marks of earlier ones tell.
    pub(super) async fn redelivery(&self, delivery: &Delivery, task_id: &str) -> Redelivery {
        let mark = self.earlier_mark(delivery, task_id).await;
        match &mark {
            Some(ClaimMark { is_done: true, .. }) => return Redelivery::Done,
            Some(ClaimMark { given_up: Some(verdict), .. }) => {
                return Redelivery::GivenUp(verdict.clone());
            }
            _ => {}
        }
        if !self.spec.retry.is_spent(delivery.attempt) {
            return Redelivery::Try;
        }
        let attempts = self.spec.retry.retries_max.saturating_add(1);
        let worker = mark.map(|mark| mark.worker);
        let plural = if attempts == 1 { "" } else { "s" };
        let reason = format!(
            "worker lost: {attempts} attempt{plural}, the last by {}, ended without a verdict",
            worker.as_deref().unwrap_or("an unknown worker")
        );
        Redelivery::GivenUp(GivenUp { attempts, worker, reason })
    }

    /// The mark that an earlier delivery left. One that cannot be read costs the name of the last
    /// worker, not the task.
    async fn earlier_mark(&self, delivery: &Delivery, task_id: &str) -> Option<ClaimMark> {
        if delivery.attempt <= 1 {
            return None;
        }
        self.endpoint.last_claim(task_id).await.ok().flatten()
    }

    pub(super) async fn give_up_untried(
        &self,
        delivery: Delivery,
        opened: &Opened,
        verdict: GivenUp,
    ) -> TaskEvent {
        self.give_up(delivery, Given { opened: Some(opened), verdict }).await
    }

    /// What cannot be read is kept as it came; what is sealed under an unknown key waits. A key
    /// that was withdrawn does not come back, so what is sealed under it is given up.
    pub(super) async fn unreadable(&self, delivery: Delivery, error: &Error) -> TaskEvent {
        let task_id = delivery.frame.id.to_string();
        if error.kind() == ErrorKind::UnknownKey && !is_withdrawn(error) {
            let reason = "its key is not known to this worker";
            return match delivery.settle(Verdict::Release { after: PARKED }).await {
                Ok(()) => TaskEvent::Released { task_id, reason },
                Err(error) => TaskEvent::Unsettled { task_id, error },
            };
        }
        let earlier = self.earlier_mark(&delivery, &task_id).await;
        let verdict = earlier.and_then(|mark| mark.given_up).unwrap_or_else(|| GivenUp {
            attempts: delivery.attempt.saturating_sub(1),
            worker: None,
            reason: format!("refused before any attempt: {error}"),
        });
        self.give_up(delivery, Given { opened: None, verdict }).await
    }

    pub(super) async fn release(
        &self,
        delivery: Delivery,
        opened: &Opened,
        reason: &'static str,
        after: Duration,
    ) -> TaskEvent {
        let task_id = opened.envelope.id.clone();
        match delivery.settle(Verdict::Release { after }).await {
            Ok(()) => TaskEvent::Released { task_id, reason },
            Err(error) => TaskEvent::Unsettled { task_id, error },
        }
    }

    /// Hands back a task that no claim mark could be left for: it must not be first in line at
    /// once, or the worker would spin on it.
    pub(super) async fn unmarked(
        &self,
        delivery: Delivery,
        opened: &Opened,
        error: Error,
    ) -> TaskEvent {
        let reason = "no claim mark could be left";
        let _released = self.release(delivery, opened, reason, PARKED).await;
        TaskEvent::Unsettled { task_id: opened.envelope.id.clone(), error }
    }

    /// Stores the dead letter, and only when that is confirmed removes the original. When it
    /// cannot be stored the original rests and comes again; nothing is counted.
    async fn give_up(&self, delivery: Delivery, given: Given<'_>) -> TaskEvent {
        let task_id = match given.opened {
            Some(opened) => opened.envelope.id.clone(),
            None => delivery.frame.id.to_string(),
        };
        if let Err(error) = self.store_dead_letter(&delivery, &given).await {
            tracing::error!(task = %task_id, %error, "dead letter not stored; the task is kept");
            self.keep(delivery, &task_id, given.verdict).await;
            return TaskEvent::Unsettled { task_id, error };
        }
        let GivenUp { attempts, reason, .. } = given.verdict;
        match delivery.settle(Verdict::Reject { reason: reason.clone() }).await {
            Ok(()) => {
                // Counted here and not when it was stored: a letter may be stored by a worker that
                // then dies, and confirmed by another.
                self.endpoint.metrics().dead_lettered();
                let _cleared = self.endpoint.clear_claim(&task_id).await;
                TaskEvent::DeadLettered { task_id, attempts, reason }
            }
            Err(error) => TaskEvent::Unsettled { task_id, error },
        }
    }

    /// Puts a given-up task back, with the verdict in its claim mark: so its next delivery is no
    /// new attempt, and the dead letter will tell the true reason.
    async fn keep(&self, delivery: Delivery, task_id: &str, verdict: GivenUp) {
        let tries = delivery.attempt.saturating_sub(verdict.attempts);
        let after = put_back_delay(tries, self.random());
        let given_up = Some(GivenUp { reason: cut_reason(&verdict.reason), ..verdict });
        let mark = ClaimMark { given_up, ..self.mark(delivery.attempt) };
        // Best effort, both: without the mark the letter says less, and without the verdict the
        // lease runs out.
        let _marked = self.endpoint.mark_claim(task_id, &mark).await;
        let _put_back = delivery.settle(Verdict::Retry { after }).await;
    }

    async fn store_dead_letter(&self, delivery: &Delivery, given: &Given<'_>) -> Result<()> {
        let frame = &delivery.frame;
        let event = DeadLetterEvent {
            envelope_id: match given.opened {
                Some(opened) => opened.envelope.id.clone(),
                None => frame.id.to_string(),
            },
            subject: frame.subject.to_string(),
            stream: delivery.stream.to_string(),
            seq: delivery.seq.0,
            attempts: given.verdict.attempts,
            failure_reason: cut_reason(&given.verdict.reason),
            failed_at: self.endpoint.clock().now().to_string(),
            worker_id: given.verdict.worker.clone(),
            original: OriginalFrame::of(frame),
        };
        let (workspace, agent) = (self.endpoint.workspace().clone(), self.endpoint.agent().clone());
        let subject = Address::DeadLetter { workspace, agent }.subject();
        let mut draft =
            Draft::new(subject, DeadLetterEvent::EVENT_TYPE, Bytes::from(event.to_json()?))
                .content_type("application/json")
                .id(DeadLetterEvent::frame_id(&delivery.stream, delivery));
        if let Some(opened) = given.opened {
            draft = draft.cause(opened.hash).trace(opened.envelope.trace.clone());
        }
        let is_same = |opened: &Opened| {
            DeadLetterEvent::from_json(&opened.payload).is_ok_and(|letter| {
                (letter.seq, &letter.original) == (event.seq, &event.original)
                    && letter.stream == event.stream
            })
        };
        self.endpoint.send_letter(draft, is_same).await
    }

    /// Jitter only; a failing random source means no jitter.
    fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        match self.endpoint.entropy().fill(&mut bytes) {
            Ok(()) => u64::from_le_bytes(bytes),
            Err(_) => 100,
        }
    }
}

/// Whether the key that `error` is about was withdrawn, rather than never known.
fn is_withdrawn(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|s| s.downcast_ref::<CryptoError>());
    matches!(source, Some(CryptoError::WithdrawnKey { .. }))
}
