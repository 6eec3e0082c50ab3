//! The form of an outbox record: a packed frame within a frame.

use bus_subjects::{Address, AgentId, Subject, WorkspaceId};
use bytes::Bytes;

use crate::{
    Error, ErrorKind, Frame, OriginalFrame, Result,
    packed::{pack_frame, unpack_frame},
};

/// What waits in an outbox: a frame for the hub, and whose outbox it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// The agent whose outbox it stands in.
    pub(crate) agent: AgentId,
    /// The frame as the hub is to store it.
    pub(crate) frame: Frame,
}

impl Record {
    /// Whether `subject` is one that an outbox takes: a work queue or a mailbox of `workspace`.
    ///
    /// Evidence is no such thing: it has one chain for all, whose head is known only where it is
    /// stored.
    pub(crate) fn is_of(workspace: &WorkspaceId, subject: &Subject) -> bool {
        match Address::parse(subject) {
            Ok(address @ (Address::Task { .. } | Address::Inbox { .. })) => {
                address.workspace() == workspace
            }
            _ => false,
        }
    }

    /// The frame that keeps `frame` in the outbox of `agent`.
    ///
    /// # Errors
    /// `Invalid` or `TooLarge`, not done, when it cannot be carried.
    pub(crate) fn pack(workspace: &WorkspaceId, agent: &AgentId, frame: &Frame) -> Result<Frame> {
        Self::check(workspace, frame)?;
        // What the hub refuses becomes a dead letter at home.
        OriginalFrame::check_fits(frame)?;
        let mut packed = Vec::new();
        pack_frame(frame, &mut packed);
        let (workspace, agent) = (workspace.clone(), agent.clone());
        let subject = Address::Outbox { workspace, agent }.subject();
        let outer = Frame::new(subject, frame.id.clone(), Bytes::from(packed));
        outer.check_size(OP)?;
        Ok(outer)
    }

    /// What the frame `outer` keeps.
    ///
    /// # Errors
    /// `Corrupt` when it is no record of an outbox of `workspace`.
    pub(crate) fn unpack(workspace: &WorkspaceId, outer: &Frame) -> Result<Self> {
        let corrupt = |why: &'static str| Error::new(ErrorKind::Corrupt, OP, why);
        let agent = match Address::parse(&outer.subject) {
            Ok(Address::Outbox { workspace: of, agent }) if of == *workspace => agent,
            _ => return Err(corrupt("the frame is of no outbox of this workspace")),
        };
        let frame = unpack_frame(&outer.body)?;
        if frame.id != outer.id {
            return Err(corrupt("the record holds a frame with another id"));
        }
        Self::check(workspace, &frame)
            .map_err(|error| corrupt("the record is nothing to carry").because(error))?;
        Ok(Self { agent, frame })
    }

    fn check(workspace: &WorkspaceId, frame: &Frame) -> Result<()> {
        let refuse =
            |why: &'static str| Err(Error::new(ErrorKind::Invalid, OP, why).at(&frame.subject));
        if !Self::is_of(workspace, &frame.subject) {
            return refuse("an outbox takes what goes to work queues and mailboxes only");
        }
        if frame.reply.is_some() {
            return refuse("what waits in an outbox cannot be answered");
        }
        Ok(())
    }
}

const OP: &str = "outbox";
