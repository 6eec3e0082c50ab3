//! A backup that is being made: it is gone unless it is finished.

use std::{fs, path::Path};

use bus_core::{Error, Result};

use super::{
    BACKUP,
    folder::Folder,
    manifest::{MANIFEST, Manifest, STREAMS, failed, file_name},
};

/// A backup that is being made; removed when it is dropped before it is finished.
pub(super) struct Draft {
    dir: Folder,
    streams: Folder,
    /// The directory above, where the name of this one stands.
    above: Folder,
    /// Whether the directory was not there before.
    is_made: bool,
    files: Vec<String>,
    is_finished: bool,
}

impl Draft {
    /// Begins one in `dir`, which is made, or empty.
    ///
    /// # Errors
    /// `Invalid` when it is not empty; `Unavailable` and `Full` when it cannot be made.
    pub(super) fn new(dir: &Path) -> Result<Self> {
        let begun = || {
            let (folder, is_made) = Folder::empty(dir)?;
            let above = dir.parent().filter(|above| !above.as_os_str().is_empty());
            // Before anything is written: it must not fail at the end for that.
            let above = Folder::open(above.unwrap_or(Path::new(".")));
            let begun = above.and_then(|above| Ok((above, folder.make(STREAMS)?)));
            let (above, streams) = begun.inspect_err(|_| {
                if is_made {
                    let _ignored = fs::remove_dir(dir);
                }
            })?;
            let (files, is_finished) = (Vec::new(), false);
            Ok(Self { dir: folder, streams, above, is_made, files, is_finished })
        };
        begun().map_err(|error| failed(BACKUP, dir, error))
    }

    /// Makes the file of a stream.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(super) fn create(&mut self, at: usize, stream: &str) -> Result<fs::File> {
        let name = file_name(at, stream);
        let made = self.streams.create(&name);
        let path = self.streams.path().join(&name);
        self.files.push(name);
        made.map_err(|error| failed(BACKUP, &path, error))
    }

    /// Makes a backup of it.
    ///
    /// # Errors
    /// As [`Self::new`], with what could not be removed.
    pub(super) fn finish(mut self, manifest: &Manifest) -> Result<()> {
        let written = self.streams.sync().and_then(|()| manifest.write(&self.dir));
        // The directory's own name: it is there as well after a power cut.
        let written = written
            .and_then(|()| self.above.sync())
            .map_err(|error| failed(BACKUP, &self.dir.path().join(MANIFEST), error));
        match written {
            Ok(()) => {
                self.is_finished = true;
                Ok(())
            }
            Err(error) => Err(self.abandon(error)),
        }
    }

    /// Removes it, and adds to `error` what could not be removed.
    pub(super) fn abandon(mut self, error: Error) -> Error {
        self.clear();
        let path = self.dir.path();
        let left = match self.is_made {
            true => fs::symlink_metadata(path).is_ok(),
            false => self.dir.names().map_or(true, |names| !names.is_empty()),
        };
        if !left {
            return error;
        }
        let why = format!("{}; {} is left, and is no backup", error.detail(), path.display());
        let told = Error::new(error.kind(), error.op(), why);
        match error.subject() {
            Some(stream) => told.at(stream.to_owned()),
            None => told,
        }
        .because(error)
    }

    /// Removes what was made here, and nothing else.
    fn clear(&mut self) {
        self.is_finished = true;
        // What cannot be removed is seen by whoever looks for it afterwards.
        let _ignored = self.dir.remove(MANIFEST);
        for name in &self.files {
            let _ignored = self.streams.remove(name);
        }
        let _ignored = self.dir.remove_dir(STREAMS);
        if self.is_made {
            let _ignored = fs::remove_dir(self.dir.path());
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_finished {
            self.clear();
        }
    }
}
