//! Streams of several copies, which are not alike at every moment.
//!
//! The servers say that a message is stored, acknowledged or deleted before every copy of the
//! stream shows it, and any copy answers direct gets. Measured on three servers: a copy is 4 ms
//! behind, at most 11; one whose server stood still is until it has caught up.

use std::time::Duration;

use futures_util::future::join_all;
use serde::{Deserialize, de::IgnoredAny};
use tokio::time::{Instant, timeout_at};

use super::{Api, ApiFailure, GetRequest, new_stream_pauses};

/// What who leads a stream answers.
#[derive(Deserialize)]
struct Led {
    message: LedMessage,
}

#[derive(Deserialize)]
struct LedMessage {
    seq: u64,
}

impl Api {
    /// The position of the first message under `subject` from `seq` on, by the word of who leads
    /// `stream`; `None` when there is none.
    ///
    /// # Errors
    /// Those of a call.
    pub(crate) async fn next_led(
        &self,
        op: &'static str,
        stream: &str,
        (seq, subject): (u64, &str),
    ) -> Result<Option<u64>, ApiFailure> {
        let next_by_subj = Some(subject.to_owned());
        let wanted = GetRequest { seq: Some(seq), next_by_subj, ..GetRequest::default() };
        let asked = self.call::<Led>(op, &format!("STREAM.MSG.GET.{stream}"), &wanted).await;
        match asked {
            Ok(led) => Ok(Some(led.message.seq)),
            Err(failure) if failure.err_code() == Some(NO_MESSAGE) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Whether the servers keep several copies of what this connection makes.
    pub(crate) fn has_copies(&self) -> bool {
        self.connection.profile().replicas() > 1
    }

    /// Waits until neither who leads `stream` nor the copy that answers here has the messages at
    /// `seqs`.
    ///
    /// What is done is done: who may not look, or finds nobody to answer, does not wait, and nobody
    /// waits long. Behind an import only a copy can be asked.
    pub(crate) async fn until_gone(
        &self,
        op: &'static str,
        stream: &str,
        seqs: impl IntoIterator<Item = u64>,
    ) {
        join_all(seqs.into_iter().map(|seq| self.until_one_is_gone(op, stream, seq))).await;
    }

    async fn until_one_is_gone(&self, op: &'static str, stream: &str, seq: u64) {
        let wanted = GetRequest { seq: Some(seq), ..GetRequest::default() };
        let until = Instant::now() + GONE_WAIT;
        for pause in new_stream_pauses() {
            tokio::time::sleep(pause).await;
            let looked = timeout_at(until, async {
                tokio::join!(self.is_led(op, stream, &wanted), self.get(op, stream, &wanted))
            });
            match looked.await {
                Ok((false, read)) if read.as_ref().map_or(true, Vec::is_empty) => return,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        tracing::debug!(stream, seq, "a copy still has what is gone");
    }

    /// Whether who leads `stream` says that it has the message; not when it may not be asked.
    async fn is_led(&self, op: &'static str, stream: &str, wanted: &GetRequest) -> bool {
        let verb = format!("STREAM.MSG.GET.{stream}");
        self.keeps_itself() && self.call::<IgnoredAny>(op, &verb, wanted).await.is_ok()
    }
}

/// How long all looks for a copy that is behind may take together.
const GONE_WAIT: Duration = Duration::from_secs(3);
const NO_MESSAGE: u32 = 10_037;
