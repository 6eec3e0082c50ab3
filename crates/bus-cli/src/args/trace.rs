//! What `vakbus trace` takes.

use clap::Args;

/// Show one chain of causes.
#[derive(Debug, Args)]
#[command(after_help = TRACE_HELP)]
pub(crate) struct TraceArgs {
    /// A trace id (32 hexadecimal digits, as in a traceparent), the hash of a message (64), or the
    /// id of a task.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

const TRACE_HELP: &str = "\
Looks through what is kept: queues, dead letters with the tasks in them, receipts, approvals, the
mailbox of who asks, and recordings, of which the events of one agent that have one cause are one line.
It reads them all, so it takes longer the more there is. What led to what is said
by the messages themselves, by the hash of their cause; a cause that is kept no more is named as such:
the task of a receipt has left its queue. What it cannot see stands below the tree.

With --json a line for each message, leaves first named by their cause: leaf, cause, depth, kind, id,
subject, agent, time, traceparent, position, recorded (events, bytes, until), seen; and a last one: events, missing, unreadable, not_seen.
Exit code 1: nothing of that is kept.

Examples:
  vakbus trace task-9
  vakbus trace 4bf92f3577b34da6a3ce929d0e0e4736 --json";
