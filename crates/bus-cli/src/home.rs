//! The data home: private directories and files that only their owner can read.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use bus_crypto::{Entropy, SystemEntropy};
use etcetera::BaseStrategy;
use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};
use zeroize::Zeroizing;

use crate::error::{CliError, Exit};

/// A directory of ours, the data home or one below it: 0700, owned by this user, no symlink.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    /// The data home itself; who can write above it is not asked.
    root: PathBuf,
    path: PathBuf,
}

/// A file or directory that is still being made; removed when this is dropped, unless it was moved
/// to its place.
#[derive(Debug)]
pub(crate) struct Draft(Home);

/// The number of a file, and when it was changed last. A number alone is given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct State(u64, i64, i64);

/// The largest private file that is read, in bytes.
const FILE_BYTES_MAX: usize = 64 * 1024;

/// The largest of those that grow with each workspace.
const LONG_FILE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What to do about a data home that cannot be written.
const ELSEWHERE: &str = "name a directory of yours with --data-dir or VAKBUS_DATA_DIR";

impl Home {
    /// The data home given, or the platform's. Nothing is created or checked yet.
    pub(crate) fn locate(given: Option<&Path>) -> Result<Self, CliError> {
        if let Some(dir) = given {
            return Ok(Self::at(dir.to_owned()));
        }
        let strategy = etcetera::choose_base_strategy().map_err(|_| {
            CliError::new(Exit::Failed, "no home directory is known")
                .next("set VAKBUS_DATA_DIR or use --data-dir")
        })?;
        Ok(Self::at(strategy.data_dir().join("vakbus")))
    }

    fn at(root: PathBuf) -> Self {
        Self { path: root.clone(), root }
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory `name` below it; not created yet.
    pub(crate) fn below(&self, name: &str) -> Self {
        Self { root: self.root.clone(), path: self.path.join(name) }
    }

    /// A place in it for what is not complete yet; not created yet, and listed nowhere.
    pub(crate) fn draft(&self) -> Result<Draft, CliError> {
        let mut bytes = [0; 8];
        SystemEntropy::new().fill(&mut bytes)?;
        Ok(Draft(self.below(&format!(".new-{:016x}", u64::from_le_bytes(bytes)))))
    }

    /// Makes the directory and those above it, and refuses one that others could use before
    /// anything is made below it.
    pub(crate) fn create(&self) -> Result<(), CliError> {
        for dir in self.dirs() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&dir)
                .map_err(|error| failed("create", &dir, &error).next(ELSEWHERE))?;
            check(&dir)?;
        }
        Ok(())
    }

    /// Whether it exists as anything at all. What cannot be looked at counts as being there: who
    /// reads it is told why it cannot be.
    pub(crate) fn exists(&self) -> bool {
        let looked = fs::symlink_metadata(&self.path);
        !looked.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// What tells the file `name` from a later one of its name; none when there is none.
    pub(crate) fn state(&self, name: &str) -> Option<State> {
        let meta = fs::symlink_metadata(self.path.join(name)).ok()?;
        Some(State(meta.ino(), meta.ctime(), meta.ctime_nsec()))
    }

    /// Refuses a symlink, a foreign owner, and write permission for others, from the data home
    /// down to here: whoever can write one of these directories can replace all below it.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        self.dirs().iter().try_for_each(|dir| check(dir))
    }

    /// The data home and all directories from there down to this one, in this order.
    fn dirs(&self) -> Vec<PathBuf> {
        let mut dirs: Vec<PathBuf> = self
            .path
            .ancestors()
            .take_while(|dir| dir.starts_with(&self.root))
            .map(Path::to_owned)
            .collect();
        dirs.reverse();
        dirs
    }

    /// Writes the new file `name`, readable by its owner only. An existing file is an error, and
    /// after any error there is no such file: it appears complete or not at all.
    pub(crate) fn write_new(&self, name: &str, text: &str) -> Result<(), CliError> {
        let path = self.path.join(name);
        self.try_write_new(&path, text, &self.draft()?).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                CliError::usage(format!("{} exists already", path.display()))
            }
            _ => failed("write", &path, &error).next(ELSEWHERE),
        })
    }

    /// Writes the file `name` in place of the one that may be there: whoever reads it sees the old
    /// one or the new one, whole.
    pub(crate) fn replace(&self, name: &str, text: &str) -> Result<(), CliError> {
        let path = self.path.join(name);
        let draft = self.draft()?;
        let replaced = write_draft(&draft, text)
            .and_then(|()| fs::rename(draft.path(), &path))
            .and_then(|()| self.sync());
        replaced.map_err(|error| failed("write", &path, &error).next(ELSEWHERE))
    }

    /// Removes the file `name`; says whether it was there.
    pub(crate) fn remove(&self, name: &str) -> Result<bool, CliError> {
        let path = self.path.join(name);
        match fs::remove_file(&path).and_then(|()| self.sync()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed("remove", &path, &error)),
        }
    }

    fn try_write_new(&self, path: &Path, text: &str, draft: &Draft) -> io::Result<()> {
        write_draft(draft, text)?;
        // A link, because a rename would take the place of a file that is there.
        fs::hard_link(draft.path(), path)?;
        self.sync().inspect_err(|_| {
            // It might not be there after a crash, so it must not look as if it were.
            let _removed = fs::remove_file(path);
        })
    }

    /// Waits for the turn of this process to change what belongs together here; it lasts until what
    /// is returned is dropped.
    pub(crate) fn turn(&self) -> Result<File, CliError> {
        let locked = File::open(&self.path).and_then(|dir| {
            flock(&dir, FlockOperation::LockExclusive)?;
            Ok(dir)
        });
        locked.map_err(|error| failed("lock", &self.path, &error))
    }

    /// Makes sure that the names in it outlive a crash of the machine.
    pub(crate) fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// Reads the private file `name`; refuses a symlink, a foreign owner, and any permission for
    /// others, before a byte is read.
    pub(crate) fn read(&self, name: &str) -> Result<Zeroizing<String>, CliError> {
        self.check()?;
        read_private(&self.path.join(name))
    }

    /// As [`Self::read`], of a file that may be long: one that names every workspace.
    pub(crate) fn read_long(&self, name: &str) -> Result<Zeroizing<String>, CliError> {
        self.check()?;
        let path = self.path.join(name);
        let file = open_private(&path)?;
        let long = file.metadata().map_err(|error| failed("read", &path, &error))?.len();
        let long = usize::try_from(long).unwrap_or(usize::MAX);
        read_up_to(file, &path, long.clamp(FILE_BYTES_MAX, LONG_FILE_BYTES_MAX))
    }

    /// The names of the entries in it that end in `ending`, without it, sorted; hidden ones not.
    pub(crate) fn list(&self, ending: &str) -> Result<Vec<String>, CliError> {
        if !self.exists() {
            return Ok(Vec::new());
        }
        self.check()?;
        let cannot = |error| failed("read", &self.path, &error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(stem) = name.strip_suffix(ending).filter(|s| !s.starts_with('.')) {
                names.push(stem.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }
}

impl Draft {
    /// The directory of this name.
    pub(crate) fn dir(&self) -> &Home {
        &self.0
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Best effort: usually it was moved, and then there is nothing.
        let _gone = fs::remove_file(self.path()).or_else(|_| fs::remove_dir_all(self.path()));
    }
}

/// Reads the private file at `path`; refuses a symlink, a foreign owner, and any permission for
/// others, before a byte is read.
pub(crate) fn read_private(path: &Path) -> Result<Zeroizing<String>, CliError> {
    read_up_to(open_private(path)?, path, FILE_BYTES_MAX)
}

fn read_up_to(file: File, path: &Path, most: usize) -> Result<Zeroizing<String>, CliError> {
    // All that it may ever hold: a text that grows leaves copies behind that nobody wipes.
    let mut text = Zeroizing::new(String::with_capacity(most + 1));
    let read = file.take(most as u64 + 1).read_to_string(&mut text);
    let bytes = read.map_err(|error| failed("read", path, &error))?;
    if bytes > most {
        let what = format!("{} is larger than {most} bytes", path.display());
        return Err(CliError::new(Exit::Failed, what));
    }
    Ok(text)
}

fn write_draft(draft: &Draft, text: &str) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft.path())?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn check(dir: &Path) -> Result<(), CliError> {
    let meta = fs::symlink_metadata(dir).map_err(|error| failed("read", dir, &error))?;
    let shown = dir.display();
    let refused = |what: &str| CliError::new(Exit::Failed, format!("{shown} {what}"));
    if meta.is_symlink() {
        return Err(refused("is a symlink").next("name or put there the directory itself"));
    }
    if !meta.is_dir() {
        return Err(refused("is not a directory"));
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(refused("belongs to another user"));
    }
    if meta.mode() & 0o022 != 0 {
        let next = format!("chmod go-w {shown}");
        return Err(refused("can be written by other users").next(next));
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(&dir.path().join("data"))).unwrap();
        home.create().unwrap();
        (dir, home)
    }

    #[test]
    fn a_secret_is_read_into_one_place_that_never_moves() {
        let (_dir, home) = home();
        home.write_new("secret", "text").unwrap();
        let read = home.read("secret").unwrap();
        assert_eq!(read.as_str(), "text");
        assert!(read.capacity() > FILE_BYTES_MAX);
    }

    #[test]
    fn a_new_file_never_takes_the_place_of_another() {
        let (_dir, home) = home();
        home.write_new("a", "first").unwrap();
        let error = home.write_new("a", "second").unwrap_err();
        assert_eq!(error.code(), Exit::Usage);
        assert_eq!(home.read("a").unwrap().as_str(), "first");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
