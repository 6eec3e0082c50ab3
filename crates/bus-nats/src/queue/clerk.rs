//! The clerk of a desk: one task that pulls, claims, and keeps the board in sight.
//!
//! It alone pulls and claims for the members of its desk. What stands on the board comes before
//! or after what the server's consumer has, by rank; as long as the board is empty nothing is
//! compared and a message takes one round trip.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_nats::{Message, Subscriber};
use bus_core::{Error, ErrorKind, Frame, Priority, Rank, Result};
use bus_envelope::Timestamp;
use futures_util::{StreamExt, future::join_all, stream::SelectAll};
use tokio::{sync::watch, time::Instant};

use super::{
    board::{Entry, Pick},
    consumer::{nonce, placed_name, placed_patterns},
    desk::{Claim, Desk, End, Hold, Step, Way, lease_from},
    follow::{Follower, Told},
    pull::{Place, Pulled, Pulls},
};
use crate::{codec::PLACED, codec::decode_stored, connection::ConnectionState};

use self::rung::Rung;

mod back;
mod claim;
mod finish;
mod news;
mod placed;
mod rung;
mod sweep;
mod turn;

/// What one clerk works with.
pub(super) struct Clerk {
    desk: Arc<Desk>,
    plain: Pulls,
    placed: Option<Pulls>,
    /// Names this engine among those that fetch.
    engine: String,
    /// What the server tells of the board; `None` when that is to be asked for anew.
    follower: Option<Follower>,
    /// The same before the first look, and how many records there were.
    opened: Option<(Follower, u64)>,
    /// Up to which revision all records were heard.
    heard: u64,
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
    /// A bell of late: what it rang for may not be stored yet.
    rung: Option<Rung>,
    /// Another engine began to fetch after the last bell.
    is_fetched_for: bool,
    next_look: Instant,
    next_fetch: Instant,
    next_sweep: Instant,
    next_finish: Instant,
    /// Fetched, and not on the board yet.
    fetched: Fetched,
    /// The newest placed message that is known to be fetched, here or by others.
    fetched_up_to: u64,
    /// Every plain message up to here was seen.
    seen_up_to: Option<Rank>,
    /// Tasks whose frames were not found, and since when.
    frameless: HashMap<u64, Instant>,
    /// Nothing is tried before, after something went wrong.
    pause_after_fault: Option<Instant>,
}

impl Clerk {
    /// A clerk that hears everything about its desk.
    pub(super) async fn new(desk: Arc<Desk>) -> Result<Self> {
        let connection = Arc::clone(desk.api.connection());
        let (states, mark) = (connection.states(), connection.violation_mark());
        let (stream, name) = (desk.spec.stream.as_str(), desk.spec.name.as_str());
        let mut bell = SelectAll::new();
        for pattern in placed_patterns(&desk.spec, &desk.stream) {
            bell.push(connection.subscribe(OP, pattern).await?);
        }
        let removed = format!("$JS.EVENT.ADVISORY.CONSUMER.DELETED.{stream}.{name}");
        let removals = connection.subscribe(OP, removed.clone()).await?;
        let plain = Pulls::open(Arc::clone(&connection), (stream, name)).await?;
        connection.fence(OP).await?;
        for pattern in placed_patterns(&desk.spec, &desk.stream) {
            connection.refused_since(OP, mark, &pattern)?;
        }
        connection.refused_since(OP, mark, &removed)?;
        let epoch = states.borrow().epoch();
        let opened = desk.board.follow(OP).await?;
        let now = Instant::now();
        Ok(Self {
            plain,
            placed: None,
            engine: nonce(&connection),
            follower: None,
            opened: Some(opened),
            heard: 0,
            bell,
            removals,
            states,
            epoch,
            must_look: true,
            must_fetch: true,
            rung: None,
            is_fetched_for: false,
            next_look: now + LOOK_EVERY,
            next_fetch: now + FETCH_EVERY,
            next_sweep: now + SWEEP_EVERY,
            next_finish: now,
            fetched: Fetched::default(),
            fetched_up_to: 0,
            seen_up_to: None,
            frameless: HashMap::new(),
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
            self.follow_on().await;
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

    /// Waits until there may be something to do.
    async fn wait(&mut self) {
        let until = self.next_time();
        let desk = Arc::clone(&self.desk);
        if let Some(pulled) = self.plain.at_hand() {
            return self.note_pulled(Some(pulled)).await;
        }
        tokio::select! {
            () = desk.wake.notified() => {}
            pulled = self.plain.next() => return self.note_pulled(pulled).await,
            told = news::next_of(self.follower.as_mut()) => self.note_told(told),
            Some(_) = self.bell.next() => self.note_bell(),
            Some(_) = self.removals.next() => self.desk.end(End::Gone),
            _ = self.states.changed() => self.note_state(),
            () = tokio::time::sleep_until(until) => {}
        }
        // What had come before would have ended this.
        self.plain.note_quiet();
    }

    async fn note_pulled(&mut self, pulled: Option<Pulled>) {
        let Some(pulled) = pulled else { return self.desk.end(End::Closed) };
        if let Err(error) = self.take_pulled(pulled).await {
            self.failed(&error).await;
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
        sooner(self.follower.as_ref().map(Follower::silent_until));
        sooner(state.first_deadline());
        if state.wanted() > 0 {
            sooner(state.view.next_due().map(at));
            let done = state.view.first_done().map(|done| at(done.plus(FINISH_AFTER)));
            sooner(done.map(|done| done.max(self.next_finish)));
            let others_fetch = state.fetch.as_ref().filter(|_| self.must_fetch);
            let others_fetch = others_fetch.filter(|(_, fetch)| fetch.by != self.engine);
            sooner(others_fetch.map(|(_, fetch)| at(fetch.until)).filter(|&until| until > now));
            sooner(state.paused_until.map(at));
            sooner(self.plain.first_end());
            sooner(Some(self.next_look));
            if self.may_try() {
                sooner(Some(self.next_fetch));
                sooner(self.rung.as_ref().map(|rung| rung.next));
            }
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
                self.desk.lapse(hold, &step).await;
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
            Way::Plain(frame) => {
                let origin = hold.origin.clone();
                self.to_board((Entry::fresh((hold.seq, hold.stored), origin, None), frame)).await
            }
            Way::Board(claim) => self.unclaim(&claim.before, claim.revision).await,
        };
        if let Err(error) = back {
            tracing::debug!(%error, seq = hold.seq, "a message comes back when its lease is over");
        }
    }

    /// Puts a message on the board, out of the server's hands.
    async fn to_board(&self, (entry, frame): (Entry, &Frame)) -> Result<()> {
        self.desk.put_on_board(OP, (&entry, frame)).await?;
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
        // A consumer of several copies is there before every server has heard who leads it.
        let is_unled = error.kind() == ErrorKind::NotFound && self.desk.profile.replicas() > 1;
        let pause = if is_unled { AFTER_UNLED } else { AFTER_FAULT };
        self.pause_after_fault = Some(Instant::now() + pause);
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
            self.end_fetch().await;
            let back = Pulls::end(self.plain).await;
            let now = desk.now();
            let back = back.into_iter().filter_map(|message| left_over(message, now));
            for (entry, frame) in back {
                if let Err(error) = desk.put_on_board(OP, (&entry, &frame)).await {
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
fn left_over(message: Message, now: Timestamp) -> Option<(Entry, Frame)> {
    let origin = message.reply?.into_string();
    let Place { seq, stored, delivered, .. } = Place::read(&origin)?;
    let headers = message.headers.unwrap_or_default();
    let frame = decode_stored(&message.subject, &headers, message.payload).ok()?;
    let fresh = Entry::fresh((seq, stored), origin, None);
    Some((if delivered > 1 { fresh.delivered_again(delivered, now) } else { fresh }, frame))
}

/// Messages that were fetched and are not on the board yet.
#[derive(Default)]
struct Fetched {
    messages: Vec<Message>,
    /// When the server gives them out again: what is not on the board by then comes once more.
    until: Option<Instant>,
    /// When it has done so at the latest: before, a pull may bring what stands after them.
    again_by: Option<Instant>,
}

const OP: &str = "consume";
/// What was told may have been lost.
const LOOK_EVERY: Duration = Duration::from_secs(300);
/// An engine may have died between fetching placed messages and putting them on the board.
const FETCH_EVERY: Duration = Duration::from_secs(30);
/// How often is looked for what nobody needs on the board.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);
/// When another engine finishes what was done for good and is still on the board.
const FINISH_AFTER: Duration = Duration::from_secs(10);
const AFTER_FAULT: Duration = Duration::from_millis(200);
const AFTER_UNLED: Duration = Duration::from_millis(25);
/// What is due by a clock that is read in nanoseconds and waited for in milliseconds.
const A_TICK: Duration = Duration::from_millis(1);
