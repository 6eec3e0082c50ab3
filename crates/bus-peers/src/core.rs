//! What the bus, its registry and its inboxes share: one lock, never held over anything slow.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bus_core::Clock;
use bus_crypto::Entropy;
use bus_envelope::Timestamp;
use bytes::Bytes;

use crate::{
    BusEnvelope, BusError, DeliveryState, Inbox, InboxMiss, InstanceMeta, LiveInstance, PeerTarget,
    Posted, Recipient, SecretHash,
    inbox::{Displaced, Slot},
    journal::{Journal, Lines, Written},
    record::{self, MissTag},
    registry::{
        Limits,
        machine::{Command, Done, Registry},
    },
    shared::Dirty,
};

/// The registry and the inboxes.
///
/// One lock for all: a message is resolved, put into inboxes and handed to the journal without
/// anybody seeing the half of it, and the journal has messages in the order of the inboxes. What is
/// done under it takes no file, no network and no wait.
pub(crate) struct Core {
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    inbox_max: usize,
    state: Mutex<State>,
    /// What the registry that is shared with others has to be told; none when it is not shared.
    dirty: Option<Arc<Dirty>>,
}

struct State {
    registry: Registry,
    seats: HashMap<String, Seat>,
    numbers: u64,
}

/// The subscriptions of an instance.
#[derive(Default)]
struct Seat {
    slots: Vec<(u64, Arc<Slot>)>,
    losses_unrecorded: Arc<AtomicBool>,
}

/// A message before it is known who gets it.
pub(crate) struct Draft<'a> {
    /// Complete but for the time, `to` and the state.
    pub(crate) envelope: BusEnvelope,
    pub(crate) secret: &'a SecretHash,
    pub(crate) target: &'a PeerTarget,
    /// What other buses said to it, when somebody listens for its receiver there.
    pub(crate) told: Option<Told>,
}

/// What became of a message at the other buses where somebody listens for its receiver.
pub(crate) struct Told {
    pub(crate) meta: InstanceMeta,
    /// Whether a subscriber got it.
    pub(crate) is_accepted: bool,
    /// Whether losses could not be recorded there.
    pub(crate) losses_unrecorded: bool,
}

/// What came of a message of another bus.
pub(crate) struct Taken {
    pub(crate) misses: Vec<Bytes>,
    pub(crate) losses_unrecorded: Arc<AtomicBool>,
    pub(crate) says_losses: bool,
}

/// What became of a message, and the answer of the journal to come.
pub(crate) struct Attempted {
    pub(crate) fate: Result<Arc<Posted>, BusError>,
    pub(crate) message_id: String,
    pub(crate) written: Written,
}

impl Core {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        limits: Limits,
        inbox_max: usize,
        dirty: Option<Arc<Dirty>>,
    ) -> Self {
        let state = State { registry: Registry::new(limits), seats: HashMap::new(), numbers: 0 };
        Self { clock, entropy, inbox_max, state: Mutex::new(state), dirty }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        self.entropy.as_ref()
    }

    pub(crate) fn register(&self, command: Command) -> Result<InstanceMeta, BusError> {
        let now = self.now();
        match self.lock().apply(command, now)? {
            Done::Registered(meta) => Ok(meta),
            // The machine answers a registration with nothing else.
            Done::Live(_) | Done::Nothing => Err(BusError::Full { what: "instances", max: 0 }),
        }
    }

    pub(crate) fn live(&self) -> Vec<LiveInstance> {
        let now = self.now();
        self.lock().registry.live(now).cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().registry.count()
    }

    pub(crate) fn resolve(&self, target: &PeerTarget) -> Result<LiveInstance, BusError> {
        let now = self.now();
        self.lock().registry.resolve(target, now).cloned()
    }

    pub(crate) fn heartbeat(
        &self,
        instance_id: &str,
        secret: SecretHash,
    ) -> Result<LiveInstance, BusError> {
        let (instance_id, now) = (instance_id.to_owned(), self.now());
        let gone = BusError::InstanceGone { instance_id: instance_id.clone() };
        match self.lock().apply(Command::Heartbeat { instance_id, secret }, now)? {
            Done::Live(live) => Ok(live),
            Done::Registered(_) | Done::Nothing => Err(gone),
        }
    }

    pub(crate) fn seen(&self, instance_id: &str) -> bool {
        let (seen, now) = (instance_id.to_owned(), self.now());
        let seen = self.lock().apply(Command::Seen { instance_id: seen }, now);
        self.soil(instance_id);
        matches!(seen, Ok(Done::Live(_)))
    }

    /// Whether it was there.
    pub(crate) fn deregister(
        &self,
        instance_id: &str,
        secret: SecretHash,
    ) -> Result<bool, BusError> {
        let (instance_id, now) = (instance_id.to_owned(), self.now());
        match self.lock().apply(Command::Deregister { instance_id, secret }, now) {
            Ok(_) => Ok(true),
            Err(BusError::InstanceGone { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends what is over by now.
    pub(crate) fn tick(&self) {
        let now = self.now();
        let _ignored = self.lock().apply(Command::Tick, now); // time alone is never refused
    }

    pub(crate) fn subscribe(
        self: &Arc<Self>,
        instance_id: &str,
        secret: SecretHash,
    ) -> Result<Inbox, BusError> {
        let now = self.now();
        let slot = Arc::new(Slot::new(self.inbox_max));
        let mut state = self.lock();
        state.apply(Command::Attach { instance_id: instance_id.to_owned(), secret }, now)?;
        state.numbers += 1;
        let number = state.numbers;
        let seat = state.seats.entry(instance_id.to_owned()).or_default();
        seat.slots.push((number, Arc::clone(&slot)));
        drop(state);
        let core = Arc::clone(self);
        Ok(Inbox { slot, core, instance_id: instance_id.to_owned(), number })
    }

    pub(crate) fn detach(&self, instance_id: &str, number: u64) {
        let now = self.now();
        let mut state = self.lock();
        let Some(seat) = state.seats.get_mut(instance_id) else { return };
        let before = seat.slots.len();
        seat.slots.retain(|(own, _)| *own != number);
        if seat.slots.len() < before {
            let command = Command::Detach { instance_id: instance_id.to_owned() };
            let _ignored = state.apply(command, now); // to end a subscription is never refused
            drop(state);
            self.soil(instance_id);
        }
    }

    /// The definition of the live instance that the sender claims to be, if the secret is its own.
    pub(crate) fn verify(
        &self,
        instance_id: &str,
        secret: &SecretHash,
    ) -> Result<String, BusError> {
        let now = self.now();
        let state = self.lock();
        state.registry.sender(instance_id, secret, now).map(|meta| meta.definition_id.clone())
    }

    /// Verifies, resolves, delivers and hands the records to the journal, in one step.
    ///
    /// An error is a refusal before the message was one: there is no record of it.
    pub(crate) fn attempt(
        &self,
        draft: Draft<'_>,
        journal: &Journal,
    ) -> Result<Attempted, BusError> {
        let Draft { mut envelope, secret, target, told } = draft;
        let sender = envelope.from.instance_id.clone().unwrap_or_default();
        let mut state = self.lock();
        // Under the lock, so that the journal is in the order of its times.
        let now = self.now();
        if told.is_none() {
            envelope.ts = now.to_string();
        }
        state.end(now);
        let verified = state.registry.sender(&sender, secret, now)?;
        envelope.from.definition_id = Some(verified.definition_id.clone());
        journal.check_room()?;
        self.soil(&sender);
        state.apply(Command::Seen { instance_id: sender }, now)?;
        let message_id = envelope.message_id.clone();
        let resolved = match &told {
            Some(told) => Ok(told.meta.clone()),
            None => state.registry.resolve(target, now).map(|live| live.meta.clone()),
        };
        let meta = match resolved {
            Ok(meta) => meta,
            Err(error) => {
                envelope.to = target.recipient();
                envelope.delivery_state = DeliveryState::Dropped;
                let written = journal.write(Lines::of(&Posted::new(envelope)?));
                return Ok(Attempted { fate: Err(error), message_id, written });
            }
        };
        envelope.to = Recipient {
            instance_id: Some(meta.instance_id.clone()),
            definition_id: Some(meta.definition_id.clone()),
        };
        let is_accepted = told.as_ref().is_some_and(|told| told.is_accepted);
        let seat = state.seats.get(&meta.instance_id).filter(|seat| !seat.slots.is_empty());
        if seat.is_none() && !is_accepted {
            envelope.delivery_state = DeliveryState::Dropped;
            let written = journal.write(Lines::of(&Posted::new(envelope)?));
            let error = BusError::NoSubscriber { instance_id: meta.instance_id };
            return Ok(Attempted { fate: Err(error), message_id, written });
        }
        envelope.delivery_state = DeliveryState::Delivered;
        let posted = Arc::new(Posted::new(envelope)?);
        let mut lines = match seat {
            Some(seat) => seat.deliver(&posted, &meta.instance_id, now),
            None => Lines::of(&posted),
        };
        if told.is_some_and(|told| told.losses_unrecorded) && !lines.says_losses {
            lines.envelope = record::with_losses(&lines.envelope);
            lines.says_losses = true;
        }
        let written = journal.write(lines);
        Ok(Attempted { fate: Ok(posted), message_id, written })
    }

    /// Records a message of a verified sender of which nobody knows whether it was delivered, as
    /// one that was not.
    pub(crate) fn record_unsure(
        &self,
        envelope: BusEnvelope,
        journal: &Journal,
    ) -> Result<Written, BusError> {
        journal.check_room()?;
        Ok(journal.write(Lines::of(&Posted::new(envelope)?)))
    }

    /// Puts a message that another bus verified into the inboxes of an instance. What gave way is
    /// to be recorded; none when nobody listens here.
    pub(crate) fn take_in(&self, instance_id: &str, envelope: BusEnvelope) -> Option<Taken> {
        let posted = Arc::new(Posted::new(envelope).ok()?);
        let state = self.lock();
        let now = self.now();
        let seat = state.seats.get(instance_id).filter(|seat| !seat.slots.is_empty())?;
        let Lines { misses, losses_unrecorded, says_losses, .. } =
            seat.deliver(&posted, instance_id, now);
        Some(Taken { misses, losses_unrecorded, says_losses })
    }

    /// Takes over what the shared registry says of an instance.
    pub(crate) fn learn(&self, command: Command) {
        let now = self.now();
        let _ignored = self.lock().apply(command, now); // what others say is never refused
    }

    pub(crate) fn miss(&self, instance_id: &str, holder: &str) {
        self.lock().registry.miss(instance_id, holder);
    }

    /// Whether somebody listens for the instance at this bus.
    pub(crate) fn is_attached(&self, instance_id: &str) -> bool {
        self.lock().seats.get(instance_id).is_some_and(|seat| !seat.slots.is_empty())
    }

    /// Closes the journal to publishes, none of which is between its look for room and its line.
    pub(crate) fn seal(&self, journal: &Journal) {
        let _nobody_publishes = self.lock();
        journal.seal();
    }

    fn soil(&self, instance_id: &str) {
        if let Some(dirty) = &self.dirty {
            dirty.add(instance_id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn apply(&mut self, command: Command, now: Timestamp) -> Result<Done, BusError> {
        let effects = self.registry.apply(command, now);
        for ended in effects.ended {
            for (_, slot) in self.seats.remove(&ended.instance_id).unwrap_or_default().slots {
                slot.end();
            }
        }
        effects.done
    }

    fn end(&mut self, now: Timestamp) {
        if self.registry.next_expiry().is_some_and(|next| next <= now) {
            let _ignored = self.apply(Command::Tick, now); // time alone is never refused
        }
    }
}

impl Seat {
    /// Puts a message into every inbox, in the order of the subscriptions.
    fn deliver(&self, posted: &Arc<Posted>, instance_id: &str, now: Timestamp) -> Lines {
        let mut lines = Lines::of(posted);
        for (number, slot) in &self.slots {
            for Displaced { posted, missed_total } in slot.offer(Arc::clone(posted)) {
                let miss = record::json(&InboxMiss {
                    record: MissTag::InboxMiss,
                    ts: now.to_string(),
                    instance_id: instance_id.to_owned(),
                    subscription_id: number.to_string(),
                    message_id: posted.message_id.clone(),
                    message_ts: posted.ts.clone(),
                    missed_total,
                });
                match miss {
                    Ok(line) => lines.misses.push(line),
                    Err(_) => self.losses_unrecorded.store(true, Ordering::Release),
                }
            }
        }
        lines.losses_unrecorded = Arc::clone(&self.losses_unrecorded);
        if self.losses_unrecorded.swap(false, Ordering::AcqRel) {
            lines.envelope = record::with_losses(&lines.envelope);
            lines.says_losses = true;
        }
        lines
    }
}

impl Lines {
    fn of(posted: &Posted) -> Self {
        Self { envelope: posted.json().clone(), ..Self::default() }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instances = self.lock().registry.live(self.now()).count();
        f.debug_struct("Core").field("instances", &instances).finish_non_exhaustive()
    }
}
