//! What a dead letter says about its original.

use bus_core::{FrameId, Result, Seq};
use bus_mem::core::Message;

use super::command::Plane;

/// Which message was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) plane: Plane,
    pub(super) seq: Seq,
    pub(super) id: String,
}

impl Letter {
    /// About a message of `plane`.
    pub(super) fn about(plane: Plane, message: &Message) -> Self {
        Self { plane, seq: message.seq, id: message.frame.id.as_str().to_owned() }
    }

    /// One id for one stored message, as workers name it.
    pub(super) fn frame_id(&self, message: &Message) -> Result<FrameId> {
        let name = self.name();
        FrameId::parse(&format!("{name}@{}:{}", message.time.unix_ns(), self.seq.0))
    }

    pub(super) fn body(&self) -> String {
        format!("{} {} {}", self.name(), self.seq.0, self.id)
    }

    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(body).ok()?.splitn(3, ' ');
        let plane = match words.next()? {
            "work" => Plane::Work,
            "inbox" => Plane::Inbox,
            _ => return None,
        };
        let seq = Seq(words.next()?.parse().ok()?);
        Some(Self { plane, seq, id: words.next()?.to_owned() })
    }

    const fn name(&self) -> &'static str {
        match self.plane {
            Plane::Inbox => "inbox",
            _ => "work",
        }
    }
}
