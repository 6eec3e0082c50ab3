//! What is not carried: a dead letter at home, then its state, and only then out of the outbox.

use bus_envelope::Draft;
use bus_subjects::Address;
use bytes::Bytes;

use super::{CourierEvent, Shift, carry::Parcel};
use crate::{
    Courier, DeadLetterEvent, ErrorKind, GivenUpCause, Opened, OriginalFrame, RecordState, Result,
    Verdict, dead_letter::cut_reason, planes,
};

impl Shift<'_> {
    /// Gives a record up for `reason`.
    pub(super) async fn refuse(&mut self, parcel: Parcel<'_>, reason: String) -> Result<()> {
        let (courier, reason) = (self.courier, cut_reason(&reason));
        let id = parcel.delivery.frame.id.to_string();
        let stored = courier.store_letter(&parcel, &reason).await;
        if stored.is_err() {
            courier.home.metrics().letter_failed();
        }
        match stored {
            // Only what was put there past the outbox is as large as that; it must not keep the
            // others waiting for ever.
            Err(error) if error.kind() == ErrorKind::TooLarge => {
                tracing::error!(%id, %reason, "a refused record is too large for a dead letter");
            }
            stored => stored?,
        }
        let at = courier.home.clock().now();
        courier.note(&parcel, RecordState::Refused { reason: reason.clone(), at }).await?;
        courier.home.metrics().dead_lettered();
        *parcel.verdict = Verdict::Reject { reason: reason.clone() };
        self.rests = 0;
        tracing::warn!(%id, %reason, "an outbox record is not carried");
        (self.report)(CourierEvent::Refused { id, reason });
        Ok(())
    }
}

impl Courier {
    /// Stores the dead letter of a record: of the frame in it, as far as that can be read.
    async fn store_letter(&self, parcel: &Parcel<'_>, reason: &str) -> Result<()> {
        let (delivery, workspace) = (parcel.delivery, self.home.workspace().clone());
        let original = parcel.frame.as_ref().unwrap_or(&*delivery.frame);
        let stream = planes::outbox_stream(&workspace)?;
        let agent = self.home.agent().clone();
        let event = DeadLetterEvent {
            envelope_id: match &parcel.envelope {
                Some((id, _)) => id.clone(),
                None => original.id.to_string(),
            },
            subject: original.subject.to_string(),
            stream: stream.to_string(),
            seq: delivery.seq.0,
            attempts: u32::from(parcel.envelope.is_some()),
            failure_reason: reason.to_owned(),
            failed_at: self.home.clock().now().to_string(),
            worker_id: Some(agent.to_string()),
            original: OriginalFrame::of(original),
        };
        let subject = Address::DeadLetter { workspace, agent }.subject();
        let json = Bytes::from(event.to_json()?);
        let mut draft = Draft::new(subject, DeadLetterEvent::EVENT_TYPE, json)
            .content_type("application/json")
            .id(DeadLetterEvent::frame_id(&stream, delivery));
        draft = GivenUpCause::Refused.name_in(draft)?;
        if let Some((_, hash)) = &parcel.envelope {
            draft = draft.cause(*hash);
        }
        let is_same = |opened: &Opened| {
            DeadLetterEvent::from_json(&opened.payload).is_ok_and(|letter| {
                (letter.seq, &letter.original) == (event.seq, &event.original)
                    && letter.stream == event.stream
            })
        };
        self.home.send_letter(draft, is_same).await.map(drop)
    }
}
