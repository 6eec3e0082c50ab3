//! Where a backup may be made: a private directory of ours, away from the data it copies.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use bus_core::{Error, ErrorKind, Result};

/// Refuses `dir` unless it is an absolute path outside of `home`, to nothing or to an empty
/// directory of this user alone.
///
/// # Errors
/// `Invalid` with the reason; `Unavailable` when it cannot be looked at.
pub(in crate::commands) fn check(dir: &Path, home: &Path) -> Result<()> {
    if !dir.is_absolute() {
        return Err(refused(dir, "is no absolute path"));
    }
    if resolved(dir)?.starts_with(resolved(home)?) {
        return Err(refused(dir, "is inside of the data directory: what copies itself has no end"));
    }
    let found = match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|error| unseen(dir, error))?,
    };
    if !found.is_dir() {
        return Err(refused(dir, "is no directory (a link to one is not followed)"));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(refused(dir, "belongs to another user"));
    }
    if found.mode() & 0o077 != 0 {
        return Err(refused(dir, "is open to others: expected mode 0700"));
    }
    let mut entries = fs::read_dir(dir).map_err(|error| unseen(dir, error))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(refused(dir, "is not empty")),
    }
}

/// Where `path` leads once the links in it are followed, as far as it is there.
fn resolved(path: &Path) -> Result<PathBuf> {
    let mut missing = Vec::new();
    let mut there = path;
    loop {
        match fs::canonicalize(there) {
            Ok(found) => return Ok(missing.iter().rev().fold(found, |at, name| at.join(name))),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(unseen(path, error));
            }
            Err(_) => {}
        }
        let (Some(parent), Some(name)) = (there.parent(), there.file_name()) else {
            return Err(refused(path, "leads nowhere: expected a path without .."));
        };
        missing.push(name);
        there = parent;
    }
}

fn refused(dir: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Invalid, "backup", format!("{} {why}", dir.display()))
}

fn unseen(dir: &Path, error: io::Error) -> Error {
    let why = format!("{}: {error}", dir.display());
    Error::new(ErrorKind::Unavailable, "backup", why).because(error)
}

#[cfg(test)]
mod tests;
