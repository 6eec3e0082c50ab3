//! How a run went, for people and for programs.

use std::io;

use anstyle::{AnsiColor, Style};
use bus_evidence::RECEIPT_COMPLETED;
use bus_runner::Recorded;
use serde_json::json;
use tokio::time::sleep;

use super::{
    dead_letters::{self, DeadLetter},
    evidence::Stored,
    feeder::Fed,
    fleet::Fleet,
    ledger::{Ledger, State},
    observer::Seen,
    plan::Plan,
    signals::PATIENCE,
};
use crate::{
    error::{CliError, Exit},
    print, recording,
};

/// What a run came to.
#[derive(Debug)]
pub(super) struct Summary {
    tasks: usize,
    state: State,
    dead_letters: Vec<DeadLetter>,
    not_run: usize,
    receipts: usize,
    chains_verified: u64,
    chains_broken: u64,
    live_events: u64,
    live_missed: u64,
    live_refused: u64,
    seconds: f64,
    session: String,
    run_id: String,
    evidence: Option<String>,
    recorded: Option<Recorded>,
    metrics: bus_core::MetricsSnapshot,
}

/// How many dead letters the text lists; the JSON has all.
const LISTED_MAX: usize = 20;

impl Summary {
    pub(super) fn new(
        (fleet, plan): (&Fleet, &Plan),
        ledger: &Ledger,
        (fed, seen, stored): (&Fed, &Seen, &Stored),
        evidence: Option<String>,
        seconds: f64,
    ) -> Self {
        let mut state = ledger.state();
        let not_run = ledger.tasks().saturating_sub(state.settled());
        let dead = std::mem::take(&mut state.dead);
        let live_broken = seen.chains.forks + seen.chains.altered + seen.refused;
        let stored_broken = stored.chains.broken;
        let chains = seen.chains.chains + stored.chains.chains;
        tracing::debug!(sent = fed.ids.len(), "tasks sent");
        Self {
            tasks: ledger.tasks(),
            dead_letters: dead_letters::find(dead, &fed.ids, &plan.tasks),
            not_run,
            receipts: stored.count_of(RECEIPT_COMPLETED),
            chains_verified: chains.saturating_sub(live_broken.min(1) + stored_broken),
            chains_broken: live_broken.min(1) + stored_broken,
            live_events: seen.events,
            live_missed: seen.missed,
            live_refused: seen.refused,
            seconds,
            session: fleet.session.to_string(),
            run_id: fleet.run_id.clone(),
            evidence,
            recorded: None,
            metrics: fleet.metrics.snapshot(),
            state,
        }
    }

    /// The same with what was recorded.
    pub(super) fn with(mut self, recorded: Option<Recorded>) -> Self {
        self.recorded = recorded;
        self
    }

    /// The exit code this run deserves.
    pub(super) fn exit(&self) -> Exit {
        let sound = self.chains_broken == 0 && self.state.troubles.is_empty();
        match (sound && self.not_run == 0, self.dead_letters.is_empty()) {
            (false, _) => Exit::Failed,
            (true, false) => Exit::Partly,
            (true, true) => Exit::Done,
        }
    }

    /// Prints the summary to stdout; to stderr when stdout does not take it before `given_up`.
    ///
    /// # Errors
    /// When stdout failed; its reader may have gone away though, or just not read, and that is no
    /// failure.
    pub(super) async fn print(
        &self,
        json: bool,
        given_up: impl Future<Output = ()>,
    ) -> Result<(), CliError> {
        let text = if json { print::json_text(&self.json()) } else { self.text() };
        let data = text.clone();
        let error = match print::until(given_up, move || print::data(&data)).await {
            Some(Ok(())) => return Ok(()),
            Some(Err(error)) => Some(error).filter(|e| e.kind() != io::ErrorKind::BrokenPipe),
            None => None,
        };
        let _told = print::until(sleep(PATIENCE), move || print::talk(&text)).await;
        error.map_or(Ok(()), |error| Err(print::unwritten(&error)))
    }

    fn json(&self) -> serde_json::Value {
        let summary = json!({
            "tasks": self.tasks,
            "completed": self.state.completed,
            "dead_lettered": self.dead_letters.len(),
            "retries": self.state.retries,
            "not_run": self.not_run,
            "interrupted": self.state.interrupted,
            "receipts": self.receipts,
            "chains_verified": self.chains_verified,
            "chains_broken": self.chains_broken,
            "live_events": self.live_events,
            "live_missed": self.live_missed,
            "live_refused": self.live_refused,
            "seconds": (self.seconds * 1000.0).round() / 1000.0,
            "session": self.session,
            "run_id": self.run_id,
            "evidence": self.evidence,
            "dead_letters": self.dead_letters,
            "troubles": self.state.troubles,
            "metrics": self.metrics,
        });
        match &self.recorded {
            None => summary,
            Some(recorded) => {
                print::with(summary, json!({ "recorded": recording::json(recorded) }))
            }
        }
    }

    fn text(&self) -> String {
        let (good, bad) = (AnsiColor::Green.on_default(), AnsiColor::Red.on_default());
        let plain = Style::new();
        let style = if self.exit() == Exit::Done { good } else { bad };
        let mut lines = vec![(style, self.head()), (plain, self.checks())];
        for dead in self.dead_letters.iter().take(LISTED_MAX) {
            let DeadLetter { task, line, text, attempts, reason } = dead;
            let line = line.map_or_else(|| "?".to_owned(), |line| line.to_string());
            let attempts = print::counted((*attempts).into(), "attempt", "attempts");
            lines.push((bad, format!("dead letter: line {line}, {attempts}, task {task}: {text}")));
            lines.push((plain, format!("  {reason}")));
        }
        if let Some(more) = self.dead_letters.len().checked_sub(LISTED_MAX).filter(|n| *n > 0) {
            lines.push((bad, format!("and {more} more dead letters (--json lists all)")));
        }
        for trouble in &self.state.troubles {
            lines.push((bad, format!("trouble: {trouble}")));
        }
        if let Some(dir) = &self.evidence {
            let line = format!("evidence in {dir}; check it with: vakbus verify {dir}");
            lines.push((plain, line));
        }
        if let Some(recorded) = &self.recorded {
            let (told, session) = (recording::told(recorded), &self.session);
            lines
                .push((plain, format!("{told}; see: vakbus sub --session {session} --window 500")));
        }
        let painted = lines.iter().map(|(style, line)| {
            // A command's last words are a stranger's.
            let line = print::harmless(line);
            format!("{style}{line}{style:#}")
        });
        painted.collect::<Vec<_>>().join("\n")
    }

    /// What became of the tasks, in one line.
    fn head(&self) -> String {
        let tasks = print::counted(self.tasks as u64, "task", "tasks");
        let mut head = format!("{} of {tasks} completed", self.state.completed);
        for (count, one, many) in [
            (self.dead_letters.len(), "dead-lettered", "dead-lettered"),
            (self.not_run, "not run", "not run"),
            (self.state.retries, "retry", "retries"),
        ] {
            if count > 0 {
                head.push_str(", ");
                head.push_str(&print::counted(count as u64, one, many));
            }
        }
        if self.state.interrupted {
            head.push_str(" (stopped by the user)");
        }
        format!("{head} in {:.2} s", self.seconds)
    }

    /// What was checked, in one line.
    fn checks(&self) -> String {
        let receipts = print::counted(self.receipts as u64, "receipt", "receipts");
        let Self { chains_verified, chains_broken, live_events, live_missed, .. } = self;
        format!(
            "{receipts}, {chains_verified} chains verified, {chains_broken} broken; \
             {live_events} live events, {live_missed} missed"
        )
    }
}
