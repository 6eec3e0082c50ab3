//! A picture of everything that lives, so that the journal before it can go.
//!
//! ```text
//! magic 8 bytes · position u64 · segment u64 · crc32 u32
//! pieces: crc32 u32 · number u32 · length u32 · count u32 · records
//! ```
//!
//! It is taken piece by piece while changes go on; the changes after `position`, from `segment` on,
//! make it whole. A piece without records is the last one, and its count is that of all records
//! before it. A file gets its name when it is safe, so one that does not hold good is damaged.

use std::{
    io,
    path::{Path, PathBuf},
};

use bus_core::{Error, Result, packed::Unpacker};

use crate::{
    files::{Files, Handle, read_from},
    home::Home,
    record::Record,
    segment::{damaged, unavailable},
};

/// A picture on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The last position before it was begun.
    pub(crate) position: u64,
    /// The segment that holds the position after that, or will.
    pub(crate) segment: u64,
    /// The last position before it was finished: it may tell of changes up to there, so without a
    /// journal that reaches it, it is the state of no moment.
    pub(crate) end: u64,
    /// Its size.
    pub(crate) bytes: u64,
}

/// Writes one picture.
pub(crate) struct SnapshotWriter<'a> {
    files: &'a dyn Files,
    home: &'a Home,
    snapshot: Snapshot,
    unnamed: PathBuf,
    file: Box<dyn Handle>,
    piece: Vec<u8>,
    /// Records in the piece, and in all of them.
    counts: (u32, u64),
    number: u32,
}

impl<'a> SnapshotWriter<'a> {
    /// Begins a picture of what was there at `position`.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn begin(
        files: &'a dyn Files,
        home: &'a Home,
        position: u64,
        segment: u64,
    ) -> io::Result<Self> {
        let unnamed = path(home, position, position).with_extension("snap.new");
        match files.remove(&unnamed) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = files.create(&unnamed)?;
        file.write_at(&header(position, segment), 0)?;
        let snapshot = Snapshot { position, segment, end: position, bytes: HEADER as u64 };
        let piece = vec![0; PIECE_HEADER];
        Ok(Self { files, home, snapshot, unnamed, file, piece, counts: (0, 0), number: 0 })
    }

    /// Adds a record; says whether a piece was written, and with it how many bytes.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn add(&mut self, record: &Record<'_>) -> io::Result<usize> {
        record.write(&mut self.piece);
        self.counts.0 += 1;
        self.counts.1 += 1;
        if self.piece.len() < PIECE_BYTES { Ok(0) } else { self.flush(self.counts.0) }
    }

    /// Makes the picture safe and gives it its name; the journal is safe up to `end`, and the
    /// picture tells of nothing after that.
    ///
    /// # Errors
    /// Those of the system; the picture does not count then.
    pub(crate) fn finish(mut self, end: u64) -> io::Result<Snapshot> {
        self.snapshot.end = end;
        if self.counts.0 > 0 {
            self.flush(self.counts.0)?;
        }
        let all = u32::try_from(self.counts.1).unwrap_or(u32::MAX);
        self.flush(all)?;
        self.file.sync()?;
        let (position, end) = (self.snapshot.position, self.snapshot.end);
        self.files.rename(&self.unnamed, &path(self.home, position, end))?;
        self.files.sync_dir(&self.home.snapshots())?;
        Ok(self.snapshot)
    }

    /// Takes back what was begun.
    pub(crate) fn abandon(self) {
        // Best effort: what is left is removed before the next one is begun, or at the next start.
        let _ignored = self.files.remove(&self.unnamed);
    }

    fn flush(&mut self, count: u32) -> io::Result<usize> {
        let length = self.piece.len() - PIECE_HEADER;
        let length = u32::try_from(length).map_err(io::Error::other)?;
        let fields = [self.number, length, count].map(u32::to_le_bytes).concat();
        if let Some(place) = self.piece.get_mut(4..PIECE_HEADER) {
            place.copy_from_slice(&fields);
        }
        let crc = checksum(self.snapshot.position, self.piece.get(4..).unwrap_or_default());
        if let Some(place) = self.piece.get_mut(..4) {
            place.copy_from_slice(&crc.to_le_bytes());
        }
        self.file.write_at(&self.piece, self.snapshot.bytes)?;
        let written = self.piece.len();
        self.snapshot.bytes += written as u64;
        self.piece.truncate(PIECE_HEADER);
        self.number += 1;
        self.counts.0 = 0;
        Ok(written)
    }
}

/// Reads the newest picture, if there is one, and takes away what was never finished.
///
/// # Errors
/// `Corrupt` with the offset when it is damaged: an older one is no substitute, the journal
/// between them may be gone.
pub(crate) fn read_newest(
    files: &dyn Files,
    home: &Home,
    take: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<Option<Snapshot>> {
    let dir = home.snapshots();
    let unreadable = |error| unavailable(&dir, error);
    let names = files.list(&dir).map_err(unreadable)?;
    for name in names.iter().filter(|name| name.ends_with(".snap.new")) {
        files.remove(&dir.join(name)).map_err(unreadable)?;
    }
    match names.iter().filter_map(|name| span_of(name)).max() {
        Some(span) => read(files, &path(home, span.0, span.1), span, take).map(Some),
        None => Ok(None),
    }
}

/// Takes the pictures before `newest` away.
///
/// # Errors
/// Those of the system.
pub(crate) fn remove_older(files: &dyn Files, home: &Home, newest: Snapshot) -> io::Result<()> {
    for name in files.list(&home.snapshots())? {
        let newest = (newest.position, newest.end);
        if let Some((position, end)) = span_of(&name).filter(|span| *span < newest) {
            files.remove(&path(home, position, end))?;
        }
    }
    Ok(())
}

fn read(
    files: &dyn Files,
    path: &Path,
    (position, end): (u64, u64),
    take: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<Snapshot> {
    let unreadable = |error| unavailable(path, error);
    let file = files.open(path).map_err(unreadable)?;
    let bytes = file.bytes().map_err(unreadable)?;
    let head = read_from(&*file, 0, HEADER as u64).map_err(unreadable)?;
    let segment = head.get(16..).and_then(|rest| rest.first_chunk()).copied();
    let segment = u64::from_le_bytes(segment.unwrap_or_default());
    if head != header(position, segment) {
        return Err(damaged(path, 0, "its header does not hold good"));
    }
    let (mut at, mut number, mut records) = (HEADER as u64, 0, 0_u64);
    loop {
        let begin = at as usize;
        let here = |why: &Error| damaged(path, begin, why);
        let bad = |why: &str| damaged(path, begin, why);
        let head = read_from(&*file, at, PIECE_HEADER as u64).map_err(unreadable)?;
        let mut fields = Unpacker::new(&head);
        let mut field = || fields.u32().map_err(|why| here(&why));
        let (crc, found, length, count) = (field()?, field()?, field()?, field()?);
        if length as usize > PIECE_BYTES + Record::BYTES_MAX + 4 || found != number {
            return Err(bad("a piece of the picture does not hold good"));
        }
        let piece = read_from(&*file, at + 4, PIECE_HEADER as u64 - 4 + u64::from(length));
        let piece = piece.map_err(unreadable)?;
        let body = piece.get(PIECE_HEADER - 4..).filter(|body| body.len() == length as usize);
        let Some(body) = body.filter(|_| checksum(position, &piece) == crc) else {
            return Err(bad("a piece of the picture does not hold good"));
        };
        at += PIECE_HEADER as u64 + u64::from(length);
        if length == 0 {
            let all = u32::try_from(records).unwrap_or(u32::MAX);
            if count != all || at != bytes {
                return Err(damaged(path, at as usize, "the picture does not end where it says"));
            }
            return Ok(Snapshot { position, segment, end, bytes });
        }
        Record::read_all(body, count, &mut *take).map_err(|why| bad(&why.to_string()))?;
        records += u64::from(count);
        number += 1;
    }
}

fn path(home: &Home, position: u64, end: u64) -> PathBuf {
    home.snapshots().join(format!("{position:016x}-{end:016x}.snap"))
}

/// The position of a picture and where it ends, by its name.
fn span_of(name: &str) -> Option<(u64, u64)> {
    let (position, end) = name.strip_suffix(".snap")?.split_once('-')?;
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let span = (number(position)?, number(end)?);
    (name == format!("{:016x}-{:016x}.snap", span.0, span.1)).then_some(span)
}

fn header(position: u64, segment: u64) -> [u8; HEADER] {
    let fields = [MAGIC.as_slice(), &position.to_le_bytes(), &segment.to_le_bytes()].concat();
    let crc = crc32fast::hash(&fields);
    let mut header = [0; HEADER];
    header.copy_from_slice(&[fields.as_slice(), &crc.to_le_bytes()].concat());
    header
}

fn checksum(position: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&position.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// What a picture begins with; the last byte is the version.
const MAGIC: [u8; 8] = *b"vakbusp\x01";

const HEADER: usize = 28;

const PIECE_HEADER: usize = 16;

/// A piece is written when it has grown to this (256 KiB).
const PIECE_BYTES: usize = 256 * 1024;
