//! Stored records as events: who said what about which approval.

use bus_core::{
    ApprovalEnd, ApprovalRequest, ApprovalVerdict, EndKind, Endpoint, Error, ErrorKind, Opened,
    Seq, Stored,
};
use bus_crypto::CryptoError;
use bus_envelope::{EventHash, MessageEnvelope, wire};
use bus_subjects::{Address, AgentId, SessionId};

use crate::{Asked, End, Event, Verdict};

/// What a record says.
pub(crate) enum Said {
    /// That somebody asks, and perhaps instead of what.
    Asked { asked: Box<Asked>, instead_of: Option<EventHash> },
    /// Something about the request with this leaf.
    About(EventHash, Box<Event>),
}

/// What an asker's record on its receipts says: that an approval came to an end.
pub(crate) struct Ended {
    pub approval: EventHash,
    /// The id of the request, where the record names it and can be opened.
    pub request_id: Option<String>,
    pub end: End,
}

/// The session whose approvals a record is about; none when it is about no approval.
pub(crate) fn session_of(opened: &Opened) -> Option<SessionId> {
    match Address::parse(&opened.envelope.subject) {
        Ok(Address::Approval { session, .. } | Address::Receipt { session, .. }) => Some(session),
        _ => None,
    }
}

/// What the record stored at `seq` says, checked and opened; nothing when it is about no approval
/// or breaks a limit. `may_resolve` says whether its signer is an operator and no worker.
pub(crate) fn read(seq: Seq, opened: &Opened, may_resolve: bool) -> Option<Said> {
    let envelope = &opened.envelope;
    let about = |leaf, event| Some(Said::About(leaf, Box::new(event)));
    let kind = EndKind::of(&envelope.event_type);
    match Address::parse(&envelope.subject).ok()? {
        Address::Receipt { .. } => {
            let end = end_in(kind?, opened)?;
            about(end.approval(), Event::Ended(end_at(seq, opened, &end)))
        }
        Address::Approval { .. } if kind == Some(EndKind::Withdrawn) => {
            let end = end_in(EndKind::Withdrawn, opened)?;
            let closed = Event::Closed { end: end_at(seq, opened, &end), may_resolve };
            about(end.approval(), closed)
        }
        Address::Approval { .. } => match envelope.event_type.as_str() {
            ApprovalRequest::EVENT_TYPE => {
                let request = ApprovalRequest::from_json(&opened.payload).ok()?;
                let instead_of = request.replaces();
                let (id, at) = (envelope.id.clone(), envelope.time);
                Some(Said::Asked { asked: Box::new(Asked { id, at, request }), instead_of })
            }
            ApprovalVerdict::EVENT_TYPE => {
                let verdict = ApprovalVerdict::from_json(&opened.payload).ok()?;
                let verdict = Box::new(verdict_of(&verdict, opened.hash, envelope));
                about(envelope.lineage.cause?, Event::Verdict { verdict, may_resolve })
            }
            _ => None,
        },
        _ => None,
    }
}

/// A verdict whose stored record has the leaf `leaf`.
pub(crate) fn verdict_of(
    verdict: &ApprovalVerdict,
    leaf: EventHash,
    envelope: &MessageEnvelope,
) -> Verdict {
    Verdict {
        leaf,
        request_id: verdict.request_id().to_owned(),
        by: envelope.lineage.agent.clone(),
        at: envelope.time,
        choice: verdict.choice().to_owned(),
        note: verdict.note().map(str::to_owned),
        authorization: verdict.authorization().cloned(),
        valid_until: verdict.valid_until(),
        trace: Some(envelope.trace.clone()),
    }
}

/// The end in a record: one of the request that its cause names.
fn end_in(kind: EndKind, opened: &Opened) -> Option<ApprovalEnd> {
    let end = ApprovalEnd::from_json(kind, &opened.payload).ok()?;
    (opened.envelope.lineage.cause == Some(end.approval())).then_some(end)
}

fn end_at(seq: Seq, opened: &Opened, end: &ApprovalEnd) -> End {
    End {
        kind: end.kind(),
        leaf: opened.hash,
        seq,
        by: opened.envelope.lineage.agent.clone(),
        at: opened.envelope.time,
        instead: end.by().map(str::to_owned),
    }
}

/// What an end by `asker` on receipts says; nothing when the record is none of that, or its cause
/// is no approval that `may_be` is about.
///
/// Only such records are opened: a session has many receipts, and each check of a signature costs.
///
/// One that was signed with a key that is revoked now is an end like any other: who comes back
/// under a new key has not got back what was used.
///
/// # Errors
/// When the record is an end by `asker`, and cannot be read here: whoever goes on then might use
/// what was used.
pub(crate) fn end_by(
    endpoint: &Endpoint,
    asker: &AgentId,
    stored: &Stored,
    may_be: impl FnOnce(&EventHash) -> bool,
) -> Result<Option<Ended>, Error> {
    let frame = &stored.frame;
    let Ok(envelope) = wire::decode(&frame.headers, &frame.body) else { return Ok(None) };
    let Some(kind) = EndKind::of(&envelope.event_type) else { return Ok(None) };
    let Some(cause) = envelope.lineage.cause else { return Ok(None) };
    if envelope.lineage.agent != *asker || !may_be(&cause) {
        return Ok(None);
    }
    let opened = match endpoint.open_record(stored) {
        Ok(opened) => opened,
        Err(error) if matches!(error.kind(), ErrorKind::UnknownKey | ErrorKind::Unavailable) => {
            return Err(blind(stored, error));
        }
        Err(_) if endpoint.is_of_revoked_key(frame) => {
            let end = End {
                kind,
                leaf: envelope.compute_hash(),
                seq: stored.seq,
                by: envelope.lineage.agent,
                at: envelope.time,
                instead: None,
            };
            return Ok(Some(Ended { approval: cause, request_id: None, end }));
        }
        // Forged or damaged: it is not by that agent.
        Err(error) => {
            tracing::warn!(seq = stored.seq.0, %error, "an end of an approval is refused");
            return Ok(None);
        }
    };
    let end = ApprovalEnd::from_json(kind, &opened.payload);
    let end = end.map_err(|error| blind(stored, error))?;
    let request_id = end.request_id().map(str::to_owned);
    let said = end_at(stored.seq, &opened, &end);
    Ok((end.approval() == cause).then_some(Ended { approval: cause, request_id, end: said }))
}

/// Whether a record cannot be read because its secret was withdrawn, which does not change.
pub(crate) fn is_withdrawn(error: &Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(reason) = source {
        if matches!(reason.downcast_ref(), Some(CryptoError::WithdrawnKey { .. })) {
            return true;
        }
        source = reason.source();
    }
    false
}

fn blind(stored: &Stored, error: Error) -> Error {
    let detail = format!(
        "the record {} tells of an approval that this agent ended, and cannot be read here: nothing \
         is used before it can",
        stored.seq.0
    );
    Error::new(error.kind(), "use approval", detail).at(&stored.frame.subject).because(error)
}
