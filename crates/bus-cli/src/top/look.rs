//! Looks at what is stored on the bus, for `vakbus top`.

use std::{collections::VecDeque, time::Duration};

use bus_core::{
    DeadLetter, DeadLetters, Follow, LetterFilter, LetterOrder, OpenApproval, OpenApprovals, Seq,
    planes,
};
use bus_subjects::{Address, AddressKind, Subject};
use tokio::time::Instant;

use super::{
    model::{ApprovalRow, LetterRow, QueueRow, ROWS_MAX},
    pace::Pace,
};
use crate::{commands::queue as queues, engine::Agent, error::CliError};

/// Follows what is stored.
pub(super) struct Looker {
    agent: Agent,
    open: OpenApprovals,
    approvals: Follow,
    receipts: Follow,
    letters: Follow,
    shelf: Shelf,
    /// When the letters are to be listed anew, because some may have gone.
    list_after: Option<Instant>,
    /// How often the queues are counted: that costs the bus more than all the rest.
    counting: Pace,
    counts: Counts,
    looked: Instant,
}

/// What a look saw.
#[derive(Debug, Clone)]
pub(super) struct Sight {
    /// The queues, when they were counted.
    pub(super) queues: Option<Vec<QueueRow>>,
    pub(super) approvals: Vec<ApprovalRow>,
    pub(super) approvals_in_all: usize,
    pub(super) shelf: Shelf,
    pub(super) counts: Counts,
    /// What was counted over.
    pub(super) span: Duration,
}

/// What came since the last look that was told.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) receipts: u64,
    pub(super) given_up: u64,
}

/// The newest dead letters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shelf {
    /// At most [`ROWS_MAX`] of them, the newest first.
    pub(crate) letters: VecDeque<LetterRow>,
    /// How many there are, also those that are not here.
    pub(crate) in_all: u64,
}

impl Shelf {
    /// Puts one more in front.
    pub(crate) fn put(&mut self, row: LetterRow) {
        if self.letters.iter().any(|known| known.seq == row.seq) {
            return;
        }
        self.letters.push_front(row);
        self.letters.truncate(ROWS_MAX);
        self.in_all = self.in_all.saturating_add(1);
    }
}

impl Looker {
    /// Begins: approvals from the first one on, receipts and letters from now on.
    ///
    /// # Errors
    /// When the bus does not let the agent read.
    pub(super) async fn new(agent: Agent) -> Result<Self, CliError> {
        let endpoint = agent.endpoint.clone();
        let workspace = endpoint.workspace().clone();
        let of = |kind: AddressKind| kind.filter(Some(&workspace));
        let approvals = Follow::new(
            endpoint.clone(),
            planes::approvals_stream()?,
            of(AddressKind::Approval),
            Seq(1),
        );
        let receipts =
            Follow::at_end(endpoint.clone(), planes::receipts_stream()?, of(AddressKind::Receipt));
        let letters = Follow::at_end(
            endpoint.clone(),
            planes::dead_letters_stream()?,
            of(AddressKind::DeadLetter),
        );
        Ok(Self {
            open: OpenApprovals::default(),
            approvals,
            receipts: receipts.await?,
            letters: letters.await?,
            shelf: Shelf::default(),
            list_after: None,
            counting: Pace::default(),
            counts: Counts::default(),
            looked: Instant::now(),
            agent,
        })
    }

    /// Something was changed: that is to be seen with the next look.
    pub(super) fn expect_changes(&mut self) {
        self.list_after = None;
        self.counting.hurry();
    }

    /// Looks once at everything that is stored.
    ///
    /// # Errors
    /// When something cannot be read; the next look goes on from there.
    pub(super) async fn look(&mut self) -> Result<Sight, CliError> {
        let endpoint = self.agent.endpoint.clone();
        let now = endpoint.clock().now();
        let queues = self.count_queues().await?;
        let open = &mut self.open;
        self.approvals
            .look(|stored| {
                let _what_it_did = endpoint.apply_approval(open, &stored);
            })
            .await?;
        let mut asked: Vec<&OpenApproval> = self.open.list();
        asked.retain(|asked| !asked.request.is_expired_at(now));
        let approvals_in_all = asked.len();
        let approvals = asked.into_iter().take(ROWS_MAX).map(row_of_approval).collect();
        let receipts = self.receipts.look(drop).await?;
        self.counts.receipts = self.counts.receipts.saturating_add(receipts);
        self.look_at_letters().await?;
        let span = self.looked.elapsed();
        self.looked = Instant::now();
        Ok(Sight {
            queues,
            approvals,
            approvals_in_all,
            shelf: self.shelf.clone(),
            counts: std::mem::take(&mut self.counts),
            span,
        })
    }

    /// Counts the queues, unless that was done a moment ago and took long.
    async fn count_queues(&mut self) -> Result<Option<Vec<QueueRow>>, CliError> {
        let began = Instant::now();
        if !self.counting.is_due(began) {
            return Ok(None);
        }
        let now = self.agent.endpoint.clock().now();
        let counted = queues::queues(&self.agent, now).await;
        // In vain or not, it was a burden.
        self.counting.note(began, Instant::now());
        Ok(Some(counted?.into_iter().map(row_of_queue).collect()))
    }

    /// The letters: those that came, and now and then which ones have gone.
    async fn look_at_letters(&mut self) -> Result<(), CliError> {
        let mut came = Vec::new();
        let count = self.letters.look(|stored| came.push(stored.seq)).await?;
        self.counts.given_up = self.counts.given_up.saturating_add(count);
        let letters = DeadLetters::new(self.agent.endpoint.clone());
        if self.list_after.is_some_and(|after| Instant::now() < after) {
            for seq in came {
                if let Ok(letter) = letters.show(seq).await {
                    self.shelf.put(row_of_letter(letter));
                }
            }
            return Ok(());
        }
        let mut list = letters.list(LetterFilter::default(), LetterOrder::NewestFirst).await?;
        let mut shelf = Shelf::default();
        while let Some(letter) = list.next().await {
            let letter = letter?;
            shelf.in_all = shelf.in_all.saturating_add(1);
            if shelf.letters.len() < ROWS_MAX {
                shelf.letters.push_back(row_of_letter(letter));
            }
        }
        // Many are not looked through again and again.
        let pause = if shelf.in_all > MANY { RARELY } else { OFTEN };
        self.shelf = shelf;
        self.list_after = Some(Instant::now() + pause);
        Ok(())
    }
}

fn row_of_queue((role, queue): (String, queues::Queue)) -> QueueRow {
    QueueRow {
        role,
        waiting: queue.lag.pending,
        running: queue.lag.in_flight,
        oldest: queue.lag.oldest,
        paused_until: queue.paused_until,
    }
}

fn row_of_approval(asked: &OpenApproval) -> ApprovalRow {
    let request = &asked.request;
    ApprovalRow {
        hash: asked.hash,
        session: asked.session.clone(),
        asker: asked.asker.to_string(),
        asked: asked.asked,
        action: request.action().to_owned(),
        target: request.target().to_owned(),
        question: request.in_words().map(str::to_owned),
        run: request.of_run().map(str::to_owned),
        choices: request.choices().to_vec(),
        approving: request.approving_choice().to_owned(),
    }
}

fn row_of_letter(letter: DeadLetter) -> LetterRow {
    let agent = letter.agent.map(|agent| agent.to_string()).unwrap_or_default();
    let base = LetterRow {
        seq: letter.seq,
        stored: letter.stored,
        kind: UNKNOWN.to_owned(),
        agent,
        queue: String::new(),
        task: String::new(),
        attempts: 0,
        redrives: 0,
        reason: String::new(),
    };
    match letter.content {
        Ok(content) => LetterRow {
            kind: content.kind.map_or(UNKNOWN, |kind| kind.as_str()).to_owned(),
            queue: queue_of(&content.event.subject),
            task: content.event.envelope_id,
            attempts: content.event.attempts,
            redrives: content.redrives,
            reason: content.event.failure_reason,
            ..base
        },
        Err(error) => LetterRow { reason: format!("cannot be opened: {error}"), ..base },
    }
}

/// The role of a queue; of another place its subject.
fn queue_of(subject: &str) -> String {
    match Subject::parse(subject).map(|subject| Address::parse(&subject)) {
        Ok(Ok(Address::Task { role, .. })) => role.to_string(),
        _ => subject.to_owned(),
    }
}

/// What stands where a letter does not name its cause.
const UNKNOWN: &str = "unknown";

/// How often letters are listed anew, of few and of many.
const OFTEN: Duration = Duration::from_secs(5);
const RARELY: Duration = Duration::from_secs(60);
const MANY: u64 = 2_000;
