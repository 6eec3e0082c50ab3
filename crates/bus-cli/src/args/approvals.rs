//! What the commands of approvals take.

use std::time::Duration;

use bus_subjects::SessionId;
use clap::{Args, Subcommand, ValueEnum};

use super::{
    some_time,
    task::{Patience, patience, task_id},
};

/// Approvals.
#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// Ask whether something may be done; with --wait, take the answer's one use as well.
    Request(ApprovalsRequestArgs),
    /// Take the one use of an approval, for exactly what it was asked for.
    Use(ApprovalsUseArgs),
    /// Take back what was asked for: it can never be used from then on.
    Withdraw {
        /// The approval.
        approval: String,
        #[command(flatten)]
        session: InSession,
    },
    /// List approvals, the oldest first; those that wait for an answer unless --state says more.
    Ls(ApprovalsLsArgs),
    /// Say what was asked, what was answered, and what became of it.
    Show {
        /// The approval: 8 or more digits of its name, or the id it was asked for under.
        approval: String,
    },
    /// Answer an approval, after showing what it is for.
    Resolve(ApprovalsResolveArgs),
}

/// In which session an agent acts.
#[derive(Debug, Args)]
pub(crate) struct InSession {
    /// The session it belongs to.
    #[arg(long, value_name = "S", env = "VAKBUS_SESSION", hide_env_values = true)]
    #[arg(default_value = "cli", value_parser = SessionId::parse)]
    pub(crate) session: SessionId,
}

/// What is to be done.
#[derive(Debug, Args)]
pub(crate) struct What {
    /// What is to be done, such as deploy.production. Compared byte by byte.
    #[arg(long, value_name = "A")]
    pub(crate) action: String,
    /// What it is to be done to, such as web-1. Compared byte by byte.
    #[arg(long, value_name = "T")]
    pub(crate) target: String,
    /// The run of work it belongs to; a use has to name the same one.
    #[arg(long, value_name = "R", env = "VAKBUS_RUN_ID", hide_env_values = true)]
    pub(crate) run: Option<String>,
}

/// Ask.
#[derive(Debug, Args)]
#[command(after_help = REQUEST_HELP)]
pub(crate) struct ApprovalsRequestArgs {
    #[command(flatten)]
    pub(crate) what: What,
    /// The answers that may be given, with commas between them.
    #[arg(long, value_name = "C,C…", value_delimiter = ',', default_value = "yes,no")]
    pub(crate) choice: Vec<String>,
    /// The one answer that allows it; every other one refuses it.
    #[arg(long, value_name = "C", default_value = "yes")]
    pub(crate) approve_with: String,
    /// What is asked in words, for whoever answers.
    #[arg(long, value_name = "TEXT")]
    pub(crate) question: Option<String>,
    #[command(flatten)]
    pub(crate) session: InSession,
    /// Its id, of your choice: asked again under it, the same answer is waited for
    /// [default: a new UUID].
    #[arg(long, value_name = "ID", value_parser = task_id)]
    pub(crate) id: Option<String>,
    /// How long an answer may be used: 1s to 7days.
    #[arg(long, value_name = "D", default_value = "1h", value_parser = some_time)]
    pub(crate) valid_for: Duration,
    /// The approval whose place it takes: that one can never be used from then on.
    #[arg(long, value_name = "APPROVAL")]
    pub(crate) supersedes: Option<String>,
    /// Wait for the answer and take its one use: as long as it takes, or so long at most; after
    /// that it cannot be answered any more.
    #[arg(long, value_name = "D", num_args = 0..=1)]
    #[arg(default_missing_value = "forever", value_parser = patience)]
    pub(crate) wait: Option<Patience>,
}

/// Take the one use.
#[derive(Debug, Args)]
#[command(after_help = USE_HELP)]
pub(crate) struct ApprovalsUseArgs {
    /// The approval: 8 or more digits of its name, or the id it was asked for under.
    pub(crate) approval: String,
    #[command(flatten)]
    pub(crate) what: What,
    #[command(flatten)]
    pub(crate) session: InSession,
    /// Wait so long at most for the answer [default: look for one that is there].
    #[arg(long, value_name = "D", value_parser = some_time)]
    pub(crate) wait: Option<Duration>,
}

/// List approvals.
#[derive(Debug, Args)]
pub(crate) struct ApprovalsLsArgs {
    /// Only those that stand so. Repeatable.
    #[arg(long, value_enum, value_name = "STATE", default_value = "open")]
    pub(crate) state: Vec<Standing>,
    /// Only those of this session.
    #[arg(long, value_name = "S", value_parser = SessionId::parse)]
    pub(crate) session: Option<SessionId>,
}

/// Answer an approval.
#[derive(Debug, Args)]
#[command(after_help = RESOLVE_HELP)]
pub(crate) struct ApprovalsResolveArgs {
    /// The approval: 8 or more digits of its name, or the id it was asked for under.
    pub(crate) approval: String,
    /// The answer: one of those that were offered.
    pub(crate) choice: String,
    /// What to add, for whoever asked.
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// Do not ask first.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// How an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Standing {
    /// It waits for an answer.
    Open,
    /// It is answered; its use was not taken.
    Resolved,
    /// Its one use was taken.
    Consumed,
    /// Its time is over.
    Expired,
    /// It was taken back.
    Withdrawn,
    /// Another one has its place.
    Superseded,
    /// All of them.
    All,
}

impl Standing {
    /// Whether an approval in the state `state` is meant.
    pub(crate) fn fits(self, state: &str) -> bool {
        let word = match self {
            Self::All => return true,
            Self::Open => "open",
            Self::Resolved => "resolved",
            Self::Consumed => "consumed",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
            Self::Superseded => "superseded",
        };
        word == state
    }
}

const REQUEST_HELP: &str = "\
Without --wait it prints the approval's name: `vakbus approvals use` takes its use later. With it
the exit code says what came of it: 0 it is allowed, and this call has taken its one use; 4 it was
answered otherwise, or is refused; 6 nobody knows whether the use was taken: do not act,
`vakbus approvals show` says; 7 no answer in time.

An answer is good for one use, for this action, target, run, agent and session. Whoever dies
between the use and what it was for has used it up. It says nothing of what was done.
Agents ask as cli-worker, or as the worker that --as names. Processes that share an agent and a
session are told apart by --run alone. Where that is not enough, give each its own agent:
`vakbus agent add`.

Examples:
  vakbus approvals request --action deploy.production --target web-1 --wait 30m && ./deploy.sh
  vakbus approvals request --action mail.send --target l-7 --choice send,drop --approve-with send";

const USE_HELP: &str = "\
Exit code 0: it is allowed, and this call has taken its one use. 4: it is refused, with a code
that says why, such as decision-consumed or target-mismatch; a refusal takes nothing. 6: nobody
knows whether the use was taken: do not act, `vakbus approvals show` says. 7: there is no answer
yet.

Example:
  vakbus approvals use 5f3a1c2e --action deploy.production --target web-1 && ./deploy.sh";

const RESOLVE_HELP: &str = "\
Operators answer, as cli or as the operator that --as names; who asked does not. The first answer
counts. What was allowed cannot be taken back by who allowed it: it ends by itself after the time
that was asked for.";
