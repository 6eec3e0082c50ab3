//! What stands in the journal: one change after the other, each with its length before it.
//!
//! Every record is an absolute statement, has one form, and is checked whole before it is used. A
//! record is a length (u32, little-endian) and a payload: a tag, then fields of a fixed width and
//! texts with their lengths before them, as [`bus_core::packed`] has them.

use bus_core::{Error, ErrorKind, Result, packed::Unpacker};
use bus_envelope::{EventHash, Timestamp};
use bus_mem::journal::Change;
use bus_subjects::{BucketKey, BucketName};

mod read;
mod write;

/// One entry of a journal or of a picture.
#[derive(Debug, Clone, PartialEq)]
pub enum Record<'a> {
    /// What the broker changed.
    Change(Change<'a>),
    /// Somebody opened the directory.
    Opened {
        /// How often it was opened before, and once more.
        epoch: u64,
        /// When.
        time: Timestamp,
    },
    /// A blob was stored in a file of its own, in place of what was under its key.
    BlobStored(BlobRecord<'a>),
    /// The blob under a key was deleted.
    BlobRemoved {
        /// The bucket.
        bucket: &'a BucketName,
        /// The key.
        key: &'a BucketKey,
    },
}

/// A stored blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobRecord<'a> {
    /// Its bucket.
    pub bucket: &'a BucketName,
    /// Its key there.
    pub key: &'a BucketKey,
    /// Which file holds it.
    pub file: u64,
    /// Its size.
    pub bytes: u64,
    /// Its digest.
    pub digest: EventHash,
}

impl Record<'_> {
    /// The most bytes of one record, its length not counted (8 MiB).
    pub const BYTES_MAX: usize = 8 << 20;

    /// Appends the record to `out`, its length first.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; LENGTH_BYTES]);
        write::payload(self, out);
        let bytes = u32::try_from(out.len() - start - LENGTH_BYTES).unwrap_or(u32::MAX);
        if let Some(length) = out.get_mut(start..start + LENGTH_BYTES) {
            length.copy_from_slice(&bytes.to_le_bytes());
        }
    }

    /// Reads one payload, which must be all of `payload`, and hands the record to `take`.
    ///
    /// # Errors
    /// `Corrupt` for everything that [`Record::write`] does not write, before anything is taken;
    /// and what `take` says.
    pub fn read<T>(payload: &[u8], take: impl FnOnce(Record<'_>) -> Result<T>) -> Result<T> {
        read::payload(payload, take)
    }

    /// Reads `count` records that stand one after the other and fill all of `body`.
    ///
    /// # Errors
    /// `Corrupt` with the place in `body`; what stood before it was taken.
    pub fn read_all(
        body: &[u8],
        count: u32,
        mut take: impl FnMut(Record<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut rest = Unpacker::new(body);
        for number in 0..count {
            let at = body.len() - rest.left();
            let bytes = rest.u32()? as usize;
            let read = if bytes > Record::BYTES_MAX {
                Err(corrupt("record is longer than allowed"))
            } else {
                rest.take(bytes).and_then(|payload| Record::read(payload, &mut take))
            };
            read.map_err(|why| {
                let detail = format!("record {number} at byte {at} of its batch: {why}");
                Error::new(why.kind(), "read journal", detail).because(why)
            })?;
        }
        rest.end()
    }
}

fn corrupt(why: &'static str) -> Error {
    Error::new(ErrorKind::Corrupt, "read record", why)
}

/// Bytes of the length before a record.
pub(crate) const LENGTH_BYTES: usize = 4;

/// The first byte of a payload.
mod tag {
    pub(super) const DECLARED: u8 = 1;
    pub(super) const STORED: u8 = 2;
    pub(super) const REMOVED: u8 = 3;
    pub(super) const CONSUMER_MADE: u8 = 4;
    pub(super) const CONSUMER_REMOVED: u8 = 5;
    pub(super) const PAUSED: u8 = 6;
    pub(super) const LEASED: u8 = 7;
    pub(super) const WAITS: u8 = 8;
    pub(super) const DONE: u8 = 9;
    pub(super) const PUT: u8 = 10;
    pub(super) const ENDED: u8 = 11;
    pub(super) const STREAM_AT: u8 = 12;
    pub(super) const CONSUMER_AT: u8 = 13;
    pub(super) const BUCKET_AT: u8 = 14;
    pub(super) const OPENED: u8 = 15;
    pub(super) const BLOB_STORED: u8 = 16;
    pub(super) const BLOB_REMOVED: u8 = 17;
}

#[cfg(test)]
pub(crate) mod tests;
