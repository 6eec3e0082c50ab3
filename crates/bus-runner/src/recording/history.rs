//! What a recording holds of the last moments, checked as if it were heard live.

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use bus_core::{
    Endpoint, Error, ErrorKind, Frame, FrameId, LiveCheckpoint, LiveLimits, LiveVerifier, Opened,
    Result, Seq, Standing, Stored, planes,
};
use bus_envelope::{EventHash, Timestamp, WireForm, wire::compact};
use bus_subjects::{Address, Filter, SessionId, Subject};
use bytes::Bytes;

use super::{Batch, BatchItem, RecordingKind, RecordingKinds};

/// The recording of one session, as an agent may read it.
#[derive(Debug, Clone)]
pub struct History {
    endpoint: Endpoint,
    session: SessionId,
}

/// How much of the past is wanted: the newest events that keep all three limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The most bytes of plain payloads.
    pub bytes: u64,
    /// The most events; checkpoints are not counted.
    pub events: u64,
    /// The longest time since an event was made; `None`: however long.
    pub age: Option<Duration>,
}

/// A part of the past, oldest first.
#[derive(Debug, Default)]
pub struct Past {
    /// Everything that was read: the window, and behind it what stands in the same batches.
    pub items: VecDeque<PastItem>,
    /// Where the window begins in `items`.
    pub begin: usize,
    /// The newest batch that was read of each kind.
    pub read: Vec<(RecordingKind, Seq)>,
}

/// What a recording holds.
#[derive(Debug)]
pub enum PastItem {
    /// An event that was checked and opened, with what stands behind it by all that was read.
    Message(Box<Opened>),
    /// A checkpoint of a sender, which has a place in its chain.
    Checkpoint(Box<Opened>),
    /// The recorder was too slow here.
    Gap {
        /// On which subject.
        subject: Subject,
        /// How many events are missing; at least 1.
        missed: u64,
    },
    /// What is damaged, forged, or cannot be opened here.
    Refused(Error),
}

/// How much was read, measured by a window.
#[derive(Debug, Clone, Copy, Default)]
struct Measure {
    bytes: u64,
    events: u64,
    /// Whether something is older than the window reaches.
    reaches: bool,
}

/// An item with the time by which it is put among those of other kinds.
struct Timed {
    time: Timestamp,
    item: PastItem,
}

impl Default for Window {
    /// 64 KiB or 500 events, whichever is less.
    fn default() -> Self {
        Self { bytes: 64 * 1024, events: 500, age: None }
    }
}

impl Window {
    /// Whether nothing fits into it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0 || self.events == 0
    }

    fn is_exceeded_by(&self, age: Duration) -> bool {
        self.age.is_some_and(|age_max| age > age_max)
    }
}

impl Measure {
    fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            events: self.events.saturating_add(other.events),
            reaches: self.reaches || other.reaches,
        }
    }

    /// Without the oldest part: what is left reaches less far.
    fn without(self, oldest: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(oldest.bytes),
            events: self.events.saturating_sub(oldest.events),
            reaches: false,
        }
    }

    fn fills(self, window: Window) -> bool {
        self.reaches || self.bytes >= window.bytes || self.events >= window.events
    }
}

impl History {
    /// The recording of `session` in the endpoint's workspace.
    #[must_use]
    pub const fn new(endpoint: Endpoint, session: SessionId) -> Self {
        Self { endpoint, session }
    }

    /// The newest events of `kinds`. Without a recording there are none.
    ///
    /// The recording is read backwards in growing steps, so that a long one costs little more than
    /// what is wanted of it.
    ///
    /// # Errors
    /// `Denied` when the agent may not read recordings; `NotFound` when their stream is not
    /// declared; `Closed`, `Unavailable`, `Timeout`.
    pub async fn last(&self, kinds: RecordingKinds, window: Window) -> Result<Past> {
        let mut past = Past::default();
        let mut all = VecDeque::new();
        for kind in kinds.iter() {
            let subject = self.kept(kind)?;
            let Some(newest) = self.endpoint.last(subject).await? else { continue };
            past.read.push((kind, newest.seq));
            all = merged(all, self.back_from(kind, newest.seq, window).await?);
        }
        past.items = all.into_iter().map(|timed| timed.item).collect();
        judge(&mut past.items);
        past.begin = self.begin(&past.items, window);
        Ok(past)
    }

    /// What was recorded of `kinds` behind what `past` has read.
    ///
    /// # Errors
    /// As [`History::last`].
    pub async fn since(&self, kinds: RecordingKinds, past: &Past) -> Result<Past> {
        let mut more = Past::default();
        let mut all = VecDeque::new();
        for kind in kinds.iter() {
            let known = past.read.iter().find(|(read, _)| *read == kind).map(|(_, seq)| seq.0);
            let from = known.unwrap_or(0).saturating_add(1);
            let (found, newest) = self.read(kind, (from, u64::MAX), None).await?;
            if let Some(newest) = newest.or(known.map(Seq)) {
                more.read.push((kind, newest));
            }
            all = merged(all, found);
        }
        more.items = all.into_iter().map(|timed| timed.item).collect();
        judge(&mut more.items);
        Ok(more)
    }

    /// Reads backwards from `newest` until `window` is filled.
    async fn back_from(
        &self,
        kind: RecordingKind,
        newest: Seq,
        window: Window,
    ) -> Result<VecDeque<Timed>> {
        let (mut found, mut measure) = (VecDeque::new(), Measure::default());
        let (mut end, mut step) = (newest.0, 2);
        while end > 0 && !measure.fills(window) {
            let begin = end.saturating_sub(step).saturating_add(1).max(1);
            let (mut before, _) = self.read(kind, (begin, end), Some(window)).await?;
            measure = measure.and(self.measure(&before, window));
            before.append(&mut found);
            found = before;
            end = begin.saturating_sub(1);
            step = step.saturating_mul(4);
        }
        Ok(found)
    }

    /// Opens the batches at positions `from` to `end`, and says where the last of them is. Of many
    /// only the newest that fill `window` are held.
    async fn read(
        &self,
        kind: RecordingKind,
        (from, end): (u64, u64),
        window: Option<Window>,
    ) -> Result<(VecDeque<Timed>, Option<Seq>)> {
        let stream = planes::recordings_stream(self.endpoint.workspace())?;
        let filter = Filter::from(&self.kept(kind)?);
        let mut stored = self.endpoint.replay_from(stream, filter, Seq(from)).await?;
        let (mut batches, mut newest) = (VecDeque::new(), None);
        let mut all = Measure::default();
        while let Some(batch) = stored.next().await {
            let batch = batch?;
            if batch.seq.0 > end {
                break;
            }
            newest = Some(batch.seq);
            let items = self.open(kind, &batch);
            let own = window.map(|window| self.measure(&items, window)).unwrap_or_default();
            all = all.and(own);
            batches.push_back((items, own));
            // What is behind the first one fills the window without it.
            while let (Some(window), Some((_, first))) = (window, batches.front())
                && all.without(*first).fills(window)
            {
                all = all.without(*first);
                batches.pop_front();
            }
        }
        Ok((batches.into_iter().flat_map(|(items, _)| items).collect(), newest))
    }

    /// What one stored batch holds, whichever session and kind it is of: each event is opened as if
    /// it were heard live, with the standing that it has by itself. Checkpoints of other batches
    /// are not looked at.
    #[must_use]
    pub fn of_batch(endpoint: &Endpoint, stored: &Stored) -> Vec<PastItem> {
        let kept = Address::parse(&stored.frame.subject);
        let (kind, session) = match kept.ok().and_then(RecordingKind::of) {
            Some(known) => known,
            None => {
                let detail = "the stored message is no part of a recording";
                return vec![PastItem::Refused(corrupt(&stored.frame.subject, detail))];
            }
        };
        let history = Self::new(endpoint.clone(), session);
        history.open(kind, stored).into_iter().map(|timed| timed.item).collect()
    }

    /// What a stored batch holds. One that cannot be read is told as such.
    fn open(&self, kind: RecordingKind, stored: &Stored) -> Vec<Timed> {
        let items = self.endpoint.open(&stored.frame).and_then(|opened| {
            if opened.envelope.event_type != Batch::EVENT_TYPE {
                let detail = "the stored message is no part of a recording";
                return Err(corrupt(&stored.frame.subject, detail));
            }
            Batch::decode(&opened.payload)
                .map_err(|error| corrupt(&stored.frame.subject, error.to_string()).because(error))
        });
        let live = kind.live(self.endpoint.workspace(), &self.session);
        let mut time = stored.time;
        match items {
            Err(error) => vec![Timed { time, item: PastItem::Refused(error) }],
            Ok(items) => items
                .into_iter()
                .map(|item| {
                    let item = match item {
                        BatchItem::Gap { missed } => {
                            PastItem::Gap { subject: live.clone(), missed }
                        }
                        BatchItem::Envelope(bytes) => self.open_event(&live, bytes),
                    };
                    if let Some(envelope) = item.opened().map(|opened| &opened.envelope) {
                        time = envelope.time;
                    }
                    Timed { time, item }
                })
                .collect(),
        }
    }

    /// Opens an event as if it came live on `subject`.
    fn open_event(&self, subject: &Subject, bytes: Bytes) -> PastItem {
        let opened = compact::view(&bytes)
            .map_err(|error| corrupt(subject, error.to_string()).because(error))
            .and_then(|view| FrameId::parse(view.id()))
            .and_then(|id| {
                let mut frame = Frame::new(subject.clone(), id, bytes.clone());
                frame.headers = WireForm::Compact.headers();
                self.endpoint.open(&frame)
            });
        match opened {
            Err(error) => PastItem::Refused(error),
            Ok(opened) if LiveCheckpoint::is_meant_by(&opened.envelope) => {
                PastItem::Checkpoint(Box::new(opened))
            }
            Ok(opened) => PastItem::Message(Box::new(opened)),
        }
    }

    /// Where `window` begins in `items`.
    fn begin(&self, items: &VecDeque<PastItem>, window: Window) -> usize {
        let now = self.endpoint.clock().now();
        let (mut bytes, mut events) = (0_u64, 0_u64);
        let mut begin = items.len();
        for (at, item) in items.iter().enumerate().rev() {
            if let PastItem::Message(opened) = item {
                bytes = bytes.saturating_add(opened.payload.len() as u64);
                events += 1;
                let is_old = window.is_exceeded_by(now.since(opened.envelope.time));
                if is_old || bytes > window.bytes || events > window.events {
                    return begin;
                }
            }
            begin = at;
        }
        begin
    }

    fn measure<'a>(&self, items: impl IntoIterator<Item = &'a Timed>, window: Window) -> Measure {
        let mut measure = Measure::default();
        let now = self.endpoint.clock().now();
        for Timed { item, .. } in items {
            let PastItem::Message(opened) = item else { continue };
            measure.bytes = measure.bytes.saturating_add(opened.payload.len() as u64);
            measure.events += 1;
            measure.reaches |= window.is_exceeded_by(now.since(opened.envelope.time));
        }
        measure
    }

    fn kept(&self, kind: RecordingKind) -> Result<Subject> {
        Ok(kind.kept(self.endpoint.workspace(), &self.session)?)
    }
}

impl PastItem {
    /// The event or checkpoint.
    fn opened(&self) -> Option<&Opened> {
        match self {
            Self::Message(opened) | Self::Checkpoint(opened) => Some(opened),
            Self::Gap { .. } | Self::Refused(_) => None,
        }
    }
}

/// Gives each event the standing that it has by all checkpoints that were read, and refuses those
/// in whose place their sender vouches for another.
fn judge(items: &mut VecDeque<PastItem>) {
    let mut live = LiveVerifier::new(LiveLimits::default());
    let (mut vouched, mut forged) = (HashSet::<EventHash>::new(), HashSet::<EventHash>::new());
    for item in items.iter() {
        match item {
            PastItem::Message(opened) if opened.standing == Standing::Sealed => {
                match live.event(&opened.envelope, opened.hash) {
                    Standing::Vouched => drop(vouched.insert(opened.hash)),
                    Standing::Contradicted => drop(forged.insert(opened.hash)),
                    Standing::Sealed | Standing::Signed => {}
                }
            }
            PastItem::Checkpoint(opened) => {
                let read = LiveCheckpoint::read(&opened.envelope, &opened.payload);
                let Ok(checkpoint) = read else { continue };
                let said = live.checkpoint(&opened.envelope, opened.hash, &checkpoint);
                vouched.extend(said.vouched);
                forged.extend(said.contradicted);
            }
            _ => {}
        }
    }
    for item in items {
        let PastItem::Message(opened) = item else { continue };
        if forged.contains(&opened.hash) {
            let detail = "its sender vouches for another message in its place";
            *item = PastItem::Refused(corrupt(&opened.envelope.subject, detail));
        } else if vouched.contains(&opened.hash) {
            opened.standing = Standing::Vouched;
        }
    }
}

/// Two kinds as one, by time; each keeps its order.
fn merged(mut one: VecDeque<Timed>, mut other: VecDeque<Timed>) -> VecDeque<Timed> {
    let mut all = VecDeque::with_capacity(one.len() + other.len());
    loop {
        let next = match (one.front(), other.front()) {
            (Some(first), Some(second)) if second.time < first.time => other.pop_front(),
            (None, _) => other.pop_front(),
            _ => one.pop_front(),
        };
        match next {
            Some(next) => all.push_back(next),
            None => return all,
        }
    }
}

fn corrupt(subject: &Subject, detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Corrupt, "recording", detail).at(subject)
}
