//! What the commands of live events take.

use bus_runner::Window;
use bus_subjects::{SessionId, Subject};
use clap::Args;

use super::{Raw, record::window};

/// Publish a live event.
#[derive(Debug, Args)]
#[command(after_help = PUB_HELP)]
pub(crate) struct PubArgs {
    /// Publish as output of this session; then the first word is `tokens`, `terminal`,
    /// `telemetry` or `alert`.
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
    #[arg(long, conflicts_with = "session")]
    pub(crate) latest: bool,
    /// Print the payloads as they are and nothing else; to a terminal only with =force.
    #[arg(long, value_enum, value_name = "HOW", conflicts_with = "json")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "away")]
    pub(crate) raw: Option<Raw>,
    /// Hear the tokens and terminals of this session.
    #[arg(long, value_name = "NAME", conflicts_with = "filter", value_parser = SessionId::parse)]
    pub(crate) session: Option<SessionId>,
    /// Show what was recorded of the session first: the last so many events, bytes, or minutes
    /// (500, 64KiB, 10m).
    #[arg(long, value_name = "WINDOW", value_parser = window)]
    #[arg(requires = "session", conflicts_with = "filter")]
    pub(crate) window: Option<Window>,
    /// Which subjects; * stands for one level, a last > for one or more.
    #[arg(value_name = "FILTER", required_unless_present = "session")]
    pub(crate) filter: Option<String>,
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

Each event is one line: of what a payload does to a terminal its colours stay, and nothing else.

With --session --raw only what was said is printed, without events that tell of an end or a size.
With --session and --window a late viewer sees what a recorder kept (`vakbus record`, or --record of
swarm and worker), then what comes, as one: no event twice, and gaps told. With --json an event of
the past has \"past\":true.

Examples:
  vakbus sub 'vak.events.default.>'
  vakbus sub --session s1 --window 500
  vakbus sub --count 1 --json 'vak.events.default.s1.tokens'";
