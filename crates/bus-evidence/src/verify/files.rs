//! Where a bundle's files come from: a directory, or memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use crate::{
    Checkpoint,
    log::{Log, NAMES, NAMES_OF_RECORDS, checkpoint_file, entries_file},
    verify::{Finding, FindingKind},
};

/// The files of a bundle.
pub(super) enum Files<'a> {
    Directory(&'a Path),
    Memory(&'a BTreeMap<String, Vec<u8>>),
}

impl Files<'_> {
    /// Checks that every file of a bundle is there and nothing else, and says which logs it has:
    /// both files of the tasks may be missing together.
    pub(super) fn check_names(&self) -> Result<&'static [&'static str], Finding> {
        let names = self.names()?;
        let tasks = Log::Tasks.name();
        let has_tasks = [entries_file(tasks), checkpoint_file(tasks)];
        let has_tasks = has_tasks.iter().any(|file| names.contains(file));
        let logs: &[&str] = if has_tasks { &NAMES } else { &NAMES_OF_RECORDS };
        for name in logs {
            let file = entries_file(name);
            if !names.contains(&file) {
                return Err(Finding::new(&file, FindingKind::MissingFile, "the log is not there"));
            }
        }
        for name in logs {
            let file = checkpoint_file(name);
            if !names.contains(&file) {
                let detail = "the checkpoint is not there, so the export was not finished";
                return Err(Finding::new(&file, FindingKind::Incomplete, detail));
            }
        }
        let known = |file: &String| {
            NAMES.iter().any(|name| *file == entries_file(name) || *file == checkpoint_file(name))
        };
        match names.iter().find(|file| !known(file)) {
            Some(file) => {
                let detail = "it is no part of a bundle, and no checkpoint covers it";
                Err(Finding::new(file, FindingKind::UnexpectedFile, detail))
            }
            None => Ok(logs),
        }
    }

    pub(super) fn open(&self, file: &str) -> Result<Box<dyn BufRead + '_>, Finding> {
        match self {
            Self::Memory(files) => match files.get(file) {
                Some(bytes) => Ok(Box::new(bytes.as_slice())),
                None => Err(unreadable(file, &io::Error::from(io::ErrorKind::NotFound))),
            },
            Self::Directory(dir) => {
                let path = dir.join(file);
                let meta = path.symlink_metadata().map_err(|error| unreadable(file, &error))?;
                if !meta.is_file() {
                    let detail = "it is no regular file";
                    return Err(Finding::new(file, FindingKind::UnreadableFile, detail));
                }
                let opened = File::open(path).map_err(|error| unreadable(file, &error))?;
                Ok(Box::new(BufReader::with_capacity(64 * 1024, opened)))
            }
        }
    }

    /// Reads a checkpoint strictly.
    pub(super) fn checkpoint(&self, file: &str) -> Result<Checkpoint, Finding> {
        let form = |detail: &str| Finding::new(file, FindingKind::CheckpointForm, detail);
        let mut bytes = Vec::new();
        self.open(file)?
            .take(Checkpoint::BYTES_MAX as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| unreadable(file, &error))?;
        let text = std::str::from_utf8(&bytes).map_err(|_| form("it is not UTF-8"))?;
        let checkpoint = Checkpoint::parse(text).map_err(|error| form(&error.to_string()))?;
        if checkpoint.signatures().len() != 1 {
            return Err(form("expected the one signature of the recorder"));
        }
        Ok(checkpoint)
    }

    fn names(&self) -> Result<BTreeSet<String>, Finding> {
        match self {
            Self::Memory(files) => Ok(files.keys().cloned().collect()),
            Self::Directory(dir) => {
                let error = |error: io::Error| unreadable(".", &error);
                let mut names = BTreeSet::new();
                for entry in dir.read_dir().map_err(error)? {
                    let name = entry.map_err(error)?.file_name();
                    names.insert(name.to_string_lossy().into_owned());
                }
                Ok(names)
            }
        }
    }
}

pub(super) fn unreadable(file: &str, error: &io::Error) -> Finding {
    Finding::new(file, FindingKind::UnreadableFile, error.to_string())
}
