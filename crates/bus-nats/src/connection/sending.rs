//! What is handed to the client to be written.

use std::{future::poll_fn, pin::pin, task::Poll};

use async_nats::{
    HeaderMap, PublishError, Subject, client::traits::Publisher, message::OutboundMessage,
};
use bus_core::{Error, ErrorKind, Result};
use bytes::Bytes;
use tokio::time::timeout;

use super::{Connection, configure::publish_failed};

impl Connection {
    /// Hands a message to the connection. Whether the server takes it is known after a
    /// [`fence`](Self::fence).
    pub(crate) async fn publish(
        &self,
        op: &'static str,
        subject: impl Into<Subject>,
        reply: Option<String>,
        headers: Option<HeaderMap>,
        body: Bytes,
    ) -> Result<()> {
        self.check_open(op)?;
        let (subject, reply) = (subject.into(), reply.map(Subject::from));
        self.send(op, OutboundMessage { subject, reply, payload: body, headers }).await
    }

    pub(super) async fn send(&self, op: &'static str, message: OutboundMessage) -> Result<()> {
        let sent = self.unless_full(op, self.client.publish_message(message)).await?;
        sent.map_err(|error| self.not_published(op, error))
    }

    pub(super) fn not_published(&self, op: &'static str, error: PublishError) -> Error {
        let failed = publish_failed(op, error);
        // The client does not say whose end it was.
        let end = (failed.kind() == ErrorKind::Unavailable).then(|| self.check_open(op).err());
        end.flatten().unwrap_or(failed)
    }

    /// Refuses a message that the server would not take.
    ///
    /// # Errors
    /// `TooLarge`, not done.
    pub(crate) fn check_fits(&self, op: &'static str, bytes: usize) -> Result<()> {
        let bytes_max = self.payload_max();
        if bytes <= bytes_max {
            return Ok(());
        }
        let why = format!("the message has {bytes} bytes: the server takes at most {bytes_max}");
        Err(Error::new(ErrorKind::TooLarge, op, why))
    }

    /// Hands to the client what was accepted before, however long it takes until it has room; also
    /// while the bus is being closed. Cancel safe: a call that is dropped has not done it.
    pub(crate) async fn hand_over(
        &self,
        subject: &bus_subjects::Subject,
        body: Bytes,
    ) -> Result<()> {
        let sent = self.client.publish(Subject::from(subject.as_str()), body).await;
        sent.map_err(|error| publish_failed("publish", error))?;
        self.note_handed_over();
        Ok(())
    }

    /// What the client cannot take now it never sees.
    pub(super) async fn unless_full<T>(
        &self,
        op: &'static str,
        handing_over: impl Future<Output = T>,
    ) -> Result<T> {
        let mut handing_over = pin!(handing_over);
        // It takes most at once, and then no clock is asked.
        let at_once = poll_fn(|cx| Poll::Ready(handing_over.as_mut().poll(cx)));
        if let Poll::Ready(done) = at_once.await {
            return Ok(done);
        }
        let full = |_| Error::new(ErrorKind::Unavailable, op, "the connection takes no more now");
        timeout(self.options.answer_wait, handing_over).await.map_err(full)
    }
}
