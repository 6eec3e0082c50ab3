//! What agents ask of the broker, and what it answers.

use std::{fmt, time::Duration};

use bus_core::{ErrorKind, Expect, Frame, Receipt, Seq, Verdict};
use bus_envelope::Timestamp;
use bus_mem::core::{Claim, ConsumerKey, Message};
use bus_subjects::Subject;

/// A request of one agent.
#[derive(Debug, Clone)]
pub(super) enum Command {
    /// Store a frame.
    Append { frame: Frame, expect: Expect },
    /// Store several frames or none.
    AppendAll { frames: Vec<Frame> },
    /// Wait for the next task of a queue.
    Claim { queue: usize },
    /// End a lease.
    Settle { lease: Lease, verdict: Verdict },
    /// Start a lease anew.
    Extend { lease: Lease },
    /// Read the last message under a subject.
    Last { subject: Subject },
    /// Hand nothing out for a time.
    Pause { queue: usize, until: Option<Timestamp> },
    /// Remove a message by an operator's hand.
    Discard { plane: Plane, seq: Seq },
    /// Remove the consumer of a queue.
    Remove { queue: usize },
    /// Count what waits.
    Count { plane: Plane },
    /// The connection is gone.
    Leave,
}

/// One lease, as its holder names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lease {
    pub(super) queue: usize,
    pub(super) consumer: ConsumerKey,
    pub(super) token: u64,
}

/// The durable streams that agents use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Plane {
    Work,
    Inbox,
    Receipts,
    Letters,
}

/// What the broker says.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Stored(Receipt),
    StoredAll(Vec<Receipt>),
    Claimed { lease: Lease, claim: Claim },
    Settled,
    Extended(Duration),
    Last(Option<Message>),
    Done,
    Refused(ErrorKind),
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Append { frame, expect: Expect::Any } => write!(f, "append {}", frame.id),
            Self::Append { frame, expect: Expect::LastOfSubject(Seq(seq)) } => {
                write!(f, "append {} after {seq}", frame.id)
            }
            Self::AppendAll { frames } => {
                let first = frames.first().map(|frame| frame.id.as_str()).unwrap_or_default();
                write!(f, "append {} frames from {first}", frames.len())
            }
            Self::Claim { queue } => write!(f, "claim q{queue}"),
            Self::Settle { lease, verdict } => write!(f, "settle {lease} {verdict:?}"),
            Self::Extend { lease } => write!(f, "extend {lease}"),
            Self::Last { subject } => write!(f, "last {subject}"),
            Self::Pause { queue, until } => {
                write!(f, "pause q{queue} until {:?}", until.map(Timestamp::unix_ns))
            }
            Self::Discard { plane, seq } => write!(f, "discard {plane:?} {}", seq.0),
            Self::Remove { queue } => write!(f, "remove q{queue}"),
            Self::Count { plane } => write!(f, "count {plane:?}"),
            Self::Leave => f.write_str("leave"),
        }
    }
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "q{}c{}#{}", self.queue, self.consumer.number(), self.token)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored(receipt) => {
                let word = if receipt.duplicate { "known" } else { "stored" };
                write!(f, "{word} {} {}", receipt.stream, receipt.seq.0)
            }
            Self::StoredAll(receipts) => write!(f, "stored {} frames", receipts.len()),
            Self::Claimed { lease, claim } => {
                let (id, seq) = (&claim.message.frame.id, claim.message.seq.0);
                write!(f, "claimed {lease} {id} ({seq}) attempt {}", claim.attempt)
            }
            Self::Settled => f.write_str("settled"),
            Self::Extended(by) => write!(f, "extended by {by:?}"),
            Self::Last(last) => {
                write!(f, "last is {}", last.as_ref().map_or(0, |stored| stored.seq.0))
            }
            Self::Done => f.write_str("done"),
            Self::Refused(kind) => write!(f, "refused: {}", kind.as_str()),
        }
    }
}
