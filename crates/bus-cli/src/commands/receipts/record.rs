//! The records of the receipts stream, opened and held against the chain of their session.

use std::collections::HashMap;

use bus_core::{Endpoint, ErrorKind, Seq, Stored, planes};
use bus_envelope::{ChainHead, ChainScope, EventHash, MessageEnvelope, Timestamp, wire};
use bus_evidence::{RECEIPT_COMPLETED, WorkReceipt};
use bus_subjects::{Address, AddressKind, Filter, SessionId, Subject};
use bytes::Bytes;

use super::signer::Kept;
use crate::error::CliError;

/// A record, as far as it can be read.
pub(super) struct Record {
    pub(super) seq: Seq,
    pub(super) stored: Timestamp,
    pub(super) session: Option<SessionId>,
    /// Its envelope with the leaf hash; none when it is damaged.
    pub(super) envelope: Option<(MessageEnvelope, EventHash)>,
    pub(super) said: Said,
    /// Why it is not verified; none when it is.
    pub(super) doubt: Option<String>,
}

/// What a record says.
pub(super) enum Said {
    /// A task is done.
    Receipt(Box<WorkReceipt>),
    /// Something else that was executed, such as the use of an approval.
    Other(Bytes),
    /// It cannot be opened: why.
    Unreadable(String),
}

impl Record {
    /// The receipt, if it is one that can be read.
    pub(super) fn receipt(&self) -> Option<&WorkReceipt> {
        match &self.said {
            Said::Receipt(receipt) => Some(receipt),
            Said::Other(_) | Said::Unreadable(_) => None,
        }
    }
}

/// Hands every record of a session, or of all sessions of the workspace, to `each`, in order.
pub(super) async fn walk(
    endpoint: &Endpoint,
    session: Option<&SessionId>,
    mut each: impl FnMut(Record),
) -> Result<(), CliError> {
    let mut heads = HashMap::new();
    let filter = filter(endpoint, session);
    let mut stored = endpoint.replay(planes::receipts_stream()?, filter).await?;
    while let Some(stored) = stored.next().await {
        each(read(endpoint, &stored?, &mut heads));
    }
    Ok(())
}

/// The envelopes of a session in order, for its log.
///
/// # Errors
/// Also when one of them is damaged: a log without it would be another one.
pub(super) async fn envelopes(
    endpoint: &Endpoint,
    session: &SessionId,
) -> Result<Vec<(Seq, Kept)>, CliError> {
    let filter = filter(endpoint, Some(session));
    let mut stored = endpoint.replay(planes::receipts_stream()?, filter).await?;
    let mut envelopes = Vec::new();
    while let Some(stored) = stored.next().await {
        let Stored { frame, seq, time } = stored?;
        let envelope = wire::decode(&frame.headers, &frame.body).map_err(|error| {
            let what = format!("the record at position {} is damaged: {error}", seq.0);
            CliError::new(crate::error::Exit::Failed, what)
                .next(format!("vakbus receipts show {} shows what can be read of it", seq.0))
        })?;
        envelopes.push((seq, Kept { stored: time, envelope }));
    }
    if envelopes.is_empty() {
        let what = format!("there is no receipt of a session {session}");
        return Err(CliError::new(crate::error::Exit::Failed, what)
            .next("vakbus receipts ls shows the sessions that have some"));
    }
    Ok(envelopes)
}

fn filter(endpoint: &Endpoint, session: Option<&SessionId>) -> Filter {
    let workspace = endpoint.workspace();
    match session {
        Some(session) => {
            let (workspace, session) = (workspace.clone(), session.clone());
            Filter::from(&Address::Receipt { workspace, session }.subject())
        }
        None => AddressKind::Receipt.filter(Some(workspace)),
    }
}

/// Reads a record; `heads` holds the heads of the chains so far.
fn read(endpoint: &Endpoint, stored: &Stored, heads: &mut HashMap<Subject, ChainHead>) -> Record {
    let Stored { frame, seq, time } = stored;
    let session = match Address::parse(&frame.subject) {
        Ok(Address::Receipt { session, .. }) => Some(session),
        _ => None,
    };
    let decoded = wire::decode(&frame.headers, &frame.body).ok();
    let link = decoded.as_ref().and_then(|envelope| is_unlinked(envelope, heads));
    let opened = endpoint.open_record(stored);
    let (said, doubt) = match opened {
        Ok(opened) => (said(&opened.envelope, opened.payload), link),
        Err(error) => {
            // Who signed it is known before the key is asked for.
            let is_signed = error.kind() == ErrorKind::UnknownKey;
            let reason = error.to_string();
            (Said::Unreadable(reason.clone()), if is_signed { link } else { Some(reason) })
        }
    };
    let envelope = decoded.map(|envelope| {
        let leaf = envelope.compute_hash();
        (envelope, leaf)
    });
    Record { seq: *seq, stored: *time, session, envelope, said, doubt }
}

/// Says why an envelope does not follow the one before it in its chain, and moves the chain on.
fn is_unlinked(
    envelope: &MessageEnvelope,
    heads: &mut HashMap<Subject, ChainHead>,
) -> Option<String> {
    let head = heads
        .entry(envelope.subject.clone())
        .or_insert_with(|| ChainHead::genesis(&ChainScope::subject_of(envelope)));
    let doubt = (!head.is_followed_by(envelope)).then(|| {
        let (number, before) = (envelope.lineage.seq_num, head.seq);
        format!("number {number} of its session's chain does not follow number {before}")
    });
    *head = ChainHead::of(envelope);
    doubt
}

fn said(envelope: &MessageEnvelope, payload: Bytes) -> Said {
    if envelope.event_type != RECEIPT_COMPLETED {
        return Said::Other(payload);
    }
    match WorkReceipt::parse(&payload) {
        Ok(receipt) if receipt.worker != envelope.lineage.agent => Said::Unreadable(format!(
            "it is sent by {} for {}",
            envelope.lineage.agent, receipt.worker
        )),
        Ok(receipt) => Said::Receipt(Box::new(receipt)),
        Err(error) => Said::Unreadable(error.to_string()),
    }
}
