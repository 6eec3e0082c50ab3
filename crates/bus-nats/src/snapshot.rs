//! Backups: every stream of an account as its server gives it, and a manifest that says of every
//! byte whether it is the right one (S3.43).
//!
//! Streams are taken one after the other, and there is no moment that all of them show. So queues
//! come first and what tells of their work later: a task that is missing in a queue has its result
//! in the backup, and one that is in both is known by its receipt. Given back they are the other
//! way round, so that nobody takes a task before its receipts are there.

use std::{collections::BTreeSet, path::Path, time::Duration};

use bus_core::{Error, ErrorKind, Result};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use self::{
    draft::Draft,
    folder::Folder,
    give::Give,
    list::{Listed, list},
    manifest::{Head, Manifest, number},
    take::Take,
};
use crate::{
    api::{Api, ApiFailure, Refusal},
    bus::NatsBus,
    connection::Connection,
};

mod draft;
mod folder;
mod frames;
mod give;
mod leader;
mod list;
mod manifest;
mod take;
mod trial;

pub use trial::try_backup;

/// A backup that was made or verified.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Backup {
    /// How many streams it has.
    pub streams: u64,
    /// How many messages they hold, those of buckets and blobs among them.
    pub messages: u64,
    /// How many bytes their files have, the manifest not counted.
    pub bytes: u64,
    /// The streams that are not in it: they lie in memory, and do not outlive their server either.
    pub left_out: Vec<String>,
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What the backup holds.
    pub backup: Backup,
    /// Whether the servers know again which ids were stored of late. Where there is one copy of a
    /// stream, its server must be started again first; until then a repeated append is stored
    /// twice.
    pub knows_ids: bool,
}

/// How far a backup, a restore or a trial is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupStep<'a> {
    /// The stream it is at.
    pub stream: &'a str,
    /// Which one of `streams` that is, counted from 1.
    pub number: u64,
    /// How many there are.
    pub streams: u64,
    /// How many bytes of its file are done.
    pub bytes: u64,
}

impl NatsBus {
    /// Copies every stream of this account into `dir`, which is made, for its owner alone, or
    /// empty. What was acknowledged before this began is in it; streams are used meanwhile.
    ///
    /// `told` hears how far it is. Memory is bounded: a chunk of 128 KiB here and 8 MiB on the way.
    /// Whatever fails, and when the future is dropped, what was written is removed again; what
    /// cannot be removed is named, and without its manifest is no backup.
    ///
    /// # Errors
    /// `Invalid` when `dir` is not empty; `Corrupt` when a server finds damage in a stream;
    /// `Denied`, `Full`, `Timeout`, `Unavailable`. There is no backup then.
    pub async fn backup(
        &self,
        dir: &Path,
        told: &mut (dyn FnMut(BackupStep<'_>) + Send),
    ) -> Result<Backup> {
        let api = self.api();
        api.connection().check_open(BACKUP)?;
        let mut draft = Draft::new(dir)?;
        match fill(&api, &mut draft, told).await {
            Ok(manifest) => draft.finish(&manifest).map(|()| manifest.sum()),
            Err(error) => Err(draft.abandon(error)),
        }
    }

    /// Verifies the backup in `dir`, and gives its streams back to the servers, each as it was.
    ///
    /// A stream that is there is never touched: then nothing is restored. What each became is held
    /// to what it was. Not cancel safe: dropped, it leaves what was restored so far.
    ///
    /// # Errors
    /// As [`verify_backup`], before a server is asked; `Conflict` when one of the streams, or one
    /// that has its subjects, is there; `Corrupt` when one became another than it was; `Denied`,
    /// `Full`, `Timeout`, `Unavailable`. The text names what was restored before that, and stays.
    pub async fn restore(
        &self,
        dir: &Path,
        told: &mut (dyn FnMut(BackupStep<'_>) + Send),
    ) -> Result<Restored> {
        let api = self.api();
        let connection = api.connection();
        connection.check_open(RESTORE)?;
        let (folder, manifest) = verified(dir).await?;
        let there: BTreeSet<_> = list(&api, RESTORE).await?.into_iter().map(|s| s.name()).collect();
        let mut wanted = manifest.streams.iter().map(|entry| &entry.stream);
        if let Some(stream) = wanted.find(|stream| there.contains(*stream)) {
            let why = "the stream is there already: nothing was restored";
            return Err(Error::new(ErrorKind::Conflict, RESTORE, why).at(stream));
        }
        let streams = manifest.folder(&folder)?;
        let mut done = Vec::new();
        for (at, entry) in manifest.streams.iter().enumerate().rev() {
            let (number, of) = (done.len() as u64 + 1, manifest.streams.len() as u64);
            let so_far =
                |bytes| told(BackupStep { stream: &entry.stream, number, streams: of, bytes });
            let given = async {
                let file = manifest::open(&streams, at, &entry.stream)?;
                let config = entry.config.clone();
                Give { connection, entry, config }.read(file, so_far).await
            };
            given.await.map_err(|error| with_done(error, &done))?;
            done.push(entry.stream.as_str());
        }
        let knows_ids = leader::change_all(&api, &manifest.streams).await;
        Ok(Restored { backup: manifest.sum(), knows_ids })
    }
}

/// Reads a whole backup of the NATS engine and holds each file to the manifest. Blocks its thread.
///
/// # Errors
/// `NotFound` when `dir` is not there or has no manifest; `Corrupt` with the name of a file that is
/// missing, was changed or was added; `Unavailable` when it cannot be read.
pub fn verify_backup(dir: &Path) -> Result<Backup> {
    let folder = opened(dir)?;
    Manifest::read(&folder)?.check(&folder)
}

#[derive(Deserialize)]
struct Refused {
    error: Option<Refusal>,
}

/// Takes every stream.
async fn fill(
    api: &Api,
    draft: &mut Draft,
    told: &mut (dyn FnMut(BackupStep<'_>) + Send),
) -> Result<Manifest> {
    let connection = api.connection();
    let made_at = connection.now().to_string();
    let mut listed = list(api, BACKUP).await?;
    listed.sort_by_key(|stream| (stream.rank(), stream.name()));
    let (kept, left_out): (Vec<_>, Vec<_>) =
        listed.into_iter().partition(|stream| stream.text("storage") == "file");
    let mut streams = Vec::new();
    for (at, listed) in kept.iter().enumerate() {
        let (name, of) = (listed.name(), kept.len() as u64);
        let so_far =
            |bytes| told(BackupStep { stream: &name, number: at as u64 + 1, streams: of, bytes });
        let take = Take { connection, stream: &name, bytes: number(&listed.state, "bytes") };
        streams.push(take.write(draft.create(at, &name)?, so_far).await?);
    }
    let server = connection.server_version();
    let left_out = left_out.iter().map(Listed::name).collect();
    Ok(Manifest { head: Head { server, made_at, left_out }, streams })
}

/// A backup that was verified just now.
#[expect(clippy::disallowed_methods, reason = "an engine starts its own tasks")]
async fn verified(dir: &Path) -> Result<(Folder, Manifest)> {
    let dir = dir.to_owned();
    let verified = tokio::task::spawn_blocking(move || {
        let folder = opened(&dir)?;
        let manifest = Manifest::read(&folder)?;
        manifest.check(&folder)?;
        Ok((folder, manifest))
    });
    verified.await.unwrap_or_else(|error| {
        Err(Error::new(ErrorKind::Unavailable, RESTORE, "its reader broke").because(error))
    })
}

fn opened(dir: &Path) -> Result<Folder> {
    Folder::open(dir).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
            let why = format!("{} is no directory", dir.display());
            Error::new(ErrorKind::NotFound, "verify backup", why)
        }
        _ => manifest::failed("verify backup", dir, error),
    })
}

/// Asks on `subject`, and waits for the answer as long as that may take.
async fn ask<A: DeserializeOwned>(
    connection: &Connection,
    op: &'static str,
    (subject, question): (&str, &Value),
    wait: Duration,
) -> Result<A> {
    let question = question.to_string();
    let asked = (subject, None, question.into());
    let answer = connection.request_within(op, asked, wait).await.map_err(|error| {
        let error = match error.kind() {
            ErrorKind::NoRecipient => {
                let why = "no JetStream answers: it is off, not ready yet, or not granted";
                Error::new(ErrorKind::Unavailable, op, why)
            }
            _ => error,
        };
        error.at(subject)
    })?;
    let stream = subject.rsplit('.').next().unwrap_or_default();
    if let Ok(Refused { error: Some(refusal) }) = serde_json::from_slice(&answer.payload) {
        return Err(refused(op, refusal, stream));
    }
    serde_json::from_slice(&answer.payload).map_err(|error| {
        let why = "the server's answer cannot be read";
        Error::new(ErrorKind::Corrupt, op, why).because(error).at(stream)
    })
}

/// What the server said no for.
fn refused(op: &'static str, refusal: Refusal, stream: &str) -> Error {
    let said = format!("the server refuses: {} ({})", refusal.description, refusal.err_code);
    let kind = match refusal.err_code {
        IN_USE => ErrorKind::Conflict,
        RESTORE_FAILED if refusal.description.contains("(10065)") => ErrorKind::Conflict,
        RESTORE_FAILED => ErrorKind::Corrupt,
        NO_ROOM | NO_ROOM_OF_ACCOUNT | NO_ROOM_OF_STORE => ErrorKind::Full,
        _ => return ApiFailure::Refused(refusal).into_error(op, stream),
    };
    Error::new(kind, op, said).at(stream)
}

/// An error with what was done before it.
fn with_done(error: Error, done: &[&str]) -> Error {
    if done.is_empty() {
        return error;
    }
    let why =
        format!("{}; restored before that, and left there: {}", error.detail(), done.join(", "));
    let told = Error::new(error.kind(), error.op(), why).unknown();
    match error.subject() {
        Some(stream) => told.at(stream.to_owned()),
        None => told,
    }
    .because(error)
}

fn unwritten(stream: &str, error: std::io::Error) -> Error {
    manifest::failed(BACKUP, Path::new(stream), error)
}

fn unread(stream: &str, error: std::io::Error) -> Error {
    manifest::failed(RESTORE, Path::new(stream), error)
}

/// How long a server may take to read or make a stream of so many bytes: a slow disk gives 20 MB a
/// second.
fn patience(bytes: u64) -> Duration {
    Duration::from_secs(60 + bytes / 20_000_000)
}

const BACKUP: &str = "backup";

const RESTORE: &str = "restore";

/// How many bytes go at once.
const CHUNK_BYTES: usize = 128 * 1024;

/// The stream is there, or another restore of it is under way.
const IN_USE: u32 = 10_130;

const RESTORE_FAILED: u32 = 10_062;

const NO_ROOM: u32 = 10_023;

const NO_ROOM_OF_ACCOUNT: u32 = 10_002;

const NO_ROOM_OF_STORE: u32 = 10_047;
