//! The clerk of a desk: one task that pulls, claims, and keeps the board in sight.
//!
//! It alone pulls and claims for the members of its desk. What stands on the board comes before
//! or after what the server's consumer has, by rank; as long as the board is empty nothing is
//! compared and a message takes one round trip.

use std::{sync::Arc, time::Duration};

use async_nats::{Message, Subscriber};
use bus_core::{Error, ErrorKind, Result};
use bus_envelope::Timestamp;
use futures_util::{FutureExt, StreamExt, future::join_all, stream::SelectAll};
use tokio::{sync::watch, time::Instant};

use super::{
    board::{BoardPart, Entry, Pick, Rank},
    consumer::{placed_name, placed_patterns},
    desk::{Claim, Desk, End, Hold, Step, Way, lease_from},
    pull::{Place, Pulled, Pulls},
    store::{read_pause, read_state},
};
use crate::{codec::PLACED, codec::decode_stored, connection::ConnectionState};

mod claim;
mod placed;
mod turn;

/// What one clerk works with.
pub(super) struct Clerk {
    desk: Arc<Desk>,
    plain: Pulls,
    placed: Option<Pulls>,
    /// What the server tells of the board.
    hints: Subscriber,
    /// Placed messages as they are stored: each rings.
    bell: SelectAll<Subscriber>,
    /// That the consumer was removed.
    removals: Subscriber,
    states: watch::Receiver<ConnectionState>,
    epoch: Option<u64>,
    /// The board is to be read as a whole.
    must_look: bool,
    /// Placed messages may be there that are not on the board.
    must_fetch: bool,
    next_look: Instant,
    next_fetch: Instant,
    /// The newest placed message that this engine fetched.
    fetched_up_to: u64,
    /// Every plain message up to here was seen.
    seen_up_to: Option<Rank>,
    /// Nothing is tried before, after something went wrong.
    pause_after_fault: Option<Instant>,
}

impl Clerk {
    /// A clerk that hears everything about its desk.
    pub(super) async fn new(desk: Arc<Desk>) -> Result<Self> {
        let connection = Arc::clone(desk.api.connection());
        let (states, mark) = (connection.states(), connection.violation_mark());
        let (stream, name) = (desk.spec.stream.as_str(), desk.spec.name.as_str());
        let hints = connection.subscribe(OP, desk.board.place.heard()).await?;
        let mut bell = SelectAll::new();
        for pattern in placed_patterns(&desk.spec, &desk.stream) {
            bell.push(connection.subscribe(OP, pattern).await?);
        }
        let removed = format!("$JS.EVENT.ADVISORY.CONSUMER.DELETED.{stream}.{name}");
        let removals = connection.subscribe(OP, removed.clone()).await?;
        let plain = Pulls::open(Arc::clone(&connection), (stream, name)).await?;
        connection.fence(OP).await?;
        connection.refused_since(OP, mark, &desk.board.place.heard())?;
        for pattern in placed_patterns(&desk.spec, &desk.stream) {
            connection.refused_since(OP, mark, &pattern)?;
        }
        connection.refused_since(OP, mark, &removed)?;
        let epoch = states.borrow().epoch();
        Ok(Self {
            plain,
            placed: None,
            hints,
            bell,
            removals,
            states,
            epoch,
            must_look: true,
            must_fetch: true,
            next_look: Instant::now() + LOOK_EVERY,
            next_fetch: Instant::now() + FETCH_EVERY,
            fetched_up_to: 0,
            seen_up_to: None,
            pause_after_fault: None,
            desk,
        })
    }

    /// Works until the desk is not needed any more.
    pub(super) async fn run(mut self) {
        loop {
            self.take_news();
            let may_look = self.desk.state().end.is_none() && self.may_try();
            // First whether the consumer is still the one that all this is about.
            if may_look
                && self.must_look
                && let Err(error) = self.look().await
            {
                self.failed(&error).await;
            }
            self.note_lapsed().await;
            self.put_back().await;
            self.check_refused().await;
            let may_serve = self.desk.state().end.is_none() && self.may_try();
            if may_serve
                && !self.must_look
                && let Err(error) = self.serve().await
            {
                self.failed(&error).await;
            }
            self.desk.state().wake_for_hand();
            if self.is_done() {
                break;
            }
            self.wait().await;
        }
        self.leave().await;
    }

    /// Whether nobody needs this desk any more.
    fn is_done(&self) -> bool {
        let mut state = self.desk.state();
        // Decided under the lock: who comes after this makes a desk of its own.
        state.is_left = state.end.is_some() || (state.members == 0 && state.holds.is_empty());
        state.is_left
    }

    /// Whether the server refused to hear of a pull.
    async fn check_refused(&mut self) {
        let now = Instant::now();
        let placed = self.placed.as_mut().map_or(Ok(()), |placed| placed.check(now));
        if let Err(refused) = self.plain.check(now).and(placed) {
            self.failed(&refused).await;
        }
    }

    fn may_try(&self) -> bool {
        self.epoch.is_some() && self.pause_after_fault.is_none_or(|until| until <= Instant::now())
    }

    /// Everything that was told and not taken yet.
    fn take_news(&mut self) {
        while let Some(told) = self.hints.next().now_or_never().flatten() {
            self.hear(&told);
        }
        while self.bell.next().now_or_never().flatten().is_some() {
            self.must_fetch = true;
        }
        if self.removals.next().now_or_never().flatten().is_some() {
            self.desk.end(End::Gone);
        }
        self.note_state();
    }

    fn note_state(&mut self) {
        let state = *self.states.borrow_and_update();
        match state {
            ConnectionState::Closed => self.desk.end(End::Closed),
            ConnectionState::Denied => self.desk.end(End::Denied),
            _ => {}
        }
        if state.epoch() == self.epoch {
            return;
        }
        self.epoch = state.epoch();
        self.plain.forget_all();
        if let Some(placed) = &mut self.placed {
            placed.forget_all();
        }
        (self.must_look, self.must_fetch) = (true, true);
    }

    /// A record of the board changed.
    fn hear(&mut self, told: &Message) {
        let Some(headers) = &told.headers else { return };
        let header = |name: &'static str| crate::codec::get(headers, name);
        let Some(revision) = header(SEQUENCE).and_then(|text| text.parse::<u64>().ok()) else {
            return;
        };
        let Some(subject) = header(SUBJECT) else { return };
        let mut state = self.desk.state();
        match self.desk.board.place.part(subject) {
            Ok(BoardPart::State(seq)) => match read_state(subject, &told.payload) {
                Some(entry) => state.put(revision, entry),
                None => state.remove(revision, seq),
            },
            Ok(BoardPart::Pause) => {
                state.paused_until = read_pause(&told.payload);
                // The server forgets who waits when it pauses.
                self.plain.forget_all();
            }
            Ok(BoardPart::Turn) | Err(_) => {}
        }
        state.view.heard_up_to(revision);
    }

    /// Waits until there may be something to do.
    async fn wait(&mut self) {
        let until = self.next_time();
        let desk = Arc::clone(&self.desk);
        tokio::select! {
            () = desk.wake.notified() => {}
            pulled = self.plain.next() => match pulled {
                Some(pulled) => {
                    let taken = self.take_pulled(pulled).await;
                    if let Err(error) = taken {
                        self.failed(&error).await;
                    }
                }
                None => self.desk.end(End::Closed),
            },
            told = self.hints.next() => match told {
                Some(told) => self.hear(&told),
                None => self.desk.end(End::Closed),
            },
            Some(_) = self.bell.next() => self.must_fetch = true,
            Some(_) = self.removals.next() => self.desk.end(End::Gone),
            _ = self.states.changed() => self.note_state(),
            () = tokio::time::sleep_until(until) => {}
        }
    }

    /// When something becomes due by time alone.
    fn next_time(&self) -> Instant {
        let now = Instant::now();
        let mut next = now + LOOK_EVERY;
        let mut sooner = |time: Option<Instant>| {
            if let Some(time) = time {
                next = next.min(time);
            }
        };
        let clock = self.desk.now();
        let at = |time: Timestamp| now + time.since(clock) + A_TICK;
        let state = self.desk.state();
        sooner(self.plain.look_at());
        sooner(state.first_deadline());
        if state.wanted() > 0 {
            sooner(state.view.next_due().map(at));
            sooner(state.paused_until.map(at));
            sooner(self.plain.first_end());
            sooner(Some(self.next_look));
            sooner(self.placed.as_ref().map(|_| self.next_fetch));
        }
        sooner(self.pause_after_fault.filter(|&until| until > now));
        next
    }

    /// Leases that are over: their messages wait on the board from now on.
    async fn note_lapsed(&self) {
        let lapsed = self.desk.state().lapsed(Instant::now());
        let lapsing = lapsed.iter().map(async |hold| {
            // An extension under way has it locked, and judges the time by itself.
            if let Ok(step) = hold.step.try_lock() {
                self.desk.lapse(hold, &step.way).await;
            }
        });
        join_all(lapsing).await;
    }

    /// What was claimed for members that wait no more goes back, uncounted.
    async fn put_back(&self) {
        let back: Vec<_> = {
            let mut state = self.desk.state();
            if state.end == Some(End::Gone) {
                // Another consumer has its messages now.
                state.drop_holds();
            }
            if state.hand.is_empty() || (!state.waiters.is_empty() && state.end.is_none()) {
                return;
            }
            let hand: Vec<_> = state.hand.drain(..).collect();
            hand.into_iter().filter_map(|claimed| state.take(claimed.token)).collect()
        };
        join_all(back.iter().map(|hold| self.put_one_back(hold))).await;
    }

    async fn put_one_back(&self, hold: &Hold) {
        let step = hold.step.lock().await;
        let back = match &step.way {
            Way::Plain => {
                let origin = hold.origin.clone();
                self.to_board(Entry::fresh((hold.seq, hold.stored), origin, None)).await
            }
            Way::Board(claim) => self.unclaim(&claim.before, claim.revision).await,
        };
        if let Err(error) = back {
            tracing::debug!(%error, seq = hold.seq, "a message comes back when its lease is over");
        }
    }

    /// Puts a message on the board, out of the server's hands.
    async fn to_board(&self, entry: Entry) -> Result<()> {
        self.desk.put_on_board(OP, &entry).await?;
        self.desk.keep_from_server(&entry.origin).await;
        Ok(())
    }

    /// Something could not be done: it is tried again after a moment.
    async fn failed(&mut self, error: &Error) {
        if error.kind() == ErrorKind::NotFound && self.is_gone().await {
            self.desk.end(End::Gone);
            return;
        }
        let is_told = matches!(
            error.kind(),
            ErrorKind::Denied | ErrorKind::Invalid | ErrorKind::Corrupt | ErrorKind::Full
        );
        if is_told {
            let mut state = self.desk.state();
            state.fault = Some(Error::new(error.kind(), OP, error.to_string()));
            state.wake_all();
        }
        tracing::debug!(%error, consumer = %self.desk.spec.name, "tried again in a moment");
        self.pause_after_fault = Some(Instant::now() + AFTER_FAULT);
    }

    /// Whether the consumer was removed, or is another one by now.
    async fn is_gone(&self) -> bool {
        match self.desk.consumers.joined(&self.desk.spec).await {
            Ok(made) => made != self.desk.made,
            Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Conflict),
        }
    }

    /// Hands everything back and goes.
    async fn leave(mut self) {
        let (desk, is_connected) = (Arc::clone(&self.desk), self.epoch.is_some());
        self.put_back().await;
        if is_connected && desk.state().end != Some(End::Gone) {
            let back = Pulls::end(self.plain).await;
            let now = desk.now();
            let back = back.into_iter().filter_map(|message| left_over(&message, now));
            for entry in back {
                if let Err(error) = desk.put_on_board(OP, &entry).await {
                    tracing::debug!(%error, "the server gives out again what came at the end");
                    break;
                }
                desk.keep_from_server(&entry.origin).await;
            }
        }
        self.placed = None;
        desk.done.send_replace(true);
        desk.state().wake_all();
    }
}

/// The entry of a message that the server's consumer delivered and nobody here had.
fn left_over(message: &Message, now: Timestamp) -> Option<Entry> {
    let origin = message.reply.as_ref()?.as_str();
    let Place { seq, stored, delivered } = Place::read(origin)?;
    let fresh = Entry::fresh((seq, stored), origin.to_owned(), None);
    Some(if delivered > 1 { fresh.delivered_again(delivered, now) } else { fresh })
}

const OP: &str = "consume";
const SEQUENCE: &str = "Nats-Sequence";
const SUBJECT: &str = "Nats-Subject";
/// What was told may have been lost.
const LOOK_EVERY: Duration = Duration::from_secs(300);
/// An engine may have died between fetching placed messages and putting them on the board.
const FETCH_EVERY: Duration = Duration::from_secs(30);
const AFTER_FAULT: Duration = Duration::from_millis(200);
/// What is due by a clock that is read in nanoseconds and waited for in milliseconds.
const A_TICK: Duration = Duration::from_millis(1);
