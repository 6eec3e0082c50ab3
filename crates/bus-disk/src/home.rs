//! The data directory: who may use it, and where everything stands in it.

use std::{
    fs::{File, Metadata, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use bus_core::{Error, ErrorKind, Result};
use bus_envelope::Timestamp;
use rustix::fs::OFlags;

use crate::{
    files::{RealFiles, make_dirs},
    segment::unavailable,
};

/// A data directory that this process alone uses, until this is dropped.
#[derive(Debug)]
pub(crate) struct Home {
    dir: PathBuf,
    /// Held for the lock on it, which ends with the process however that ends.
    lock: Mutex<Option<File>>,
}

impl Home {
    /// Makes the directory when it is not there, and takes it for this process.
    ///
    /// # Errors
    /// `Conflict` when it is in use already (who is said); `Unavailable` when it cannot be made or
    /// written; `Full` when there is no room; `Denied` when others could write it, when it belongs
    /// to somebody else, or when it is a link.
    pub(crate) fn take(dir: &Path, now: Timestamp) -> Result<Self> {
        make_dirs(&RealFiles, dir).map_err(|error| unavailable(dir, error))?;
        check_owned(dir)?;
        let lock = lock(&dir.join("lock"), now)?;
        let home = Self { dir: dir.to_owned(), lock: Mutex::new(Some(lock)) };
        for part in [home.journal(), home.snapshots(), home.blobs(), home.uploads()] {
            make_dirs(&RealFiles, &part).map_err(|error| unavailable(&part, error))?;
            check_owned(&part)?;
        }
        let synced = File::open(dir).and_then(|dir| dir.sync_all());
        synced.map_err(|error| unavailable(dir, error))?;
        Ok(home)
    }

    #[cfg(test)]
    /// The layout of `dir`, whose files are not those of the machine.
    pub(crate) fn layout(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), lock: Mutex::new(None) }
    }

    /// Lets another process have the directory.
    pub(crate) fn release(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// The directory itself.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the segments are.
    pub(crate) fn journal(&self) -> PathBuf {
        self.dir.join("journal")
    }

    /// Where the pictures are.
    pub(crate) fn snapshots(&self) -> PathBuf {
        self.dir.join("snapshot")
    }

    /// Where the blobs are.
    pub(crate) fn blobs(&self) -> PathBuf {
        self.dir.join("blobs")
    }

    /// Where blobs are that are still written.
    pub(crate) fn uploads(&self) -> PathBuf {
        self.blobs().join("tmp")
    }
}

/// Refuses what others could have changed.
fn check_owned(dir: &Path) -> Result<()> {
    let found = std::fs::symlink_metadata(dir).map_err(|error| unavailable(dir, error))?;
    match complaint(&found) {
        None => Ok(()),
        Some(why) => {
            let detail = format!("{} {why}", dir.display());
            Err(Error::new(ErrorKind::Denied, "open data directory", detail))
        }
    }
}

fn complaint(found: &Metadata) -> Option<&'static str> {
    if !found.is_dir() {
        return Some("is no directory (a link to one is not followed)");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Some("belongs to another user");
    }
    (found.mode() & 0o022 != 0).then_some("can be written by others: expected mode 0700")
}

/// Takes the lock and writes into it who has it.
fn lock(path: &Path, now: Timestamp) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    // The bits are those of the system, whatever the sign of its type.
    options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let mut file = options.open(path).map_err(|error| unavailable(path, error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(in_use(path, file)),
        Err(TryLockError::Error(error)) => return Err(unavailable(path, error)),
    }
    let written = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(owner(now).as_bytes()));
    written.map_err(|error| unavailable(path, error))?;
    Ok(file)
}

fn owner(now: Timestamp) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    format!("pid {} on {}, {program}, since {now}\n", std::process::id(), host.trim())
}

fn in_use(path: &Path, file: File) -> Error {
    let mut owner = String::new();
    // Whoever has it may be writing this just now; the answer is the same.
    let _ignored = file.take(OWNER_BYTES_MAX).read_to_string(&mut owner);
    let owner = bus_subjects::Shown(owner.trim());
    let dir = path.parent().unwrap_or(path).display();
    let detail = format!("the data directory {dir} is in use by {owner}: one process at a time");
    Error::new(ErrorKind::Conflict, "open data directory", detail)
}

const OWNER_BYTES_MAX: u64 = 512;

#[cfg(test)]
mod tests;
