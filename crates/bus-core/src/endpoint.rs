//! The one send path and the one receive path of an agent.

mod batch;
mod begin;
mod call;
mod chain;
mod feed;
mod live;
mod metered;
mod observed;
mod outgoing;
mod pipeline;
mod receive;
mod record;
mod record_seen;
mod send;
mod stamp;
mod stored;
mod vouch;

use std::sync::Arc;

use bus_crypto::{Entropy, Keyring, SealKey};
use bus_envelope::{EventHash, MessageEnvelope, wire::WireForm};
use bus_subjects::{
    AclPolicy, AgentId, Filter, RoleName, SessionId, StreamName, Subject, WorkspaceId,
};
use bytes::Bytes;
use uuid::Uuid;

pub(crate) use self::observed::{Seen, settle};
pub use self::{
    call::{Asked, CallOutcome, Calls, Heard},
    feed::{Checkpointed, EventFeed, Incoming},
    outgoing::Outgoing,
    pipeline::{Pipeline, Ticket},
    record_seen::NotRecorded,
};
use crate::{
    BusMetrics, CheckpointPolicy, Clock, ConsumerSpec, ConsumerState, Deliveries, Engine, Error,
    Frame, Identity, Lag, Overflow, Receipt, Result, Roster, Seq, Standing, Tracing,
    guarded::denied,
};

/// An agent on the bus: turns drafts into sealed, chained, signed envelopes and back.
///
/// Cloning shares it: chains, keys and counters are those of one process life (an incarnation).
#[derive(Clone)]
pub struct Endpoint(Arc<Inner>);

/// What an endpoint is made of.
pub struct EndpointParts {
    /// The engine it sends and receives through.
    pub engine: Arc<dyn Engine>,
    /// Who it is.
    pub identity: Identity,
    /// The session its events belong to; narrows its rights to that session.
    pub session: Option<SessionId>,
    /// The work queue it serves; narrows its rights to that queue.
    pub queue: Option<RoleName>,
    /// The workspace's secrets.
    pub keyring: Arc<Keyring>,
    /// Whose signatures it accepts.
    pub roster: Arc<Roster>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where randomness comes from.
    pub entropy: Arc<dyn Entropy>,
    /// What is counted.
    pub metrics: Arc<BusMetrics>,
    /// The wire form it sends; it reads all.
    pub wire: WireForm,
    /// How soon its live messages are vouched for; `None`: their seal is all that stands behind
    /// them.
    pub checkpoints: Option<CheckpointPolicy>,
}

/// A message that was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The envelope's id.
    pub id: String,
    /// Its leaf hash: what a later message names as its cause.
    pub hash: EventHash,
    /// The engine's word.
    pub receipt: Receipt,
    /// What was stored, for those who keep a copy.
    pub frame: Frame,
}

/// What became of a record on an evidence subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// It is stored as the subject's new head.
    Stored(Box<Sent>),
    /// A record with this id was there before; nothing was stored now.
    AlreadyThere,
}

/// A message that was received, checked and opened. `Debug` does not show the payload.
#[derive(Clone)]
pub struct Opened {
    /// The envelope as it came, payload still sealed. Where somebody records traces, the span that
    /// it names is that of the work on it: a child of the one it came with.
    pub envelope: MessageEnvelope,
    /// The payload in plain.
    pub payload: Bytes,
    /// The envelope's leaf hash.
    pub hash: EventHash,
    /// What stands behind it: [`Standing::Signed`] or, for a live message, at first
    /// [`Standing::Sealed`].
    pub standing: Standing,
}

struct Inner {
    parts: EndpointParts,
    tracing: Tracing,
    policy: AclPolicy,
    seal_key: Arc<SealKey>,
    incarnation: Uuid,
    chains: chain::Chains,
    due: vouch::Due,
}

impl Endpoint {
    /// The largest payload of a draft, in bytes (640 KiB): what is larger would not fit into a
    /// dead letter as a whole. With very large headers, or in the JSON wire form, it is less.
    pub const PAYLOAD_BYTES_MAX: usize = 640 * 1024;

    /// Starts a new incarnation of the agent.
    ///
    /// # Errors
    /// `UnknownKey` when the keyring holds no secret of the workspace; `Unavailable` when the
    /// random source fails.
    pub fn new(parts: EndpointParts) -> Result<Self> {
        Self::traced(parts, Tracing::default())
    }

    /// As [`Endpoint::new`], for an agent whose work on messages somebody records, or whose caller
    /// is part of a trace.
    ///
    /// # Errors
    /// As [`Endpoint::new`].
    pub fn traced(parts: EndpointParts, tracing: Tracing) -> Result<Self> {
        let certificate = parts.identity.certificate();
        let policy = certificate.policy_for(parts.session.as_ref(), parts.queue.as_ref());
        let incarnation = stamp::new_uuid(&*parts.clock, &*parts.entropy)?;
        let workspace = certificate.workspace.as_str();
        let seal_key = parts.keyring.sealing_key(workspace, &incarnation.to_string())?;
        let (chains, due) = (chain::Chains::default(), vouch::Due::default());
        Ok(Self(Arc::new(Inner { parts, tracing, policy, seal_key, incarnation, chains, due })))
    }

    /// The workspace it belongs to.
    #[must_use]
    pub fn workspace(&self) -> &WorkspaceId {
        &self.0.parts.identity.certificate().workspace
    }

    /// The agent's name.
    #[must_use]
    pub fn agent(&self) -> &AgentId {
        &self.0.parts.identity.certificate().agent
    }

    /// The session its events belong to.
    #[must_use]
    pub fn session(&self) -> Option<&SessionId> {
        self.0.parts.session.as_ref()
    }

    /// This process life, a UUIDv7.
    #[must_use]
    pub fn incarnation(&self) -> Uuid {
        self.0.incarnation
    }

    /// The identity it signs with.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.0.parts.identity
    }

    /// Where it takes the time from.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        &*self.0.parts.clock
    }

    /// Where it takes randomness from.
    #[must_use]
    pub fn entropy(&self) -> &dyn Entropy {
        &*self.0.parts.entropy
    }

    /// What it counts.
    #[must_use]
    pub fn metrics(&self) -> &BusMetrics {
        &self.0.parts.metrics
    }

    /// Hears live messages on `filter`, opened and checked.
    ///
    /// # Errors
    /// `Denied` when the policy does not allow it, and those of [`crate::Bus::subscribe`].
    pub async fn subscribe(&self, filter: Filter, overflow: Overflow) -> Result<EventFeed> {
        self.may_subscribe("subscribe", &filter)?;
        let frames = self.engine().subscribe(filter, overflow).await?;
        Ok(EventFeed::new(self.clone(), frames))
    }

    /// Joins a consumer; its frames are opened with [`Endpoint::open`]. How long messages waited
    /// and verdicts took goes into the metrics.
    ///
    /// # Errors
    /// `Denied` when the policy does not allow it, and those of [`crate::Bus::consume`].
    pub async fn consume(&self, consumer: ConsumerSpec) -> Result<Deliveries> {
        self.may_subscribe("consume", &consumer.filter)?;
        let deliveries = self.engine().consume(consumer).await?;
        Ok(metered::deliveries(self, deliveries))
    }

    /// Reads what `stream` holds under `filter`, checking and opening nothing: what an export
    /// needs.
    ///
    /// # Errors
    /// `Denied` when the policy does not allow to hear `filter`, and those of
    /// [`crate::Bus::replay`].
    pub async fn replay(&self, stream: StreamName, filter: Filter) -> Result<crate::Replay> {
        self.replay_from(stream, filter, Seq(1)).await
    }

    /// As [`Endpoint::replay`], from position `from` on.
    ///
    /// # Errors
    /// As [`Endpoint::replay`].
    pub async fn replay_from(
        &self,
        stream: StreamName,
        filter: Filter,
        from: Seq,
    ) -> Result<crate::Replay> {
        self.may_subscribe("replay", &filter)?;
        self.engine().replay(stream, filter, from).await
    }

    /// How much work waits in `stream`; notes it on the way, as the metrics' `active_queue_lag`
    /// and as that of this stream.
    ///
    /// # Errors
    /// Those of [`crate::Bus::lag`]; the metrics keep the last answer.
    pub async fn queue_lag(&self, stream: StreamName) -> Result<Lag> {
        let lag = self.engine().lag(stream.clone()).await?;
        self.metrics().lag(lag.pending.saturating_add(lag.in_flight));
        self.metrics().stream_lag(&stream, lag);
        Ok(lag)
    }

    /// Every consumer of `stream` with what waits for it: the queues of that stream, by name. Notes
    /// them in the metrics on the way.
    ///
    /// # Errors
    /// Those of [`crate::Bus::consumers`]; the metrics keep the last answer.
    pub async fn queues(&self, stream: StreamName) -> Result<Vec<ConsumerState>> {
        let consumers = self.engine().consumers(stream.clone()).await?;
        self.metrics().consumer_lags(&stream, &consumers);
        Ok(consumers)
    }

    pub(crate) fn engine(&self) -> &Arc<dyn Engine> {
        &self.0.parts.engine
    }

    /// What is sent under a certificate that ended would be refused by everybody who reads it.
    pub(crate) fn check_certificate(&self, op: &'static str) -> Result<()> {
        if self.identity().certificate().is_valid_at(self.clock().now()) {
            return Ok(());
        }
        Err(self.certificate_ended(op))
    }

    fn certificate_ended(&self, op: &'static str) -> Error {
        let detail = "the certificate of this identity is not valid at this time";
        Error::new(crate::ErrorKind::Denied, op, detail).at(self.agent())
    }

    /// The key it seals with.
    pub(crate) fn seal_key(&self) -> &SealKey {
        &self.0.seal_key
    }

    /// The workspace's secrets.
    pub(crate) fn keyring(&self) -> &Keyring {
        &self.0.parts.keyring
    }

    /// Whose signatures it accepts.
    pub(crate) fn roster(&self) -> &Roster {
        &self.0.parts.roster
    }

    /// Refuses what the agent may not publish, or do under a subject of the engine's own.
    pub(crate) fn may_publish(&self, op: &'static str, subject: &Subject) -> Result<()> {
        self.check_certificate(op)?;
        if self.0.policy.can_publish(subject) {
            return Ok(());
        }
        Err(denied(op, "publish", subject))
    }

    /// Refuses what the agent may not hear.
    pub(crate) fn may_subscribe(&self, op: &'static str, filter: &Filter) -> Result<()> {
        self.check_certificate(op)?;
        if self.0.policy.can_subscribe(filter) {
            return Ok(());
        }
        Err(denied(op, "subscribe", filter))
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("workspace", self.workspace())
            .field("agent", self.agent())
            .field("incarnation", &self.0.incarnation)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened")
            .field("envelope", &self.envelope)
            .field("payload_bytes", &self.payload.len())
            .field("hash", &self.hash)
            .field("standing", &self.standing)
            .finish()
    }
}

impl From<bus_crypto::CryptoError> for Error {
    fn from(error: bus_crypto::CryptoError) -> Self {
        use bus_crypto::CryptoError as C;

        use crate::ErrorKind as K;
        let kind = match &error {
            C::UnknownKey { .. } | C::WithdrawnKey { .. } => K::UnknownKey,
            C::KeyExhausted { .. } => K::Exhausted,
            C::KeyringFull { .. } => K::Full,
            C::NotTrusted(_) => K::Denied,
            C::DecryptionFailed | C::BadSignature | C::ZeroSharedSecret => K::Corrupt,
            C::Entropy => K::Unavailable,
            _ => K::Invalid,
        };
        Self::new(kind, "crypto", error.to_string()).because(error)
    }
}

impl From<bus_envelope::EnvelopeError> for Error {
    fn from(error: bus_envelope::EnvelopeError) -> Self {
        Self::new(crate::ErrorKind::Invalid, "envelope", error.to_string()).because(error)
    }
}
