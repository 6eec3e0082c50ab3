//! Streams: declared, appended to and read.

use bus_core::{Expect, Frame, Receipt, Result, Retention, Seq, Stored, StreamSpec};
use tokio::time::Instant;

use super::{SOON, Side, seen};
use crate::operation::{Head, Operation};

impl Side {
    pub(super) async fn play_stored(
        &mut self,
        operation: &Operation,
        other: Option<&str>,
    ) -> String {
        match operation {
            Operation::Declare { stream, otherwise } => {
                let mut spec = self.spec(*stream);
                if *otherwise {
                    spec = StreamSpec { retention: another(spec.retention), ..spec };
                }
                told(self.engine.declare(spec).await, |()| "declared".to_owned())
            }
            Operation::Append { stream, message, head } => {
                let frame = self.frame(*stream, message, 0);
                let expect = match self.expect(&frame, *head).await {
                    Ok(expect) => expect,
                    Err(error) => return seen(&error),
                };
                told(self.engine.append(frame, expect).await, |receipt| shown(&receipt))
            }
            Operation::AppendAll { stream, messages } => {
                let parts = messages.iter().enumerate();
                let frames = parts.map(|(part, message)| self.frame(*stream, message, part));
                let frames = frames.collect();
                told(self.engine.append_all(frames).await, |receipts| {
                    receipts.iter().map(shown).collect::<Vec<_>>().join(", ")
                })
            }
            Operation::Last { stream, subject } => {
                let last = self.engine.last(self.subject(*stream, *subject)).await;
                told(last, |last| one(last.as_ref()))
            }
            Operation::Read { stream, seq } => {
                let read = self.engine.read(self.stream(*stream), Seq(u64::from(*seq))).await;
                told(read, |read| one(read.as_ref()))
            }
            Operation::Replay { stream, subject, from } => {
                self.replay(*stream, *subject, *from).await
            }
            Operation::Discard { stream, seq } => {
                let (stream, seq) = (self.stream(*stream), Seq(u64::from(*seq)));
                // Whether a verdict on it is refused is left to the engine.
                self.held.retain(|held| *held.stream() != stream || held.seq != seq);
                let discarded = self.engine.discard(stream, seq).await;
                told(discarded, |was_there| format!("was there: {was_there}"))
            }
            Operation::Lag { stream } => self.lag_beside(*stream, other).await,
            unknown => format!("{unknown:?} is nothing stored"),
        }
    }

    async fn expect(&self, frame: &Frame, head: Head) -> Result<Expect> {
        if head == Head::Any {
            return Ok(Expect::Any);
        }
        let last = self.engine.last(frame.subject.clone()).await?.map_or(0, |last| last.seq.0);
        Ok(Expect::LastOfSubject(Seq(if head == Head::Right { last } else { last + 1 })))
    }

    async fn replay(&self, stream: u8, subject: Option<u8>, from: u8) -> String {
        let (filter, from) = (self.filter(stream, subject), Seq(u64::from(from)));
        let mut replay = match self.engine.replay(self.stream(stream), filter, from).await {
            Ok(replay) => replay,
            Err(error) => return seen(&error),
        };
        let mut all = String::new();
        while let Some(next) = replay.next().await {
            all.push_str(&told(next, |stored| one(Some(&stored))));
            all.push('\n');
        }
        all
    }

    /// The counts of a server follow what was done: a task that came for a call just dropped is
    /// held until it is handed back.
    async fn lag_beside(&self, stream: u8, other: Option<&str>) -> String {
        let end = Instant::now() + SOON;
        loop {
            let lag = self.lag(stream).await;
            if other.is_none_or(|other| other == lag) || Instant::now() > end {
                return lag;
            }
        }
    }

    async fn lag(&self, stream: u8) -> String {
        let lag = self.engine.lag(self.stream(stream)).await;
        let lag = told(lag, |lag| {
            format!("{} wait, {} held, {}", lag.pending, lag.in_flight, lag.oldest.is_some())
        });
        let consumers = self.engine.consumers(self.stream(stream)).await;
        let consumers = told(consumers, |consumers| {
            let each = consumers.iter().map(|one| {
                let (spec, lag) = (&one.spec, one.lag);
                let is_paused = one.paused_until.is_some();
                format!(
                    "{} on {}: {} wait, {} held, paused {is_paused}, {}",
                    spec.name,
                    spec.filter,
                    lag.pending,
                    lag.in_flight,
                    lag.oldest.is_some()
                )
            });
            each.collect::<Vec<_>>().join("\n")
        });
        format!("{lag}\n{consumers}")
    }
}

pub(super) fn told<T>(result: Result<T>, show: impl FnOnce(T) -> String) -> String {
    match result {
        Ok(value) => show(value),
        Err(error) => seen(&error),
    }
}

fn shown(receipt: &Receipt) -> String {
    let Receipt { stream, seq, duplicate, .. } = receipt;
    format!("{stream} {} duplicate {duplicate}", seq.0)
}

fn one(stored: Option<&Stored>) -> String {
    match stored {
        Some(Stored { frame, seq, .. }) => format!("{} {frame:?}", seq.0),
        None => "nothing".to_owned(),
    }
}

const fn another(retention: Retention) -> Retention {
    match retention {
        Retention::WorkQueue => Retention::Kept,
        Retention::Kept | Retention::AppendOnly => Retention::WorkQueue,
    }
}
