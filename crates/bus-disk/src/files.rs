//! The little that the journal asks of a file system, so that tests can let each step fail.

use std::{io, path::Path};

pub(crate) use real::RealFiles;

#[cfg(test)]
pub(crate) mod dice;
#[cfg(test)]
pub(crate) mod faulty;
mod real;

/// A directory tree that only its owner reads and writes. Links are never followed.
pub(crate) trait Files: Send + Sync + 'static {
    /// A new file for reading and writing.
    ///
    /// # Errors
    /// Those of the system, also when it exists.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Handle>>;

    /// A file that exists, for reading and writing.
    ///
    /// # Errors
    /// Those of the system.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Handle>>;

    /// A file that exists, for reading alone.
    ///
    /// # Errors
    /// Those of the system.
    fn read(&self, path: &Path) -> io::Result<Box<dyn Handle>>;

    /// Whether the path is that of a directory; a link is none.
    ///
    /// # Errors
    /// Those of the system.
    fn is_dir(&self, path: &Path) -> io::Result<bool>;

    /// Gives a file another name, in place of what had it.
    ///
    /// # Errors
    /// Those of the system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Takes a name away; who has the file open keeps it.
    ///
    /// # Errors
    /// Those of the system.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in no order.
    ///
    /// # Errors
    /// Those of the system; a name that is no UTF-8 is one.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes a directory unless it is there.
    ///
    /// # Errors
    /// Those of the system.
    fn make_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes new, changed and removed names of a directory safe.
    ///
    /// # Errors
    /// Those of the system.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// An open file.
pub(crate) trait Handle: Send + Sync {
    /// Reads from `at` on; less than asked for only at the end.
    ///
    /// # Errors
    /// Those of the system.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes all of `bytes` from `at` on.
    ///
    /// # Errors
    /// Those of the system; some of it may be written.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Takes room for a file of `bytes` bytes, before anything is written.
    ///
    /// # Errors
    /// Those of the system.
    fn allocate(&self, bytes: u64) -> io::Result<()>;

    /// Returns when everything that was written is safe.
    ///
    /// # Errors
    /// Those of the system; what was written since the last time may be lost.
    fn sync(&self) -> io::Result<()>;

    /// The size of the file.
    ///
    /// # Errors
    /// Those of the system.
    fn bytes(&self) -> io::Result<u64>;
}

/// Makes a directory and those above it that are not there, so that a power cut takes none of them.
///
/// # Errors
/// Those of the system.
pub(crate) fn make_dirs(files: &dyn Files, dir: &Path) -> io::Result<()> {
    match files.is_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // What is no directory is refused by whoever looks into it.
        found => return found.map(|_| ()),
    }
    let above = match dir.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => return Ok(()),
    };
    make_dirs(files, above)?;
    files.make_dir(dir)?;
    files.sync_dir(above)
}

/// All of a file from `at` on, up to `bytes_max`.
///
/// # Errors
/// Those of the system.
pub(crate) fn read_from(file: &dyn Handle, at: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
    let bytes = file.bytes()?.saturating_sub(at).min(bytes_max);
    let mut content = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    let read = file.read_at(&mut content, at)?;
    content.truncate(read);
    Ok(content)
}

/// Whether the error says that there is no room, and not that the disk is broken.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};

    matches!(error.kind(), StorageFull | QuotaExceeded)
}
