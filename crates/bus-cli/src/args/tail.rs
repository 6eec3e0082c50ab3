//! What `vakbus tail` takes.

use bus_subjects::SessionId;
use clap::{Args, ValueEnum};

/// Show what happens in a workspace.
#[derive(Debug, Args)]
#[command(after_help = TAIL_HELP)]
pub(crate) struct TailArgs {
    /// Only what belongs to this session.
    #[arg(long, value_name = "NAME", value_parser = SessionId::parse)]
    pub(crate) session: Option<SessionId>,
    /// How many of the last records are shown first.
    #[arg(short = 'n', long = "lines", value_name = "N", default_value = "20")]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=10_000))]
    pub(crate) lines: u16,
    /// Go on with what comes, live events among it, until Ctrl-C.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only these, with commas between them [default: all].
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    pub(crate) only: Vec<TailKind>,
}

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TailKind {
    /// Live: what models say.
    Tokens,
    /// Live: what commands write.
    Terminal,
    /// Live: what somebody should look at.
    Alerts,
    /// Kept: tasks in their queues.
    Tasks,
    /// Kept: receipts of tasks that are done.
    Receipts,
    /// Kept: tasks that were given up.
    DeadLetters,
    /// Kept: what was asked for, and the verdicts.
    Approvals,
}

impl TailKind {
    /// Every kind that is kept.
    pub(crate) const KEPT: [Self; 4] =
        [Self::Tasks, Self::Receipts, Self::DeadLetters, Self::Approvals];

    /// Every kind that is heard live, and by nobody later.
    pub(crate) const LIVE: [Self; 3] = [Self::Tokens, Self::Terminal, Self::Alerts];

    /// Its name, as it is given and printed.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Terminal => "terminal",
            Self::Alerts => "alerts",
            Self::Tasks => "tasks",
            Self::Receipts => "receipts",
            Self::DeadLetters => "dead-letters",
            Self::Approvals => "approvals",
        }
    }

    /// One of them, in words.
    pub(crate) const fn one(self) -> &'static str {
        match self {
            Self::Tokens => "token",
            Self::Terminal => "output",
            Self::Alerts => "alert",
            Self::Tasks => "task",
            Self::Receipts => "receipt",
            Self::DeadLetters => "dead letter",
            Self::Approvals => "approval",
        }
    }
}

const TAIL_HELP: &str = "\
Without --follow: the last records that are kept, of all kinds in the order of their time. With it also
what comes: live events at once, records four times a second. Live events are not kept, so they are
shown with --follow only; what is missed because this reader is slow is told as a gap. A task that is
done has left its queue and is shown no more; its receipt is.

Whoever may not read a kind does without it, and is told; who may read none is refused (exit code 4).
With --json a line each: kind, position (of what is kept), and the message; a gap is {\"gap\": N}.

Examples:
  vakbus tail -n 50 --only receipts,dead-letters
  vakbus tail --follow --session worker-7";
