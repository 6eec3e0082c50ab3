//! The data home: private directories and files that only their owner can read.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use etcetera::BaseStrategy;
use rustix::{fs::OFlags, io::Errno};
use zeroize::Zeroizing;

use crate::error::{CliError, Exit};

/// A directory of ours: 0700, owned by this user, no symlink.
#[derive(Debug, Clone)]
pub(crate) struct Home(PathBuf);

/// The largest private file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// What to do about a data home that cannot be written.
const ELSEWHERE: &str = "name a directory of yours with --data-dir or VAKBUS_DATA_DIR";

impl Home {
    /// The data home given, or the platform's. Nothing is created or checked yet.
    pub(crate) fn locate(given: Option<&Path>) -> Result<Self, CliError> {
        if let Some(dir) = given {
            return Ok(Self(dir.to_owned()));
        }
        let strategy = etcetera::choose_base_strategy().map_err(|_| {
            CliError::new(Exit::Failed, "no home directory is known")
                .next("set VAKBUS_DATA_DIR or use --data-dir")
        })?;
        Ok(Self(strategy.data_dir().join("vakbus")))
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The directory `name` below it; not created yet.
    pub(crate) fn below(&self, name: &str) -> Self {
        Self(self.0.join(name))
    }

    /// Makes the directory and those above it, and refuses one that others could use.
    pub(crate) fn create(&self) -> Result<(), CliError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)
            .map_err(|error| failed("create", &self.0, &error).next(ELSEWHERE))?;
        self.check()
    }

    /// Whether it exists as anything at all.
    pub(crate) fn exists(&self) -> bool {
        fs::symlink_metadata(&self.0).is_ok()
    }

    /// Refuses a symlink, a foreign owner, and write permission for others.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        let meta = fs::symlink_metadata(&self.0).map_err(|e| failed("read", &self.0, &e))?;
        let shown = self.0.display();
        if !meta.is_dir() {
            return Err(CliError::new(Exit::Failed, format!("{shown} is not a directory")));
        }
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return Err(CliError::new(Exit::Failed, format!("{shown} belongs to another user")));
        }
        if meta.mode() & 0o022 != 0 {
            let what = format!("{shown} can be written by other users");
            return Err(CliError::new(Exit::Failed, what).next(format!("chmod go-w {shown}")));
        }
        Ok(())
    }

    /// Writes the new file `name`, readable by its owner only. An existing file is an error.
    pub(crate) fn write_new(&self, name: &str, text: &str) -> Result<(), CliError> {
        let path = self.0.join(name);
        let write = || -> io::Result<()> {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        write().map_err(|error| failed("write", &path, &error).next(ELSEWHERE))
    }

    /// Reads the private file `name`; refuses a symlink, a foreign owner, and any permission for
    /// others, before a byte is read.
    pub(crate) fn read(&self, name: &str) -> Result<Zeroizing<String>, CliError> {
        let path = self.0.join(name);
        let file = open_private(&path)?;
        let mut text = Zeroizing::new(String::new());
        let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
        let bytes = read.map_err(|error| failed("read", &path, &error))?;
        if bytes as u64 > FILE_BYTES_MAX {
            let what = format!("{} is larger than {FILE_BYTES_MAX} bytes", path.display());
            return Err(CliError::new(Exit::Failed, what));
        }
        Ok(text)
    }

    /// The names of the entries in it that end in `ending`, without it, sorted; hidden ones not.
    pub(crate) fn list(&self, ending: &str) -> Result<Vec<String>, CliError> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("read", &self.0, &error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed("read", &self.0, &error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(stem) = name.strip_suffix(ending).filter(|s| !s.starts_with('.')) {
                names.push(stem.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }
}

fn open_private(path: &Path) -> Result<File, CliError> {
    // Without NONBLOCK a pipe in the file's place would be waited for.
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let shown = path.display();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => CliError::new(Exit::Failed, format!("{shown} is a symlink"))
            .next("put the file itself there: others may change what a link leads to"),
        _ => failed("read", path, &error),
    })?;
    let meta = file.metadata().map_err(|error| failed("read", path, &error))?;
    if !meta.is_file() {
        return Err(CliError::new(Exit::Failed, format!("{shown} is not a regular file")));
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(CliError::new(Exit::Failed, format!("{shown} belongs to another user")));
    }
    if meta.mode() & 0o077 != 0 {
        let what = format!("{shown} holds a secret and other users can reach it");
        return Err(CliError::new(Exit::Failed, what).next(format!("chmod 600 {shown}")));
    }
    Ok(file)
}

fn failed(verb: &str, path: &Path, error: &io::Error) -> CliError {
    CliError::new(Exit::Failed, format!("cannot {verb} {}: {error}", path.display()))
}
