//! Emitting as an agent of its own, outside of any run.

use std::{thread, time::Duration};

use bus_core::Endpoint;
use bus_runner::{EndReason, EventPlace, OutputStream, TerminalLane, TokenStream, Utf8View};
use bus_subjects::Address;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::{Emission, Kind, source::Source};
use crate::{
    args::Global,
    engine::{self, Scope},
    error::{CliError, Exit},
    swarm::{Signals, surrounding_trace},
    workspace::Part,
};

/// What the reader of the source has to say.
enum Came {
    Bytes(Bytes),
    Failed(CliError),
}

/// How many pieces may be read ahead of the bus.
const WAITING_MAX: usize = 16;

/// How long the last output is waited for.
const LATE: Duration = Duration::from_secs(10);

/// Why no more is emitted.
enum Ended {
    /// The source has ended.
    Whole,
    /// Somebody wanted no more.
    Interrupted,
    /// The source cannot be read.
    Failed(CliError),
}

/// Publishes what the source gives until it ends or a signal comes; how many bytes that were. An
/// end that was asked for has its reason only where the source has ended; else this fails.
pub(super) fn emit(emission: Emission, global: &Global) -> Result<u64, CliError> {
    engine::run(global, async |session| {
        session.place().check_shared("hear what is emitted")?;
        let mut signals = Signals::new();
        let scope = Scope { session: Some(emission.session.clone()), queue: None };
        let beginning = session.agent(Part::Worker, scope);
        let Some(agent) = signals.unless_asked(beginning).await? else {
            return Err(CliError::new(Exit::Failed, "interrupted before anything was published"));
        };
        let Emission { kind, source, session, task, attempt } = emission;
        let place = EventPlace { session, task, attempt, cause: None, trace: surrounding_trace() };
        let mut coming = read(source)?;
        let says_end = matches!(kind, Kind::Tokens { end: Some(_), .. });
        let mut sink = Sink::new(&agent.endpoint, place, kind)?;
        let mut bytes = 0_u64;
        let ended = loop {
            let came = tokio::select! {
                came = coming.recv() => came,
                _asked = signals.next(|| false) => break Ended::Interrupted,
            };
            match came {
                None => break Ended::Whole,
                Some(Came::Failed(error)) => break Ended::Failed(error),
                Some(Came::Bytes(piece)) => {
                    bytes = bytes.saturating_add(piece.len() as u64);
                    tokio::select! {
                        taken = sink.take(piece) => taken?,
                        _asked = signals.next(|| false) => break Ended::Interrupted,
                    }
                }
            }
        };
        // Who asks once more does not wait for a bus that is away.
        let finished = tokio::select! {
            finished = sink.finish(&agent.endpoint, &ended) => finished,
            _asked = signals.next(|| false) => Err(given_up()),
        };
        // A publish needs no answer, a question does: what was sent before it has arrived then.
        let closed = match &finished {
            Ok(()) => agent.engine.close().await,
            Err(_) => Ok(()),
        };
        if let Ended::Failed(error) = ended {
            return Err(error);
        }
        finished?;
        closed?;
        if says_end && matches!(ended, Ended::Interrupted) {
            let what = "interrupted: the end that readers are told says cancelled";
            return Err(CliError::new(Exit::Failed, what));
        }
        Ok(bytes)
    })
}

impl Ended {
    /// What readers are told where `asked` was asked for.
    fn reason(&self, asked: EndReason) -> EndReason {
        match self {
            Self::Whole => asked,
            Self::Interrupted => EndReason::Cancelled,
            Self::Failed(_) => EndReason::Error,
        }
    }
}

/// Reads on a thread of its own: who waits for standard input can be left behind.
fn read(source: Source) -> Result<mpsc::Receiver<Came>, CliError> {
    let (sender, coming) = mpsc::channel(WAITING_MAX);
    let reading = thread::Builder::new().name("stdin".into()).spawn(move || {
        let read = source.each(|bytes| {
            let piece = Came::Bytes(Bytes::copy_from_slice(bytes));
            let gone = || CliError::new(Exit::Failed, "nobody takes what is read any more");
            sender.blocking_send(piece).map_err(|_| gone())
        });
        if let Err(error) = read {
            // Whoever ended first needs no reason.
            let _gone = sender.blocking_send(Came::Failed(error));
        }
    });
    reading.map_err(|error| CliError::new(Exit::Failed, format!("cannot read: {error}")))?;
    Ok(coming)
}

/// Where it goes.
enum Sink {
    Tokens { stream: TokenStream, view: Utf8View, kind: Kind },
    Terminal { lane: TerminalLane, kind: OutputStream },
}

impl Sink {
    fn new(endpoint: &Endpoint, place: EventPlace, kind: Kind) -> Result<Self, CliError> {
        let endpoint = endpoint.clone();
        Ok(match kind {
            Kind::Terminal { is_stderr } => {
                let kind = if is_stderr { OutputStream::Stderr } else { OutputStream::Stdout };
                Self::Terminal { lane: TerminalLane::start(endpoint, place), kind }
            }
            Kind::Tokens { ref stream, .. } => {
                let stream = TokenStream::start(endpoint, place, stream)?;
                Self::Tokens { stream, view: Utf8View::default(), kind }
            }
        })
    }

    async fn take(&mut self, piece: Bytes) -> Result<(), CliError> {
        match self {
            Self::Terminal { lane, kind } => lane.write(*kind, piece).await,
            Self::Tokens { stream, view, kind } => {
                let mut text = String::new();
                view.push(&piece, &mut text);
                push(stream, kind, &text).await?;
            }
        }
        Ok(())
    }

    /// Ends it: all is out and vouched for.
    async fn finish(self, endpoint: &Endpoint, ended: &Ended) -> Result<(), CliError> {
        match self {
            Self::Terminal { lane, .. } => lane.finish(LATE).await?,
            Self::Tokens { stream, mut view, kind } => {
                let mut rest = String::new();
                view.finish(&mut rest);
                push(&stream, &kind, &rest).await?;
                match kind {
                    Kind::Tokens { end: Some(reason), .. } => {
                        stream.end(ended.reason(reason)).await?;
                    }
                    _ => stream.flush().await?,
                }
                endpoint.finish_live(&tokens(endpoint)?).await?;
            }
        }
        Ok(())
    }
}

fn given_up() -> CliError {
    CliError::new(Exit::Unreachable, "interrupted before all of it was published")
}

async fn push(stream: &TokenStream, kind: &Kind, text: &str) -> Result<(), CliError> {
    if let Kind::Tokens { kind, .. } = kind {
        stream.push(*kind, text).await?;
    }
    Ok(())
}

fn tokens(endpoint: &Endpoint) -> Result<bus_subjects::Subject, CliError> {
    let (workspace, session) = (endpoint.workspace().clone(), endpoint.session().cloned());
    let session = session.ok_or_else(|| CliError::usage("no session is named"))?;
    Ok(Address::Tokens { workspace, session }.subject())
}
