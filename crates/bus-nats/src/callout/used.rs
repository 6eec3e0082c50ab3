//! Which tickets were used: a mark in a bucket that all instances share, so that of several who
//! take one at the same moment exactly one gets it.

use std::time::Duration;

use bus_core::{Buckets, EntryTicket, Error, ErrorKind, ExpectRevision, Put, Result};
use bus_envelope::Timestamp;
use bus_subjects::{BucketKey, BucketName};
use data_encoding::HEXLOWER;

use super::{OP, denied};

/// Uses `ticket` up.
///
/// # Errors
/// `Denied` when that was done before; whatever keeps the mark from being made.
pub(super) async fn use_up(
    buckets: &dyn Buckets,
    ticket: &EntryTicket,
    now: Timestamp,
) -> Result<()> {
    let bucket = BucketName::of_workspace(PURPOSE, &ticket.workspace)?;
    let key = BucketKey::parse(&HEXLOWER.encode(&ticket.id))?;
    let kept = ticket.end.since(now) + CLOCKS_APART_MAX;
    let mark = Put::new(ticket.agent.as_str().to_owned());
    match buckets.put(bucket, key, mark.expect(ExpectRevision::Absent).ttl(kept)).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::Conflict => {
            Err(denied("the ticket was used before"))
        }
        // Perhaps it was noted: then it is used up, and nobody came in with it.
        Err(error) => {
            let why = "the ticket cannot be noted as used";
            Err(Error::new(ErrorKind::Unavailable, OP, why).because(error))
        }
    }
}

/// What the bucket is for.
const PURPOSE: &str = "VAK_TICKETS";
/// A mark stays for so long after its ticket's end: to another instance's clock the ticket may be
/// good for that much longer.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(120);
