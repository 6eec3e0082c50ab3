//! The fail-closed contract of the peer bus: why a call was refused, and whether it was done.

use bus_core::Outcome;

use crate::CallerKind;

/// Why the peer bus refused a call, or could not carry it out.
///
/// Holds no payload and no secret. What it means to a door, such as an HTTP status, the door says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BusError {
    /// A definition id that cannot stand in an instance id or in a path.
    #[error("definition_id is not usable: {reason}")]
    InvalidDefinitionId {
        /// What was expected.
        reason: &'static str,
    },
    /// A target that names nobody.
    #[error("to is not usable: {reason}")]
    InvalidTarget {
        /// What was expected.
        reason: &'static str,
    },
    /// A caller that lacks what its kind needs.
    #[error("from is not usable: {reason}")]
    InvalidCaller {
        /// What was expected.
        reason: &'static str,
    },
    /// A caller of a kind that may not send on this path.
    #[error("from.kind {kind} may not publish here: expected assistant_instance")]
    CallerKindNotPermitted {
        /// The kind it claimed.
        kind: CallerKind,
    },
    /// A field is longer than the bus takes.
    #[error("{field} has {bytes} bytes: at most {bytes_max} are allowed")]
    TooLarge {
        /// The field.
        field: &'static str,
        /// Its length in bytes.
        bytes: usize,
        /// The most it may have.
        bytes_max: usize,
    },
    /// The sender is not the live registration it claims to be: unknown, gone, or without its
    /// secret. Which of these it is, the error does not tell.
    #[error("from.instance_id {instance_id} is not a live registration with that secret")]
    UnregisteredSender {
        /// What it claimed.
        instance_id: String,
    },
    /// The secret given is not that of the instance.
    #[error("the secret is not that of instance {instance_id}")]
    WrongSecret {
        /// The instance.
        instance_id: String,
    },
    /// Nothing runs under the definition.
    #[error("no live instance of definition {definition_id}")]
    NoLiveInstance {
        /// The definition.
        definition_id: String,
    },
    /// The instance is not there, or not any more. No other one gets what was meant for it.
    #[error("instance {instance_id} is not live")]
    InstanceGone {
        /// The instance.
        instance_id: String,
    },
    /// The instance is registered and nobody listens for it.
    #[error("instance {instance_id} has no subscriber")]
    NoSubscriber {
        /// The instance.
        instance_id: String,
    },
    /// Every id that was drawn for a new instance had been given out before.
    #[error("no free id for an instance of {definition_id} in {tries} draws")]
    InstanceIdCollision {
        /// The definition.
        definition_id: String,
        /// How many were drawn.
        tries: usize,
    },
    /// A bound of the bus is reached.
    #[error("{what} are full: at most {max} are allowed")]
    Full {
        /// What is full.
        what: &'static str,
        /// The bound.
        max: usize,
    },
    /// The durable record could not be written.
    #[error("the journal could not be written: {reason}")]
    Journal {
        /// Why.
        reason: String,
        /// The message whose record is missing; none when it was refused before it was one.
        message_id: Option<String>,
        /// Whether the message reached a subscriber all the same.
        outcome: Outcome,
    },
    /// What the bus stands on does not answer or refuses: randomness, or the engine below.
    #[error("the bus is not available: {reason}")]
    Unavailable {
        /// Why.
        reason: String,
        /// Whether the message may have reached a subscriber all the same.
        outcome: Outcome,
    },
}

impl BusError {
    /// The stable name of the error, as logs and answers show it.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidDefinitionId { .. } => "invalid-definition-id",
            Self::InvalidTarget { .. } => "invalid-target",
            Self::InvalidCaller { .. } => "invalid-caller",
            Self::CallerKindNotPermitted { .. } => "caller-kind-not-permitted",
            Self::TooLarge { .. } => "too-large",
            Self::UnregisteredSender { .. } => "unregistered-sender",
            Self::WrongSecret { .. } => "wrong-secret",
            Self::NoLiveInstance { .. } => "no-live-instance",
            Self::InstanceGone { .. } => "instance-gone",
            Self::NoSubscriber { .. } => "no-subscriber",
            Self::InstanceIdCollision { .. } => "instance-id-collision",
            Self::Full { .. } => "full",
            Self::Journal { .. } => "journal",
            Self::Unavailable { .. } => "unavailable",
        }
    }

    /// Whether what was asked took effect all the same; `Unknown` only when a subscriber may have
    /// the message although the call failed.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Journal { outcome, .. } | Self::Unavailable { outcome, .. } => *outcome,
            _ => Outcome::NotDone,
        }
    }
}
