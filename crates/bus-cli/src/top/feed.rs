//! Looks at the bus for `vakbus top`, and does on it what the user asks for.

use std::time::Duration;

use bus_core::{
    DeadLetter, DeadLetters, EventFeed, Follow, Incoming, LetterFilter, LetterOrder, OpenApproval,
    OpenApprovals, Opened, Overflow, Redrive, Seq, planes,
};
use bus_envelope::Timestamp;
use bus_runner::TELEMETRY;
use bus_subjects::{Address, AddressKind, Filter, RoleName, Subject};
use serde::Deserialize;
use tokio::time::Instant;

use super::{
    dialog::Action,
    model::{AgentKey, AgentRow, ApprovalRow, LetterRow, Model, QueueRow, ROWS_MAX},
};
use crate::{
    commands::queue as queues,
    engine::{Agent, Scope, Session},
    error::CliError,
    workspace::Part,
};

/// What is followed.
pub(super) struct Feed {
    agent: Agent,
    live: EventFeed,
    open: OpenApprovals,
    approvals: Follow,
    receipts: Follow,
    letters: Follow,
    /// When the letters are to be listed anew, because some may have gone.
    list_after: Option<Instant>,
    looked: Instant,
    samples: u64,
}

/// A record of `vak.telemetry.process`, as far as it is shown.
#[derive(Debug, Deserialize)]
struct Sample {
    task: String,
    #[serde(default)]
    last: bool,
    #[serde(default)]
    rss_bytes: Option<u64>,
    #[serde(default)]
    peak_rss_bytes: Option<u64>,
    #[serde(default)]
    cpu_rate: Option<f64>,
}

impl Feed {
    /// Joins the bus as an operator and begins to follow: what is stored is read where it is shown,
    /// receipts are only counted from now on.
    ///
    /// # Errors
    /// When the bus is not reached or does not let this agent read.
    pub(super) async fn join(session: &Session) -> Result<Self, CliError> {
        let agent = session.agent(Part::Operator, Scope::default()).await?;
        let endpoint = agent.endpoint.clone();
        let workspace = endpoint.workspace().clone();
        let of = |kind: AddressKind| kind.filter(Some(&workspace));
        let telemetry = Filter::parse(&format!("vak.events.{workspace}.*.telemetry"))?;
        let overflow = Overflow::DropOldest { capacity: WAITING_MAX };
        let live = endpoint.subscribe(telemetry, overflow).await?;
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
            live,
            open: OpenApprovals::default(),
            approvals,
            receipts: receipts.await?,
            letters: letters.await?,
            list_after: None,
            looked: Instant::now(),
            samples: 0,
            agent,
        })
    }

    /// Hears one live sample, or that some were lost. Cancel safe; `false` when the bus is closed.
    pub(super) async fn hear(&mut self, model: &mut Model) -> bool {
        match self.live.next().await {
            None => return false,
            Some(Incoming::Message(opened)) => {
                self.samples = self.samples.saturating_add(1);
                if let Some((key, row)) = sample(&opened, self.agent.endpoint.clock().now()) {
                    model.sample(key, row);
                }
            }
            Some(Incoming::Gap { missed }) => model.missed = model.missed.saturating_add(missed),
            Some(Incoming::Refused(_) | Incoming::Checkpoint(_)) => {}
        }
        true
    }

    /// Looks once at everything that is stored.
    ///
    /// # Errors
    /// When something cannot be read; the next look goes on from there.
    pub(super) async fn look(&mut self, model: &mut Model) -> Result<(), CliError> {
        let endpoint = self.agent.endpoint.clone();
        let now = endpoint.clock().now();
        model.queues =
            queues::queues(&self.agent, now).await?.into_iter().map(row_of_queue).collect();
        let open = &mut self.open;
        self.approvals
            .look(|stored| {
                let _what_it_did = endpoint.apply_approval(open, &stored);
            })
            .await?;
        let mut asked: Vec<&OpenApproval> = self.open.list();
        asked.retain(|asked| !asked.request.is_expired_at(now));
        model.approvals_in_all = asked.len();
        model.approvals = asked.into_iter().take(ROWS_MAX).map(row_of_approval).collect();
        let receipts = self.receipts.look(drop).await?;
        let given_up = self.look_at_letters(model).await?;
        let span = self.looked.elapsed();
        self.looked = Instant::now();
        model.receipts.note(receipts, span);
        model.given_up.note(given_up, span);
        model.samples.note(std::mem::take(&mut self.samples), span);
        model.forget_silent(now);
        Ok(())
    }

    /// The letters: those that came, and now and then which ones have gone.
    async fn look_at_letters(&mut self, model: &mut Model) -> Result<u64, CliError> {
        let mut came = Vec::new();
        let count = self.letters.look(|stored| came.push(stored.seq)).await?;
        if self.list_after.is_none_or(|after| Instant::now() >= after) {
            let letters = DeadLetters::new(self.agent.endpoint.clone());
            let mut list = letters.list(LetterFilter::default(), LetterOrder::NewestFirst).await?;
            (model.letters, model.letters_in_all) = (Vec::new(), 0);
            while let Some(letter) = list.next().await {
                let letter = letter?;
                model.letters_in_all = model.letters_in_all.saturating_add(1);
                if model.letters.len() < ROWS_MAX {
                    model.letters.push(row_of_letter(letter));
                }
            }
            // Many are not looked through again and again.
            let pause = if model.letters_in_all > MANY { RARELY } else { OFTEN };
            self.list_after = Some(Instant::now() + pause);
            return Ok(count);
        }
        let letters = DeadLetters::new(self.agent.endpoint.clone());
        for seq in came {
            if let Ok(letter) = letters.show(seq).await {
                model.letter(row_of_letter(letter));
            }
        }
        Ok(count)
    }

    /// Does something, and says what came of it.
    ///
    /// # Errors
    /// When it was refused or its outcome is unknown, with what to do about it.
    pub(super) async fn act(&mut self, action: Action) -> Result<String, CliError> {
        let endpoint = self.agent.endpoint.clone();
        let letters = DeadLetters::new(endpoint.clone());
        let said = match action {
            Action::Redrive(seq) => {
                let redriven = letters.redrive(seq, &Redrive::default()).await?;
                format!("dead letter {}: {} is in its queue again", seq.0, redriven.task_id)
            }
            Action::Discard { letter, reason } => {
                letters.discard(letter, &reason).await?;
                format!("dead letter {} is thrown away", letter.0)
            }
            Action::Resolve { session, approval, choice } => {
                endpoint.resolve_approval(&session, approval, &choice, None).await?;
                format!("answered with '{choice}'")
            }
            Action::Pause { role, is_paused } => {
                let role = RoleName::parse(&role)?;
                let until = endpoint.clock().now().plus(queues::FOR_EVER);
                queues::steer(&self.agent, &role, (!is_paused).then_some(until)).await?;
                match is_paused {
                    true => format!("queue {role} hands out its tasks"),
                    false => format!("queue {role} is paused"),
                }
            }
        };
        // What it changed is to be seen now.
        self.list_after = None;
        Ok(said)
    }
}

fn sample(opened: &Opened, heard: Timestamp) -> Option<(AgentKey, AgentRow)> {
    let envelope = &opened.envelope;
    if envelope.event_type != TELEMETRY {
        return None;
    }
    let sample: Sample = serde_json::from_slice(&opened.payload).ok()?;
    let session = match Address::parse(&envelope.subject) {
        Ok(Address::Telemetry { session, .. }) => session.to_string(),
        _ => return None,
    };
    let key = AgentKey {
        agent: envelope.lineage.agent.to_string(),
        life: envelope.lineage.incarnation,
        task: sample.task,
    };
    let row = AgentRow {
        session,
        cpu: sample.cpu_rate.filter(|rate| rate.is_finite()),
        rss: sample.rss_bytes.or(sample.peak_rss_bytes),
        heard,
        has_ended: sample.last,
    };
    Some((key, row))
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

/// How many live samples may wait.
const WAITING_MAX: std::num::NonZeroUsize = std::num::NonZeroUsize::new(1024).unwrap();

/// How often letters are listed anew, of few and of many.
const OFTEN: Duration = Duration::from_secs(5);
const RARELY: Duration = Duration::from_secs(60);
const MANY: u64 = 2_000;
