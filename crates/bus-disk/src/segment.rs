//! One file of the journal: a header, then batches up to where the last one ends.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io,
    path::{Path, PathBuf},
};

use bus_core::{Error, ErrorKind, Result};

use crate::{
    batch::{BatchHeader, Read},
    files::{Files, Handle, is_full, read_from},
};

/// A segment that is open for reading and writing.
pub(crate) struct Segment {
    /// Its number; the next one has the next number.
    pub(crate) number: u64,
    /// Random: part of each checksum, so that nobody's content passes for a batch, and nothing
    /// that the file held in an earlier life does.
    pub(crate) salt: u64,
    /// The file.
    pub(crate) file: Box<dyn Handle>,
    /// Where the next batch goes.
    pub(crate) end: u64,
    /// The size of the file.
    pub(crate) bytes: u64,
}

/// How the batches of a segment end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Where the next batch would stand.
    pub(crate) end: usize,
    /// The position after the last record, when there was a batch.
    pub(crate) next: Option<u64>,
    /// Remains of batches that were never safe stand behind it.
    pub(crate) is_torn: bool,
}

impl Segment {
    /// The size of a segment's file (32 MiB).
    pub(crate) const BYTES: u64 = 32 << 20;

    /// Where the first batch stands: the header has a page of its own.
    pub(crate) const HEADER_BYTES: u64 = 4096;

    /// The path of segment `number` in the folder `dir`.
    pub(crate) fn path(dir: &Path, number: u64) -> PathBuf {
        dir.join(format!("{number:016x}.seg"))
    }

    /// The number in a file name of this kind.
    pub(crate) fn number_of(name: &str) -> Option<u64> {
        let digits = name.strip_suffix(".seg").filter(|digits| digits.len() == 16)?;
        u64::from_str_radix(digits, 16).ok().filter(|number| format!("{number:016x}") == digits)
    }

    /// Makes segment `number` in `dir`, ready to be written: its blocks exist and its header is
    /// safe before it gets its name. It is made of the file that is `recycled`, or has `bytes`, of
    /// which the first `zeroed` are written: they are faster to write again than the others.
    pub(crate) fn prepare(
        files: &dyn Files,
        dir: &Path,
        number: u64,
        (bytes, zeroed): (u64, u64),
        recycled: Option<&Path>,
    ) -> io::Result<Self> {
        let unnamed = dir.join(UNNAMED);
        match files.remove(&unnamed) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = match recycled {
            Some(path) => {
                files.rename(path, &unnamed)?;
                files.open(&unnamed)?
            }
            None => blank(files, &unnamed, bytes, zeroed)?,
        };
        let salt = RandomState::new().build_hasher().finish();
        file.write_at(&header(number, salt), 0)?;
        file.sync()?;
        files.rename(&unnamed, &Self::path(dir, number))?;
        files.sync_dir(dir)?;
        let bytes = file.bytes()?;
        Ok(Self { number, salt, file, end: Self::HEADER_BYTES, bytes })
    }

    /// Opens segment `number` in `dir`.
    ///
    /// # Errors
    /// `Corrupt` when its header is damaged or of another version; `Unavailable` when it cannot
    /// be read.
    pub(crate) fn open(files: &dyn Files, dir: &Path, number: u64) -> Result<Self> {
        let path = Self::path(dir, number);
        let unreadable = |error| unavailable(&path, error);
        let file = files.open(&path).map_err(unreadable)?;
        let bytes = file.bytes().map_err(unreadable)?;
        let found = read_from(&*file, 0, HEADER as u64).map_err(unreadable)?;
        let salt = salt_of(&found, number).map_err(|why| damaged(&path, 0, why))?;
        Ok(Self { number, salt, file, end: Self::HEADER_BYTES, bytes })
    }

    /// Everything in the file.
    pub(crate) fn content(&self) -> io::Result<Vec<u8>> {
        read_from(&*self.file, 0, self.bytes)
    }

    /// Hands out the batches of `content` in order; the first one begins at `next`, when that is
    /// known.
    ///
    /// # Errors
    /// `Corrupt` with the offset when a batch is damaged that was safe; what `take` says.
    pub(crate) fn batches(
        &self,
        content: &[u8],
        mut next: Option<u64>,
        mut take: impl FnMut(usize, BatchHeader, &[u8]) -> Result<()>,
    ) -> Result<Tail, ScanError> {
        let mut at = Self::HEADER_BYTES as usize;
        loop {
            let rest = content.get(at..).unwrap_or_default();
            let found = BatchHeader::read(rest, self.number, self.salt);
            let Read::Whole(header, records) = found else {
                let behind = self.find_behind(content, at, next)?;
                let is_torn = behind || found == Read::Torn;
                return Ok(Tail { end: at, next, is_torn });
            };
            if next.is_some_and(|next| next != header.first) {
                let why = format!("its batch begins at position {}", header.first);
                return Err(ScanError::Damaged { at, why });
            }
            take(at, header, records).map_err(ScanError::Taken)?;
            next = Some(header.next());
            at = header.end(at);
        }
    }

    /// Whether batches stand behind `at`, where none holds good.
    ///
    /// # Errors
    /// When one of them says that the one which should be at `at` had been safe.
    fn find_behind(&self, content: &[u8], at: usize, next: Option<u64>) -> Result<bool, ScanError> {
        let mut is_found = false;
        let behind = content.get(at + BatchHeader::ALIGN..).unwrap_or_default();
        for (step, place) in behind.chunks(BatchHeader::ALIGN).enumerate() {
            if !BatchHeader::may_begin(place) {
                continue;
            }
            let place = at + (step + 1) * BatchHeader::ALIGN;
            let rest = content.get(place..).unwrap_or_default();
            if let Read::Whole(header, _) = BatchHeader::read(rest, self.number, self.salt) {
                if header.synced >= next.unwrap_or(1) {
                    let why = format!("batches follow at {place}, and it had been safe");
                    return Err(ScanError::Damaged { at, why });
                }
                is_found = true;
            }
        }
        Ok(is_found)
    }
}

/// Why the batches of a segment could not be read.
#[derive(Debug)]
pub(crate) enum ScanError {
    /// At an offset of the file.
    Damaged {
        /// The offset.
        at: usize,
        /// What is wrong.
        why: String,
    },
    /// The taker refused a batch.
    Taken(Error),
}

/// The error of a file that is damaged at `at`.
pub(crate) fn damaged(path: &Path, at: usize, why: impl std::fmt::Display) -> Error {
    let detail = format!("{} is damaged at byte {at}: {why}", path.display());
    Error::new(ErrorKind::Corrupt, "open data directory", detail)
}

/// The error of a file that cannot be used now; `Full` when that is for want of room.
pub(crate) fn unavailable(path: &Path, error: io::Error) -> Error {
    let kind = if is_full(&error) { ErrorKind::Full } else { ErrorKind::Unavailable };
    let detail = format!("{}: {error}", path.display());
    Error::new(kind, "open data directory", detail).because(error)
}

/// A file of zeros whose blocks exist: writing into it changes nothing but its content, and is
/// safe with one sync of its data.
fn blank(files: &dyn Files, path: &Path, bytes: u64, zeroed: u64) -> io::Result<Box<dyn Handle>> {
    let file = files.create(path)?;
    file.allocate(bytes)?;
    write_zeros(&*file, 0, zeroed)?;
    Ok(file)
}

/// Writes zeros from `at` up to `end`.
///
/// # Errors
/// Those of the system.
pub(crate) fn write_zeros(file: &dyn Handle, at: u64, end: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS_AT_ONCE];
    let mut at = at;
    while at < end {
        let part = usize::try_from(end - at).unwrap_or(ZEROS_AT_ONCE).min(ZEROS_AT_ONCE);
        file.write_at(zeros.get(..part).unwrap_or_default(), at)?;
        at += part as u64;
    }
    Ok(())
}

/// What segment `number` begins with.
pub(crate) fn header(number: u64, salt: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let fields = [MAGIC.as_slice(), &number.to_le_bytes(), &salt.to_le_bytes()].concat();
    let crc = crc32fast::hash(&fields);
    let all = [fields.as_slice(), &crc.to_le_bytes()].concat();
    header.copy_from_slice(&all);
    header
}

fn salt_of(found: &[u8], number: u64) -> Result<u64, &'static str> {
    let salt = found.get(16..).and_then(|rest| rest.first_chunk()).copied().map(u64::from_le_bytes);
    match salt {
        Some(salt) if found == header(number, salt) => Ok(salt),
        _ if !found.starts_with(&MAGIC) => Err("it is no segment of this version"),
        _ => Err("its header does not hold good"),
    }
}

/// What a segment begins with; the last byte is the version.
const MAGIC: [u8; 8] = *b"vakbusj\x01";

/// Bytes of the header that are used: magic, number, salt, checksum.
const HEADER: usize = 28;

/// The name of a segment that is not ready yet.
pub(crate) const UNNAMED: &str = "next";

const ZEROS_AT_ONCE: usize = 1 << 20;
