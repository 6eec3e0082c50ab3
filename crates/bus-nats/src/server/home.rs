//! The directory a server works in: ours alone while a server of ours runs there.
//!
//! The lock is an open file that the server inherits as its standard input. So it is held as long
//! as either of the two lives, and a server that outlived its parent still keeps others away.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::Stdio,
};

use rustix::fs::OFlags;

use super::error::ServerError;

/// A server's directory, taken until this is dropped.
#[derive(Debug)]
pub(super) struct Home {
    dir: PathBuf,
    lock: File,
}

impl Home {
    /// Makes the directory when it is not there, readable by its owner alone, and takes it.
    pub(super) fn take(dir: &Path) -> Result<Self, ServerError> {
        let dir = std::path::absolute(dir).map_err(ServerError::io("resolve", dir))?;
        make_dir(&dir)?;
        let path = dir.join("lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        // The bits are those of the system, whatever the sign of its type.
        options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
        let mut lock = options.open(&path).map_err(ServerError::io("open", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(dir, lock)),
            Err(TryLockError::Error(error)) => return Err(ServerError::io("lock", &path)(error)),
        }
        let owner = format!("pid {}\n", std::process::id());
        let written = lock
            .set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| lock.write_all(owner.as_bytes()));
        written.map_err(ServerError::io("write", &path))?;
        Ok(Self { dir, lock })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The lock as a standard input, which keeps it held.
    pub(super) fn as_stdin(&self) -> Result<Stdio, ServerError> {
        let file = self.lock.try_clone();
        Ok(file.map_err(ServerError::io("keep the lock of", &self.dir))?.into())
    }

    /// Where the configuration is.
    pub(super) fn config(&self) -> PathBuf {
        self.dir.join("server.conf")
    }

    /// Writes the configuration, readable by its owner alone: all of it or nothing.
    pub(super) fn write_config(&self, text: &str) -> Result<(), ServerError> {
        let (path, fresh) = (self.config(), self.dir.join("server.conf.new"));
        // One that a crash left behind may have other rights.
        let _ignored = fs::remove_file(&fresh);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let written = options
            .open(&fresh)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&fresh, &path));
        written.map_err(ServerError::io("write", &path))
    }

    /// The folder for the file that says which ports the server took.
    pub(super) fn ports(&self) -> PathBuf {
        self.dir.join("ports")
    }

    /// The same folder, empty.
    pub(super) fn fresh_ports(&self) -> Result<PathBuf, ServerError> {
        let ports = self.ports();
        make_dir(&ports)?;
        let entries = fs::read_dir(&ports).map_err(ServerError::io("read", &ports))?;
        for entry in entries {
            // What a killed server left behind would be taken for the new one's.
            let path = entry.map_err(ServerError::io("read", &ports))?.path();
            fs::remove_file(&path).map_err(ServerError::io("remove", &path))?;
        }
        Ok(ports)
    }
}

impl Drop for Home {
    /// Lets others have the directory, also while a child of this process that is just being
    /// started holds a copy of the file. Nobody may call this while a server runs.
    fn drop(&mut self) {
        // Closing the file does the same a little later.
        let _ignored = self.lock.unlock();
    }
}

fn make_dir(dir: &Path) -> Result<(), ServerError> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(ServerError::io("make", dir))
}

fn in_use(dir: PathBuf, lock: File) -> ServerError {
    let mut owner = String::new();
    // Whoever has it may be writing this just now; the answer is the same.
    let _ignored = lock.take(OWNER_BYTES_MAX).read_to_string(&mut owner);
    let owner = bus_subjects::Shown(owner.trim()).to_string();
    ServerError::InUse { dir, owner }
}

const OWNER_BYTES_MAX: u64 = 128;
