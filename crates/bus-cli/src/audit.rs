//! The evidence streams of a workspace, followed into the audit log of the data home (S0.42).

mod failing;
mod heads;
mod signed;

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use bus_core::{Clock, Engine, Replay, Seq, planes};
use bus_envelope::EventHash;
use bus_evidence::{AuditError, AuditLog, AuditMark, AuditRecord, AuditStream};
use bus_subjects::{Address, AddressKind, Filter, SessionId, StreamName, WorkspaceId};

use self::{
    failing::{broken, failed},
    heads::{Heads, session_of},
    signed::Signed,
};
use crate::{error::CliError, home::Home, print as out};

/// The audit log of one workspace, and how far it follows the streams.
///
/// It follows: a record is acknowledged before it is here, and a volume that takes no more delays
/// nobody. What is missing is written as soon as it can be.
pub(crate) struct Audit {
    home: Home,
    workspace: WorkspaceId,
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    open: Option<Open>,
    heads: Heads,
    /// How many records were written since that was last asked.
    written: u64,
}

/// A log that is open for writing.
struct Open {
    log: AuditLog,
    places: [Place; 2],
    signed: Signed,
}

/// How far a stream is in the log.
struct Place {
    stream: AuditStream,
    next: Seq,
    /// What the log holds, when the stream is not the one it was of: that is passed over.
    known: HashSet<EventHash>,
}

/// The streams that are followed.
pub(crate) const STREAMS: [AuditStream; 2] = [AuditStream::Receipts, AuditStream::Approvals];

/// How much is written at once.
const BATCH_RECORDS: usize = 256;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

impl Audit {
    /// The log of `workspace`, whose streams are at `engine`; nothing is opened yet.
    pub(crate) fn new(
        home: &Home,
        workspace: WorkspaceId,
        engine: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let heads = Heads::new(home.clone(), workspace.clone());
        Self { home: home.clone(), workspace, engine, clock, open: None, heads, written: 0 }
    }

    /// Whether it is of this workspace, and follows the streams of this engine.
    pub(crate) fn is_of(&self, workspace: &WorkspaceId, engine: &Arc<dyn Engine>) -> bool {
        self.workspace == *workspace && Arc::ptr_eq(&self.engine, engine)
    }

    /// The workspace that it is of.
    pub(crate) const fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    /// How many records were written since this was last asked, also by looks that failed later.
    pub(crate) fn take_written(&mut self) -> u64 {
        std::mem::take(&mut self.written)
    }

    /// Writes what is new, and returns how many records that were. After a failure the next look
    /// goes on from the last whole record.
    ///
    /// # Errors
    /// When a stream cannot be read, or the log not be written.
    pub(crate) async fn look(&mut self) -> Result<u64, CliError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.open().await?,
        };
        let mut count = 0;
        for at in 0..open.places.len() {
            let (next, written) = self.follow(open, at).await?;
            open = next;
            count += written;
        }
        self.heads.rebuild(&*self.engine, self.clock.now()).await?;
        self.open = Some(open);
        Ok(count)
    }

    /// Signs the heads of sessions that grew long enough ago or by enough; all that grew when this
    /// is the end.
    ///
    /// # Errors
    /// When nobody can sign, or the log cannot be written.
    pub(crate) async fn sign(&mut self, is_end: bool) -> Result<(), CliError> {
        // Without an open log nothing is signed: nobody would keep it.
        while self.open.is_some() {
            let now = self.clock.now();
            let signed = self.heads.sign(now, is_end)?;
            if signed.is_empty() {
                self.note_signed(false);
                let away = self.heads.away();
                if is_end && away > 0 {
                    // What is signed makes room for those that wait.
                    self.heads.rebuild(&*self.engine, now).await?;
                    if self.heads.away() < away {
                        continue;
                    }
                }
                return Ok(());
            }
            let Some(Open { log, places, signed: noted }) = self.open.take() else {
                return Ok(());
            };
            let (log, signed) = write(log, move |log| {
                signed.iter().try_for_each(|(_, head)| log.checkpoint(head, now))?;
                log.sync()?;
                Ok(signed)
            })
            .await?;
            self.heads.kept(&signed);
            self.open = Some(Open { log, places, signed: noted });
            self.note_signed(true);
            if !is_end {
                return Ok(());
            }
            self.heads.rebuild(&*self.engine, now).await?;
        }
        Ok(())
    }

    /// Notes up to where everything is signed for: after a signature, or when nothing waits for
    /// one. Where that cannot be kept, a later process looks at more than it has to.
    fn note_signed(&mut self, has_signed: bool) {
        let Some(Open { places, signed, .. }) = &mut self.open else { return };
        let next = places.first().map_or(Seq(1), |receipts| receipts.next);
        let from = self.heads.unsigned_from(next);
        if !has_signed && from != next {
            return;
        }
        if let Some(error) = signed.note_or_warn(from) {
            out::remark(&error.as_warning());
        }
    }

    async fn open(&mut self) -> Result<Open, CliError> {
        // What came into the log since, or before it was closed, was perhaps not noted.
        self.heads.doubt([], Seq(1));
        let dir = self.home.below("audit").below(self.workspace.as_str());
        dir.create()?;
        let path = dir.path().to_owned();
        let mut log = blocking(move || AuditLog::open(&path)).await?;
        let mut places = Vec::new();
        for stream in STREAMS {
            let place;
            (log, place) = self.place(log, stream).await?;
            places.push(place);
        }
        let [receipts, approvals]: [Place; 2] = places.try_into().map_err(|_| broken())?;
        let mut signed = Signed::load(&dir);
        self.find_unsigned(&mut signed, receipts.next).await?;
        Ok(Open { log, places: [receipts, approvals], signed })
    }

    /// Notes the sessions whose records an earlier process wrote before `next` and did not sign
    /// for: it was killed, or could not.
    async fn find_unsigned(&mut self, signed: &mut Signed, next: Seq) -> Result<(), CliError> {
        if next == Seq(1) {
            // All of it is read anew, and noted then. The note was of another stream, if any.
            return signed.note(Seq(1));
        }
        let from = signed.unsigned_from();
        if from >= next {
            return Ok(());
        }
        let stream = AuditStream::Receipts;
        let of = (stream, &self.workspace);
        let mut records = records(&*self.engine, of, from).await?;
        while let Some(stored) = records.next().await.transpose()? {
            if stored.seq >= next {
                break;
            }
            if let Ok(Address::Receipt { session, .. }) = Address::parse(&stored.frame.subject) {
                self.heads.overdue(session, stored.seq);
            }
        }
        Ok(())
    }

    /// Where a stream goes on: behind the last record in the log, if that is still the one at its
    /// position. Else the stream is another one, and is read from its beginning.
    async fn place(
        &self,
        log: AuditLog,
        stream: AuditStream,
    ) -> Result<(AuditLog, Place), CliError> {
        let begin = |known| Place { stream, next: Seq(1), known };
        let Some(AuditMark { seq, hash }) = log.last(stream) else {
            return Ok((log, begin(HashSet::new())));
        };
        let there = self.engine.read(name_of(stream)?, Seq(seq)).await?;
        let there = there.map(|stored| AuditRecord::new(stream, &stored).hash());
        if there == Some(hash) {
            let next = Seq(seq.saturating_add(1));
            return Ok((log, Place { stream, next, known: HashSet::new() }));
        }
        let (workspace, name) = (&self.workspace, stream.name());
        out::remark(&format!(
            "audit log of {workspace}: the {name} here are of another stream than its last ones; \
             read from the beginning, and what is in it is not written again"
        ));
        // All its files are read.
        let (log, known) = write(log, move |log| log.hashes(stream)).await?;
        Ok((log, begin(known)))
    }

    /// Writes what is new in one stream.
    async fn follow(&mut self, mut open: Open, at: usize) -> Result<(Open, u64), CliError> {
        let Some(Place { stream, next, .. }) = open.places.get(at) else { return Ok((open, 0)) };
        let (stream, next) = (*stream, *next);
        let mut records = records(&*self.engine, (stream, &self.workspace), next).await?;
        let (mut count, mut is_over) = (0, false);
        while !is_over {
            let (mut batch, mut bytes) = (Vec::new(), 0);
            while batch.len() < BATCH_RECORDS && bytes < BATCH_BYTES {
                let Some(stored) = records.next().await else {
                    is_over = true;
                    break;
                };
                let record = AuditRecord::new(stream, &stored?);
                bytes += record.line().len();
                batch.push(record);
            }
            if batch.is_empty() {
                break;
            }
            count += batch.len() as u64;
            open = self.write_batch(open, at, batch).await?;
        }
        if let Some(place) = open.places.get_mut(at) {
            // Nothing that comes from now on can be in the log.
            place.known = HashSet::new();
        }
        Ok((open, count))
    }

    async fn write_batch(
        &mut self,
        open: Open,
        at: usize,
        batch: Vec<AuditRecord>,
    ) -> Result<Open, CliError> {
        let Open { log, mut places, signed } = open;
        let Some(place) = places.get_mut(at) else { return Ok(Open { log, places, signed }) };
        let (known, from) = (std::mem::take(&mut place.known), place.next);
        // The day is that of the writing of each record.
        let clock = Arc::clone(&self.clock);
        let sessions: BTreeSet<SessionId> = batch.iter().filter_map(session_of).collect();
        let written = write(log, move |log| {
            for record in batch.iter().filter(|record| !known.contains(&record.hash())) {
                log.append(record, clock.now())?;
            }
            log.sync()?;
            Ok((batch, known))
        })
        .await;
        // Some of the records may be there, and are not met again then.
        let (log, (batch, known)) = written.inspect_err(|_| self.heads.doubt(sessions, from))?;
        self.written = self.written.saturating_add(batch.len() as u64);
        place.known = known;
        if let Some(last) = batch.last() {
            place.next = Seq(last.mark().seq.saturating_add(1));
        }
        if place.stream == AuditStream::Receipts {
            self.heads.note(&batch, self.clock.now());
        }
        Ok(Open { log, places, signed })
    }
}

/// The first position among the receipts that may not be signed for, as the folder of an audit log
/// says it.
pub(crate) fn unsigned_from(dir: &Home) -> Seq {
    Signed::load(dir).unsigned_from()
}

/// What `stream` holds of `workspace` from `from` on.
///
/// # Errors
/// Those of the engine.
pub(crate) async fn records(
    engine: &dyn Engine,
    (stream, workspace): (AuditStream, &WorkspaceId),
    from: Seq,
) -> bus_core::Result<Replay> {
    engine.replay(name_of(stream)?, filter_of(stream, workspace), from).await
}

/// Writes what the streams hold and the log does not yet, where no daemon does it.
///
/// # Errors
/// Those of [`Audit::look`] and [`Audit::sign`].
pub(crate) async fn catch_up(
    home: &Home,
    workspace: &WorkspaceId,
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
) -> Result<(), CliError> {
    let is_there = home.below("audit").below(workspace.as_str()).exists();
    if !is_there && !has_records(&*engine, workspace).await? {
        return Ok(());
    }
    let mut audit = Audit::new(home, workspace.clone(), engine, clock);
    audit.look().await?;
    audit.sign(true).await
}

async fn has_records(engine: &dyn Engine, workspace: &WorkspaceId) -> Result<bool, CliError> {
    for stream in STREAMS {
        let mut records = records(engine, (stream, workspace), Seq(1)).await?;
        if records.next().await.transpose()?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn name_of(stream: AuditStream) -> bus_core::Result<StreamName> {
    match stream {
        AuditStream::Receipts => planes::receipts_stream(),
        AuditStream::Approvals => planes::approvals_stream(),
    }
}

fn filter_of(stream: AuditStream, workspace: &WorkspaceId) -> Filter {
    match stream {
        AuditStream::Receipts => AddressKind::Receipt.filter(Some(workspace)),
        AuditStream::Approvals => AddressKind::Approval.filter(Some(workspace)),
    }
}

/// Has the log written on a thread where waiting for the disk delays nobody. After a failure it is
/// closed: it is looked at anew when it is opened again.
async fn write<T: Send + 'static>(
    mut log: AuditLog,
    work: impl FnOnce(&mut AuditLog) -> Result<T, AuditError> + Send + 'static,
) -> Result<(AuditLog, T), CliError> {
    blocking(move || {
        let done = work(&mut log)?;
        for (path, _) in log.take_mended() {
            tracing::info!(path = %path.display(), "the end of an audit file was mended");
        }
        Ok((log, done))
    })
    .await
}

#[expect(clippy::disallowed_methods, reason = "the command line is one of the places that spawn")]
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AuditError> + Send + 'static,
) -> Result<T, CliError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| failed(&error)),
        Err(_) => Err(broken()),
    }
}

#[cfg(test)]
mod tests;
