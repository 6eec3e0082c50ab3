//! A question to all servers at once: nobody knows how many will answer.

use std::time::Duration;

use async_nats::StatusCode;
use bus_core::{Error, ErrorKind, Result};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

use super::ServerClaims;

impl ServerClaims {
    /// Asks on `subject` and collects the answers: until `count` have come where it is known how
    /// many will, else for as long as a server may take, so that a slow one is not passed over.
    ///
    /// # Errors
    /// `NoRecipient` when nobody listens; `Timeout` when nobody answers and `Unavailable` when the
    /// connection ends, where who changes something has to say that it may have happened.
    pub(super) async fn ask_all(
        &self,
        op: &'static str,
        subject: &str,
        body: Bytes,
        count: Option<usize>,
    ) -> Result<Vec<Bytes>> {
        let inbox = self.connection.new_inbox();
        let mut heard = self.connection.subscribe(op, inbox.clone()).await?;
        self.connection.publish(op, subject.to_owned(), Some(inbox), None, body).await?;
        let (mut answers, until) = (Vec::new(), Instant::now() + PATIENCE);
        while count.is_none_or(|count| answers.len() < count) {
            let Ok(answer) = timeout_at(until, heard.next()).await else { break };
            let Some(answer) = answer else {
                let why = "the connection ended before all servers had answered";
                return Err(Error::new(ErrorKind::Unavailable, op, why));
            };
            if answer.status == Some(StatusCode::NO_RESPONDERS) {
                return Err(Error::new(ErrorKind::NoRecipient, op, "nobody listens"));
            }
            answers.push(answer.payload);
        }
        if answers.is_empty() {
            return Err(Error::new(ErrorKind::Timeout, op, "no server has answered"));
        }
        Ok(answers)
    }
}

/// How long a server may take to answer. It reads and writes one small file for it.
const PATIENCE: Duration = Duration::from_secs(1);
