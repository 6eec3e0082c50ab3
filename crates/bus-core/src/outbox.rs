//! What is sent to a hub that may be away: kept at home until a courier has carried it there.

mod engine;
mod list;
mod record;
mod state;

use std::sync::Arc;

use bus_subjects::{AgentId, StreamName, Subject, WorkspaceId};

pub(crate) use self::record::Record;
pub use self::{
    list::{OutboxCounts, Waiting, WaitingRecords},
    state::{OutboxRecord, RecordState},
};
use crate::{Engine, Expect, Frame, Receipt, Result, planes};

/// An agent's outbox at an engine at home, in front of the hub's work queues and mailboxes.
///
/// It is an engine itself: an [`Endpoint`](crate::Endpoint) on it sends tasks and letters as on any
/// other, and they go to the hub as soon as a [`Courier`](crate::Courier) reaches it. What "stored"
/// says is then said by the engine at home. Everything else than appending to a work queue or a
/// mailbox happens at home, so its place in a stack is above whatever guards that engine.
///
/// Such an endpoint has chains of its own, which begin at the hub as those of a new incarnation do:
/// what one agent sends at home and what it sends to the hub are two lines.
///
/// A record is stored as it was sealed and signed, packed into a frame of the subject
/// `vak.outbox.<ws>.<agent>.record` under the same id.
pub struct Outbox {
    home: Arc<dyn Engine>,
    workspace: WorkspaceId,
    agent: AgentId,
}

impl Outbox {
    /// The outbox of `agent` at the engine `home`, which holds the stream
    /// [`planes::outbox`](crate::planes::outbox).
    #[must_use]
    pub fn new(home: Arc<dyn Engine>, workspace: WorkspaceId, agent: AgentId) -> Self {
        Self { home, workspace, agent }
    }

    /// Keeps `frame` for the hub; when this returns it is stored at home. A repeat of an id within
    /// the outbox's window stores nothing and says so.
    ///
    /// Cancel safe as [`Bus::append`](crate::Bus::append) is.
    ///
    /// # Errors
    /// `Invalid` when it goes to no work queue or mailbox of the workspace, or expects an answer;
    /// `TooLarge` when it, or a dead letter of it, would not fit into a frame; those of
    /// [`Bus::append`](crate::Bus::append).
    pub async fn put(&self, frame: Frame) -> Result<Receipt> {
        let record = self.pack(&frame)?;
        self.home.append(record, Expect::Any).await
    }

    /// As [`Outbox::put`] for several frames, all or none.
    ///
    /// # Errors
    /// As [`Outbox::put`] and [`Bus::append_all`](crate::Bus::append_all).
    pub async fn put_all(&self, frames: Vec<Frame>) -> Result<Vec<Receipt>> {
        let records: Result<Vec<Frame>> = frames.iter().map(|frame| self.pack(frame)).collect();
        self.home.append_all(records?).await
    }

    fn pack(&self, frame: &Frame) -> Result<Frame> {
        Record::pack(&self.workspace, &self.agent, frame)
    }

    fn stream(&self) -> Result<StreamName> {
        planes::outbox_stream(&self.workspace)
    }

    /// Whether what goes to `subject` is for the hub.
    fn is_for_hub(&self, subject: &Subject) -> bool {
        Record::is_of(&self.workspace, subject)
    }
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox")
            .field("workspace", &self.workspace)
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}
