//! One consumer as one engine sees it: who waits, what was claimed for them, what they hold.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Duration,
};

use bus_core::{
    ConsumerSpec, Delivery, Error, ErrorKind, Result, Seq, Settle, SharedFrame, StreamSpec,
};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, StreamName};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use super::{
    board::{BoardPlace, Entry, Fetch, View},
    consumer::Consumers,
    member::Member,
    store::Board,
};
use crate::{api::Api, profile::Profile};

/// The members of one consumer on one connection, and what they share.
pub(super) struct Desk {
    pub(super) spec: ConsumerSpec,
    pub(super) stream: Arc<StreamSpec>,
    /// Which making of the consumer this is a part of.
    pub(super) made: String,
    pub(super) api: Api,
    pub(super) consumers: Consumers,
    pub(super) board: Board,
    pub(super) profile: Profile,
    /// Wakes the clerk: somebody waits, or something changed.
    pub(super) wake: Notify,
    /// True once the clerk has put everything in order and went.
    pub(super) done: watch::Sender<bool>,
    state: Mutex<State>,
}

/// What members and the clerk share.
#[derive(Default)]
pub(super) struct State {
    /// How many members there are.
    pub(super) members: usize,
    /// Those that wait, in the order they came.
    pub(super) waiters: BTreeMap<u64, Waiter>,
    /// What was claimed for those that wait.
    pub(super) hand: VecDeque<Claimed>,
    /// The leases, with their ends by this process' own clock.
    pub(super) holds: HashMap<u64, (Arc<Hold>, Instant)>,
    /// The positions of what they hold.
    pub(super) held: HashSet<u64>,
    /// The same in the order of their ends.
    deadlines: BTreeSet<(Instant, u64)>,
    pub(super) view: View,
    /// The newest revision that was seen.
    pub(super) newest: u64,
    pub(super) paused_until: Option<Timestamp>,
    /// Who fetches placed messages, with the revision of that.
    pub(super) fetch: Option<(u64, Fetch)>,
    /// Until when this engine's own right to fetch is good for another pull.
    pub(super) may_pull_until: Option<Instant>,
    pub(super) end: Option<End>,
    /// The clerk found that nobody needs it and goes.
    pub(super) is_left: bool,
    /// Something that members must be told, once.
    pub(super) fault: Option<Error>,
    next_number: u64,
}

/// A member that waits.
pub(super) struct Waiter {
    pub(super) waker: Waker,
    pub(super) max: usize,
}

/// Why there is nothing more to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The bus was closed.
    Closed,
    /// The consumer was removed.
    Gone,
    /// The server lets this user in no more.
    Denied,
}

/// A message claimed for whoever takes it.
pub(super) struct Claimed {
    pub(super) frame: SharedFrame,
    pub(super) seq: u64,
    pub(super) stored: Timestamp,
    pub(super) attempt: u32,
    pub(super) token: u64,
}

/// A lease that a member has, or will have.
pub(super) struct Hold {
    pub(super) seq: u64,
    pub(super) stored: Timestamp,
    /// Where the server takes the acknowledgement.
    pub(super) origin: String,
    /// What is known of it; locked over a step of it.
    pub(super) step: tokio::sync::Mutex<Step>,
}

impl Hold {
    /// Whether one word to the server ends it at `now`. One that is being extended at this moment
    /// waits for that.
    pub(super) fn is_plain(&self, now: Instant) -> bool {
        let step = self.step.try_lock();
        step.is_ok_and(|step| matches!(step.way, Way::Plain(_)) && step.deadline > now)
    }
}

/// How a lease stands.
pub(super) struct Step {
    /// When it ends by this process' own clock.
    pub(super) deadline: Instant,
    pub(super) way: Way,
}

/// How a message was claimed.
pub(super) enum Way {
    /// By the server's consumer. The frame is kept for when it goes to the board.
    Plain(SharedFrame),
    /// By compare-and-set of its state on the board.
    Board(Box<Claim>),
}

/// A claim on the board.
pub(super) struct Claim {
    /// The state as it was written.
    pub(super) entry: Entry,
    /// The state before the claim, for when nobody takes it.
    pub(super) before: Entry,
    pub(super) revision: u64,
}

impl Desk {
    pub(super) fn new(
        (spec, stream, made): (ConsumerSpec, Arc<StreamSpec>, String),
        api: Api,
        profile: Profile,
    ) -> Self {
        let place = BoardPlace::new(&spec.stream, &spec.name, &made);
        Self {
            consumers: Consumers::new(api.clone()),
            board: Board::new(place, api.clone(), profile),
            spec,
            stream,
            made,
            api,
            profile,
            wake: Notify::new(),
            done: watch::Sender::new(false),
            state: Mutex::default(),
        }
    }

    /// What it is found by.
    pub(super) fn key(&self) -> (StreamName, ConsumerName) {
        (self.spec.stream.clone(), self.spec.name.clone())
    }

    /// A new member, when this is a part of the consumer `made` and goes on.
    pub(super) fn join(self: &Arc<Self>, made: &str) -> Option<Member> {
        let mut state = self.state();
        if self.made != made || state.end.is_some() || state.is_left {
            return None;
        }
        state.members += 1;
        drop(state);
        Some(Member::new(Arc::clone(self)))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time by which leases and schedules are judged: the server's.
    pub(super) fn now(&self) -> Timestamp {
        self.api.connection().now()
    }

    /// How long the server keeps a pull that nothing comes for.
    pub(super) const fn pull_wait(&self) -> Duration {
        match self.profile {
            // Who leads a stream of several copies may go without a word, and the pull with it.
            Profile::Replicated => Duration::from_secs(15),
            Profile::Development | Profile::Synced => Duration::from_secs(60),
        }
    }

    /// Nothing more comes: wakes everybody who waits.
    pub(super) fn end(&self, end: End) {
        let mut state = self.state();
        if state.end.is_none() {
            state.end = Some(end);
        }
        state.wake_all();
        drop(state);
        self.wake.notify_one();
    }

    /// A claimed message as its member gets it.
    pub(super) fn delivery(self: &Arc<Self>, claimed: Claimed) -> Delivery {
        let Claimed { frame, seq, stored, attempt, token } = claimed;
        let settle: Arc<dyn Settle> = Arc::clone(self) as Arc<dyn Settle>;
        Delivery::new(frame, (Seq(seq), stored), (attempt, self.spec.lease), (settle, token))
    }

    /// What a member is told when nothing more comes; nothing when the bus was closed.
    pub(super) fn last_word(&self, end: End) -> Option<Error> {
        let (kind, why) = match end {
            End::Closed => return None,
            End::Gone => (ErrorKind::NotFound, "the consumer was removed"),
            End::Denied => (ErrorKind::Denied, "the server lets this user in no more"),
        };
        Some(Error::new(kind, "next", why).at(&self.spec.name))
    }

    /// Takes the hold of a delivery out, so that nobody else acts on it.
    pub(super) fn take_hold(&self, op: &'static str, token: u64) -> Result<Arc<Hold>> {
        let mut state = self.state();
        if state.end == Some(End::Closed) {
            return Err(Error::new(ErrorKind::Closed, op, "the bus is closed"));
        }
        let hold = state.take(token).filter(|_| state.end != Some(End::Gone));
        hold.ok_or_else(|| self.lease_lost(op))
    }

    pub(super) fn lease_lost(&self, op: &'static str) -> Error {
        let why = "the lease ran out, or the message or its consumer was removed";
        Error::new(ErrorKind::LeaseLost, op, why).at(&self.spec.name)
    }
}

impl State {
    pub(super) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// A message that was claimed until `deadline` goes to whoever waits first.
    pub(super) fn hand_over(
        &mut self,
        (frame, attempt): (SharedFrame, u32),
        hold: Hold,
        deadline: Instant,
    ) {
        let token = self.number();
        let (seq, stored) = (hold.seq, hold.stored);
        self.held.insert(seq);
        self.holds.insert(token, (Arc::new(hold), deadline));
        self.deadlines.insert((deadline, token));
        self.hand.push_back(Claimed { frame, seq, stored, attempt, token });
    }

    /// Takes a lease out.
    pub(super) fn take(&mut self, token: u64) -> Option<Arc<Hold>> {
        let (hold, deadline) = self.holds.remove(&token)?;
        self.deadlines.remove(&(deadline, token));
        self.held.remove(&hold.seq);
        Some(hold)
    }

    /// The message at `seq` is nobody's any more.
    pub(super) fn drop_holds_of(&mut self, seq: u64) {
        if !self.held.contains(&seq) {
            return;
        }
        let own = self.holds.iter().filter(|(_, (hold, _))| hold.seq == seq);
        let tokens: Vec<u64> = own.map(|(token, _)| *token).collect();
        for token in tokens {
            self.take(token);
            self.hand.retain(|claimed| claimed.token != token);
        }
    }

    /// A lease ends later; false when it is over already.
    pub(super) fn put_off(&mut self, token: u64, until: Instant) -> bool {
        let Some((_, deadline)) = self.holds.get_mut(&token) else { return false };
        self.deadlines.remove(&(*deadline, token));
        *deadline = until;
        self.deadlines.insert((until, token));
        true
    }

    /// When the first lease ends.
    pub(super) fn first_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// Everything that is held, taken out.
    pub(super) fn drop_holds(&mut self) {
        self.holds.clear();
        self.deadlines.clear();
        self.held.clear();
        self.hand.clear();
    }

    /// How many messages are wanted that are not in hand.
    pub(super) fn wanted(&self) -> usize {
        let all = self.waiters.values().map(|waiter| waiter.max).fold(0, usize::saturating_add);
        all.saturating_sub(self.hand.len())
    }

    /// The most that one member wants at once.
    pub(super) fn widest(&self) -> usize {
        self.waiters.values().map(|waiter| waiter.max).max().unwrap_or_default()
    }

    pub(super) fn wake_all(&self) {
        for waiter in self.waiters.values() {
            waiter.waker.wake_by_ref();
        }
    }

    /// Wakes as many as what is in hand is enough for.
    pub(super) fn wake_for_hand(&self) {
        for waiter in self.waiters.values().take(self.hand.len()) {
            waiter.waker.wake_by_ref();
        }
    }

    /// An entry is known to have this state.
    pub(super) fn put(&mut self, revision: u64, entry: Entry) {
        self.newest = self.newest.max(revision);
        self.view.put(revision, entry);
    }

    /// An entry is known to be gone.
    pub(super) fn remove(&mut self, revision: u64, seq: u64) {
        self.newest = self.newest.max(revision);
        self.view.remove(revision, seq);
    }

    /// The leases that are over, taken out.
    pub(super) fn lapsed(&mut self, now: Instant) -> Vec<Arc<Hold>> {
        let mut lapsed = Vec::new();
        while let Some(&(deadline, token)) = self.deadlines.first() {
            if deadline > now {
                break;
            }
            let is_locked =
                self.holds.get(&token).is_some_and(|(hold, _)| hold.step.try_lock().is_err());
            if is_locked {
                // An extension under way: it decides.
                self.put_off(token, now + A_MOMENT);
                continue;
            }
            lapsed.extend(self.take(token));
            self.hand.retain(|claimed| claimed.token != token);
        }
        lapsed
    }
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// How long an extension may take until the lease is looked at again.
const A_MOMENT: Duration = Duration::from_millis(50);

/// Until when a lease that begins now lasts.
pub(super) fn lease_from(start: Instant, lease: Duration) -> Instant {
    // A lease beyond what the clock can tell is one of a century.
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    start.checked_add(lease).unwrap_or_else(|| start + CENTURY)
}
