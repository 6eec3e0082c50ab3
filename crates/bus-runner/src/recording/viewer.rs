//! A viewer who comes late: the last window of a recording first, then what is live, as one.

use std::{collections::VecDeque, num::NonZeroUsize, pin::pin, task::Poll};

use bus_core::{Endpoint, Error, ErrorKind, EventFeed, Incoming, Opened, Overflow, Result};
use bus_subjects::{Filter, SessionId, Subject};
use tokio::time::{Instant, sleep_until};

use super::{
    History, Past, PastItem, RecordingKind, RecordingKinds, RecordingPolicy, Splice, Spliced,
    Window,
};

/// What a session said and says: past events, then live ones, none of them twice.
///
/// It subscribes before it reads, so nothing is between the two. What a recorder has not stored yet
/// is looked for once more when the live events show that something is missing.
pub struct Viewer {
    history: History,
    kinds: RecordingKinds,
    window: Window,
    feeds: Vec<Live>,
    splice: Splice,
    /// What was read of the recording.
    past: Past,
    ready: VecDeque<Viewed>,
    past_events: u64,
    /// When a recorder has stored everything that it heard before the viewer came; none when it
    /// was looked for.
    settled: Option<Instant>,
    /// What waits for that.
    held: Option<Heard>,
}

/// One item of a view.
#[derive(Debug)]
pub enum Viewed {
    /// An event that was checked and opened.
    Message {
        /// The event; its standing is what is known by now.
        opened: Box<Opened>,
        /// Whether it comes from the recording.
        is_past: bool,
    },
    /// Events are missing here.
    Gap {
        /// How many; at least 1.
        missed: u64,
    },
    /// A message that was refused: damaged, forged, or sealed under a key that is not known here.
    Refused(Error),
}

/// A live event or checkpoint, and of which feed.
struct Heard {
    feed: usize,
    opened: Box<Opened>,
    is_shown: bool,
}

/// The live events of one kind.
struct Live {
    subject: Subject,
    feed: EventFeed,
    /// Whether an event was shown that came live: what was dropped before may be in the past.
    is_ahead: bool,
    /// How many events were dropped before that and were not told.
    untold: u64,
    has_ended: bool,
}

impl Viewer {
    /// Begins to hear `session`, and reads the last `window` of its recording; an empty window asks
    /// for none of it. Where nothing is recorded there is no past, and that is no error.
    ///
    /// # Errors
    /// `Denied` when the agent may not hear the session or read its recording; `Closed`,
    /// `Unavailable`, `Timeout`.
    pub async fn open(
        endpoint: Endpoint,
        session: SessionId,
        (kinds, window): (RecordingKinds, Window),
    ) -> Result<Self> {
        let mut feeds = Vec::new();
        for kind in kinds.iter() {
            let subject = RecordingKind::live(kind, endpoint.workspace(), &session);
            let overflow = Overflow::DropOldest { capacity: WAITING_MAX };
            let feed = endpoint.subscribe(Filter::from(&subject), overflow).await?;
            feeds.push(Live { subject, feed, is_ahead: false, untold: 0, has_ended: false });
        }
        let settled = Instant::now() + RecordingPolicy::FLUSH * 2;
        let history = History::new(endpoint, session);
        let mut viewer = Self {
            history,
            kinds,
            window,
            feeds,
            splice: Splice::new(),
            past: Past::default(),
            ready: VecDeque::new(),
            past_events: 0,
            settled: Some(settled),
            held: None,
        };
        if window.is_empty() {
            viewer.settled = None;
        } else {
            let past = viewer.read().await?;
            viewer.take_past(past);
        }
        Ok(viewer)
    }

    /// How many events of the past were found when it began.
    #[must_use]
    pub const fn past_events(&self) -> u64 {
        self.past_events
    }

    /// Whether anything is recorded of the session.
    #[must_use]
    pub fn has_recording(&self) -> bool {
        !self.past.read.is_empty()
    }

    /// The next item; `None` when the bus was closed. Cancel safe.
    pub async fn next(&mut self) -> Option<Viewed> {
        loop {
            if let Some(viewed) = self.ready.pop_front() {
                return Some(viewed);
            }
            if let (Some(settled), Some(_)) = (self.settled, &self.held) {
                self.look_again(settled).await;
                continue;
            }
            if let Some(heard) = self.held.take() {
                self.go_on(heard);
                continue;
            }
            let (at, item) = self.heard().await?;
            self.take(at, item);
        }
    }

    /// The next live item, and of which feed; `None` when all have ended.
    async fn heard(&mut self) -> Option<(usize, Incoming)> {
        std::future::poll_fn(|cx| {
            let mut has_ended = true;
            for (at, live) in self.feeds.iter_mut().enumerate() {
                if live.has_ended {
                    continue;
                }
                match pin!(live.feed.next()).poll(cx) {
                    Poll::Ready(Some(item)) => return Poll::Ready(Some((at, item))),
                    Poll::Ready(None) => live.has_ended = true,
                    Poll::Pending => has_ended = false,
                }
            }
            if has_ended { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }

    fn take(&mut self, feed: usize, item: Incoming) {
        let heard = match item {
            Incoming::Message(opened) => Heard { feed, opened, is_shown: true },
            Incoming::Checkpoint(checkpoint) => {
                Heard { feed, opened: Box::new(checkpoint.opened), is_shown: false }
            }
            Incoming::Refused(error) => return self.ready.push_back(Viewed::Refused(error)),
            Incoming::Gap { missed } => {
                let Some(live) = self.feeds.get_mut(feed) else { return };
                if live.is_ahead {
                    self.splice.gap(&live.subject, missed);
                    self.ready.push_back(Viewed::Gap { missed });
                } else {
                    // What was dropped may have been read: the chains of what follows tell.
                    live.untold = live.untold.saturating_add(missed);
                }
                return;
            }
        };
        match self.settled.is_some() && !self.splice.follows(&heard.opened.envelope) {
            true => self.held = Some(heard),
            false => self.go_on(heard),
        }
    }

    fn go_on(&mut self, heard: Heard) {
        let Heard { feed, opened, is_shown } = heard;
        if let Some(live) = self.feeds.get_mut(feed).filter(|live| live.untold > 0) {
            let (before, is_new) = self.splice.before(&opened.envelope);
            let missed = live.untold.min(before);
            live.untold -= missed;
            // In a chain that was seen the jump is told as such.
            if missed > 0 && is_new {
                self.ready.push_back(Viewed::Gap { missed });
            }
        }
        if self.show(opened, is_shown, false)
            && let Some(live) = self.feeds.get_mut(feed)
        {
            live.is_ahead = true;
        }
    }

    /// Reads what a recorder had not stored yet when the viewer came.
    async fn look_again(&mut self, settled: Instant) {
        sleep_until(settled).await;
        let read = self.read().await;
        self.settled = None;
        match read {
            Ok(past) => self.take_past(past),
            Err(error) => self.ready.push_back(Viewed::Refused(error)),
        }
    }

    /// What is recorded and was not read yet.
    async fn read(&self) -> Result<Past> {
        let read = match self.has_recording() {
            true => self.history.since(self.kinds, &self.past).await,
            false => self.history.last(self.kinds, self.window).await,
        };
        match read {
            // An engine of an earlier version: nothing is recorded there.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Past::default()),
            read => read,
        }
    }

    fn take_past(&mut self, mut past: Past) {
        let items = std::mem::take(&mut past.items);
        for (at, item) in items.into_iter().enumerate() {
            let is_shown = at >= past.begin;
            match item {
                PastItem::Message(opened) => {
                    self.past_events += u64::from(self.show(opened, is_shown, true) && is_shown);
                }
                PastItem::Checkpoint(opened) => drop(self.show(opened, false, true)),
                PastItem::Gap { subject, missed } if is_shown => {
                    self.splice.gap(&subject, missed);
                    self.ready.push_back(Viewed::Gap { missed });
                }
                PastItem::Refused(error) if is_shown => {
                    self.ready.push_back(Viewed::Refused(error));
                }
                PastItem::Gap { .. } | PastItem::Refused(_) => {}
            }
        }
        self.past = past;
    }

    /// Takes an event into the line; says whether it is new.
    fn show(&mut self, opened: Box<Opened>, is_shown: bool, is_past: bool) -> bool {
        let Spliced::New { missed } = self.splice.event(&opened.envelope) else { return false };
        // Before the window nothing is told.
        if missed > 0 && (is_shown || !is_past) {
            self.ready.push_back(Viewed::Gap { missed });
        }
        if is_shown {
            self.ready.push_back(Viewed::Message { opened, is_past });
        }
        true
    }
}

impl std::fmt::Debug for Viewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Viewer").field("past_events", &self.past_events).finish_non_exhaustive()
    }
}

/// How many live events of each kind may wait while the past is read and shown.
const WAITING_MAX: NonZeroUsize = NonZeroUsize::new(256).unwrap();
