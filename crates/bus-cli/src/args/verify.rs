//! `vakbus verify`: evidence checked offline.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Check evidence.
#[derive(Debug, Args)]
#[command(after_help = VERIFY_HELP)]
pub(crate) struct VerifyArgs {
    /// The directory that `swarm --evidence` or `receipts export` wrote, or the file of `receipts
    /// prove`.
    #[arg(value_name = "DIR|FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) path: PathBuf,
    /// The workspace's account key (`vakbus workspace show`): whose word counts.
    #[arg(long, value_name = "A…")]
    pub(crate) trust: Option<String>,
    /// Revoked keys (`vakbus agent ls --revocations`): nothing that they signed counts. Repeatable.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "trust")]
    pub(crate) revoked: Vec<PathBuf>,
    /// Let count what says a time before its key was revoked: trusts that who recorded it was told
    /// of the revocation, and wrote nothing that was stored later.
    #[arg(long, requires = "revoked")]
    pub(crate) trust_recorder: bool,
    /// A checkpoint kept elsewhere; tells whether the end of its log was cut off. Repeatable.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) checkpoint: Vec<PathBuf>,
    /// Refuse a directory without the log of the tasks, such as `receipts export` writes.
    #[arg(long)]
    pub(crate) require_tasks: bool,
}

const VERIFY_HELP: &str = "\
Needs no key, no network and no bus. Without --trust the verdict is \"consistent, signer unknown\":
everything fits together, but anybody could have made it. Without --checkpoint the end of a log
could have been cut off together with its checkpoint. A file of `receipts prove --since` is held
against the checkpoint that was kept: give it with --checkpoint. The time of an event is its signer's
word: who holds a stolen key can back-date, which --trust-recorder alone leaves to the recorder.

Examples:
  vakbus verify receipt.tlog-proof
  vakbus verify grown.proof --checkpoint kept.checkpoint
  vakbus verify run-1 --trust \"$(vakbus workspace show --json | jq -r .account)\"";
