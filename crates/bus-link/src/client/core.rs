//! The way to the server as it is now: up, away for a while, refused, or closed for ever.

use std::{sync::Arc, time::Duration};

use bus_core::{Error, ErrorKind, Identity, Result};
use bus_crypto::{Entropy as _, SystemEntropy};
use bytes::Bytes;
use tokio::{sync::watch, time::timeout};

use super::{
    dial::Dial,
    line::{Answered, Line, Lost, Opened, Sink},
};
use crate::{
    LinkOptions,
    task::start,
    wire::{Answer, Call, Fault, Packet, ToServer},
};

/// What a client and all its streams share.
pub(crate) struct Core {
    pub(crate) options: LinkOptions,
    identity: Identity,
    dial: Arc<dyn Dial>,
    way: watch::Sender<Way>,
}

/// The way to the server.
#[derive(Clone)]
pub(crate) enum Way {
    Up(Arc<Line>),
    /// Nobody is there.
    Away,
    /// The server does not let us in, and why.
    Refused(Fault),
    Closed,
}

/// What to do with a call whose answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Its outcome is unknown.
    Never,
    /// Doing it twice is doing it once.
    Always,
}

impl Core {
    /// Reaches the server for the first time.
    ///
    /// # Errors
    /// As [`Line::begin`], and `Unavailable` when nobody is there.
    pub(crate) async fn begin(
        dial: Arc<dyn Dial>,
        identity: Identity,
        options: LinkOptions,
    ) -> Result<(Arc<Self>, Arc<Line>)> {
        let reaching = reach(dial.as_ref(), &identity, &options);
        let (line, run) = reaching.await.map_err(|error| error.at(dial.address()))?;
        let way = watch::Sender::new(Way::Up(Arc::clone(&line)));
        let core = Arc::new(Self { options, identity, dial, way });
        let keeping = Arc::clone(&core);
        start(async move {
            let why = run.await;
            keeping.keep(why).await;
        });
        Ok((core, line))
    }

    /// Reaches the server again and again until the client is closed.
    async fn keep(&self, mut why: Option<Fault>) {
        let mut pause = self.options.pause_first;
        loop {
            let way = why.take().map_or(Way::Away, Way::Refused);
            if !self.turn_to(way) {
                return;
            }
            let mut watched = self.way.subscribe();
            let reaching = reach(self.dial.as_ref(), &self.identity, &self.options);
            let reached = tokio::select! {
                reached = reaching => reached,
                _closed = watched.wait_for(|way| matches!(way, Way::Closed)) => return,
            };
            match reached {
                Ok((line, run)) => {
                    if !self.turn_to(Way::Up(Arc::clone(&line))) {
                        return;
                    }
                    pause = self.options.pause_first;
                    why = run.await;
                    continue;
                }
                Err(error) if error.kind() != ErrorKind::Unavailable => {
                    why = Some(Fault::from(&error));
                    self.turn_to(Way::Refused(Fault::from(&error)));
                }
                Err(_) => {}
            }
            tokio::select! {
                () = tokio::time::sleep(jittered(pause)) => {}
                _closed = watched.wait_for(|way| matches!(way, Way::Closed)) => return,
            }
            pause = pause.saturating_mul(2).min(self.options.pause_max);
        }
    }

    /// Changes the way unless it is closed; false then.
    fn turn_to(&self, next: Way) -> bool {
        self.way.send_if_modified(|way| {
            let is_open = !matches!(way, Way::Closed);
            if is_open {
                *way = next;
            }
            is_open
        })
    }

    /// Closes it: nothing is asked any more. Returns the line that there was.
    pub(crate) fn close(&self) -> Option<Arc<Line>> {
        match self.way.send_replace(Way::Closed) {
            Way::Up(line) => Some(line),
            Way::Away | Way::Refused(_) | Way::Closed => None,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(*self.way.borrow(), Way::Closed)
    }

    pub(crate) fn ways(&self) -> watch::Receiver<Way> {
        self.way.subscribe()
    }

    /// The line, waited for as long as `patience`; `None`: for ever, unless we have no right to it.
    ///
    /// # Errors
    /// `Closed`; what the server refused us with; `Unavailable`, not done, when it stays away.
    pub(crate) async fn line(
        &self,
        op: &'static str,
        patience: Option<Duration>,
    ) -> Result<Arc<Line>> {
        let mut ways = self.way.subscribe();
        let waiting = async {
            loop {
                let way = ways.borrow_and_update().clone();
                match way {
                    Way::Up(line) => return Ok(line),
                    Way::Closed => return Err(closed(op)),
                    // A right that was taken does not come back; a server may make room again.
                    Way::Refused(why) if patience.is_some() || why.is_final() => {
                        return Err(why.into_error(op));
                    }
                    Way::Away | Way::Refused(_) => {}
                }
                // The sender is ours.
                let _changed = ways.changed().await;
            }
        };
        let Some(patience) = patience else { return waiting.await };
        let away = |_| {
            let why = format!("no server answers at {}", self.dial.address());
            Error::new(ErrorKind::Unavailable, op, why)
        };
        timeout(patience, waiting).await.map_err(away)?
    }

    /// Asks the server, on the next line when one breaks before it was sent.
    ///
    /// # Errors
    /// The server's; `Closed`; `Unavailable`, not done or unknown; `Timeout`, unknown.
    pub(crate) async fn call(
        &self,
        op: &'static str,
        call: Call,
        write: impl Fn(Packet) -> Result<Packet>,
        repeat: Repeat,
    ) -> Result<(Answer, Vec<Bytes>)> {
        let calling = async {
            loop {
                let line = self.line(op, Some(self.options.patience)).await?;
                match line.call(call.clone(), &write).await {
                    Ok(answered) => return said(op, answered),
                    Err(Lost::Refused(error)) => return Err(error),
                    Err(Lost::NotSent) => self.next_line(&line).await,
                    Err(Lost::Unknown) if repeat == Repeat::Always => self.next_line(&line).await,
                    Err(Lost::Unknown) => return Err(broken(op)),
                }
            }
        };
        let limit = match &call {
            Call::Request { wait } => self.options.answer_max.saturating_add(*wait),
            _ => self.options.answer_max,
        };
        timeout(limit, calling).await.unwrap_or_else(|_| {
            let why = format!("the server did not answer within {limit:?}");
            Err(Error::new(ErrorKind::Timeout, op, why).unknown())
        })
    }

    /// Opens a stream, whose items go to `sink`; `patience` as in [`Core::line`].
    ///
    /// # Errors
    /// As [`Core::call`].
    pub(crate) async fn open(
        &self,
        op: &'static str,
        call: Call,
        mut sink: impl FnMut() -> Sink,
        patience: Option<Duration>,
    ) -> Result<(Opened, Answer)> {
        loop {
            let line = self.line(op, patience).await?;
            let answered = match line.ask(call.clone(), Ok, Some(sink())).await {
                Ok((opened, answered)) => match answered.await {
                    Ok(answered) => return Ok((opened, said(op, answered)?.0)),
                    Err(_) => Lost::Unknown,
                },
                Err(lost) => lost,
            };
            if let Lost::Refused(error) = answered {
                return Err(error);
            }
            self.next_line(&line).await;
        }
    }

    /// Waits until `line` is known to be over, so that nobody asks on it again.
    async fn next_line(&self, line: &Arc<Line>) {
        let mut ways = self.way.subscribe();
        let is_other = |way: &Way| !matches!(way, Way::Up(now) if Arc::ptr_eq(now, line));
        // The sender is ours.
        let _other = ways.wait_for(is_other).await;
    }

    /// Sends what nobody answers.
    ///
    /// # Errors
    /// As [`Core::line`]; `TooLarge`.
    pub(crate) async fn send(
        &self,
        op: &'static str,
        words: ToServer,
        write: impl Fn(Packet) -> Result<Packet>,
    ) -> Result<()> {
        loop {
            let line = self.line(op, Some(self.options.patience)).await?;
            match line.send(Packet::new(&words).and_then(&write)).await {
                Ok(()) => return Ok(()),
                Err(Lost::Refused(error)) => return Err(error),
                Err(Lost::NotSent | Lost::Unknown) => self.next_line(&line).await,
            }
        }
    }
}

async fn reach(
    dial: &dyn Dial,
    identity: &Identity,
    options: &LinkOptions,
) -> Result<(Arc<Line>, impl Future<Output = Option<Fault>> + Send + use<>)> {
    let stream = dial.dial().await?;
    Line::begin(stream, identity, options).await
}

fn said(op: &'static str, answered: Answered) -> Result<(Answer, Vec<Bytes>)> {
    answered.map_err(|fault| fault.into_error(op))
}

pub(crate) fn closed(op: &'static str) -> Error {
    Error::new(ErrorKind::Closed, op, "the bus was closed")
}

pub(crate) fn broken(op: &'static str) -> Error {
    let why = "the connection to the server broke before the answer came";
    Error::new(ErrorKind::Unavailable, op, why).unknown()
}

/// Between half of `pause` and all of it: clients that lost one server do not come back as one.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [0_u8];
    match SystemEntropy::new().fill(&mut byte) {
        Ok(()) => pause / 2 + pause / 2 * u32::from(byte[0]) / 256,
        Err(_) => pause,
    }
}
