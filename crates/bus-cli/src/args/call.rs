//! What the commands of calls take.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use bus_core::Answers;
use bus_subjects::{Address, ModuleName, Subject, VerbName, WorkspaceId};
use clap::{Args, ValueHint};

use super::some_time;

/// Ask a module and print its answer.
#[derive(Debug, Args)]
#[command(after_help = REQUEST_HELP)]
pub(crate) struct RequestArgs {
    /// Whom and for what.
    #[arg(value_name = "MODULE.VERB", value_parser = target)]
    pub(crate) target: Target,
    /// How long the answer is waited for; two minutes at most.
    #[arg(long, value_name = "D", default_value = "30s", value_parser = answer_time)]
    pub(crate) wait: Duration,
    /// The payload is what this file holds.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["stdin", "text"])]
    pub(crate) file: Option<PathBuf>,
    /// The payload is what comes in on standard input.
    #[arg(long, conflicts_with = "text")]
    pub(crate) stdin: bool,
    /// The payload itself [default: none].
    #[arg(value_name = "TEXT")]
    pub(crate) text: Option<String>,
}

/// Answer the requests of a verb with a command.
#[derive(Debug, Args)]
#[command(after_help = REPLY_HELP)]
pub(crate) struct ReplyArgs {
    /// Which requests.
    #[arg(value_name = "MODULE.VERB", value_parser = target)]
    pub(crate) target: Target,
    /// How many commands run at once; as many requests as fit wait for them.
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) concurrency: u16,
    /// How long one command may take; then its whole process group is ended. Two minutes at most.
    #[arg(long, value_name = "D", default_value = "1m", value_parser = answer_time)]
    pub(crate) timeout: Duration,
    /// The command, after `--`. {} in an argument becomes the request's text.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// A verb of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) module: ModuleName,
    pub(crate) verb: VerbName,
}

impl Target {
    /// Where its requests go.
    pub(crate) fn subject(&self, workspace: &WorkspaceId) -> Subject {
        let (module, verb) = (self.module.clone(), self.verb.clone());
        Address::Call { workspace: workspace.clone(), module, verb }.subject()
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.module, self.verb)
    }
}

fn target(text: &str) -> Result<Target, String> {
    let Some((module, verb)) = text.split_once('.') else {
        return Err("expected a module and its verb, as registry.list".to_owned());
    };
    let module = ModuleName::parse(module).map_err(|error| error.to_string())?;
    let verb = VerbName::parse(verb).map_err(|error| error.to_string())?;
    Ok(Target { module, verb })
}

fn answer_time(text: &str) -> Result<Duration, String> {
    match some_time(text)? {
        long if long > Answers::WITHIN => {
            Err("expected at most 2m: a request cannot be answered later".to_owned())
        }
        time => Ok(time),
    }
}

const REQUEST_HELP: &str = "\
The answer goes to stdout: into a pipe as it is, to a terminal without what could change it, but its
colours. It is signed, by an agent that may answer this request, and bound to it.
Of several answers the first one counts. Operators and orchestrators may ask.

Exit codes: 0 answered, 1 whoever was asked says that it failed (the reason is on stderr), 4 not
allowed, 5 no daemon runs or nobody answers this verb, 7 no answer in time; it may come to pass
nevertheless. What must not happen twice belongs into a task: vakbus task send.

Examples:
  vakbus request registry.list
  vakbus request judge.review --wait 2m --file patch.diff
  git diff | vakbus request judge.review --stdin --json";

const REPLY_HELP: &str = "\
The command gets the payload on stdin and, as text, in place of {}; what it writes to stdout is the
answer, 640 KiB at most. Its environment holds VAKBUS_CALL, VAKBUS_REQUEST_ID, VAKBUS_FROM and
TRACEPARENT, and none of the bus's secrets. Any exit code but 0 answers that it failed, with the end
of its stderr. Workers may answer for the module that is called like their role.

SIGTERM or Ctrl-C finishes what runs and then stops; a second one ends the commands, and answers
that they failed.

Examples:
  vakbus reply registry.list -- ls registry
  vakbus reply judge.review --concurrency 2 --timeout 90s -- ./judge.py";
