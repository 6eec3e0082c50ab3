//! Where the socket is: a directory of ours alone, one server at a time, nothing left behind.

use std::{
    fs::{File, Metadata, Permissions},
    io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

use bus_core::{Error, ErrorKind, Result};
use tokio::net::{UnixListener, UnixStream};

/// A bound socket, and the lock that keeps others away from its place. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// Held as long as the socket is ours.
    _lock: File,
    /// Which file is ours.
    inode: u64,
}

impl Place {
    /// Binds `path`, which nobody else may serve.
    ///
    /// # Errors
    /// `Invalid`: the path is too long or its directory is not ours alone; `Conflict`: another
    /// server serves it; `Unavailable`: the system refuses.
    pub(crate) async fn bind(path: &Path) -> Result<(Self, UnixListener)> {
        let new = with_ending(path, ".new");
        if new.as_os_str().as_bytes().len() > PATH_BYTES_MAX {
            let why = format!("the path of a socket has at most {} bytes", PATH_BYTES_MAX - 4);
            return Err(Error::new(ErrorKind::Invalid, "bind", why).at(path.display()));
        }
        check_directory(path)?;
        let lock = lock(path)?;
        refuse_a_living_server(path).await?;
        remove(&new).map_err(failed(path))?;
        // Nobody but us reaches the directory, and the socket has its mode before it has its name.
        let listener = UnixListener::bind(&new).map_err(failed(path))?;
        std::fs::set_permissions(&new, Permissions::from_mode(PRIVATE)).map_err(failed(path))?;
        std::fs::rename(&new, path).map_err(failed(path))?;
        let inode = std::fs::symlink_metadata(path).map_err(failed(path))?.ino();
        Ok((Self { path: path.to_owned(), _lock: lock, inode }, listener))
    }

    /// The path of the socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let is_ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|found| found.ino() == self.inode && found.file_type().is_socket());
        if is_ours && let Err(error) = remove(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "the socket stays behind");
        }
    }
}

/// Refuses a directory that others can write to or look into, and one that is a symbolic link.
///
/// # Errors
/// `Invalid` with the reason; `Unavailable` when it cannot be looked at.
pub(crate) fn check_directory(path: &Path) -> Result<()> {
    let directory = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Err(Error::new(ErrorKind::Invalid, "bind", "the path names no file")),
    };
    let found = std::fs::symlink_metadata(directory).map_err(failed(directory))?;
    match objection(&found, rustix::process::geteuid().as_raw()) {
        None => Ok(()),
        Some(why) => Err(Error::new(ErrorKind::Invalid, "bind", why).at(directory.display())),
    }
}

fn objection(found: &Metadata, uid: u32) -> Option<&'static str> {
    if found.file_type().is_symlink() {
        return Some("the directory of a socket may not be a symbolic link");
    }
    if !found.is_dir() {
        return Some("the socket's directory is no directory");
    }
    if found.uid() != uid {
        return Some("the directory of a socket must belong to the user of the server");
    }
    if found.mode() & 0o077 != 0 {
        return Some("the directory of a socket must be closed to others: mode 0700");
    }
    None
}

/// Locks the file beside the socket, which stays there for ever.
fn lock(path: &Path) -> Result<File> {
    let place = with_ending(path, ".lock");
    if std::fs::symlink_metadata(&place).is_ok_and(|found| !found.is_file()) {
        let why = "the lock beside the socket is no plain file";
        return Err(Error::new(ErrorKind::Invalid, "bind", why).at(place.display()));
    }
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(PRIVATE);
    let file = options.open(&place).map_err(failed(&place))?;
    match file.try_lock() {
        Ok(()) => {
            // An older one may have been made with another mode.
            file.set_permissions(Permissions::from_mode(PRIVATE)).map_err(failed(&place))?;
            Ok(file)
        }
        Err(std::fs::TryLockError::WouldBlock) => Err(taken(path)),
        Err(std::fs::TryLockError::Error(error)) => Err(failed(&place)(error)),
    }
}

/// Under the lock, a socket that nobody answers was left behind, and is removed.
async fn refuse_a_living_server(path: &Path) -> Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(path)(error)),
        Ok(found) if !found.file_type().is_socket() => {
            let why = "something that is no socket has the socket's name";
            return Err(Error::new(ErrorKind::Conflict, "bind", why).at(path.display()));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Ok(_) => Err(taken(path)),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            remove(path).map_err(failed(path))
        }
        Err(error) => Err(failed(path)(error)),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

fn taken(path: &Path) -> Error {
    let why = "another server serves this socket: stop it first, or use its data home";
    Error::new(ErrorKind::Conflict, "bind", why).at(path.display())
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.display().to_string();
    move |error| {
        let why = error.to_string();
        Error::new(ErrorKind::Unavailable, "bind", why).at(path).because(error)
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The mode of the socket and its lock: for their user alone.
const PRIVATE: u32 = 0o600;

/// What the system takes as a socket's path.
const PATH_BYTES_MAX: usize = 107;
