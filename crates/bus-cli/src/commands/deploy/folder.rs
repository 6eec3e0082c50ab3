//! The folder of a machine: what it is to hold, and what it holds already.
//!
//! `MANIFEST` says of each file that was written here what it was. A file that is not in it, or is
//! another one by now, is somebody else's.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use bus_crypto::Zeroizing;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::{
    error::{CliError, Exit},
    home::Home,
};

/// The folder of a machine.
pub(super) struct Folder {
    dir: Home,
    name: String,
    files: BTreeMap<String, Zeroizing<String>>,
}

/// What a folder holds, and what becomes of it.
pub(super) struct Changes {
    folder: Folder,
    /// What was written here before, by name: one hash, or two after a run that was cut off.
    known: BTreeMap<String, BTreeSet<String>>,
    written: Vec<String>,
    removed: Vec<String>,
}

/// What became of a folder.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) files: usize,
    pub(super) written: Vec<String>,
    pub(super) removed: Vec<String>,
}

impl Folder {
    /// The folder `name` in `out`, with nothing to hold yet.
    pub(super) fn new(out: &Home, name: &str) -> Self {
        Self { dir: out.below(name), name: name.to_owned(), files: BTreeMap::new() }
    }

    /// Has it hold a file.
    pub(super) fn put(&mut self, name: impl Into<String>, text: impl Into<Zeroizing<String>>) {
        self.files.insert(name.into(), text.into());
    }

    /// What stands in a file of it now; none when it is not there.
    ///
    /// # Errors
    /// When it cannot be read, or others could read it.
    pub(super) fn there(&self, name: &str) -> Result<Option<Zeroizing<String>>, CliError> {
        match self.dir.below(name).exists() {
            true => self.dir.read_long(name).map(Some),
            false => Ok(None),
        }
    }

    /// Compares it with what is there; nothing is written yet.
    ///
    /// # Errors
    /// When a file that is in the way is not what was written here.
    pub(super) fn compare(self) -> Result<Changes, CliError> {
        let known = match self.there(MANIFEST)? {
            Some(text) => parse(&text).ok_or_else(|| self.foreign(MANIFEST))?,
            None => BTreeMap::new(),
        };
        let (mut written, mut removed) = (Vec::new(), Vec::new());
        for (name, text) in &self.files {
            match self.there(name)? {
                Some(there) if *there == **text && known.contains_key(name) => {}
                Some(there) if is_known(&known, name, &there) => written.push(name.clone()),
                Some(_) => return Err(self.foreign(name)),
                None => written.push(name.clone()),
            }
        }
        for name in known.keys().filter(|name| !self.files.contains_key(*name)) {
            match self.there(name)? {
                Some(there) if is_known(&known, name, &there) => removed.push(name.clone()),
                Some(_) => return Err(self.foreign(name)),
                None => {}
            }
        }
        Ok(Changes { folder: self, known, written, removed })
    }

    fn foreign(&self, name: &str) -> CliError {
        let path = self.dir.path().join(name);
        let what = format!(
            "{} is not what vakbus deploy render wrote there: nothing was written",
            path.display()
        );
        CliError::new(Exit::Failed, what).next("move it away, or name another directory with --out")
    }
}

impl Changes {
    /// Writes what is new and removes what is not needed any more. One that is cut off can be done
    /// again.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn write(self) -> Result<Done, CliError> {
        let Self { folder, mut known, written, removed } = self;
        let Folder { dir, name, files } = folder;
        let path = dir.path().to_owned();
        let done = Done { name, path, files: files.len(), written, removed };
        let wanted: BTreeMap<_, _> =
            files.iter().map(|(name, text)| (name.clone(), BTreeSet::from([hash(text)]))).collect();
        if known == wanted && done.written.is_empty() {
            return Ok(done);
        }
        dir.create()?;
        for (name, hashes) in &wanted {
            known.entry(name.clone()).or_default().extend(hashes.iter().cloned());
        }
        dir.replace(MANIFEST, &manifest(&known))?;
        for name in &done.written {
            if let Some(text) = files.get(name) {
                dir.replace(name, text)?;
            }
        }
        for name in &done.removed {
            dir.remove(name)?;
        }
        dir.replace(MANIFEST, &manifest(&wanted))?;
        Ok(done)
    }
}

fn is_known(known: &BTreeMap<String, BTreeSet<String>>, name: &str, text: &str) -> bool {
    known.get(name).is_some_and(|hashes| hashes.contains(&hash(text)))
}

fn manifest(files: &BTreeMap<String, BTreeSet<String>>) -> String {
    let lines = files
        .iter()
        .flat_map(|(name, hashes)| hashes.iter().map(move |hash| format!("{hash}  {name}\n")));
    lines.collect()
}

fn parse(text: &str) -> Option<BTreeMap<String, BTreeSet<String>>> {
    let mut files = BTreeMap::<String, BTreeSet<String>>::new();
    for line in text.lines() {
        let (hash, name) = line.split_once("  ")?;
        let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hash || name.is_empty() || name.contains('/') {
            return None;
        }
        files.entry(name.to_owned()).or_default().insert(hash.to_owned());
    }
    Some(files)
}

fn hash(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}

const MANIFEST: &str = "MANIFEST";
