//! The heads of sessions' logs: signed after so many receipts, after so long, and at the end.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use bus_core::{Engine, Seq, planes};
use bus_envelope::{ChainHead, Timestamp};
use bus_evidence::{AuditRecord, AuditStream, Checkpoint, SessionHead};
use bus_subjects::{Address, Filter, SessionId, WorkspaceId};

use crate::{
    error::{CliError, Exit},
    home::Home,
    workspace::{Part, Workspace},
};

/// The heads of the sessions that grew last.
pub(super) struct Heads {
    home: Home,
    workspace: WorkspaceId,
    heads: HashMap<SessionId, Head>,
    /// Sessions that grew and whose head is not in memory.
    missing: BTreeMap<SessionId, Missing>,
    /// How many are held.
    pub(super) max: usize,
}

/// What is known of a head that is not in memory.
#[derive(Clone, Copy)]
struct Missing {
    /// The first record that may not be signed for.
    from: Seq,
    /// It waits since before this process began.
    is_overdue: bool,
}

/// The head of one session.
struct Head {
    log: SessionHead,
    /// The last record that is in it.
    seen: Seq,
    /// The end of its chain, which the next entry follows.
    end: Option<ChainHead>,
    /// How many entries were signed for last.
    signed: u64,
    /// Since when something is not signed for, and its first record.
    waits: Option<(Timestamp, Seq)>,
    /// When it grew last.
    grew: Timestamp,
    /// A record cannot stand in it, so that nobody can make the same log of the stream.
    is_broken: bool,
}

/// After how many receipts a head is signed.
const EVERY_RECEIPTS: u64 = 256;

/// After how long a head that grew is signed.
const EVERY: Duration = Duration::from_secs(60);

/// How many heads are held, some hundred bytes each; the others are made again from the stream when
/// they grow, which reads the whole session.
const HEADS_MAX: usize = 8192;

impl Heads {
    pub(super) fn new(home: Home, workspace: WorkspaceId) -> Self {
        Self { home, workspace, heads: HashMap::new(), missing: BTreeMap::new(), max: HEADS_MAX }
    }

    /// Notes records that are new in the stream. A head that they do not go on from lacks
    /// something, and is made again.
    pub(super) fn note(&mut self, batch: &[AuditRecord], now: Timestamp) {
        for record in batch {
            let Some(session) = session_of(record) else { continue };
            match self.heads.get_mut(&session) {
                Some(head) if head.goes_on_with(record) => head.add(record, now),
                _ => {
                    let from = self.heads.remove(&session).and_then(|head| head.waits);
                    let at = Seq(record.mark().seq);
                    self.miss(session, from.map_or(at, |(_, from)| from), false);
                }
            }
        }
    }

    /// Notes that a session has records in the audit log, the first of them at `from`, that an
    /// earlier process may have left without a signature.
    pub(super) fn overdue(&mut self, session: SessionId, from: Seq) {
        self.miss(session, from, true);
    }

    /// Has the heads that are held, and those of the sessions `more` from `from` on, made again
    /// from the stream: records may have come into the audit log that were not noted.
    pub(super) fn doubt(&mut self, more: impl IntoIterator<Item = SessionId>, from: Seq) {
        // One that is signed for as it is is made again when it grows.
        for (session, head) in std::mem::take(&mut self.heads) {
            if let Some((_, from)) = head.waits {
                self.miss(session, from, false);
            }
        }
        for session in more {
            self.miss(session, from, false);
        }
    }

    /// The first position from which on something may not be signed for, when everything before
    /// `next` was noted.
    pub(super) fn unsigned_from(&self, next: Seq) -> Seq {
        let missing = self.missing.values().map(|missing| missing.from);
        let waiting = self.heads.values().filter_map(|head| head.waits.map(|(_, from)| from));
        missing.chain(waiting).min().map_or(next, |first| first.min(next))
    }

    /// Makes the heads that are missing from what the stream holds.
    ///
    /// # Errors
    /// When the stream cannot be read; the rest is made the next time.
    pub(super) async fn rebuild(
        &mut self,
        engine: &dyn Engine,
        now: Timestamp,
    ) -> Result<(), CliError> {
        // Those beyond would push each other out; they are made when they are to be signed.
        while self.heads.len() < self.max || self.has_signed() {
            let first = self.missing.first_key_value();
            let Some((session, missing)) = first.map(|(session, it)| (session.clone(), *it)) else {
                return Ok(());
            };
            let mut head = self.read(engine, &session, now).await?;
            self.missing.remove(&session);
            head.waits = head.waits.map(|(since, _)| match missing.is_overdue {
                true => (Timestamp::from_unix_ns(0), missing.from),
                false => (since, missing.from),
            });
            if self.heads.len() >= self.max {
                self.forget_one();
            }
            self.heads.insert(session, head);
        }
        Ok(())
    }

    /// Signs what is due, or at the end everything that grew. It stays due until it is
    /// [kept](Self::kept).
    ///
    /// # Errors
    /// When the auditor of the workspace cannot be made or read.
    pub(super) fn sign(
        &self,
        now: Timestamp,
        is_end: bool,
    ) -> Result<Vec<(SessionId, Checkpoint)>, CliError> {
        // Others wait for a place: what is here makes room at once.
        let is_crowded = self.away() > 0;
        let due = |(_, head): &(_, &Head)| head.is_due(now, is_end || is_crowded);
        let due: Vec<(&SessionId, &Head)> = self.heads.iter().filter(due).collect();
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let workspace = Workspace::open(&self.home, &self.workspace)?;
        let auditor = workspace.identity(&workspace.actor(None, Part::Auditor)?)?;
        let mut signed = Vec::with_capacity(due.len());
        for (session, head) in due {
            let checkpoint = head.log.checkpoint(&auditor).map_err(|error| {
                CliError::new(Exit::Failed, format!("no checkpoint is signed: {error}"))
            })?;
            signed.push((session.clone(), checkpoint));
        }
        Ok(signed)
    }

    /// Notes that these checkpoints, the last that were signed, are on the disk.
    pub(super) fn kept(&mut self, signed: &[(SessionId, Checkpoint)]) {
        for (session, checkpoint) in signed {
            if let Some(head) = self.heads.get_mut(session) {
                (head.signed, head.waits) = (checkpoint.size(), None);
            }
        }
    }

    /// How many sessions grew whose head is not in memory.
    pub(super) fn away(&self) -> usize {
        self.missing.len()
    }

    fn miss(&mut self, session: SessionId, from: Seq, is_overdue: bool) {
        let missing = self.missing.entry(session).or_insert(Missing { from, is_overdue });
        missing.from = missing.from.min(from);
        missing.is_overdue |= is_overdue;
    }

    fn has_signed(&self) -> bool {
        self.heads.values().any(|head| head.waits.is_none())
    }

    /// Forgets the head that has not grown for the longest time, of those that are signed for.
    fn forget_one(&mut self) {
        let signed = self.heads.iter().filter(|(_, head)| head.waits.is_none());
        let oldest = signed.min_by_key(|(_, head)| head.grew).map(|(session, _)| session.clone());
        if let Some(session) = oldest {
            self.heads.remove(&session);
        }
    }

    async fn read(
        &self,
        engine: &dyn Engine,
        session: &SessionId,
        now: Timestamp,
    ) -> Result<Head, CliError> {
        let mut head = Head {
            log: SessionHead::receipts(&self.workspace, session),
            seen: Seq(0),
            end: None,
            signed: 0,
            waits: None,
            grew: now,
            is_broken: false,
        };
        let (workspace, session) = (self.workspace.clone(), session.clone());
        let filter = Filter::from(&Address::Receipt { workspace, session }.subject());
        let mut records = engine.replay(planes::receipts_stream()?, filter, Seq(1)).await?;
        while let Some(stored) = records.next().await {
            head.add(&AuditRecord::new(AuditStream::Receipts, &stored?), now);
        }
        Ok(head)
    }
}

impl Head {
    /// Whether nothing is left out between the head and this record, as far as the record tells.
    fn goes_on_with(&self, record: &AuditRecord) -> bool {
        let is_next = || match (record.envelope(), &self.end) {
            (Some(envelope), Some(end)) => end.is_followed_by(envelope),
            (Some(_), None) => false,
            // It cannot stand in the log anyhow.
            (None, _) => true,
        };
        self.is_broken || Seq(record.mark().seq) <= self.seen || is_next()
    }

    fn add(&mut self, record: &AuditRecord, now: Timestamp) {
        let seq = Seq(record.mark().seq);
        if seq <= self.seen {
            return;
        }
        self.seen = seq;
        let added = record.envelope().map(|envelope| self.log.append(envelope));
        self.is_broken |= !matches!(added, Some(Ok(_)));
        self.end = record.envelope().map(|one| ChainHead::of_leaf(one, record.hash()));
        self.waits = if self.is_broken { None } else { self.waits.or(Some((now, seq))) };
        self.grew = now;
    }

    fn is_due(&self, now: Timestamp, is_now: bool) -> bool {
        let grown = self.log.size().saturating_sub(self.signed);
        let waits = self.waits.map(|(since, _)| now.since(since));
        waits.is_some_and(|waits| is_now || grown >= EVERY_RECEIPTS || waits >= EVERY)
    }
}

/// The session of a record, also of one that cannot stand in a log; none of what is no receipt.
pub(super) fn session_of(record: &AuditRecord) -> Option<SessionId> {
    match Address::parse(record.subject()) {
        Ok(Address::Receipt { session, .. }) => Some(session),
        _ => None,
    }
}
