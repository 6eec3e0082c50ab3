//! The live plane of a run: who hears what, in which order, and what each one missed.

use std::{num::NonZeroUsize, sync::Arc};

use bus_core::{Bus as _, Clock, FeedItem, Frame, FrameId, Overflow, Subscription};
use bus_envelope::Timestamp;
use bus_mem::InMemoryBus;
use bus_subjects::{Filter, Subject};
use futures_util::FutureExt as _;

use super::{Fault, Violation, random::Random};

/// Live events of some sessions, and those who listen to one of them or to all.
///
/// It is the engine's own live plane. No runtime drives it: whatever can happen at once does, and
/// nothing else ever does.
#[derive(Debug)]
pub(super) struct Live {
    bus: InMemoryBus,
    /// What was told on each subject, and at last on all of them.
    told: Vec<Vec<Event>>,
    subjects: Vec<Subject>,
    listeners: Vec<Listener>,
    fault: Option<Fault>,
    random: Random,
    /// An event that a broken broker keeps back.
    kept_back: Option<Event>,
    pub(super) published: u64,
    pub(super) heard: u64,
    pub(super) missed: u64,
}

/// The number of an event among those of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Event {
    session: usize,
    number: usize,
}

/// One subscriber.
#[derive(Debug)]
struct Listener {
    /// Which list of events it hears.
    hears: usize,
    /// How many of them may wait; `None`: only the newest one does.
    capacity: Option<NonZeroUsize>,
    connection: InMemoryBus,
    feed: Subscription,
    /// Which of the events comes next.
    next: usize,
    /// It hears nothing of what comes from here on.
    end: Option<usize>,
}

/// A clock that stands still: nothing in the live plane of a run waits for time.
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ns(0)
    }

    fn coarse(&self) -> Timestamp {
        self.now()
    }
}

impl Live {
    /// `sessions` sessions with `listeners` listeners, one in four of which hears all of them.
    pub(super) fn new(
        sessions: usize,
        listeners: usize,
        seed: u64,
        fault: Option<Fault>,
    ) -> Result<Self, Violation> {
        let subject = |session| Subject::parse(&format!("vak.events.w1.s{session}.tokens"));
        let mut live = Self {
            bus: InMemoryBus::with_clock(Arc::new(Still)),
            told: vec![Vec::new(); sessions + 1],
            subjects: (0..sessions).map(subject).collect::<Result<_, _>>()?,
            listeners: Vec::new(),
            fault,
            random: Random::new(seed ^ 0x11fe),
            kept_back: None,
            published: 0,
            heard: 0,
            missed: 0,
        };
        for number in 0..listeners {
            let hears = if number % 4 == 0 { sessions } else { number % sessions };
            let capacity = live.random.between(1, 64);
            let capacity = usize::try_from(capacity).ok().and_then(NonZeroUsize::new);
            let listener = live.join(hears, capacity.filter(|_| number % 8 != 1))?;
            live.listeners.push(listener);
        }
        Ok(live)
    }

    /// How many listeners there are.
    pub(super) fn listeners(&self) -> usize {
        self.listeners.len()
    }

    /// Something happened in `session`: everybody who listens hears of it.
    pub(super) fn publish(&mut self, session: usize) -> Result<(), Violation> {
        let all = self.subjects.len();
        let Some(told) = self.told.get_mut(session).filter(|_| session < all) else {
            return Ok(());
        };
        let event = Event { session, number: told.len() };
        told.push(event);
        if let Some(all) = self.told.last_mut() {
            all.push(event);
        }
        self.published += 1;
        if self.fault == Some(Fault::ReordersLive)
            && self.kept_back.is_none()
            && self.random.chance(100)
        {
            self.kept_back = Some(event);
            return Ok(());
        }
        self.hand_out(event)?;
        match self.kept_back.take_if(|kept| kept.session == session) {
            Some(kept) => self.hand_out(kept),
            None => Ok(()),
        }
    }

    /// A listener looks: it takes some of what waits for it, or goes and comes back, or its
    /// connection ends.
    pub(super) fn listen(&mut self, listener: usize) -> Result<(), Violation> {
        if self.random.chance(20) {
            return self.leave(listener);
        }
        if self.random.chance(10) {
            self.close(listener)?;
        }
        for _ in 0..self.random.below(40) {
            if !self.take(listener)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Every listener takes all there is.
    pub(super) fn drain(&mut self) -> Result<(), Violation> {
        if let Some(kept) = self.kept_back.take() {
            self.hand_out(kept)?;
        }
        for listener in 0..self.listeners.len() {
            while self.take(listener)? {}
        }
        let stats = self.bus.stats();
        let counted = stats.delivered + stats.dropped + stats.superseded;
        Violation::unless(stats.offered == counted, "live counts are exact", || {
            format!("all has been read, and {stats:?}")
        })
    }

    fn hand_out(&mut self, event: Event) -> Result<(), Violation> {
        let Some(subject) = self.subjects.get(event.session) else { return Ok(()) };
        let frame = Frame::new(subject.clone(), id_of(event)?, event.number.to_string());
        at_once("publish", self.bus.publish(frame).now_or_never())?;
        Ok(())
    }

    /// Takes one item; `false` when there is none.
    fn take(&mut self, listener: usize) -> Result<bool, Violation> {
        let miscounts = self.fault == Some(Fault::MiscountsGap) && self.random.chance(100);
        let Some(reader) = self.listeners.get_mut(listener) else { return Ok(false) };
        let Some(told) = self.told.get(reader.hears) else { return Ok(false) };
        let end = reader.end.unwrap_or(told.len());
        let waiting = end - reader.next;
        // A reader gives way a few times before it looks.
        let item = (0..8).find_map(|_| reader.feed.next().now_or_never());
        match item {
            None | Some(None) => {
                let is_rightful = waiting == 0 && item.is_some() == reader.end.is_some();
                Violation::unless(is_rightful, "what is published is heard", || {
                    format!("listener {listener} got nothing while {waiting} events wait")
                })?;
                return Ok(false);
            }
            Some(Some(FeedItem::Gap { missed })) => {
                let missed = missed + u64::from(miscounts);
                let expected = reader.capacity.map_or(0, |max| waiting.saturating_sub(max.get()));
                Violation::unless(missed == expected as u64, "what is missed is counted", || {
                    format!("listener {listener} missed {expected} and was told {missed}")
                })?;
                reader.next += expected;
                self.missed += missed;
            }
            Some(Some(FeedItem::Frame(frame))) => {
                if reader.capacity.is_none() && waiting > 0 {
                    // Those before the newest one were superseded.
                    reader.next = end - 1;
                }
                let expected = told.get(reader.next).filter(|_| waiting > 0).copied();
                let is_next = match expected {
                    Some(event) => id_of(event)? == frame.id,
                    None => false,
                };
                Violation::unless(is_next, "live order is kept per subject", || {
                    format!("listener {listener} heard {}: expected {expected:?}", frame.id)
                })?;
                reader.next += 1;
                self.heard += 1;
            }
        }
        Ok(true)
    }

    /// The listener's connection ends: it reads what it has, and hears no more.
    fn close(&mut self, listener: usize) -> Result<(), Violation> {
        let Some(reader) = self.listeners.get_mut(listener) else { return Ok(()) };
        at_once("close", reader.connection.close().now_or_never())?;
        let told = self.told.get(reader.hears).map_or(0, Vec::len);
        reader.end.get_or_insert(told);
        Ok(())
    }

    /// The listener goes, and comes back as a new one.
    fn leave(&mut self, listener: usize) -> Result<(), Violation> {
        let Some(reader) = self.listeners.get(listener) else { return Ok(()) };
        let again = self.join(reader.hears, reader.capacity)?;
        if let Some(reader) = self.listeners.get_mut(listener) {
            *reader = again;
        }
        Ok(())
    }

    fn join(&self, hears: usize, capacity: Option<NonZeroUsize>) -> Result<Listener, Violation> {
        let filter = match self.subjects.get(hears) {
            Some(subject) => Filter::from(subject),
            None => Filter::parse("vak.events.w1.>")?,
        };
        let overflow = match capacity {
            Some(capacity) => Overflow::DropOldest { capacity },
            None => Overflow::Latest { subjects: NonZeroUsize::MIN },
        };
        let connection = self.bus.connect();
        let feed = at_once("subscribe", connection.subscribe(filter, overflow).now_or_never())?;
        let next = self.told.get(hears).map_or(0, Vec::len);
        Ok(Listener { hears, capacity, connection, feed, next, end: None })
    }
}

/// What was answered: nothing of the live plane waits.
fn at_once<T>(op: &str, answer: Option<bus_core::Result<T>>) -> Result<T, Violation> {
    let waits = || Violation::new("live operations wait for nobody", format!("{op} waits"));
    Ok(answer.ok_or_else(waits)??)
}

fn id_of(event: Event) -> Result<FrameId, Violation> {
    Ok(FrameId::parse(&format!("e{}.{}", event.session, event.number))?)
}
