//! Words to the server about its deliveries, one by one and many together.

use async_nats::{HeaderMap, Message, StatusCode};
use bus_core::{Error, ErrorKind, Result};
use bytes::Bytes;

use super::desk::Desk;

impl Desk {
    /// Tells the server what became of a delivery; it answers when that is done.
    pub(super) async fn acknowledge(
        &self,
        op: &'static str,
        origin: &str,
        word: &str,
    ) -> Result<()> {
        let body = Bytes::copy_from_slice(word.as_bytes());
        let asked = self.api.connection().request(op, origin, None, body).await;
        match asked {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NoRecipient => Err(self.unheard(op).await),
            Err(error) => Err(error),
        }
    }

    /// Why nobody heard an acknowledgement: the consumer is gone, and the lease with it, or nobody
    /// leads it at the moment.
    async fn unheard(&self, op: &'static str) -> Error {
        match self.consumers.joined(&self.spec).await {
            Ok(made) if made == self.made => {
                let why = "nobody leads the consumer at the moment";
                Error::new(ErrorKind::Unavailable, op, why).at(&self.spec.name)
            }
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Conflict) => {
                Error::new(ErrorKind::Unavailable, op, "nobody hears it").because(error)
            }
            _ => self.lease_lost(op),
        }
    }

    /// Acknowledges tasks at once, and answers for each in their order.
    pub(super) async fn acknowledge_all(&self, origins: &[&str]) -> Vec<Result<()>> {
        let mut answers: Vec<Option<Result<()>>> = origins.iter().map(|_| None).collect();
        if let Err(error) = self.ask_all(origins, &mut answers).await {
            for answer in answers.iter_mut().filter(|answer| answer.is_none()) {
                let same = Error::new(error.kind(), SETTLE, error.detail().to_owned());
                // Whatever was sent may have been done.
                let same = same.at(&self.spec.name);
                let is_lost = same.kind() == ErrorKind::LeaseLost;
                *answer = Some(Err(if is_lost { same } else { same.unknown() }));
            }
        }
        let lost = || Err(self.lease_lost(SETTLE));
        answers.into_iter().map(|answer| answer.unwrap_or_else(lost)).collect()
    }

    async fn ask_all(&self, origins: &[&str], answers: &mut [Option<Result<()>>]) -> Result<()> {
        let mut is_unheard = false;
        let note = |at: usize, answer: Message| {
            is_unheard |= answer.status == Some(StatusCode::NO_RESPONDERS);
            if let Some(place) = answers.get_mut(at).filter(|_| answer.status.is_none()) {
                *place = Some(Ok(()));
            }
        };
        let word = Bytes::from_static(ACK.as_bytes());
        self.api.connection().request_each(SETTLE, (origins, word), note).await?;
        if is_unheard { Err(self.unheard(SETTLE).await) } else { Ok(()) }
    }

    /// The server does not give out again what stands on the board. When this is lost it does,
    /// and what comes is recognised.
    pub(super) async fn keep_from_server(&self, origin: &str) {
        self.tell_server(origin, KEEP).await;
    }

    /// Says a word about a delivery that nobody waits for.
    pub(super) async fn tell_server(&self, origin: &str, word: &'static str) {
        let word = Bytes::from_static(word.as_bytes());
        let connection = self.api.connection();
        let sent = connection.publish("keep", origin.to_owned(), None, None::<HeaderMap>, word);
        if let Err(error) = sent.await {
            tracing::debug!(%error, "the server goes on without this word");
        }
    }
}

const SETTLE: &str = "settle";
pub(super) const ACK: &str = "+ACK";
pub(super) const PROGRESS: &str = "+WPI";
/// The server gives it out again in a second, when all copies of the board have heard that it is
/// not there.
pub(super) const AGAIN: &str = "-NAK {\"delay\": 1000000000}";
/// An hour in nanoseconds: until then the board alone decides when it comes again. What is still
/// there then is recognised and kept for another hour, and what is on no board is found.
const KEEP: &str = "-NAK {\"delay\": 3600000000000}";
