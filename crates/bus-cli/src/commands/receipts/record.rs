//! The records of the receipts stream, opened and held against the chain of their session.

use std::collections::HashMap;

use bus_core::{Endpoint, ErrorKind, Roster, Seq, Stored, planes};
use bus_envelope::{ChainHead, ChainScope, EventHash, MessageEnvelope, Timestamp, wire};
use bus_evidence::{RECEIPT_COMPLETED, WorkReceipt};
use bus_subjects::{Address, AddressKind, Filter, SessionId, Subject};
use bytes::Bytes;

use super::signer::Kept;
use crate::{
    error::{CliError, Exit},
    print as out,
};

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

/// The records of a session for its log: in order, up to the first that cannot stand there.
///
/// A log without that one would be another log, and what follows cannot be shown to follow it; the
/// beginning is the log that heads were signed of.
pub(super) struct Beginning {
    pub(super) shown: Vec<(Seq, Kept)>,
    pub(super) left_out: Option<LeftOut>,
}

/// The records from the first on that cannot stand in the log.
pub(super) struct LeftOut {
    /// The position of that one.
    pub(super) from: Seq,
    /// How many they are, that one included.
    pub(super) count: u64,
    /// Why that one cannot.
    pub(super) why: String,
    /// How a command ends that comes to nothing because of it.
    pub(super) exit: Exit,
}

impl LeftOut {
    /// The same for people.
    pub(super) fn told(&self) -> String {
        let Self { from, count, why, .. } = self;
        let records = out::counted(*count, "record is", "records are");
        format!("{records} left out, from position {from} on: {why}", from = from.0)
    }
}

/// Reads the records of a session, and asks `doubt` of each that is not damaged why it cannot stand
/// in the log.
///
/// # Errors
/// Also when nothing can stand there.
pub(super) async fn beginning(
    endpoint: &Endpoint,
    session: &SessionId,
    mut doubt: impl FnMut(&Kept) -> Option<CliError>,
) -> Result<Beginning, CliError> {
    let filter = filter(endpoint, Some(session));
    let mut stored = endpoint.replay(planes::receipts_stream()?, filter).await?;
    let mut beginning = Beginning { shown: Vec::new(), left_out: None };
    while let Some(stored) = stored.next().await {
        let Stored { frame, seq, time } = stored?;
        if let Some(left_out) = &mut beginning.left_out {
            left_out.count += 1;
            continue;
        }
        let kept = match wire::decode(&frame.headers, &frame.body) {
            Ok(envelope) => Kept { stored: time, envelope },
            Err(error) => {
                let why = format!("that record is damaged: {error}");
                let exit = Exit::Failed;
                beginning.left_out = Some(LeftOut { from: seq, count: 1, why, exit });
                continue;
            }
        };
        match doubt(&kept) {
            Some(doubt) => {
                let (why, exit) = (doubt.what().to_owned(), doubt.code());
                beginning.left_out = Some(LeftOut { from: seq, count: 1, why, exit });
            }
            None => beginning.shown.push((seq, kept)),
        }
    }
    match (&beginning.left_out, beginning.shown.is_empty()) {
        (_, false) => Ok(beginning),
        (None, true) => {
            let what = format!("there is no receipt of a session {session}");
            Err(CliError::new(Exit::Failed, what)
                .next("vakbus receipts ls shows the sessions that have some"))
        }
        (Some(left_out), true) => {
            let what = format!("nothing can be shown of {session}: {}", left_out.told());
            let next = format!("vakbus receipts show {} shows what can be read", left_out.from.0);
            Err(CliError::new(left_out.exit, what).next(next))
        }
    }
}

/// Says of each envelope in turn why nobody can vouch for it, when nobody can: who signed it is not
/// known or had no right to, or it does not follow the one before.
pub(super) fn unvouched(roster: &Roster) -> impl FnMut(&Kept) -> Option<CliError> {
    let mut heads = HashMap::new();
    move |kept| {
        let envelope = &kept.envelope;
        let checked = roster.verify_record(envelope, &envelope.compute_hash(), kept.stored);
        match checked {
            Ok(_) => is_unlinked(envelope, &mut heads).map(|why| CliError::new(Exit::Failed, why)),
            // It says since when a key is revoked.
            Err(error) => Some(kept.signer(roster).err().unwrap_or_else(|| {
                let what = format!("that of {}: {error}", envelope.lineage.agent);
                CliError::new(Exit::Refused, what)
            })),
        }
    }
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
