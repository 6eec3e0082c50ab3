//! The manifest of a backup: what each stream was, and the size and hash of its file.
//!
//! It is text: a first line, a line about the whole, one for each stream in the order in which they
//! were taken, and a last line with their number and the hash of all before it.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::File,
    io::{self, Read},
    path::Path,
};

use bus_core::{Error, ErrorKind, Result};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{Backup, folder::Folder};

/// A configuration or a state as the server says it.
pub(super) type Object = Map<String, Value>;

/// What a backup holds.
pub(super) struct Manifest {
    pub(super) head: Head,
    /// In the order in which they were taken.
    pub(super) streams: Vec<Entry>,
}

/// The whole, as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    /// The version of the server.
    pub(super) server: String,
    /// When it was begun, by the server's clock.
    pub(super) made_at: String,
    /// The streams that are not in it.
    pub(super) left_out: Vec<String>,
}

/// One stream, as it is written.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) stream: String,
    /// The size of its file.
    pub(super) bytes: u64,
    /// The hash of its file.
    pub(super) sha256: String,
    pub(super) config: Object,
    /// What it held at the moment of the cut.
    pub(super) state: Object,
}

impl Manifest {
    /// Writes it into `dir`: from now on that is a backup.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn write(&self, dir: &Folder) -> io::Result<()> {
        use std::io::Write as _;

        let mut text = format!("{FIRST_LINE}\n{}\n", serde_json::to_string(&self.head)?);
        for entry in &self.streams {
            text.push_str(&serde_json::to_string(entry)?);
            text.push('\n');
        }
        let hash = hex(Sha256::digest(&text));
        text.push_str(&format!("end {} {hash}\n", self.streams.len()));
        let mut file = dir.create(MANIFEST)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        dir.sync()
    }

    /// Reads the one of the backup in `dir`.
    ///
    /// # Errors
    /// `NotFound` when there is none, `Corrupt`, `Unavailable` when it cannot be read.
    pub(super) fn read(dir: &Folder) -> Result<Self> {
        let path = dir.path().join(MANIFEST);
        let mut bytes = Vec::new();
        let read = dir.read(MANIFEST).and_then(|file| {
            let mut file = file.take(MANIFEST_BYTES_MAX);
            file.read_to_end(&mut bytes)
        });
        read.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let why = format!("{} has no manifest: it is no backup", dir.path().display());
                Error::new(ErrorKind::NotFound, VERIFY, why)
            }
            _ => failed(VERIFY, &path, error),
        })?;
        let text = String::from_utf8(bytes).map_err(|_| corrupt(&path, "is no text"))?;
        Self::parse(&text).map_err(|why| corrupt(&path, why))
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        let end = text.strip_suffix('\n').and_then(|text| text.rfind('\n'));
        let Some((body, last)) = end.and_then(|end| text.split_at_checked(end + 1)) else {
            return Err("ends too early");
        };
        let mut lines = body.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err("is no manifest of this version of the NATS engine's backups");
        }
        let head = lines.next().and_then(|line| serde_json::from_str(line).ok());
        let head = head.ok_or("has a head that is none")?;
        let mut streams = Vec::new();
        for line in lines {
            let entry: Entry = serde_json::from_str(line).map_err(|_| "has a line that is none")?;
            if !is_stream(&entry.stream) || entry.config.get("name") != Some(&name(&entry)) {
                return Err("names a stream that cannot be one");
            }
            streams.push(entry);
        }
        if last != format!("end {} {}\n", streams.len(), hex(Sha256::digest(body))) {
            return Err("is not what was written");
        }
        Ok(Self { head, streams })
    }

    /// Reads every file and holds it to this.
    ///
    /// # Errors
    /// `Corrupt` with the name of a file that is missing, was changed, was added or is a link;
    /// `Unavailable` when one cannot be read.
    pub(super) fn check(&self, dir: &Folder) -> Result<Backup> {
        let held = |folder: &Folder| folder.names().map_err(|e| failed(VERIFY, folder.path(), e));
        let known: BTreeSet<OsString> = [MANIFEST, STREAMS].map(OsString::from).into();
        if let Some(extra) = held(dir)?.into_iter().find(|name| !known.contains(name)) {
            return Err(corrupt(&dir.path().join(extra), "does not belong to the backup"));
        }
        let streams = self.folder(dir)?;
        let mut unread: BTreeSet<OsString> = held(&streams)?.into_iter().collect();
        for (at, entry) in self.streams.iter().enumerate() {
            let name = file_name(at, &entry.stream);
            let path = streams.path().join(&name);
            if !unread.remove(&OsString::from(&name)) {
                return Err(corrupt(&path, "is missing"));
            }
            let found = open(&streams, at, &entry.stream).and_then(|file| {
                let hashed = hash(file, entry.bytes);
                hashed.map_err(|error| failed(VERIFY, &path, error))
            });
            if found? != (entry.bytes, entry.sha256.clone()) {
                return Err(corrupt(&path, "is not what was backed up"));
            }
        }
        match unread.first() {
            Some(extra) => {
                Err(corrupt(&streams.path().join(extra), "does not belong to the backup"))
            }
            None => Ok(self.sum()),
        }
    }

    /// The directory with the streams' files.
    ///
    /// # Errors
    /// `Corrupt` when it is missing or is a link; `Unavailable`.
    pub(super) fn folder(&self, dir: &Folder) -> Result<Folder> {
        dir.below(STREAMS).map_err(|error| not_plain(&dir.path().join(STREAMS), error))
    }

    /// What it holds, in numbers.
    pub(super) fn sum(&self) -> Backup {
        let messages = |entry: &Entry| number(&entry.state, "messages");
        Backup {
            streams: self.streams.len() as u64,
            messages: self.streams.iter().map(messages).fold(0, u64::saturating_add),
            bytes: self.streams.iter().map(|entry| entry.bytes).fold(0, u64::saturating_add),
            left_out: self.head.left_out.clone(),
        }
    }
}

/// Opens the file of a stream.
///
/// # Errors
/// `Corrupt` when it is missing or no plain file; `Unavailable`.
pub(super) fn open(streams: &Folder, at: usize, stream: &str) -> Result<File> {
    let name = file_name(at, stream);
    streams.read(&name).map_err(|error| not_plain(&streams.path().join(&name), error))
}

/// What the file of a stream is called: its number keeps names apart that are too long or have
/// letters that files should not have.
pub(super) fn file_name(at: usize, stream: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let shown: String = stream.chars().take(NAME_SHOWN_MAX).map(plain).collect();
    format!("{:04}-{shown}.snap", at + 1)
}

/// A number that the server said of a stream; what it leaves out is none.
pub(super) fn number(object: &Object, name: &str) -> u64 {
    object.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// The hash of a file as it is written.
pub(super) fn hex(hash: impl AsRef<[u8]>) -> String {
    HEXLOWER.encode(hash.as_ref())
}

/// Damage in a backup, with the file.
pub(super) fn corrupt(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Corrupt, VERIFY, format!("{} {why}", path.display()))
}

/// A failure of the disk, with the file.
pub(super) fn failed(op: &'static str, path: &Path, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Full,
        io::ErrorKind::DirectoryNotEmpty => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, op, format!("{}: {error}", path.display())).because(error)
}

/// Whether a server takes it as the name of a stream, and a subject as one of its levels.
fn is_stream(name: &str) -> bool {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || ".*>/\\".contains(c);
    !name.is_empty() && name.len() <= STREAM_BYTES_MAX && !name.contains(is_odd)
}

fn name(entry: &Entry) -> Value {
    Value::String(entry.stream.clone())
}

fn not_plain(path: &Path, error: io::Error) -> Error {
    use rustix::io::Errno;

    let is = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    match error.kind() {
        io::ErrorKind::NotFound => corrupt(path, "is missing"),
        io::ErrorKind::InvalidInput => corrupt(path, "is no plain file"),
        _ if is(Errno::LOOP) || is(Errno::NOTDIR) => corrupt(path, "is no plain file"),
        _ => failed(VERIFY, path, error),
    }
}

/// The size and hash of a file of which no more than one byte beyond `bytes_max` counts.
fn hash(file: File, bytes_max: u64) -> io::Result<(u64, String)> {
    let mut file = file.take(bytes_max.saturating_add(1));
    let (mut hasher, mut bytes) = (Sha256::new(), 0);
    let mut part = vec![0; READ_AT_ONCE];
    loop {
        let read = file.read(&mut part)?;
        if read == 0 {
            return Ok((bytes, hex(hasher.finalize())));
        }
        hasher.update(part.get(..read).unwrap_or_default());
        bytes += read as u64;
    }
}

pub(super) const MANIFEST: &str = "manifest";

pub(super) const STREAMS: &str = "streams";

const VERIFY: &str = "verify backup";

const FIRST_LINE: &str = "vakbus backup 1 nats";

/// A configuration with a thousand filters has some hundred kilobytes.
const MANIFEST_BYTES_MAX: u64 = 256 << 20;

/// The longest name that a server gives a stream.
const STREAM_BYTES_MAX: usize = 255;

/// With a number and an ending no file system finds it too long.
const NAME_SHOWN_MAX: usize = 200;

const READ_AT_ONCE: usize = 1 << 20;

#[cfg(test)]
mod tests;
