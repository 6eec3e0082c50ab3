//! What the commands of live events take.

use bus_subjects::{SessionId, Subject};
use clap::Args;

/// Publish a live event.
#[derive(Debug, Args)]
#[command(after_help = PUB_HELP)]
pub(crate) struct PubArgs {
    /// Publish as output of this session; then the first word is `tokens`, `terminal` or
    /// `telemetry`.
    #[arg(long, value_name = "NAME", value_parser = SessionId::parse)]
    pub(crate) session: Option<SessionId>,
    /// Its CloudEvents type.
    #[arg(long = "type", value_name = "TYPE", default_value = "vak.event")]
    pub(crate) event_type: String,
    /// The subject, or with --session the kind of event.
    #[arg(value_name = "SUBJECT")]
    pub(crate) subject: String,
    /// The payload; - is standard input.
    #[arg(value_name = "TEXT")]
    pub(crate) text: String,
}

/// Hear live events.
#[derive(Debug, Args)]
#[command(after_help = SUB_HELP)]
pub(crate) struct SubArgs {
    /// End after so many events.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Of each subject only the newest event; samples of the last ten seconds come first.
    #[arg(long)]
    pub(crate) latest: bool,
    /// Print the payloads and nothing else.
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
    /// Which subjects; * stands for one level, a last > for one or more.
    #[arg(value_name = "FILTER")]
    pub(crate) filter: String,
}

impl PubArgs {
    /// Where it goes, in `workspace`.
    pub(crate) fn target(
        &self,
        workspace: &bus_subjects::WorkspaceId,
    ) -> Result<Subject, bus_subjects::SubjectError> {
        match &self.session {
            Some(session) => {
                Subject::parse(&format!("vak.events.{workspace}.{session}.{}", self.subject))
            }
            None => Subject::parse(&self.subject),
        }
    }
}

const PUB_HELP: &str = "\
The event is sealed; the checkpoint that vouches for it follows at once. Durable subjects are not
published to: tasks go through `vakbus task send`, messages through `vakbus inbox send`.

Examples:
  vakbus pub --session s1 tokens 'hello'
  vakbus pub vak.events.default.s1.tokens 'hello'";

const SUB_HELP: &str = "\
Once it hears it says so on stderr. A reader that is too slow loses the oldest events; each gap is
told on stderr, and with --json as a line {\"gap\":N}.

Examples:
  vakbus sub 'vak.events.default.>'
  vakbus sub --count 1 --json 'vak.events.default.s1.tokens'";
