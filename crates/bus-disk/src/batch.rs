//! What one commit writes: a header and the records that it makes safe together.
//!
//! ```text
//! magic u32 · crc32 u32 · length u32 · count u32 · segment u64 · first u64 · synced u64 · records
//! ```
//!
//! The checksum is over the salt of the segment, everything behind it in the header, and the
//! records. `synced` is the last position that was safe when this batch was written: a batch that
//! does not hold good is a torn tail, unless a later one says that it had been safe.

/// The header of a batch; the records follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    /// Bytes of the records.
    pub(crate) length: u32,
    /// How many records there are; none only says what was safe.
    pub(crate) count: u32,
    /// The number of the segment.
    pub(crate) segment: u64,
    /// The position of the first record.
    pub(crate) first: u64,
    /// The last position that was safe when this was written.
    pub(crate) synced: u64,
}

impl BatchHeader {
    /// Bytes of a header.
    pub(crate) const BYTES: usize = 40;

    /// The most bytes of records in one batch (31 MiB): it fits into a segment.
    pub(crate) const LENGTH_MAX: usize = 31 << 20;

    /// Batches begin at multiples of this.
    pub(crate) const ALIGN: usize = 8;

    /// Completes `batch`, whose first bytes are free for the header: the records follow them.
    pub(crate) fn seal(self, salt: u64, batch: &mut Vec<u8>) {
        let (length, count) = (self.length.to_le_bytes(), self.count.to_le_bytes());
        let numbers = [self.segment, self.first, self.synced].map(u64::to_le_bytes);
        let fields = [[length, count].concat(), numbers.concat()].concat();
        if let Some(header) = batch.get_mut(..Self::BYTES) {
            let (head, tail) = header.split_at_mut(CHECKED);
            tail.copy_from_slice(&fields);
            head.copy_from_slice(&[MAGIC.to_le_bytes(), [0; 4]].concat());
        }
        let crc = checksum(salt, batch.get(CHECKED..).unwrap_or_default()).to_le_bytes();
        if let Some(place) = batch.get_mut(4..CHECKED) {
            place.copy_from_slice(&crc);
        }
        batch.resize(batch.len().next_multiple_of(Self::ALIGN), 0);
    }

    /// Whether a batch may begin at the front of `bytes`, at one glance.
    pub(crate) fn may_begin(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC.to_le_bytes())
    }

    /// What begins at the front of `bytes`.
    pub(crate) fn read(bytes: &[u8], segment: u64, salt: u64) -> Read<'_> {
        let Some((header, rest)) = bytes.split_at_checked(Self::BYTES) else {
            return Read::Nothing;
        };
        let at = |at: usize| header.get(at..).and_then(|tail| tail.first_chunk());
        let long = |at: usize| header.get(at..).and_then(|tail| tail.first_chunk());
        let small = |place: usize| at(place).copied().map_or(0, u32::from_le_bytes);
        let large = |place: usize| long(place).copied().map_or(0, u64::from_le_bytes);
        let found = Self {
            length: small(8),
            count: small(12),
            segment: large(16),
            first: large(24),
            synced: large(32),
        };
        if small(0) != MAGIC || found.segment != segment {
            return Read::Nothing;
        }
        let length = found.length as usize;
        let checked = bytes.get(CHECKED..Self::BYTES + length);
        match checked.filter(|_| length <= Self::LENGTH_MAX) {
            Some(checked) if checksum(salt, checked) == small(4) => {
                Read::Whole(found, rest.get(..length).unwrap_or_default())
            }
            _ => Read::Torn,
        }
    }

    /// Where the next batch begins when this one begins at `at`.
    pub(crate) fn end(&self, at: usize) -> usize {
        (at + Self::BYTES + self.length as usize).next_multiple_of(Self::ALIGN)
    }

    /// The position after the last record.
    pub(crate) fn next(&self) -> u64 {
        self.first.saturating_add(u64::from(self.count))
    }
}

/// What stands at one place of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read<'a> {
    /// A batch that holds good, and its records.
    Whole(BatchHeader, &'a [u8]),
    /// What looks like a batch of this segment and is not good.
    Torn,
    /// No batch of this segment.
    Nothing,
}

fn checksum(salt: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

const MAGIC: u32 = u32::from_le_bytes(*b"VkbB");

/// Where the checked part of a header begins.
const CHECKED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: u64 = 77;

    fn sealed(records: &[u8]) -> (BatchHeader, Vec<u8>) {
        let header = BatchHeader {
            length: records.len() as u32,
            count: 2,
            segment: 5,
            first: 10,
            synced: 9,
        };
        let mut batch = [&[0; BatchHeader::BYTES], records].concat();
        header.seal(SALT, &mut batch);
        (header, batch)
    }

    #[test]
    fn a_batch_comes_back_and_tells_where_the_next_one_is() {
        let (header, batch) = sealed(b"records");
        let read = BatchHeader::read(&batch, 5, SALT);
        assert_eq!(read, Read::Whole(header, b"records"));
        assert_eq!((header.end(0), header.next()), (batch.len(), 12));
    }

    #[test]
    fn no_bit_of_a_batch_can_change_unseen() {
        let (header, batch) = sealed(b"records");
        for bit in 0..(BatchHeader::BYTES + header.length as usize) * 8 {
            let mut flipped = batch.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let read = BatchHeader::read(&flipped, 5, SALT);
            assert!(matches!(read, Read::Torn | Read::Nothing), "bit {bit}");
        }
    }

    #[test]
    fn what_another_segment_left_behind_is_no_batch() {
        let (_, batch) = sealed(b"records");
        assert_eq!(BatchHeader::read(&batch, 6, SALT), Read::Nothing);
        assert_eq!(BatchHeader::read(&batch, 5, SALT + 1), Read::Torn);
    }
}
