//! What `vakbus emit` takes.

use bus_runner::{EndReason, TOKEN_STREAM_DEFAULT};
use bus_subjects::SessionId;
use clap::{Args, Subcommand};

/// Emit live events of a task.
#[derive(Debug, Subcommand)]
pub(crate) enum EmitCommand {
    /// Publish what a model writes, while it writes.
    Tokens(EmitTokensArgs),
    /// Publish output for the terminal of whoever follows.
    Terminal(EmitTerminalArgs),
}

/// Publish tokens.
#[derive(Debug, Args)]
#[command(after_help = TOKENS_HELP)]
pub(crate) struct EmitTokensArgs {
    #[command(flatten)]
    pub(crate) whose: EmitWhose,
    /// Which stream of tokens, where a task has several: letters, digits, '-', '_' and '~'.
    #[arg(long, value_name = "NAME", default_value = TOKEN_STREAM_DEFAULT)]
    pub(crate) stream: String,
    /// It is what the model thinks before it answers.
    #[arg(long)]
    pub(crate) thinking: bool,
    /// Say afterwards that the stream has ended, and why: stop (all is said), length, error or
    /// cancelled. Without TEXT nothing is read. Interrupted it says cancelled, and error when the
    /// text cannot be read; the exit code is 1 then.
    #[arg(long, value_name = "REASON", value_parser = reason)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "stop")]
    pub(crate) end: Option<EndReason>,
    /// The text; - or nothing is standard input, which is published as it comes.
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) text: Option<String>,
}

/// Publish output.
#[derive(Debug, Args)]
#[command(after_help = TERMINAL_HELP)]
pub(crate) struct EmitTerminalArgs {
    #[command(flatten)]
    pub(crate) whose: EmitWhose,
    /// Publish it as what the command wrote to stderr.
    #[arg(long)]
    pub(crate) stderr: bool,
    /// The text; - or nothing is standard input, whose bytes are published as they are.
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) text: Option<String>,
}

/// Whose events they are.
#[derive(Debug, Args)]
pub(crate) struct EmitWhose {
    /// Whose events they are [default: `VAKBUS_SESSION`, which commands of a worker or a swarm
    /// have].
    #[arg(long, value_name = "NAME", value_parser = SessionId::parse)]
    pub(crate) session: Option<SessionId>,
    /// The task that they belong to [default: `VAKBUS_TASK_ID`].
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<String>,
}

fn reason(text: &str) -> Result<EndReason, String> {
    text.parse()
}

const TOKENS_HELP: &str = "\
A command that `vakbus worker` or `vakbus swarm` runs needs neither keys nor a bus for it: its
runner publishes the tokens as live events of the task, on every engine. Elsewhere they go to the
daemon or the NATS server as events of --session. Tokens that come within 30 ms share an event.
Bytes that are no UTF-8 become a mark each. A bus that goes away holds up nobody: the newest 256 KiB
are kept for it, what is older is lost and counted, and the exit code is 5 when it does not come back.

Whoever hears them: vakbus sub 'vak.events.default.*.tokens'

Examples:
  vakbus emit tokens 'Hello'
  ./model \"$PROMPT\" | tee answer.txt | vakbus emit tokens --end -
  vakbus emit tokens --session chat-1 --thinking 'first the easy part'
  vakbus emit tokens --end=length";

const TERMINAL_HELP: &str = "\
For output that is not the command's own stdout: of a program on another machine, of a log file. It
is shown and not kept: the task's result and its receipt know nothing of it. A bus that goes away
holds up nobody: the newest 1 MiB is kept for it, what is older is lost and counted.

Examples:
  ssh host make 2>&1 | vakbus emit terminal
  vakbus emit terminal --session build-7 --stderr 'disk is nearly full'";
