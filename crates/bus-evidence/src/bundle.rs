//! Exports the evidence of a session as a directory that anybody can verify offline (D7).

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use bus_core::Certificate;
use bus_crypto::SigningKey;
use bus_envelope::{MessageEnvelope, Timestamp, tree::MerkleTree};
use bus_subjects::{AgentId, SessionId, WorkspaceId};

use crate::{
    Checkpoint, CheckpointError, JsonlError, JsonlWriter, certificate,
    entry::line_of,
    log::{CERTIFICATES, Log, NAMES, NAMES_OF_RECORDS, Place, checkpoint_file, entries_file},
};

/// Writes the evidence of one session into a directory of its own.
///
/// Each log is a file of one JSON object a line, with a signed checkpoint beside it. The
/// checkpoints come last: a bundle whose writing was interrupted, or dropped without
/// [`finish`](Self::finish), is recognised as incomplete.
#[derive(Debug)]
#[must_use = "a bundle without its checkpoints is incomplete"]
pub struct BundleWriter {
    dir: PathBuf,
    place: Place,
    logs: BTreeMap<&'static str, LogWriter>,
    tokens: HashSet<String>,
    certificates: Vec<Certificate>,
    newest: Option<Timestamp>,
}

#[derive(Debug)]
struct LogWriter {
    file: JsonlWriter,
    tree: MerkleTree,
}

/// What a finished bundle holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleSummary {
    /// Its directory.
    pub dir: PathBuf,
    /// How many entries each log has, by its name.
    pub entries: BTreeMap<String, u64>,
    /// The checkpoints by log name. Whoever keeps one elsewhere can prove later that nothing was
    /// cut off.
    pub checkpoints: BTreeMap<String, Checkpoint>,
}

/// Why a bundle could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// The directory holds something; nothing was written.
    #[error("{} is not empty: expected a new or an empty directory", .dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory or a checkpoint could not be written; the bundle is incomplete.
    #[error("{op} of {} failed", .path.display())]
    Io {
        /// The operation.
        op: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A log could not be written; the bundle is incomplete.
    #[error("the log {log} could not be written")]
    Log {
        /// The log's name.
        log: &'static str,
        /// The reason.
        #[source]
        source: JsonlError,
    },
    /// An envelope does not belong into the log; it was not written.
    #[error("the envelope does not belong into the log {log}: {reason}")]
    Misplaced {
        /// The log.
        log: Log,
        /// The reason.
        reason: String,
    },
    /// A certificate is damaged or of another workspace; it was not written.
    #[error("the certificate is refused: {0}")]
    Certificate(String),
    /// The recorder may not sign the checkpoints; the bundle is incomplete.
    #[error("the recorder is refused: {0}")]
    Recorder(String),
    /// A checkpoint could not be made; the bundle is incomplete.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

impl BundleWriter {
    /// Begins a bundle in `dir`, which is created or must be empty.
    ///
    /// # Errors
    /// [`BundleError::NotEmpty`] when there is something in `dir`: nothing is ever overwritten.
    /// [`BundleError::Io`] or [`BundleError::Log`] when it cannot be written to.
    pub fn create(
        dir: &Path,
        workspace: &WorkspaceId,
        session: &SessionId,
    ) -> Result<Self, BundleError> {
        Self::with(dir, Place { workspace: workspace.clone(), session: session.clone() }, &NAMES)
    }

    /// As [`create`](Self::create), for a session whose tasks are not kept any more: the bundle has
    /// no log of tasks, and its verdict says so.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn records(
        dir: &Path,
        workspace: &WorkspaceId,
        session: &SessionId,
    ) -> Result<Self, BundleError> {
        let place = Place { workspace: workspace.clone(), session: session.clone() };
        Self::with(dir, place, &NAMES_OF_RECORDS)
    }

    fn with(dir: &Path, place: Place, names: &[&'static str]) -> Result<Self, BundleError> {
        fs::create_dir_all(dir).map_err(failed("creation", dir))?;
        if dir.read_dir().map_err(failed("reading", dir))?.next().is_some() {
            return Err(BundleError::NotEmpty { dir: dir.to_owned() });
        }
        let mut logs = BTreeMap::new();
        for name in names {
            let file = JsonlWriter::create_new(&dir.join(entries_file(name)))
                .map_err(|source| BundleError::Log { log: name, source })?;
            logs.insert(*name, LogWriter { file, tree: MerkleTree::new() });
        }
        Ok(Self {
            dir: dir.to_owned(),
            place,
            logs,
            tokens: HashSet::new(),
            certificates: Vec::new(),
            newest: None,
        })
    }

    /// Adds an envelope to a log, in the order of its chain.
    ///
    /// Signatures and chains are not checked here: the bundle shows what is there.
    ///
    /// # Errors
    /// [`BundleError::Misplaced`] when it is of another session, belongs into another log, or is a
    /// task for a bundle without tasks, and [`BundleError::Log`] when it cannot be written.
    pub fn append(&mut self, log: Log, envelope: &MessageEnvelope) -> Result<(), BundleError> {
        if !self.logs.contains_key(log.name()) {
            let reason = "the bundle has no such log".to_owned();
            return Err(BundleError::Misplaced { log, reason });
        }
        if let Some(reason) = log.misplaced(&self.place, envelope) {
            return Err(BundleError::Misplaced { log, reason });
        }
        self.write(log.name(), &line_of(envelope))?;
        self.newest = self.newest.max(Some(envelope.time));
        Ok(())
    }

    /// Adds the certificate of an agent that signed something; a second copy changes nothing.
    ///
    /// # Errors
    /// [`BundleError::Certificate`] when it is damaged or of another workspace, and
    /// [`BundleError::Log`] when it cannot be written.
    pub fn certificate(&mut self, token: &str) -> Result<(), BundleError> {
        if self.tokens.contains(token) {
            return Ok(());
        }
        let certificate = Certificate::parse(token)
            .map_err(|error| BundleError::Certificate(error.to_string()))?;
        if certificate.workspace != self.place.workspace {
            let detail = format!("it is of the workspace {}", certificate.workspace);
            return Err(BundleError::Certificate(detail));
        }
        self.write(CERTIFICATES, &certificate::encode(token))?;
        self.tokens.insert(token.to_owned());
        self.certificates.push(certificate);
        Ok(())
    }

    /// Ends the bundle: brings the logs to the disk and signs their checkpoints.
    ///
    /// The recorder must have a certificate in the bundle, with a role other than worker, observer
    /// or view, and valid at the time of the newest envelope.
    ///
    /// # Errors
    /// [`BundleError::Recorder`] when it may not sign, [`BundleError::Log`] and [`BundleError::Io`]
    /// when something cannot be written. The bundle is incomplete then.
    pub fn finish(
        mut self,
        recorder: &SigningKey,
        recorder_name: &AgentId,
    ) -> Result<BundleSummary, BundleError> {
        self.check_recorder(recorder, recorder_name)?;
        let mut entries = BTreeMap::new();
        let mut checkpoints = BTreeMap::new();
        for (name, log) in &mut self.logs {
            log.file.sync().map_err(|source| BundleError::Log { log: name, source })?;
            let (origin, size) = (self.place.origin(name), log.tree.size());
            let root = *log.tree.root().as_bytes();
            let checkpoint =
                Checkpoint::sign(&origin, size, root, recorder_name.as_str(), recorder)?;
            entries.insert((*name).to_owned(), size);
            checkpoints.insert((*name).to_owned(), checkpoint);
        }
        for (name, checkpoint) in &checkpoints {
            self.write_checkpoint(name, checkpoint)?;
        }
        let dir = self.dir;
        // So that the names, too, survive a power cut.
        File::open(&dir).and_then(|file| file.sync_all()).map_err(failed("sync", &dir))?;
        Ok(BundleSummary { dir, entries, checkpoints })
    }

    fn check_recorder(&self, key: &SigningKey, name: &AgentId) -> Result<(), BundleError> {
        let own = |certificate: &&Certificate| {
            certificate.nkey == *key.public() && certificate.agent == *name
        };
        match self.certificates.iter().find(own) {
            Some(own) if certificate::may_record(own) => match self.newest {
                Some(newest) if own.has_ended_at(newest) => {
                    Err(BundleError::Recorder(certificate::had_ended(own, newest)))
                }
                _ => Ok(()),
            },
            Some(_) => {
                let detail = format!("{name} is no {}", certificate::RECORDERS);
                Err(BundleError::Recorder(detail))
            }
            None => {
                let detail = format!("the bundle has no certificate of {name} with this key");
                Err(BundleError::Recorder(detail))
            }
        }
    }

    fn write(&mut self, name: &'static str, line: &[u8]) -> Result<(), BundleError> {
        if let Some(log) = self.logs.get_mut(name) {
            log.file.append(line).map_err(|source| BundleError::Log { log: name, source })?;
            log.tree.append(line);
        }
        Ok(())
    }

    /// Writes a checkpoint under another name first, so that it is there whole or not at all.
    fn write_checkpoint(&self, name: &str, checkpoint: &Checkpoint) -> Result<(), BundleError> {
        let path = self.dir.join(checkpoint_file(name));
        let partial = self.dir.join(format!("{}.partial", checkpoint_file(name)));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o644);
        options
            .open(&partial)
            .and_then(|mut file| {
                file.write_all(checkpoint.text().as_bytes())?;
                file.sync_all()
            })
            .map_err(failed("writing", &partial))?;
        fs::rename(&partial, &path).map_err(failed("renaming", &partial))
    }
}

fn failed(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BundleError {
    move |source| BundleError::Io { op, path: path.to_owned(), source }
}
