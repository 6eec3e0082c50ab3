//! Keeps what a session says live: hears it, and stores it in batches that have a bound.

use std::{num::NonZeroUsize, time::Duration};

use bus_core::{Endpoint, Error, ErrorKind, EventFeed, Incoming, Outcome, Overflow, Result, Stop};
use bus_envelope::{Draft, MessageEnvelope};
use bus_subjects::{Filter, SessionId, Subject};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    Batch, Pushed, RecordingKind, RecordingKinds,
    shelf::{NUMBER, Shelf, number_and_life},
};

/// A recorder that hears a session and has not begun to store what it hears.
///
/// It records by subject, whatever the type of an event is. It hears as any other subscriber does
/// and slows nobody: what it is too slow for is dropped, counted, and stands in the recording as a
/// gap. One recorder keeps a session: a newer one takes over, and the older one ends when it stores
/// the next time. What both stored is shown once.
#[must_use = "nothing is stored before it runs"]
pub struct Recorder {
    endpoint: Endpoint,
    session: SessionId,
    flush: Duration,
    tracks: Vec<Track>,
    shelf: Mutex<Shelf>,
}

/// What is recorded, and how much of it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingPolicy {
    /// What is recorded.
    pub kinds: RecordingKinds,
    /// How many bytes are kept of the session; beyond it the oldest batches go. The newest batch
    /// stays, whatever its size.
    pub bytes_max: u64,
    /// How long an event may wait to be stored.
    pub flush: Duration,
}

/// What a recorder did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Events that were stored; checkpoints are stored as well, and not counted.
    pub events: u64,
    /// Events, and checkpoints, that were not: dropped because the recorder was too slow, or too
    /// large.
    pub missed: u64,
    /// Messages that were refused: damaged, forged, or sealed under a key that is not known here.
    pub refused: u64,
    /// Batches that were stored.
    pub batches: u64,
    /// Batches that were removed to keep the bound.
    pub discarded: u64,
}

/// One kind of event, on its way.
struct Track {
    kind: RecordingKind,
    kept: Subject,
    feed: EventFeed,
    batch: Batch,
    /// How many events are in it, without checkpoints.
    events: u64,
    /// When the batch has to be stored.
    due: Option<Instant>,
    /// The number of the next batch.
    number: u64,
    recorded: Recorded,
}

impl RecordingPolicy {
    /// How long an event waits to be stored unless somebody says otherwise.
    pub const FLUSH: Duration = Duration::from_millis(500);

    /// How much is kept unless somebody says otherwise: 64 MiB.
    pub const BYTES_MAX: u64 = 64 << 20;
}

impl Default for RecordingPolicy {
    fn default() -> Self {
        Self { kinds: RecordingKinds::ALL, bytes_max: Self::BYTES_MAX, flush: Self::FLUSH }
    }
}

impl Recorder {
    /// Begins to hear `session`, and finds what an earlier recorder has stored of it: the recording
    /// goes on from there.
    ///
    /// # Errors
    /// `Denied` unless the agent may hear the session (an observer) and keep recordings (a keeper);
    /// `NotFound` when their stream is not declared; `Closed`, `Unavailable`, `Timeout`.
    pub async fn start(
        endpoint: Endpoint,
        session: SessionId,
        policy: RecordingPolicy,
    ) -> Result<Self> {
        let RecordingPolicy { kinds, bytes_max, flush } = policy;
        let workspace = endpoint.workspace().clone();
        let mut tracks = Vec::new();
        for kind in kinds.iter() {
            let heard = Filter::from(&kind.live(&workspace, &session));
            let overflow = Overflow::DropOldest { capacity: WAITING_MAX };
            tracks.push(Track {
                kind,
                kept: kind.kept(&workspace, &session)?,
                feed: endpoint.subscribe(heard, overflow).await?,
                batch: Batch::new(),
                events: 0,
                due: None,
                number: 1,
                recorded: Recorded::default(),
            });
        }
        let (shelf, numbers) = Shelf::find(endpoint.clone(), &session, kinds, bytes_max).await?;
        for track in &mut tracks {
            let last = numbers.iter().find(|(kind, _)| *kind == track.kind);
            track.number = last.map_or(0, |(_, last)| *last).saturating_add(1);
        }
        Ok(Self { endpoint, session, flush, tracks, shelf: Mutex::new(shelf) })
    }

    /// Records until `stop.drain` is cancelled: what was published before is stored then. An
    /// engine that is away or has no room is waited for, at the end for five seconds, and not at
    /// all once `stop.now` is cancelled: then it ends within a second. Only where the stream holds
    /// as many batches as it may, the oldest of all sessions go.
    ///
    /// Dropping the future loses what was not stored, half a second as a rule.
    ///
    /// # Errors
    /// `Conflict` when a newer recorder keeps the session; `Denied`; `Full` when there
    /// is no room at the end; `Timeout` when it was told to stop at once; `Closed`; those of
    /// [`Endpoint::send`]. What was stored stays.
    pub async fn run(self, stop: &Stop) -> Result<Recorded> {
        let Self { endpoint, session, flush, tracks, shelf } = self;
        let work = Work { endpoint: &endpoint, session: &session, flush, shelf: &shelf, stop };
        let mut tracks = tracks.into_iter();
        let (first, second) = (tracks.next(), tracks.next());
        let recording = async { tokio::try_join!(work.record(first), work.record(second)) };
        let hurried = async {
            stop.now.cancelled().await;
            sleep(HURRY).await;
        };
        let (first, second) = tokio::select! {
            biased;
            recorded = recording => recorded?,
            () = hurried => {
                let detail = "told to stop at once: the last part may not be stored";
                return Err(Error::new(ErrorKind::Timeout, "record", detail));
            }
        };
        Ok(Recorded {
            events: first.events + second.events,
            missed: first.missed.saturating_add(second.missed),
            refused: first.refused + second.refused,
            batches: first.batches + second.batches,
            discarded: shelf.into_inner().discarded(),
        })
    }
}

/// What the tracks share.
struct Work<'a> {
    endpoint: &'a Endpoint,
    session: &'a SessionId,
    flush: Duration,
    shelf: &'a Mutex<Shelf>,
    stop: &'a Stop,
}

impl Work<'_> {
    async fn record(&self, track: Option<Track>) -> Result<Recorded> {
        let Some(mut track) = track else { return Ok(Recorded::default()) };
        loop {
            let due = track.due;
            let is_due = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            let item = tokio::select! {
                biased;
                () = self.stop.drain.cancelled() => break,
                () = is_due => {
                    self.store(&mut track).await?;
                    continue;
                }
                item = track.feed.next() => item,
            };
            let Some(item) = item else { break };
            self.take(&mut track, item).await?;
        }
        // What was published before the end is on its way at most.
        let until = Instant::now() + LINGER_MAX;
        while Instant::now() < until
            && let Ok(Some(item)) = timeout(LINGER, track.feed.next()).await
        {
            self.take(&mut track, item).await?;
        }
        self.store(&mut track).await?;
        Ok(track.recorded)
    }

    async fn take(&self, track: &mut Track, item: Incoming) -> Result<()> {
        match item {
            Incoming::Message(opened) => {
                let is_kept = self.keep(track, &opened.envelope).await?;
                track.events += u64::from(is_kept);
            }
            Incoming::Checkpoint(checkpoint) => {
                self.keep(track, &checkpoint.opened.envelope).await?;
            }
            Incoming::Gap { missed } => self.miss(track, missed).await?,
            Incoming::Refused(error) => {
                track.recorded.refused += 1;
                tracing::warn!(kind = %track.kind, %error, "an event is not recorded");
            }
        }
        track.due = match (track.batch.is_empty(), track.due) {
            (true, _) => None,
            (false, due) => Some(due.unwrap_or_else(|| Instant::now() + self.flush)),
        };
        Ok(())
    }

    /// Takes an event into the batch; says whether one holds it.
    async fn keep(&self, track: &mut Track, envelope: &MessageEnvelope) -> Result<bool> {
        loop {
            match track.batch.push(envelope) {
                Pushed::Taken => return Ok(true),
                Pushed::Full => self.store(track).await?,
                Pushed::TooLarge => return self.miss(track, 1).await.map(|()| false),
            }
        }
    }

    async fn miss(&self, track: &mut Track, missed: u64) -> Result<()> {
        while !track.batch.gap(missed) {
            self.store(track).await?;
        }
        Ok(())
    }

    /// Stores the batch, if there is something in it, and begins a new one.
    async fn store(&self, track: &mut Track) -> Result<()> {
        track.due = None;
        if track.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut track.batch);
        let (count, missed) = (batch.events(), batch.missed());
        let events = std::mem::take(&mut track.events);
        let payload = batch.encode();
        let mut draft = Draft::new(track.kept.clone(), Batch::EVENT_TYPE, payload)
            .content_type(Batch::CONTENT_TYPE)
            .session(self.session.clone())
            .extension("count", count.to_string())?
            .extension("missed", missed.to_string())?;
        let mut tries = Tries::default();
        loop {
            // One id for each place: what an earlier try has stored is not stored again.
            draft = draft.extension(NUMBER, track.number.to_string())?;
            draft.id = Some(format!("{}.{}.{}", self.session, track.kind, track.number));
            let error = match self.endpoint.send(draft.clone()).await {
                Ok(sent) => {
                    track.number += 1;
                    track.recorded.events += events;
                    track.recorded.missed = track.recorded.missed.saturating_add(missed);
                    track.recorded.batches += 1;
                    let mut shelf = self.shelf.lock().await;
                    shelf.put(sent.receipt.seq, sent.frame.bytes() as u64);
                    return trimmed(shelf.trim().await);
                }
                Err(error) => error,
            };
            match error.kind() {
                // What others recorded goes for this alone, not because the engine lacks a disk.
                ErrorKind::Full if error.is_stream_full() => {
                    let made = self.shelf.lock().await.make_room().await;
                    match made {
                        Err(error) if may_pass(&error) => self.wait(&mut tries, error).await?,
                        made => made?,
                    }
                }
                ErrorKind::Conflict if tries.taken < TAKEN_MAX => {
                    tries.taken += 1;
                    self.step_aside(track, error).await?;
                }
                ErrorKind::Full | ErrorKind::Unavailable | ErrorKind::Timeout => {
                    self.wait(&mut tries, error).await?;
                }
                _ => return Err(error),
            }
        }
    }

    /// Finds another number when somebody has taken the one that was next: a recorder that died,
    /// whose last batch came late, or that does not know yet of this one. A newer one takes over.
    async fn step_aside(&self, track: &mut Track, taken: Error) -> Result<()> {
        track.number += 1;
        let Some(last) = self.endpoint.last(track.kept.clone()).await? else { return Ok(()) };
        let Some((number, life)) = number_and_life(&last.frame) else { return Ok(()) };
        if life > self.endpoint.incarnation() {
            let detail = "a newer recorder keeps this session now: this one ends";
            let error = Error::new(ErrorKind::Conflict, "record", detail).because(taken);
            return Err(error.at(&track.kept));
        }
        track.number = track.number.max(number.saturating_add(1));
        Ok(())
    }

    /// Waits for an engine that is away or has no room.
    async fn wait(&self, tries: &mut Tries, error: Error) -> Result<()> {
        if std::mem::replace(&mut tries.is_told, true) {
            tracing::debug!(%error, "the engine is still away or full");
        } else {
            tracing::warn!(%error, "a part of the recording is not stored yet: trying again");
        }
        let patience = async {
            self.stop.drain.cancelled().await;
            sleep(PATIENCE).await;
        };
        tokio::select! {
            biased;
            () = self.stop.now.cancelled() => Err(error),
            () = patience => Err(error),
            () = sleep(AWAY) => {
                tries.away += 1;
                match self.stop.drain.is_cancelled() && tries.away > AWAY_MAX {
                    true => Err(error),
                    false => Ok(()),
                }
            }
        }
    }
}

/// What was tried to store one batch.
#[derive(Default)]
struct Tries {
    /// How often the number was taken.
    taken: u32,
    /// How often the engine was away.
    away: u32,
    is_told: bool,
}

/// What could not be removed now is removed with the next batch.
fn trimmed(trimmed: Result<()>) -> Result<()> {
    match trimmed {
        Err(error) if may_pass(&error) => {
            tracing::warn!(%error, "the oldest part of a recording is not removed yet");
            Ok(())
        }
        trimmed => trimmed,
    }
}

/// Whether the same may succeed another time.
fn may_pass(error: &Error) -> bool {
    error.outcome() == Outcome::Unknown
        || matches!(error.kind(), ErrorKind::Full | ErrorKind::Unavailable | ErrorKind::Timeout)
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("session", &self.session).finish_non_exhaustive()
    }
}

/// How many events of each kind may wait for the recorder.
const WAITING_MAX: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// How long nothing has to come until nothing more is expected at the end, and how long it is
/// waited for at most.
const LINGER: Duration = Duration::from_millis(200);
const LINGER_MAX: Duration = Duration::from_secs(2);

/// How long an engine that is away is left alone, and waited for at the end.
const AWAY: Duration = Duration::from_secs(1);
const AWAY_MAX: u32 = 5;
const PATIENCE: Duration = Duration::from_secs(5);

/// How long an answer is waited for by who has to stop at once.
const HURRY: Duration = Duration::from_secs(1);

/// How many numbers are tried that somebody has taken.
const TAKEN_MAX: u32 = 64;
