//! The addressed message and its parts, with the field names of the specification.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::BusError;

/// One addressed message, as subscribers get it and the journal keeps it.
///
/// Optional fields are left out when absent. The form is in `docs/spec/peers.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusEnvelope {
    /// A UUID of version 4, given by the bus.
    pub message_id: String,
    /// When the bus took it, RFC 3339 in UTC.
    pub ts: String,
    /// The message it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<String>,
    /// Between whom it goes; derived from the sender, never claimed.
    pub edge: BusEdge,
    /// The verified sender.
    pub from: CallerIdentity,
    /// For whom it is.
    pub to: Recipient,
    /// What became of it.
    pub delivery_state: DeliveryState,
    /// What it says.
    pub payload: BusPayload,
}

/// Between whom a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BusEdge {
    /// A person and an assistant.
    UserAssistant,
    /// An assistant and one it started.
    AssistantSubagent,
    /// Two assistants, neither of which commands the other.
    AssistantAssistant,
}

/// What kind of sender it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallerKind {
    /// A person.
    User,
    /// A running assistant.
    AssistantInstance,
    /// A chat channel that a person writes in.
    Channel,
}

/// Who sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallerIdentity {
    /// The kind.
    pub kind: CallerKind,
    /// The running instance; an `assistant_instance` needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
    /// What the instance is one of; the bus writes it, whatever was claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition_id: Option<String>,
    /// Where a `channel` message comes from; needed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_origin: Option<ChannelOrigin>,
}

/// Where a message of a chat channel comes from; the parts are never flattened into one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelOrigin {
    /// Through what it came.
    pub connector: String,
    /// The person who wrote it.
    pub human_sender: String,
    /// The channel.
    pub channel: String,
    /// The workspace of the channel.
    pub workspace: String,
}

/// For whom a message is. A dropped one names only what its sender named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipient {
    /// The instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
    /// The definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition_id: Option<String>,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It waits in a mailbox.
    Queued,
    /// A subscriber has it in its inbox.
    Delivered,
    /// Its receiver said that it is done with it.
    Acked,
    /// Nobody got it.
    Dropped,
}

/// What a message says. A request can always be declined: its response is a payload of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum BusPayload {
    /// Plain text.
    ChatText {
        /// The text.
        text: String,
    },
    /// Something asked of a peer.
    PeerRequest {
        /// The text.
        text: String,
    },
    /// The answer to a request.
    PeerResponse {
        /// Whether the peer does it.
        accepted: bool,
        /// The text.
        text: String,
    },
}

impl BusPayload {
    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::ChatText { text } | Self::PeerRequest { text } => text,
            Self::PeerResponse { text, .. } => text,
        }
    }
}

impl CallerKind {
    /// The edge of what a sender of this kind publishes here.
    ///
    /// # Errors
    /// [`BusError::CallerKindNotPermitted`] for every kind but a running assistant: a message of a
    /// peer can never be read as the word of a person.
    pub const fn peer_edge(self) -> Result<BusEdge, BusError> {
        match self {
            Self::AssistantInstance => Ok(BusEdge::AssistantAssistant),
            kind @ (Self::User | Self::Channel) => Err(BusError::CallerKindNotPermitted { kind }),
        }
    }
}

impl fmt::Display for CallerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::AssistantInstance => "assistant_instance",
            Self::Channel => "channel",
        })
    }
}

impl CallerIdentity {
    /// The identity that an instance claims.
    pub fn instance(instance_id: impl Into<String>) -> Self {
        Self {
            kind: CallerKind::AssistantInstance,
            instance_id: Some(instance_id.into()),
            definition_id: None,
            channel_origin: None,
        }
    }

    /// Looks whether it has what its kind needs; whether that is true, it does not look.
    ///
    /// # Errors
    /// [`BusError::InvalidCaller`].
    pub fn validate(&self) -> Result<(), BusError> {
        let lacks = |text: &Option<String>| text.as_deref().is_none_or(str::is_empty);
        match self.kind {
            CallerKind::AssistantInstance if lacks(&self.instance_id) => {
                Err(BusError::InvalidCaller { reason: "expected from.instance_id of a peer" })
            }
            CallerKind::Channel if !self.channel_origin.as_ref().is_some_and(|o| o.is_whole()) => {
                Err(BusError::InvalidCaller { reason: "expected a whole from.channel_origin" })
            }
            _ => Ok(()),
        }
    }
}

impl ChannelOrigin {
    /// Whether the parts that tell who wrote where are all there.
    fn is_whole(&self) -> bool {
        ![&self.connector, &self.human_sender, &self.channel].into_iter().any(String::is_empty)
    }
}
