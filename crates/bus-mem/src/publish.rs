//! Publishing and asking: the calls of the live plane that do not subscribe.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bus_core::{Error, ErrorKind, Frame, Result, SegmentFrame};
use bus_subjects::{Filter, Subject};
use tokio::task::coop::{has_budget_remaining, poll_proceed};

use crate::{InMemoryBus, core::Heard, subscription::FeedStream};

impl InMemoryBus {
    /// Publishes `frame` in this very call, and returns how many subscriptions heard it.
    ///
    /// As [`Bus::publish`](bus_core::Bus::publish) but for one thing: it never gives way. Who calls
    /// it in a loop on a thread that also runs subscribers must yield now and then, at the latest
    /// before as many frames as their capacities, or they miss frames.
    ///
    /// # Errors
    /// `TooLarge`, `Invalid` (a placement) or `Closed`, not done.
    #[inline]
    pub fn try_publish(&self, frame: Frame) -> Result<usize> {
        Ok(self.send(&mut Some(SegmentFrame::Here(frame)))?.by)
    }

    fn send(&self, frame: &mut Option<SegmentFrame>) -> Result<Heard> {
        let connection = self.connection();
        connection.check_open("publish")?;
        if let Some(frame) = frame {
            frame.frame().check_live("publish")?;
        }
        Ok(connection.live().publish(frame))
    }

    pub(crate) async fn ask(&self, mut frame: Frame, wait: Duration) -> Result<Frame> {
        let connection = self.connection();
        connection.check_open("request")?;
        frame.check_live("request")?;
        let number = connection.next_request();
        // No agent can be called `=mem`, so no role's own reply inbox reaches into these.
        let reply = Subject::parse(&format!("_INBOX.=mem.{number}"))?;
        let filter = Filter::from(&reply);
        let answers = FeedStream::for_answer(connection.live(), filter, connection.id())?;
        // Closed meanwhile: nobody would end the wait before its time.
        connection.check_open("request")?;
        let subject = frame.subject.clone();
        frame.reply = Some(reply);
        if connection.live().publish(&mut Some(SegmentFrame::Here(frame))).by == 0 {
            let why = "nobody listens on this subject";
            return Err(Error::new(ErrorKind::NoRecipient, "request", why).at(subject));
        }
        let failed = |kind, why| Error::new(kind, "request", why).at(&subject).unknown();
        match tokio::time::timeout(wait, answers.first_frame()).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(failed(ErrorKind::Closed, "the bus was closed")),
            Err(_elapsed) => Err(failed(ErrorKind::Timeout, "no answer came in time")),
        }
    }
}

/// A publish on its way.
///
/// Subscribers may live on the very thread of their publisher. One that awaits nothing else would
/// starve them and lose nearly everything, so it gives way now and then, before it publishes.
pub(crate) struct Publishing<'a> {
    bus: &'a InMemoryBus,
    frame: Option<SegmentFrame>,
}

impl<'a> Publishing<'a> {
    pub(crate) fn new(bus: &'a InMemoryBus, frame: Frame) -> Self {
        Self { bus, frame: Some(SegmentFrame::Here(frame)) }
    }
}

impl Future for Publishing<'_> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if !has_budget_remaining() {
            // It is not: this only has the task polled again after the others.
            ready!(poll_proceed(cx)).made_progress();
        }
        let bus = self.bus;
        let heard = bus.send(&mut self.frame)?;
        for _ in 0..units(heard.capacity_min) {
            if has_budget_remaining()
                && let Poll::Ready(budget) = poll_proceed(cx)
            {
                budget.made_progress();
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Of the 128 units that tokio gives a task between two yields, as many as one frame stands for.
fn units(capacity_min: u64) -> u64 {
    BUDGET / frames_between_turns(capacity_min)
}

/// How many frames a publisher hands in before it gives way: half of the smallest capacity, but 32
/// to 128 of them.
pub(crate) fn frames_between_turns(capacity_min: u64) -> u64 {
    match capacity_min {
        0..128 => BUDGET / 4,
        128..256 => BUDGET / 2,
        _ => BUDGET,
    }
}

const BUDGET: u64 = 128;
