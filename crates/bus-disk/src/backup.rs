//! Copies of a data directory that say of every byte whether it is the right one.
//!
//! A backup is a directory like the original, with a `manifest` that names each file, its size
//! and its SHA-256 hash. The manifest is written last: without one it is no backup.

use std::{
    collections::BTreeSet,
    io,
    path::{Component, Path, PathBuf},
};

use bus_core::{Error, ErrorKind, Result};
use bus_envelope::EventHash;
use sha2::{Digest, Sha256};

use crate::{
    files::{Files, Handle, RealFiles, is_full, make_dirs, read_from},
    segment::Segment,
    store::Store,
};

/// A backup that was made, verified or restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backup {
    /// How many files it has, the manifest not counted.
    pub files: u64,
    /// Their bytes together.
    pub bytes: u64,
}

/// One file of a backup.
struct Entry {
    path: PathBuf,
    bytes: u64,
    hash: EventHash,
}

/// Reads a whole backup and holds each file to the manifest.
///
/// # Errors
/// `NotFound` when `dir` has no manifest; `Corrupt` with the name of a file that is missing, was
/// changed or was added; `Unavailable` when it cannot be read.
pub fn verify_backup(dir: &Path) -> Result<Backup> {
    verify(&RealFiles, dir)
}

/// Verifies the backup in `from` and makes a data directory of it in `into`, which must be empty or
/// not there.
///
/// # Errors
/// As [`verify_backup`], before anything is written; `Invalid` when `into` is not empty; `Full` and
/// `Unavailable` when it cannot be written.
pub fn restore(from: &Path, into: &Path) -> Result<Backup> {
    restore_on(&RealFiles, from, into)
}

/// As [`verify_backup`].
pub(crate) fn verify(files: &dyn Files, dir: &Path) -> Result<Backup> {
    let entries = read_manifest(files, dir)?;
    let mut unlisted = BTreeSet::new();
    let found = files_below(files, dir, Path::new(""), &mut unlisted);
    found.map_err(|error| failed(dir, error))?;
    unlisted.remove(Path::new(MANIFEST));
    let mut backup = Backup::default();
    for entry in entries {
        let path = dir.join(&entry.path);
        if !unlisted.remove(&entry.path) {
            return Err(corrupt(&path, "is missing"));
        }
        let read = files.read(&path).and_then(|file| pass(&*file, None, u64::MAX));
        let (bytes, hash) = read.map_err(|error| failed(&path, error))?;
        if (bytes, hash) != (entry.bytes, entry.hash) {
            return Err(corrupt(&path, "is not what was backed up"));
        }
        backup.files += 1;
        backup.bytes += bytes;
    }
    match unlisted.first() {
        Some(extra) => Err(corrupt(&dir.join(extra), "does not belong to the backup")),
        None => Ok(backup),
    }
}

/// As [`restore`].
pub(crate) fn restore_on(files: &dyn Files, from: &Path, into: &Path) -> Result<Backup> {
    let backup = verify(files, from)?;
    make_empty(files, into)?;
    for entry in read_manifest(files, from)? {
        let copied = copy(files, &from.join(&entry.path), (into, &entry.path), entry.bytes)?;
        if (copied.bytes, copied.hash) != (entry.bytes, entry.hash) {
            return Err(corrupt(&from.join(&entry.path), "changed while it was restored"));
        }
    }
    sync_dirs(files, into).map_err(|error| failed(into, error))?;
    Ok(backup)
}

/// Copies what is there now: pictures, segments as far as they are written, and blobs. Nothing of
/// it is taken away meanwhile.
pub(crate) fn write(store: &Store, into: &Path) -> Result<Backup> {
    let files = &*store.files;
    make_empty(files, into)?;
    let home = store.home.dir();
    let mut paths = BTreeSet::new();
    let mut list = |part: &str| {
        let found = files_below(files, home, Path::new(part), &mut paths);
        found.map_err(|error| failed(home, error))
    };
    // A picture that is finished later would show what the segments below do not say any more, and
    // a blob that they name is there before they name it.
    list("snapshot")?;
    let (mut live, end) = {
        let stock = store.supply.lock();
        (stock.live.iter().map(|(number, _)| *number).collect::<Vec<_>>(), stock.end)
    };
    list("blobs")?;
    paths.retain(|path| is_complete(path));
    let mut entries = Vec::new();
    let current = live.pop();
    for number in live.into_iter().map(|n| (n, u64::MAX)).chain(current.map(|n| (n, end))) {
        let path = Segment::path(Path::new("journal"), number.0);
        entries.push(copy(files, &home.join(&path), (into, &path), number.1)?);
    }
    for path in paths {
        entries.push(copy(files, &home.join(&path), (into, &path), u64::MAX)?);
    }
    write_manifest(files, into, &entries)?;
    let bytes = entries.iter().map(|entry| entry.bytes).sum();
    Ok(Backup { files: entries.len() as u64, bytes })
}

/// Whether a file is no upload and no picture that is still written.
fn is_complete(path: &Path) -> bool {
    !path.starts_with("blobs/tmp") && path.extension().is_none_or(|end| end == "snap")
}

/// Makes a directory for its owner alone, or takes an empty one.
fn make_empty(files: &dyn Files, dir: &Path) -> Result<()> {
    let made = make_dirs(files, dir).and_then(|()| files.list(dir));
    let is_empty = made.map_err(|error| failed(dir, error))?.is_empty();
    if !is_empty {
        let why = format!("{} is not empty", dir.display());
        return Err(Error::new(ErrorKind::Invalid, "backup", why));
    }
    Ok(())
}

/// Copies up to `bytes_max` bytes of a file to a path below `into`, and makes them safe.
fn copy(
    files: &dyn Files,
    from: &Path,
    (into, path): (&Path, &Path),
    bytes_max: u64,
) -> Result<Entry> {
    let to = into.join(path);
    let copied = || {
        if let Some(parent) = to.parent() {
            make_dirs(files, parent)?;
        }
        let source = files.read(from)?;
        let target = files.create(&to)?;
        let (bytes, hash) = pass(&*source, Some(&*target), bytes_max)?;
        target.sync()?;
        Ok(Entry { path: path.to_owned(), bytes, hash })
    };
    copied().map_err(|error| failed(&to, error))
}

/// Passes up to `bytes_max` bytes on, and says how many they were and their hash.
fn pass(
    from: &dyn Handle,
    to: Option<&dyn Handle>,
    bytes_max: u64,
) -> io::Result<(u64, EventHash)> {
    let (mut hasher, mut bytes) = (Sha256::new(), 0);
    loop {
        let part = read_from(from, bytes, PASSED_AT_ONCE.min(bytes_max - bytes))?;
        if part.is_empty() {
            return Ok((bytes, EventHash::from_bytes(hasher.finalize().into())));
        }
        hasher.update(&part);
        if let Some(to) = to {
            to.write_at(&part, bytes)?;
        }
        bytes += part.len() as u64;
    }
}

/// The files below `dir`, by their paths within it.
fn files_below(
    files: &dyn Files,
    dir: &Path,
    part: &Path,
    found: &mut BTreeSet<PathBuf>,
) -> io::Result<()> {
    for name in files.list(&dir.join(part))? {
        let path = part.join(name);
        if files.is_dir(&dir.join(&path))? {
            files_below(files, dir, &path, found)?;
        } else {
            found.insert(path);
        }
    }
    Ok(())
}

fn write_manifest(files: &dyn Files, into: &Path, entries: &[Entry]) -> Result<()> {
    let mut text = String::from(FIRST_LINE);
    for Entry { path, bytes, hash } in entries {
        text.push_str(&format!("\n{hash} {bytes} {}", path.display()));
    }
    text.push_str(&format!("\nend {}\n", entries.len()));
    let path = into.join(MANIFEST);
    let written = || {
        sync_dirs(files, into)?;
        let file = files.create(&path)?;
        file.write_at(text.as_bytes(), 0)?;
        file.sync()?;
        files.sync_dir(into)
    };
    written().map_err(|error| failed(&path, error))
}

fn read_manifest(files: &dyn Files, dir: &Path) -> Result<Vec<Entry>> {
    let path = dir.join(MANIFEST);
    let content = files.read(&path).and_then(|file| read_from(&*file, 0, MANIFEST_BYTES_MAX));
    let content = content.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let why = format!("{} has no manifest: it is no complete backup", dir.display());
            Error::new(ErrorKind::NotFound, "verify backup", why)
        }
        _ => failed(&path, error),
    })?;
    let text = String::from_utf8(content).map_err(|_| corrupt(&path, "is no text"))?;
    let mut lines = text.lines();
    if lines.next() != Some(FIRST_LINE) {
        return Err(corrupt(&path, "is no manifest of this version"));
    }
    let mut entries = Vec::new();
    for line in lines {
        if line == format!("end {}", entries.len()) {
            return Ok(entries);
        }
        entries.push(entry(line).ok_or_else(|| corrupt(&path, "has a line that is none"))?);
    }
    Err(corrupt(&path, "ends too early"))
}

/// A line of the manifest; its path stays below the directory.
fn entry(line: &str) -> Option<Entry> {
    let mut fields = line.splitn(3, ' ');
    let hash = EventHash::parse(fields.next()?).ok()?;
    let bytes = fields.next()?.parse().ok()?;
    let path = PathBuf::from(fields.next()?);
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
    is_below.then_some(Entry { path, bytes, hash })
}

fn sync_dirs(files: &dyn Files, dir: &Path) -> io::Result<()> {
    for name in files.list(dir)? {
        let path = dir.join(name);
        if files.is_dir(&path)? {
            sync_dirs(files, &path)?;
        }
    }
    files.sync_dir(dir)
}

fn corrupt(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Corrupt, "verify backup", format!("{} {why}", path.display()))
}

fn failed(path: &Path, error: io::Error) -> Error {
    let kind = if is_full(&error) { ErrorKind::Full } else { ErrorKind::Unavailable };
    Error::new(kind, "backup", format!("{}: {error}", path.display())).because(error)
}

const MANIFEST: &str = "manifest";

const FIRST_LINE: &str = "vakbus backup 1";

const PASSED_AT_ONCE: u64 = 1 << 20;

/// A manifest of more than a million files (256 MiB).
const MANIFEST_BYTES_MAX: u64 = 256 << 20;
