//! How a delivery ends: acknowledged, put back, handed back, or dead-lettered and then removed.

use std::time::Duration;

use base64::Engine as _;
use bus_envelope::Draft;
use bus_subjects::Address;
use bytes::Bytes;

use super::{TaskEvent, Worker};
use crate::{
    DeadLetterEvent, Decision, Delivery, Error, ErrorKind, Failure, Opened, OriginalFrame, Result,
    Verdict, dead_letter::cut_reason,
};

/// How long a message rests whose key is not known here, before another worker may look at it.
const PARKED: Duration = Duration::from_secs(5);

/// Who and what a dead letter is about, as far as it is known.
struct Given<'a> {
    opened: Option<&'a Opened>,
    attempts: u32,
    worker: Option<String>,
    reason: String,
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
            Err(error) => TaskEvent::Unsettled { task_id, error },
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
            Decision::Release => self.release(delivery, opened, "the worker was stopped").await,
            Decision::Retry { after } => {
                let task_id = opened.envelope.id.clone();
                match delivery.settle(Verdict::Retry { after }).await {
                    Ok(()) => TaskEvent::Retried { task_id, attempt, after, reason: why },
                    Err(error) => TaskEvent::Unsettled { task_id, error },
                }
            }
            Decision::DeadLetter { reason } => {
                let worker = Some(self.endpoint.agent().to_string());
                let given = Given { opened: Some(opened), attempts: attempt, worker, reason };
                self.give_up(delivery, given).await
            }
        }
    }

    /// The attempts before this delivery all ended without a verdict: give the task up untried.
    pub(super) async fn lost(&self, delivery: Delivery, opened: &Opened) -> TaskEvent {
        let attempts = delivery.attempt.saturating_sub(1);
        let last = self.endpoint.last_claim(&opened.envelope.id).await.ok().flatten();
        let worker = last.map(|mark| mark.worker);
        let reason = format!(
            "worker lost: {attempts} attempts, the last by {}, ended without a verdict",
            worker.as_deref().unwrap_or("an unknown worker")
        );
        self.give_up(delivery, Given { opened: Some(opened), attempts, worker, reason }).await
    }

    /// What cannot be read is kept as it came; what is sealed under an unknown key waits.
    pub(super) async fn unreadable(&self, delivery: Delivery, error: &Error) -> TaskEvent {
        let task_id = delivery.frame.id.to_string();
        if error.kind() == ErrorKind::UnknownKey {
            let reason = "its key is not known to this worker";
            return match delivery.settle(Verdict::Release { after: PARKED }).await {
                Ok(()) => TaskEvent::Released { task_id, reason },
                Err(error) => TaskEvent::Unsettled { task_id, error },
            };
        }
        let attempts = delivery.attempt.saturating_sub(1);
        let reason = format!("refused before any attempt: {error}");
        self.give_up(delivery, Given { opened: None, attempts, worker: None, reason }).await
    }

    pub(super) async fn release(
        &self,
        delivery: Delivery,
        opened: &Opened,
        reason: &'static str,
    ) -> TaskEvent {
        let task_id = opened.envelope.id.clone();
        match delivery.settle(Verdict::Release { after: Duration::ZERO }).await {
            Ok(()) => TaskEvent::Released { task_id, reason },
            Err(error) => TaskEvent::Unsettled { task_id, error },
        }
    }

    /// Stores the dead letter, and only when that is confirmed removes the original. When it
    /// cannot be stored the original rests and comes again; nothing is counted.
    async fn give_up(&self, delivery: Delivery, given: Given<'_>) -> TaskEvent {
        let task_id = match given.opened {
            Some(opened) => opened.envelope.id.clone(),
            None => delivery.frame.id.to_string(),
        };
        let (attempts, reason) = (given.attempts, given.reason.clone());
        if let Err(error) = self.store_dead_letter(&delivery, given).await {
            tracing::error!(task = %task_id, %error, "dead letter not stored; the task is kept");
            let after = self.spec.retry.backoff.delay(delivery.attempt, self.random()).max(PARKED);
            let _put_back = delivery.settle(Verdict::Retry { after }).await;
            return TaskEvent::Unsettled { task_id, error };
        }
        match delivery.settle(Verdict::Reject { reason: reason.clone() }).await {
            Ok(()) => {
                let _cleared = self.endpoint.clear_claim(&task_id).await;
                TaskEvent::DeadLettered { task_id, attempts, reason }
            }
            Err(error) => TaskEvent::Unsettled { task_id, error },
        }
    }

    async fn store_dead_letter(&self, delivery: &Delivery, given: Given<'_>) -> Result<()> {
        let frame = &delivery.frame;
        let headers = frame.headers.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let event = DeadLetterEvent {
            envelope_id: match given.opened {
                Some(opened) => opened.envelope.id.clone(),
                None => frame.id.to_string(),
            },
            subject: frame.subject.to_string(),
            stream: delivery.stream.to_string(),
            seq: delivery.seq.0,
            attempts: given.attempts,
            failure_reason: cut_reason(&given.reason),
            failed_at: self.endpoint.clock().now().to_string(),
            worker_id: given.worker,
            original: OriginalFrame {
                id: frame.id.to_string(),
                headers,
                body_base64: base64::engine::general_purpose::STANDARD.encode(&frame.body),
            },
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
        match self.endpoint.send(draft).await {
            Ok(_) => {
                self.endpoint.metrics().dead_lettered();
                Ok(())
            }
            // An earlier try stored it: this frame id exists once per stored message.
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
            Err(error) => Err(error),
        }
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
