//! Questions to the hub: asked until it answers, the same bytes each time.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Shift, carry::Parcel};
use crate::{Error, ErrorKind, Frame, Outcome, RecordState, Result};

/// What the hub says.
pub(super) enum Told<T> {
    /// It is stored.
    Stored(T),
    /// It will never be.
    Refused {
        /// Why.
        error: Error,
        /// Whether an earlier copy went without an answer.
        is_unsure: bool,
    },
    /// It has no room for these records, and may have some another time.
    Full { error: Error, is_unsure: bool },
    /// It said nothing to these records, of which there are several.
    Unanswered,
    /// The courier was stopped before the hub answered.
    Stopped,
}

/// What follows an error of the hub.
enum Sense {
    /// It may do another time.
    Passing,
    /// It is about these records and stays so.
    Refusal,
    /// It is about where these records go.
    Full,
    /// The courier cannot go on.
    Final,
}

impl Shift<'_> {
    /// Asks the hub to store `run` until it answers, with rests between, but several records once
    /// only when no answer comes; a record that has to wait says why in its state.
    ///
    /// # Errors
    /// `Denied` when the hub does not let the courier in, `Closed` when its engine was closed.
    pub(super) async fn ask<T, F: Future<Output = Result<T>> + Send>(
        &mut self,
        run: &[Parcel<'_>],
        question: impl Fn() -> F + Send,
    ) -> Result<Told<T>> {
        let (mut tries, mut is_unsure) = (0_u32, false);
        let stop = self.stop;
        loop {
            let answer = tokio::select! {
                biased;
                answer = tokio::time::timeout(ANSWER_MAX, question()) => answer,
                () = stopping(stop) => return Ok(Told::Stopped),
            };
            let error = match answer {
                Ok(Ok(stored)) => return Ok(Told::Stored(stored)),
                Ok(Err(error)) => error,
                Err(_) => {
                    Error::new(ErrorKind::Timeout, "carry", "the hub did not answer").unknown()
                }
            };
            is_unsure |= error.outcome() == Outcome::Unknown;
            match sense(&error, run) {
                Sense::Refusal => return Ok(Told::Refused { error, is_unsure }),
                Sense::Full => return Ok(Told::Full { error, is_unsure }),
                Sense::Final => return Err(error),
                Sense::Passing => {}
            }
            tries = tries.saturating_add(1);
            if let Some(first) = run.first() {
                let at = self.courier.home.clock().now();
                let state = RecordState::Again { why: error.to_string(), tries, at };
                // Best effort: it says why something waits, and the record itself waits anyway.
                let _noted = self.courier.note(first, state).await;
            }
            self.rest(error).await;
            if self.stop.is_cancelled() {
                return Ok(Told::Stopped);
            }
            self.check_again(run)?;
            if is_unsure && run.len() > 1 {
                return Ok(Told::Unanswered);
            }
        }
    }

    /// Looks at certificates once more after a rest, which may have been long.
    fn check_again(&self, run: &[Parcel<'_>]) -> Result<()> {
        let home = &self.courier.home;
        home.check_certificate("carry")?;
        let mut frames = run.iter().filter_map(|parcel| parcel.frame.as_ref());
        if frames.all(|frame| home.check_frame(frame).is_ok()) {
            return Ok(());
        }
        // Handed back, all of them are judged anew.
        let why = "what is known of a signer has changed: its records are looked at again";
        Err(Error::new(ErrorKind::Unavailable, "carry", why))
    }
}

/// Returns when an answer is not waited for any longer.
async fn stopping(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(STOP_WAIT).await;
}

fn sense(error: &Error, run: &[Parcel<'_>]) -> Sense {
    match error.kind() {
        ErrorKind::Closed => Sense::Final,
        _ if error.outcome() == Outcome::Unknown => Sense::Passing,
        ErrorKind::Invalid
        | ErrorKind::TooLarge
        | ErrorKind::Conflict
        | ErrorKind::Unsupported
        | ErrorKind::Corrupt => Sense::Refusal,
        // A right that is missing is one to a subject. Anything else says that the courier itself
        // is not let in: its records are as good as before, and wait.
        ErrorKind::Denied if names_one(error, run) => Sense::Refusal,
        ErrorKind::Denied => Sense::Final,
        ErrorKind::Full => Sense::Full,
        _ => Sense::Passing,
    }
}

fn names_one(error: &Error, run: &[Parcel<'_>]) -> bool {
    let mut frames = run.iter().filter_map(|parcel| parcel.frame.as_ref());
    frames.any(|frame: &Frame| error.subject() == Some(frame.subject.as_str()))
}

/// How long one answer is waited for.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How long an answer that is under way is waited for after the courier was told to stop.
const STOP_WAIT: Duration = Duration::from_secs(5);
