//! `vakbus emit`: tokens and output beside a command's own, through its runner or as its own agent.

mod own;
mod source;

use std::path::PathBuf;

use bus_runner::{
    EMIT_TOKEN_VAR, EMIT_VAR, EmitClient, EmitError, EmitPiece, EndReason, TOKEN_STREAM_DEFAULT,
    TokenKind, Utf8View,
};
use bus_subjects::{SessionId, Token};
use serde_json::json;

use self::source::Source;
use crate::{
    args::{EmitCommand, EmitWhose, Global},
    error::{CliError, Exit},
    print as out,
};

/// What is emitted, and whose it is.
struct Emission {
    kind: Kind,
    source: Source,
    session: SessionId,
    task: Option<String>,
    attempt: Option<u32>,
}

/// What the source's bytes are.
enum Kind {
    /// Of a stream of tokens, which may end after them.
    Tokens { kind: TokenKind, stream: String, end: Option<EndReason> },
    /// What a command writes to stdout, or to stderr.
    Terminal { is_stderr: bool },
}

/// The runner of the command that this process is part of.
struct Runner {
    path: PathBuf,
    token: String,
}

/// Emits until the source has ended.
pub(crate) fn run(command: EmitCommand, global: &Global) -> Result<Exit, CliError> {
    let runner = Runner::around()?;
    let emission = Emission::of(command, runner.is_some())?;
    let session = emission.session.clone();
    let bytes = match runner {
        Some(runner) => runner.emit(emission)?,
        None => own::emit(emission, global)?,
    };
    if global.json {
        out::json(&json!({ "session": session.as_str(), "bytes": bytes }))?;
    }
    Ok(Exit::Done)
}

impl Emission {
    fn of(command: EmitCommand, is_in_run: bool) -> Result<Self, CliError> {
        let (whose, kind, source) = match command {
            EmitCommand::Tokens(args) => {
                Token::check("stream", &args.stream)?;
                let source = match args.text {
                    // Only to end it.
                    None if args.end.is_some() => Source::Text(String::new()),
                    text => Source::of(text),
                };
                let kind = if args.thinking { TokenKind::Thinking } else { TokenKind::Text };
                (args.whose, Kind::Tokens { kind, stream: args.stream, end: args.end }, source)
            }
            EmitCommand::Terminal(args) => {
                (args.whose, Kind::Terminal { is_stderr: args.stderr }, Source::of(args.text))
            }
        };
        let (session, task, attempt) = whose_events(whose, is_in_run)?;
        Ok(Self { kind, source, session, task, attempt })
    }
}

/// The session, the task and the attempt that events belong to: as the options say, else as the
/// environment of a command of a run does.
fn whose_events(
    whose: EmitWhose,
    is_in_run: bool,
) -> Result<(SessionId, Option<String>, Option<u32>), CliError> {
    let own_session = variable("VAKBUS_SESSION").map(|name| SessionId::parse(&name)).transpose()?;
    let own_task = variable("VAKBUS_TASK_ID");
    if is_in_run {
        for (option, asked, own) in [
            (
                "--session",
                whose.session.as_ref().map(SessionId::as_str),
                own_session.as_ref().map(SessionId::as_str),
            ),
            ("--task", whose.task.as_deref(), own_task.as_deref()),
        ] {
            if asked.is_some() && asked != own {
                let what = format!(
                    "a command of a run emits for its own task alone, so {option} names another"
                );
                let next = format!(
                    "leave {option} out, or unset {EMIT_VAR} to act as an agent of its own"
                );
                return Err(CliError::usage(what).next(next));
            }
        }
    }
    let Some(session) = whose.session.clone().or_else(|| own_session.clone()) else {
        let next = "--session NAME; commands of `vakbus worker` and `vakbus swarm` need none";
        return Err(CliError::usage("no session is named").next(next));
    };
    // The task of this environment is one of its session, and of no other.
    let is_own = own_session.as_ref() == Some(&session);
    let task = whose.task.or_else(|| own_task.clone().filter(|_| is_own));
    let attempt = variable("VAKBUS_ATTEMPT").and_then(|attempt| attempt.parse().ok());
    let attempt = attempt.filter(|_| is_own && task == own_task);
    Ok((session, task, attempt))
}

impl Runner {
    /// The runner that the environment names.
    fn around() -> Result<Option<Self>, CliError> {
        let Some(path) = std::env::var_os(EMIT_VAR).filter(|path| !path.is_empty()) else {
            return Ok(None);
        };
        let Some(token) = variable(EMIT_TOKEN_VAR) else {
            return Err(CliError::usage(format!("{EMIT_VAR} is set and {EMIT_TOKEN_VAR} is not"))
                .next("pass both on to the commands that emit, or none"));
        };
        Ok(Some(Self { path: PathBuf::from(path), token }))
    }

    /// Hands everything to the runner, piece by piece as it comes; how many bytes that were.
    fn emit(self, emission: Emission) -> Result<u64, CliError> {
        let Emission { kind, source, .. } = emission;
        let stream = match &kind {
            Kind::Tokens { stream, .. } => stream.as_str(),
            Kind::Terminal { .. } => TOKEN_STREAM_DEFAULT,
        };
        let mut client = EmitClient::connect(&self.path, &self.token, stream).map_err(told)?;
        match kind {
            Kind::Terminal { is_stderr } => {
                source.each(|bytes| {
                    let piece = match is_stderr {
                        true => EmitPiece::Stderr(bytes),
                        false => EmitPiece::Stdout(bytes),
                    };
                    client.send(piece).map_err(told)
                })?;
            }
            Kind::Tokens { kind, end, .. } => {
                let mut send = |text: &str| {
                    let piece = match kind {
                        TokenKind::Text => EmitPiece::Text(text),
                        TokenKind::Thinking => EmitPiece::Thinking(text),
                    };
                    client.send(piece).map_err(told)
                };
                let mut view = Utf8View::default();
                source.each(|bytes| {
                    let mut text = String::new();
                    view.push(bytes, &mut text);
                    send(&text)
                })?;
                let mut rest = String::new();
                view.finish(&mut rest);
                send(&rest)?;
                if let Some(reason) = end {
                    client.send(EmitPiece::End(reason)).map_err(told)?;
                }
            }
        }
        client.finish().map_err(told)
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn told(error: EmitError) -> CliError {
    let code = match &error {
        EmitError::Refused { .. } => Exit::Refused,
        _ => Exit::Unreachable,
    };
    let next = match &error {
        EmitError::Refused { .. } => {
            format!("emit while the command of the task runs; unset {EMIT_VAR} elsewhere")
        }
        EmitError::NotPublished { .. } => {
            "readers see a gap; see that the engine of the run can be reached".to_owned()
        }
        _ => format!("see that the worker or swarm that set {EMIT_VAR} still runs"),
    };
    CliError::new(code, error.to_string()).next(next)
}
