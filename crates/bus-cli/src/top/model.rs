//! What `vakbus top` knows: rows of four panes and a few rates, with bounds on all of them.

use std::{collections::VecDeque, time::Duration};

use bus_core::Seq;
use bus_envelope::{EventHash, Timestamp};
use bus_subjects::SessionId;
use serde_json::{Value, json};
use uuid::Uuid;

use super::look::{Shelf, Sight};

/// Everything that is shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) queues: Vec<QueueRow>,
    /// The commands at work, by agent and task.
    pub(crate) agents: Vec<AgentRow>,
    pub(crate) approvals: Vec<ApprovalRow>,
    /// How many approvals wait, also those that are not shown.
    pub(crate) approvals_in_all: usize,
    pub(crate) shelf: Shelf,
    pub(crate) receipts: Rate,
    pub(crate) given_up: Rate,
    pub(crate) samples: Rate,
    /// Live samples that were lost on the way.
    pub(crate) missed: u64,
    /// Since when the bus does not answer, and why.
    pub(crate) away: Option<(Timestamp, String)>,
    /// What is being done now.
    pub(crate) working: Option<String>,
    /// What came of the last thing that was asked for.
    pub(crate) notice: Option<Notice>,
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueRow {
    pub(crate) role: String,
    pub(crate) waiting: u64,
    pub(crate) running: u64,
    pub(crate) oldest: Option<Duration>,
    pub(crate) paused_until: Option<Timestamp>,
}

/// What a command of an agent used lately.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AgentRow {
    pub(crate) agent: String,
    pub(crate) life: Uuid,
    pub(crate) session: String,
    pub(crate) task: String,
    /// Processor seconds a second; none before the second sample.
    pub(crate) cpu: Option<f64>,
    pub(crate) rss: Option<u64>,
    /// How long ago it was heard of last.
    pub(crate) heard: Duration,
    /// Whether its command has ended.
    pub(crate) has_ended: bool,
}

/// A request that waits for its verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApprovalRow {
    pub(crate) hash: EventHash,
    pub(crate) session: SessionId,
    pub(crate) asker: String,
    pub(crate) asked: Timestamp,
    pub(crate) action: String,
    pub(crate) target: String,
    pub(crate) question: Option<String>,
    pub(crate) run: Option<String>,
    pub(crate) choices: Vec<String>,
    /// The one choice that approves.
    pub(crate) approving: String,
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LetterRow {
    pub(crate) seq: Seq,
    pub(crate) stored: Timestamp,
    pub(crate) kind: String,
    pub(crate) agent: String,
    pub(crate) queue: String,
    /// Empty when the letter cannot be opened.
    pub(crate) task: String,
    pub(crate) attempts: u32,
    pub(crate) redrives: u32,
    /// Why, or why that is not known.
    pub(crate) reason: String,
}

/// The end of something that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) text: String,
    pub(crate) is_failure: bool,
}

/// How often something happens.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rate {
    /// Counts with the span of time that each was counted over.
    counts: VecDeque<(u64, Duration)>,
}

impl Rate {
    /// Counts `count` more, over the last `span`.
    pub(crate) fn note(&mut self, count: u64, span: Duration) {
        if self.counts.len() >= RATE_SPANS {
            self.counts.pop_front();
        }
        self.counts.push_back((count, span));
    }

    /// How many a second lately.
    pub(crate) fn per_second(&self) -> f64 {
        let count: u64 = self.counts.iter().map(|(count, _)| count).sum();
        let span: Duration = self.counts.iter().map(|(_, span)| span).sum();
        if span.is_zero() {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate is shown with one digit")]
        let count = count as f64;
        count / span.as_secs_f64()
    }
}

impl Model {
    /// Takes what a look saw.
    pub(super) fn see(&mut self, sight: Sight) {
        if let Some(queues) = sight.queues {
            self.queues = queues;
        }
        self.approvals = sight.approvals;
        self.approvals_in_all = sight.approvals_in_all;
        self.shelf = sight.shelf;
        self.receipts.note(sight.counts.receipts, sight.span);
        self.given_up.note(sight.counts.given_up, sight.span);
    }

    /// All of it as one JSON object.
    pub(crate) fn to_json(&self, now: Timestamp) -> Value {
        let ms = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let queue = |row: &QueueRow| {
            json!({
                "queue": row.role,
                "pending": row.waiting,
                "in_flight": row.running,
                "oldest_ms": row.oldest.map(ms),
                "paused_until": row.paused_until.map(|time| time.to_string()),
            })
        };
        let agent = |row: &AgentRow| {
            json!({
                "agent": row.agent,
                "session": row.session,
                "task": row.task,
                "cpu_rate": row.cpu,
                "rss_bytes": row.rss,
                "ended": row.has_ended,
            })
        };
        let approval = |row: &ApprovalRow| {
            json!({
                "approval": row.hash.to_string(),
                "session": row.session.as_str(),
                "asker": row.asker,
                "age_ms": ms(now.since(row.asked)),
                "action": row.action,
                "target": row.target,
                "question": row.question,
                "run": row.run,
                "choices": row.choices,
                "approvalChoice": row.approving,
            })
        };
        let letter = |row: &LetterRow| {
            json!({
                "letter": row.seq.0,
                "age_ms": ms(now.since(row.stored)),
                "kind": row.kind,
                "agent": row.agent,
                "queue": row.queue,
                "task": row.task,
                "attempts": row.attempts,
                "redrives": row.redrives,
                "reason": row.reason,
            })
        };
        json!({
            "queues": self.queues.iter().map(queue).collect::<Vec<_>>(),
            "agents": self.agents.iter().map(agent).collect::<Vec<_>>(),
            "approvals": self.approvals.iter().map(approval).collect::<Vec<_>>(),
            "approvals_in_all": self.approvals_in_all,
            "dead_letters": self.shelf.letters.iter().map(letter).collect::<Vec<_>>(),
            "dead_letters_in_all": self.shelf.in_all,
        })
    }
}

/// How many rows a pane has at most; the rest is counted.
pub(crate) const ROWS_MAX: usize = 500;

/// Over how many looks a rate is taken.
const RATE_SPANS: usize = 5;
