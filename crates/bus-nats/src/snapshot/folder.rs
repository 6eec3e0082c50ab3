//! A directory held open: whatever is named in it lies in it, and no link is followed.

use std::{
    ffi::OsString,
    fs::{DirBuilder, File},
    io,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStringExt, fs::DirBuilderExt},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, fsync, mkdirat, open, openat, unlinkat};

/// A directory held open.
pub(super) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Makes `path`, for its owner alone, or takes an empty directory; says whether it was made.
    ///
    /// # Errors
    /// `DirectoryNotEmpty`, a link in its place, and those of the system.
    pub(super) fn empty(path: &Path) -> io::Result<(Self, bool)> {
        if let Some(parent) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        }
        let made = match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            made => made.map(|()| true)?,
        };
        let fd = open(path, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        let folder = Self { fd, path: path.to_owned() };
        if !folder.names()?.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        Ok((folder, made))
    }

    /// Opens a directory that is there.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { fd: open(path, DIRECTORY, Mode::empty())?, path: path.to_owned() })
    }

    /// Where it is, for words alone.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a directory in it.
    pub(super) fn make(&self, name: &str) -> io::Result<Self> {
        mkdirat(&self.fd, name, Mode::RWXU)?;
        self.below(name)
    }

    /// A directory in it.
    pub(super) fn below(&self, name: &str) -> io::Result<Self> {
        let fd = openat(&self.fd, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        Ok(Self { fd, path: self.path.join(name) })
    }

    /// Makes a file in it, for its owner alone.
    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = openat(&self.fd, name, flags | OFlags::NOFOLLOW, Mode::RUSR | Mode::WUSR)?;
        Ok(fd.into())
    }

    /// Opens a file in it to be read; anything else than a plain file is refused.
    pub(super) fn read(&self, name: &str) -> io::Result<File> {
        // Without waiting: a pipe has no reader's end to wait for.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::from(openat(&self.fd, name, flags, Mode::empty())?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "no plain file")),
        }
    }

    /// The names of what is in it, in their order.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Removes a file in it.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Removes an empty directory in it.
    pub(super) fn remove_dir(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Makes the names in it safe.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.fd)?)
    }
}

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);
