//! Records on evidence subjects: one chain for all writers, by compare-and-set on its head.

use bus_envelope::{ChainHead, Draft, MessageEnvelope, wire};
use bus_subjects::Address;

use super::{Endpoint, Outgoing, Recorded, chain::Place, send::Failed, stamp::new_uuid};
use crate::{Error, ErrorKind, Expect, Frame, Result, Seq};

impl Endpoint {
    /// Stores a record on an evidence subject: one chain for all writers, by compare-and-set.
    ///
    /// A writer that loses the race reads the new head and stamps anew. `draft.id` makes the call
    /// idempotent: a record with that id is stored once. Without one a call whose outcome stayed
    /// unknown cannot be repeated safely.
    ///
    /// # Errors
    /// As [`Endpoint::send`], but `Invalid` on any *other* subject; `Conflict` also when
    /// others moved the head 256 times meanwhile.
    pub async fn record(&self, draft: Draft) -> Result<Recorded> {
        self.check_record(&draft)?;
        let outgoing = Outgoing::from(draft);
        let draft = &outgoing.draft;
        let id = match &draft.id {
            Some(id) => id.clone(),
            None => new_uuid(self.clock(), self.entropy())?.to_string(),
        };
        for _ in 0..RECORDS_MAX {
            let (head, seq) = match self.engine().last(draft.subject.clone()).await? {
                None => (self.subject_genesis(&draft.subject), Seq(0)),
                Some(stored) => {
                    let last = decode_stored(&stored.frame)?;
                    if last.id == id {
                        return self.already_there(draft, &id, Some(&stored.frame));
                    }
                    (ChainHead::of(&last), stored.seq)
                }
            };
            let (place, form) = (Place::at(head), self.form(true));
            let prepared = self.prepare(outgoing.clone(), Some(&id), &place, form)?;
            match self.append(&prepared.frame, Expect::LastOfSubject(seq), false).await {
                Ok(receipt) => {
                    self.tell_sent(prepared.sending.as_deref(), None);
                    return Ok(Recorded::Stored(Box::new(prepared.sent(receipt))));
                }
                Err(Failed::Duplicate(found)) => {
                    return self.already_there(draft, &id, found.as_deref());
                }
                Err(Failed::Error(error)) if error.kind() == ErrorKind::Conflict => {}
                Err(Failed::Error(error)) => {
                    self.tell_sent(prepared.sending.as_deref(), Some(error.kind()));
                    return Err(error);
                }
            }
        }
        let detail = format!("the head moved {RECORDS_MAX} times before this record was stored");
        Err(Error::new(ErrorKind::Conflict, "record", detail).at(&draft.subject))
    }

    pub(super) fn check_record(&self, draft: &Draft) -> Result<()> {
        self.check(draft)?;
        if Address::parse(&draft.subject).is_ok_and(|address| address.is_evidence()) {
            return Ok(());
        }
        let detail =
            "a record goes to a subject with one chain for all: receipts, approvals, rooms";
        Err(Error::new(ErrorKind::Invalid, "record", detail).at(&draft.subject))
    }

    /// Whether what is stored under a record's id is that record: on its subject, signed by an
    /// agent that may, and led to by the same event. Anything else with the id is a conflict.
    fn already_there(&self, draft: &Draft, id: &str, found: Option<&Frame>) -> Result<Recorded> {
        let is_same = found.is_some_and(|frame| {
            frame.subject == draft.subject
                && decode_stored(frame).is_ok_and(|envelope| {
                    envelope.event_type == draft.event_type
                        && envelope.lineage.cause == draft.cause
                        && self.0.parts.roster.verify(&envelope).is_ok()
                })
        });
        if is_same {
            return Ok(Recorded::AlreadyThere);
        }
        Err(Failed::Duplicate(None).into_error(Some(id), &draft.subject))
    }
}

pub(super) fn decode_stored(frame: &Frame) -> Result<MessageEnvelope> {
    wire::decode(&frame.headers, &frame.body).map_err(|error| {
        let detail = format!("the last record stored here cannot be read: {error}");
        Error::new(ErrorKind::Corrupt, "record", detail).at(&frame.subject).because(error)
    })
}

/// How often a record is stamped anew after others moved the head.
pub(super) const RECORDS_MAX: u32 = 256;
