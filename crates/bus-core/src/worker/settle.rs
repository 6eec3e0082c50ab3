//! How a delivery ends: acknowledged, put back, handed back, or dead-lettered and then removed.

use std::time::Duration;

use bus_crypto::CryptoError;
use bus_envelope::Draft;
use bus_subjects::Address;
use bytes::Bytes;

use super::{TaskEvent, Worker, lease::Lease};
use crate::{
    ClaimMark, DeadLetterEvent, Decision, Delivery, Error, ErrorKind, ExpectRevision, Failure,
    GivenUp, GivenUpCause, Opened, OriginalFrame, Result, Revision, Seq, Verdict, claims::Claimed,
    dead_letter::cut_reason, redrive::put_back_delay,
};

/// How long a message rests that cannot be worked on here now, before anybody may look at it.
pub(super) const PARKED: Duration = Duration::from_secs(5);

/// Who and what a dead letter is about, as far as it is known.
struct Given<'a> {
    opened: Option<&'a Opened>,
    verdict: GivenUp,
}

/// What a delivery is to come to.
pub(super) enum Redelivery {
    /// It is to be worked on.
    Try {
        /// Whether its last attempt ended without a verdict: it may have taken its worker down.
        is_suspect: bool,
    },
    /// An earlier attempt did the work and could not say so: it is only to be removed.
    Done,
    /// It was given up before and only its dead letter is missing, or there were as many attempts
    /// as this worker makes.
    GivenUp(GivenUp),
}

/// What an earlier delivery left in the claims.
enum Left {
    /// Nothing: there was none, or it ended with a verdict.
    Nothing,
    /// Something that nobody can read.
    Damaged,
    /// The mark of an attempt that ended without a verdict, or with one that is not done yet.
    Mark(ClaimMark),
}

impl Worker {
    pub(super) async fn complete(&self, lease: Lease, opened: &Opened) -> TaskEvent {
        let task_id = opened.envelope.id.clone();
        let (attempt, claimed) = (lease.delivery.attempt, Claimed::of(&lease.delivery));
        let mark = self.mark(&lease.delivery);
        match lease.settle(Verdict::Ack).await {
            Ok(()) => {
                // Best effort: a mark that stays ends with its time.
                let _cleared = self.endpoint.clear_claim(&claimed, ExpectRevision::Any).await;
                TaskEvent::Completed { task_id, attempt }
            }
            Err(error) => {
                self.mark_done(&claimed, mark).await;
                TaskEvent::Unsettled { task_id, error }
            }
        }
    }

    /// Leaves word that the work is done, so that the next delivery is not tried again and not
    /// given up: it is only acknowledged.
    pub(super) async fn mark_done(&self, claimed: &Claimed, mark: ClaimMark) {
        let mark = ClaimMark { is_done: true, ..mark };
        // Best effort: without it the task may run once more, which is what at-least-once means.
        let _marked = self.endpoint.mark_claim(claimed, &mark).await;
    }

    /// This worker's mark for an attempt that begins now.
    pub(super) fn mark(&self, delivery: &Delivery) -> ClaimMark {
        ClaimMark {
            task: delivery.frame.id.to_string(),
            attempt: delivery.attempt,
            worker: self.endpoint.agent().to_string(),
            claimed: self.endpoint.clock().now().to_string(),
            given_up: None,
            is_done: false,
        }
    }

    /// Decides what follows a failure; `marked` is the mark that this attempt left.
    pub(super) async fn fail(
        &self,
        lease: Lease,
        opened: &Opened,
        failure: Failure,
        marked: Revision,
    ) -> TaskEvent {
        let (task_id, attempt) = (opened.envelope.id.clone(), lease.delivery.attempt);
        let (why, cause) = match &failure {
            Failure::Failed { reason } => (reason.clone(), GivenUpCause::Exhausted),
            Failure::Hopeless { reason } => (reason.clone(), GivenUpCause::Hopeless),
            Failure::Interrupted => (String::new(), GivenUpCause::Exhausted),
        };
        match self.spec.retry.decide(attempt, failure, self.random()) {
            Decision::Release => {
                self.release(lease, task_id, "the worker was stopped", Duration::ZERO).await
            }
            Decision::Retry { after } => {
                let claimed = Claimed::of(&lease.delivery);
                match lease.settle(Verdict::Retry { after }).await {
                    Ok(()) => {
                        // There is a verdict on this attempt. A mark that stays says otherwise, and
                        // then the next one has no neighbours. By now the next attempt may have
                        // begun and left its own: that one is not ours to clear.
                        let own = ExpectRevision::Exactly(marked);
                        let _cleared = self.endpoint.clear_claim(&claimed, own).await;
                        TaskEvent::Retried { task_id, attempt, after, reason: why }
                    }
                    Err(error) => TaskEvent::Unsettled { task_id, error },
                }
            }
            Decision::DeadLetter { reason } => {
                let worker = Some(self.endpoint.agent().to_string());
                let verdict = GivenUp { attempts: attempt, worker, reason, cause };
                self.give_up(lease, Given { opened: Some(opened), verdict }).await
            }
        }
    }

    /// What a delivery is to come to, as far as the marks of earlier ones tell.
    ///
    /// # Errors
    /// Those of reading a bucket. Then the task is not to be run: it may be done already.
    pub(super) async fn redelivery(&self, delivery: &Delivery) -> Result<Redelivery> {
        let left = self.left_by_earlier(delivery).await?;
        match &left {
            Left::Mark(ClaimMark { is_done: true, .. }) => return Ok(Redelivery::Done),
            Left::Mark(ClaimMark { given_up: Some(verdict), .. }) => {
                return Ok(Redelivery::GivenUp(verdict.clone()));
            }
            _ => {}
        }
        if !self.spec.retry.is_spent(delivery.attempt) {
            let is_suspect = matches!(&left, Left::Mark(mark) if mark.attempt < delivery.attempt);
            return Ok(Redelivery::Try { is_suspect });
        }
        // This delivery is no attempt yet, and others may have been allowed more of them than here.
        let attempts = delivery.attempt.saturating_sub(1);
        let plural = if attempts == 1 { "" } else { "s" };
        let worker = match left {
            // A verdict clears the mark: nobody was lost, there are just no more retries.
            Left::Nothing => {
                let most = self.spec.retry.retries_max.saturating_add(1);
                let reason = format!(
                    "retries exhausted after {attempts} attempt{plural}: \
                     this worker makes {most} at most"
                );
                let cause = GivenUpCause::Exhausted;
                return Ok(Redelivery::GivenUp(GivenUp { attempts, worker: None, reason, cause }));
            }
            Left::Damaged => None,
            Left::Mark(mark) => Some(mark.worker),
        };
        let reason = format!(
            "worker lost: {attempts} attempt{plural}, the last by {}, ended without a verdict",
            worker.as_deref().unwrap_or("an unknown worker")
        );
        let cause = GivenUpCause::Vanished;
        Ok(Redelivery::GivenUp(GivenUp { attempts, worker, reason, cause }))
    }

    /// What an earlier delivery left. A damaged mark costs the name of the last worker, not the
    /// task.
    async fn left_by_earlier(&self, delivery: &Delivery) -> Result<Left> {
        if delivery.attempt <= 1 {
            return Ok(Left::Nothing);
        }
        match self.endpoint.last_claim(&Claimed::of(delivery)).await {
            Ok(None) => Ok(Left::Nothing),
            Ok(Some(mark)) => Ok(Left::Mark(mark)),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Left::Damaged),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn give_up_untried(
        &self,
        lease: Lease,
        opened: &Opened,
        verdict: GivenUp,
    ) -> TaskEvent {
        self.give_up(lease, Given { opened: Some(opened), verdict }).await
    }

    /// What cannot be read is kept as it came; what is sealed under an unknown key waits. A key
    /// that was withdrawn does not come back, so what is sealed under it is given up.
    pub(super) async fn unreadable(&self, lease: Lease, error: &Error) -> TaskEvent {
        let task_id = lease.delivery.frame.id.to_string();
        if error.kind() == ErrorKind::UnknownKey && !is_withdrawn(error) {
            let reason = "its key is not known to this worker";
            return self.release(lease, task_id, reason, PARKED).await;
        }
        if error.kind() == ErrorKind::Unavailable {
            let reason = "its signer cannot be looked up now";
            return self.release(lease, task_id, reason, PARKED).await;
        }
        let earlier = match lease.beside(self.left_by_earlier(&lease.delivery)).await {
            Ok(Left::Mark(mark)) => mark.given_up,
            Ok(Left::Nothing | Left::Damaged) => None,
            Err(error) => return self.unmarked(lease, task_id, error).await,
        };
        let verdict = earlier.unwrap_or_else(|| GivenUp {
            attempts: lease.delivery.attempt.saturating_sub(1),
            worker: None,
            reason: format!("refused before any attempt: {error}"),
            cause: if is_withdrawn(error) {
                GivenUpCause::KeyWithdrawn
            } else {
                GivenUpCause::Refused
            },
        });
        self.give_up(lease, Given { opened: None, verdict }).await
    }

    pub(super) async fn release(
        &self,
        lease: Lease,
        task_id: String,
        reason: &'static str,
        after: Duration,
    ) -> TaskEvent {
        match lease.settle(Verdict::Release { after }).await {
            Ok(()) => TaskEvent::Released { task_id, reason },
            Err(error) => TaskEvent::Unsettled { task_id, error },
        }
    }

    /// Hands back a task whose claim marks cannot be read or written: it must not be first in line
    /// at once, or the worker would spin on it.
    pub(super) async fn unmarked(&self, lease: Lease, task_id: String, error: Error) -> TaskEvent {
        // Best effort: else the lease runs out.
        let _released = lease.settle(Verdict::Release { after: PARKED }).await;
        TaskEvent::Unsettled { task_id, error }
    }

    /// Stores the dead letter, and only when that is confirmed removes the original. When it
    /// cannot be stored the original rests and comes again; nothing is counted.
    async fn give_up(&self, lease: Lease, given: Given<'_>) -> TaskEvent {
        let task_id = match given.opened {
            Some(opened) => opened.envelope.id.clone(),
            None => lease.delivery.frame.id.to_string(),
        };
        // Nobody else is to have the task meanwhile, who might run it again.
        let stored = lease.beside(self.store_dead_letter(&lease.delivery, &given)).await;
        let letter = match stored {
            Ok(letter) => letter,
            Err(error) => {
                tracing::error!(task = %task_id, %error, "dead letter not stored; the task is kept");
                self.endpoint.metrics().letter_failed();
                let Given { opened, verdict } = given;
                self.keep(lease, verdict.clone()).await;
                self.alert_of_failure(&task_id, opened, &verdict, &error).await;
                return TaskEvent::Unsettled { task_id, error };
            }
        };
        let (claimed, mark) = (Claimed::of(&lease.delivery), self.mark(&lease.delivery));
        let reason = cut_reason(&given.verdict.reason);
        match lease.settle(Verdict::Reject { reason: reason.clone() }).await {
            Ok(()) => {
                // Counted here and not when it was stored: a letter may be stored by a worker that
                // then dies, and confirmed by another.
                self.endpoint.metrics().dead_lettered();
                self.endpoint.metrics().ended(given.verdict.cause.outcome());
                let _cleared = self.endpoint.clear_claim(&claimed, ExpectRevision::Any).await;
                self.alert_of_letter(&task_id, given.opened, &given.verdict, letter).await;
                TaskEvent::DeadLettered { task_id, attempts: given.verdict.attempts, reason }
            }
            Err(error) => {
                self.mark_given_up(&claimed, mark, given.verdict).await;
                TaskEvent::Unsettled { task_id, error }
            }
        }
    }

    /// Puts a given-up task back, with the verdict in its claim mark: so its next delivery is no
    /// new attempt, and the dead letter will tell the true reason.
    async fn keep(&self, lease: Lease, verdict: GivenUp) {
        let tries = lease.delivery.attempt.saturating_sub(verdict.attempts);
        let after = put_back_delay(tries, self.random());
        let (claimed, mark) = (Claimed::of(&lease.delivery), self.mark(&lease.delivery));
        lease.beside(self.mark_given_up(&claimed, mark, verdict)).await;
        // Best effort: without it the lease runs out.
        let _put_back = lease.settle(Verdict::Retry { after }).await;
    }

    /// Leaves word that the task is given up, so that the next delivery does not run it again.
    async fn mark_given_up(&self, claimed: &Claimed, mark: ClaimMark, verdict: GivenUp) {
        let given_up = Some(GivenUp { reason: cut_reason(&verdict.reason), ..verdict });
        // Best effort: without it the letter says less, or the task may run once more.
        let _marked = self.endpoint.mark_claim(claimed, &ClaimMark { given_up, ..mark }).await;
    }

    /// Stores the dead letter, unless it is there; its position when it was not.
    async fn store_dead_letter(
        &self,
        delivery: &Delivery,
        given: &Given<'_>,
    ) -> Result<Option<Seq>> {
        let frame = &delivery.frame;
        let event = DeadLetterEvent {
            envelope_id: match given.opened {
                Some(opened) => opened.envelope.id.clone(),
                None => frame.id.to_string(),
            },
            subject: frame.subject.to_string(),
            stream: delivery.stream().to_string(),
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
                .id(DeadLetterEvent::frame_id(delivery.stream(), delivery));
        draft = given.verdict.cause.name_in(draft)?;
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
