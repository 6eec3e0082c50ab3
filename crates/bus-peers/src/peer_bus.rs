//! The handle of the peer bus: registry, subscriptions and the publish pipeline.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use bus_core::{Clock, Endpoint, Engine, Outcome, SystemClock};
use bus_crypto::{Entropy, SystemEntropy};
use bus_evidence::TailReport;
use uuid::Builder;

use crate::{
    BusEnvelope, BusError, BusPayload, CallerIdentity, DeliveryState, Inbox, InstanceRegistry,
    InstanceSecret, JournalSync, Limits, LiveInstance, PeerTarget, Posted, Recipient,
    core::{Attempted, Core, Draft},
    journal::{self, Journal, Unwritten},
    registry::target::ID_BYTES_MAX,
    shared::{Dirty, Elsewhere, Serving, Shared},
};

/// The peer bus of a process.
///
/// # Examples
/// See the [front page](crate).
#[derive(Debug)]
pub struct PeerBus {
    registry: InstanceRegistry,
    journal: Arc<Journal>,
}

/// The bus as those hold it who share it.
pub type SharedBus = Arc<PeerBus>;

/// What a bus is made of and bounded by.
#[derive(Clone)]
pub struct PeerOptions {
    /// Where time comes from, leases too: a clock that jumps when the machine's is set would end
    /// them all at once. The usual one reads the machine's once, and never jumps.
    pub clock: Arc<dyn Clock>,
    /// Where ids and secrets come from.
    pub entropy: Arc<dyn Entropy>,
    /// The bounds of the registry.
    pub limits: Limits,
    /// How many unread messages a subscription holds.
    pub inbox_max: usize,
    /// When a line of the journal counts as written.
    pub sync: JournalSync,
}

impl PeerBus {
    /// A bus that lives in this process and writes its journal under `logs_dir/bus/`.
    ///
    /// Nothing is read, written or made before the first publish.
    #[must_use]
    pub fn new(logs_dir: &Path) -> Self {
        Self::with(logs_dir, PeerOptions::default())
    }

    /// As [`new`](Self::new), with these options.
    #[must_use]
    pub fn with(logs_dir: &Path, options: PeerOptions) -> Self {
        let PeerOptions { clock, entropy, limits, inbox_max, sync } = options;
        let journal = Journal::new(journal::dir_of(logs_dir), Arc::clone(&clock), sync);
        let core = Arc::new(Core::new(clock, entropy, limits, inbox_max, None));
        Self { registry: InstanceRegistry { core, shared: None }, journal: Arc::new(journal) }
    }

    /// A bus that shares its registry with all others of the workspace that are made so: an
    /// instance that listens at one of them is reached from every one. Each writes a journal of its
    /// own, and has to be served: see [`Serving`].
    ///
    /// The agent of `endpoint` is a worker of the queue `peers` and an orchestrator, and no other
    /// bus has it. `engine` keeps the registry; who may write the bucket `VAK_PEERS_<workspace>`
    /// there says who is registered.
    ///
    /// # Errors
    /// [`BusError::Unavailable`] when the engine does not answer or refuses.
    pub async fn over(
        endpoint: Endpoint,
        engine: Arc<dyn Engine>,
        logs_dir: &Path,
        options: PeerOptions,
    ) -> Result<(Self, Serving), BusError> {
        let PeerOptions { clock, entropy, limits, inbox_max, sync } = options;
        let journal = Journal::new(journal::dir_of(logs_dir), Arc::clone(&clock), sync);
        let (journal, dirty) = (Arc::new(journal), Arc::<Dirty>::default());
        let notes = Some(Arc::clone(&dirty));
        let core = Arc::new(Core::new(clock, entropy, limits, inbox_max, notes));
        let bounds = (limits.lease, limits.instances_max);
        let shared = Arc::new(Shared::new(endpoint, engine, Arc::clone(&core), dirty, bounds));
        let mut serving =
            Serving::new(Arc::clone(&shared), Arc::clone(&core), Arc::clone(&journal));
        serving.open().await?;
        let registry = InstanceRegistry { core, shared: Some(shared) };
        Ok((Self { registry, journal }, serving))
    }

    /// Who is registered.
    #[must_use]
    pub const fn registry(&self) -> &InstanceRegistry {
        &self.registry
    }

    /// The file that a record of now stands in.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.journal.path()
    }

    /// Opens an inbox for an instance: it alone gets what is meant for the instance.
    ///
    /// # Errors
    /// [`BusError::InstanceGone`], [`BusError::WrongSecret`], and [`BusError::Full`] when it has
    /// as many as it may; [`BusError::Unavailable`] when a shared registry cannot be told.
    pub async fn subscribe(
        &self,
        instance_id: &str,
        secret: &InstanceSecret,
    ) -> Result<Inbox, BusError> {
        let Some(shared) = &self.registry.shared else {
            return self.registry.core.subscribe(instance_id, secret.hash());
        };
        shared.look_up(instance_id).await?;
        let inbox = self.registry.core.subscribe(instance_id, secret.hash())?;
        if shared.tell(instance_id, false).await? {
            return Ok(inbox);
        }
        Err(BusError::InstanceGone { instance_id: instance_id.to_owned() })
    }

    /// Moves the lease of an instance on.
    ///
    /// # Errors
    /// [`BusError::InstanceGone`] and [`BusError::WrongSecret`]; [`BusError::Unavailable`] when a
    /// shared registry cannot be told.
    pub async fn heartbeat(
        &self,
        instance_id: &str,
        secret: &InstanceSecret,
    ) -> Result<LiveInstance, BusError> {
        let Some(shared) = &self.registry.shared else {
            return self.registry.core.heartbeat(instance_id, secret.hash());
        };
        shared.look_up(instance_id).await?;
        let live = self.registry.core.heartbeat(instance_id, secret.hash())?;
        if shared.tell(instance_id, true).await? {
            return Ok(live);
        }
        Err(BusError::InstanceGone { instance_id: instance_id.to_owned() })
    }

    /// Ends a registration; its readers get what is in their inboxes and then the end. `false`
    /// when there was none, so a second time does nothing.
    ///
    /// # Errors
    /// [`BusError::WrongSecret`]; [`BusError::Unavailable`] when a shared registry cannot be told.
    pub async fn deregister(
        &self,
        instance_id: &str,
        secret: &InstanceSecret,
    ) -> Result<bool, BusError> {
        if let Some(shared) = &self.registry.shared {
            shared.look_up(instance_id).await?;
            match self.registry.core.heartbeat(instance_id, secret.hash()) {
                Ok(_) => shared.remove(instance_id).await?,
                Err(BusError::InstanceGone { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
            // That its entry is gone may have been heard by now, which ended it here as well.
            return self.registry.core.deregister(instance_id, secret.hash()).map(|_| true);
        }
        self.registry.core.deregister(instance_id, secret.hash())
    }

    /// Ends registrations whose lease is over. Every other call does it as well: this is for a
    /// bus on which nothing happens, whose readers wait for their end.
    pub fn sweep(&self) {
        self.registry.core.tick();
    }

    /// Sends a message, and returns it as its receiver gets it once its record is written.
    ///
    /// In this order: what the caller claims to be is whole; its kind may send here; the secret is
    /// that of the live instance it claims to be; the target is resolved, without a way from one
    /// kind of address to the other; the message is stamped, put into every inbox of the receiver,
    /// and recorded as what became of it. From the verified sender on every outcome is recorded,
    /// before it nothing is.
    ///
    /// When the future is dropped, a message that was delivered stays so and is recorded.
    ///
    /// # Errors
    /// [`BusError::InvalidCaller`], [`BusError::TooLarge`], [`BusError::InvalidTarget`],
    /// [`BusError::CallerKindNotPermitted`], [`BusError::UnregisteredSender`] and
    /// [`BusError::Full`] without a record; [`BusError::NoLiveInstance`],
    /// [`BusError::InstanceGone`] and [`BusError::NoSubscriber`] with one that says `dropped`;
    /// [`BusError::Journal`] when the record could not be written, whose outcome says whether a
    /// subscriber has the message; [`BusError::Unavailable`] with an unknown outcome when another
    /// bus did not say whether it took the message in, which is recorded as `dropped`.
    pub async fn publish(
        &self,
        secret: &InstanceSecret,
        from: CallerIdentity,
        target: &PeerTarget,
        payload: BusPayload,
        in_reply_to: Option<String>,
    ) -> Result<Arc<Posted>, BusError> {
        from.validate()?;
        check_sizes(&from, &payload, in_reply_to.as_deref())?;
        let edge = from.kind.peer_edge()?;
        target.check()?;
        let core = &self.registry.core;
        let hash = secret.hash();
        let sender = from.instance_id.as_deref().unwrap_or_default();
        if let Some(shared) = &self.registry.shared {
            shared.look_up(sender).await?;
        }
        let definition_id = core.verify(sender, &hash)?;
        self.journal.begin().map_err(|why| why.refused(None))?;
        if self.journal.is_broken() {
            self.journal.ready().await.map_err(|why| why.refused(None))?;
        }
        let mut random = [0; 16];
        core.entropy().fill(&mut random).map_err(|_| BusError::Unavailable {
            reason: "there is no randomness".into(),
            outcome: Outcome::NotDone,
        })?;
        let mut envelope = BusEnvelope {
            message_id: Builder::from_random_bytes(random).into_uuid().to_string(),
            ts: core.now().to_string(),
            in_reply_to,
            edge,
            // What nobody has verified is left out.
            from: CallerIdentity {
                channel_origin: None,
                definition_id: Some(definition_id),
                ..from
            },
            to: Recipient::default(),
            delivery_state: DeliveryState::Dropped,
            payload,
        };
        let told = match self.hand_on(&mut envelope, target).await? {
            Elsewhere::Here => None,
            Elsewhere::Told(told) => Some(told),
            Elsewhere::Unsure(error) => return Err(self.unsure(envelope, error).await),
        };
        let draft = Draft { envelope, secret: &hash, target, told };
        let attempted = core.attempt(draft, &self.journal)?;
        let Attempted { fate, message_id, written } = attempted;
        match (journal::wait(written).await, fate) {
            (Ok(()), fate) => fate,
            (Err(why), Err(error)) => {
                let Unwritten(reason) = why;
                let reason = format!("{reason}; the message was dropped: {error}");
                Err(Unwritten(reason).refused(Some(message_id)))
            }
            (Err(Unwritten(reason)), Ok(_)) => Err(BusError::Journal {
                reason: format!("{reason}; the message was delivered"),
                message_id: Some(message_id),
                outcome: Outcome::Unknown,
            }),
        }
    }

    /// Has other buses take the message in, where the registry is shared.
    async fn hand_on(
        &self,
        envelope: &mut BusEnvelope,
        target: &PeerTarget,
    ) -> Result<Elsewhere, BusError> {
        match &self.registry.shared {
            None => Ok(Elsewhere::Here),
            Some(shared) => shared.hand_on(envelope, target).await,
        }
    }

    /// Records a message that another bus may have taken in, and says so.
    async fn unsure(&self, mut envelope: BusEnvelope, error: BusError) -> BusError {
        envelope.delivery_state = DeliveryState::Dropped;
        let message_id = envelope.message_id.clone();
        let written = match self.registry.core.record_unsure(envelope, &self.journal) {
            Ok(written) => journal::wait(written).await,
            Err(full) => return full,
        };
        match written {
            Ok(()) => error,
            Err(Unwritten(reason)) => BusError::Journal {
                reason: format!("{reason}; the message may have been delivered: {error}"),
                message_id: Some(message_id),
                outcome: error.outcome(),
            },
        }
    }

    /// Writes what is under way, syncs the journal and gives it up, so that another one may be
    /// opened on it. Every publish after this is refused.
    ///
    /// # Errors
    /// [`BusError::Journal`] when it is not known to be on the disk.
    pub async fn close(&self) -> Result<(), BusError> {
        self.registry.core.seal(&self.journal);
        self.journal.close().await.map_err(|why| why.refused(None))
    }

    /// What was mended at the ends of the journal's files since the last call, each told once.
    #[must_use]
    pub fn take_mended(&self) -> Vec<(PathBuf, TailReport)> {
        self.journal.take_mended()
    }
}

impl Default for PeerOptions {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy::new()),
            limits: Limits::default(),
            inbox_max: INBOX_MAX,
            sync: JournalSync::default(),
        }
    }
}

impl fmt::Debug for PeerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerOptions")
            .field("limits", &self.limits)
            .field("inbox_max", &self.inbox_max)
            .field("sync", &self.sync)
            .finish_non_exhaustive()
    }
}

fn check_sizes(
    from: &CallerIdentity,
    payload: &BusPayload,
    in_reply_to: Option<&str>,
) -> Result<(), BusError> {
    let fields = [
        ("from.instance_id", from.instance_id.as_deref(), ID_BYTES_MAX),
        ("payload.text", Some(payload.text()), TEXT_BYTES_MAX),
        ("in_reply_to", in_reply_to, REPLY_BYTES_MAX),
    ];
    for (field, text, bytes_max) in fields {
        let bytes = text.map_or(0, str::len);
        if bytes > bytes_max {
            return Err(BusError::TooLarge { field, bytes, bytes_max });
        }
    }
    Ok(())
}

/// How many unread messages a subscription holds.
const INBOX_MAX: usize = 64;

/// The longest text of a message: escaped six times over it still fits a line.
const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// The longest id of a message that is answered.
const REPLY_BYTES_MAX: usize = 128;
