//! Round trips: whether the server has taken what was sent, and the end of a connection.

use std::time::Duration;

use async_nats::{HeaderMap, Subject, Subscriber};
use bus_core::{Error, ErrorKind, Result};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::timeout;

use super::{
    Connection, ConnectionState,
    call::{self, Mark, ended, lost, refused},
    configure::not_connected,
    refusals::Act,
    watcher::Watcher,
};

impl Connection {
    /// A round trip to the server: what was sent before has reached it, and every subscription
    /// made before is in force. The client's own `flush` waits for the socket alone.
    pub(crate) async fn fence(&self, op: &'static str) -> Result<()> {
        self.check_open(op)?;
        self.round_trip(op).await
    }

    async fn round_trip(&self, op: &'static str) -> Result<()> {
        let mut call = self.begin(op);
        let mark = call.mark();
        let inbox = Subject::from(self.new_inbox());
        let there_and_back = async {
            let mut back = self.hear(op, inbox.clone()).await?;
            self.send(op, (inbox.clone(), None, None, Bytes::new())).await?;
            Ok(back.next().await.is_some())
        };
        // Also a refusal of it comes back, behind all that was sent before.
        let is_back = |watcher: &Watcher, mark: Mark| {
            refused(watcher, op, (Act::Publish, &inbox), mark)
                .or_else(|| refused(watcher, op, (Act::Subscribe, &inbox), mark))
        };
        match call.wait(self.options.answer_wait, there_and_back, is_back).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return Err(not_connected(op).unknown()),
            Ok(Err(error)) => return Err(error),
            Err(refused) if refused.kind() == ErrorKind::Denied => {}
            Err(error) => return Err(error),
        }
        // Two halves of it on two connections prove nothing.
        if self.watcher.states.connects() == mark.connects { Ok(()) } else { Err(lost(op)) }
    }

    /// This moment, to be asked later what the server has refused since.
    pub(crate) fn violation_mark(&self) -> Mark {
        call::mark(&self.watcher)
    }

    /// A [`fence`](Self::fence) that also fails when the connection was lost since `mark`, and with
    /// it perhaps what was sent since then.
    pub(crate) async fn fence_since(&self, op: &'static str, mark: Mark) -> Result<()> {
        self.fence(op).await?;
        ended(&self.watcher, op, mark).map_or(Ok(()), Err)
    }

    /// Tells whether the server refused to take something for `subject`, or to let us hear it,
    /// since `mark`, as far as is known now.
    pub(crate) fn refused_since(&self, op: &'static str, mark: Mark, subject: &str) -> Result<()> {
        let acts = [Act::Publish, Act::Subscribe].into_iter();
        let mut found = acts.filter_map(|act| refused(&self.watcher, op, (act, subject), mark));
        found.next().map_or(Ok(()), Err)
    }

    /// Waits until the server has taken what was sent for `subject` since `mark`, a message or a
    /// subscription.
    ///
    /// # Errors
    /// `Denied` when it refuses; `Timeout` and `Unavailable` with outcome unknown.
    pub(crate) async fn confirm(&self, op: &'static str, mark: Mark, subject: &str) -> Result<()> {
        // The refusal comes before the round trip's end, but by another task: a second trip gives
        // that one its turn.
        for _ in 0..2 {
            self.fence_since(op, mark).await?;
            self.refused_since(op, mark, subject)?;
        }
        Ok(())
    }

    /// Hears `subject`, in force when this returns.
    ///
    /// # Errors
    /// `Denied` when the server refuses; as [`fence`](Self::fence).
    pub(crate) async fn subscribe_fenced(
        &self,
        op: &'static str,
        subject: impl Into<Subject>,
    ) -> Result<Subscriber> {
        let (subject, mark) = (subject.into(), self.violation_mark());
        let subscriber = self.subscribe(op, subject.clone()).await?;
        self.confirm(op, mark, &subject).await?;
        Ok(subscriber)
    }

    /// Publishes a message and waits until the server has taken it.
    ///
    /// # Errors
    /// `Denied` when the server refuses; as [`fence`](Self::fence).
    pub(crate) async fn publish_fenced(
        &self,
        op: &'static str,
        subject: impl Into<Subject>,
        headers: Option<HeaderMap>,
        body: Bytes,
    ) -> Result<()> {
        let (subject, mark) = (subject.into(), self.violation_mark());
        self.publish(op, subject.clone(), None, headers, body).await?;
        self.confirm(op, mark, &subject).await
    }

    /// Ends the connection once the server has everything that was handed over. New calls are
    /// `Closed` at once, those under way get a moment to end. A second close is fine.
    pub(crate) async fn close(&self) -> Result<()> {
        const OP: &str = "close";
        let states = &self.watcher.states;
        states.begin_to_close();
        let _alone = self.closing.lock().await;
        if states.now() == ConnectionState::Closed {
            return Ok(());
        }
        let fenced = match self.check_connected(OP) {
            Ok(()) => {
                let _late = timeout(CLOSE_GRACE, self.under_way.over()).await;
                self.round_trip(OP).await.map_err(Error::unknown)
            }
            // What was handed over was lost with the connection, and its calls were told.
            Err(_) => Ok(()),
        };
        states.end(ConnectionState::Closed);
        self.watcher.give_up();
        // Ends the client's own task. Nothing waits any more that it could lose.
        let _ended = timeout(self.options.answer_wait, self.client.drain()).await;
        fenced
    }
}

/// How long a close waits for the calls under way.
const CLOSE_GRACE: Duration = Duration::from_millis(250);
