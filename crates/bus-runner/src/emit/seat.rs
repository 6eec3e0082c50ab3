//! The place of one run at the emit socket: its token, and where what it emits goes.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bus_core::{Endpoint, Result};
use bus_crypto::Zeroizing;
use bus_envelope::EventHash;
use data_encoding::HEXLOWER;
use tokio::{sync::Semaphore, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    EMIT_TOKEN_VAR, EMIT_VAR,
    frames::{Frame, Kind},
};
use crate::{
    EndReason, EventPlace, OutputStream, TokenKind, TokenStream, agent::shown::ShownQueue,
};

/// Who may emit now, by the hashes of their tokens.
#[derive(Default)]
pub(super) struct Seats(Mutex<HashMap<EventHash, Arc<Seat>>>);

/// Where what a run emits goes.
pub(super) struct Seat {
    endpoint: Endpoint,
    place: EventPlace,
    shown: Arc<ShownQueue>,
    streams: Mutex<HashMap<String, Arc<TokenStream>>>,
    /// Room for connections.
    pub(super) room: Arc<Semaphore>,
    /// Given when the run has ended.
    pub(super) ended: CancellationToken,
}

/// A run that may emit. When it is dropped its token is worth nothing any more.
pub(crate) struct Admitted {
    seats: Arc<Seats>,
    seat: Arc<Seat>,
    path: PathBuf,
    token: Zeroizing<String>,
}

/// How many connections a run may have at once.
pub(super) const CONNECTIONS_MAX: usize = 16;

/// How many streams of tokens a run may have.
const STREAMS_MAX: usize = 16;

impl Seats {
    pub(super) fn find(&self, token: &str) -> Option<Arc<Seat>> {
        self.seats(|seats| seats.get(&key(token)).cloned())
    }

    pub(super) fn admit(
        self: &Arc<Self>,
        path: &Path,
        endpoint: &Endpoint,
        place: EventPlace,
        shown: Arc<ShownQueue>,
    ) -> Result<Admitted> {
        let mut random = Zeroizing::new([0; 32]);
        endpoint.entropy().fill(&mut *random)?;
        let token = Zeroizing::new(HEXLOWER.encode(&*random));
        let seat = Arc::new(Seat {
            endpoint: endpoint.clone(),
            place,
            shown,
            streams: Mutex::default(),
            room: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            ended: CancellationToken::new(),
        });
        self.seats(|seats| seats.insert(key(&token), Arc::clone(&seat)));
        Ok(Admitted { seats: Arc::clone(self), seat, path: path.to_owned(), token })
    }

    fn seats<T>(&self, look: impl FnOnce(&mut HashMap<EventHash, Arc<Seat>>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Seat {
    /// Passes on what a client sent in the stream `stream`; what could not be published of it is
    /// told when the stream is flushed.
    ///
    /// # Errors
    /// What is wrong with the message, in words for a person.
    pub(super) async fn take(&self, frame: &Frame, stream: &str) -> Result<(), String> {
        let text = || std::str::from_utf8(&frame.bytes).map_err(|_| "text is UTF-8".to_owned());
        match frame.kind {
            Kind::Text => self.tokens(TokenKind::Text, text()?, stream).await,
            Kind::Thinking => self.tokens(TokenKind::Thinking, text()?, stream).await,
            Kind::End => {
                let reason: EndReason = text()?.parse()?;
                self.stream(stream)?.finish(reason).await.map_err(|error| error.to_string())
            }
            Kind::Stdout => {
                self.shown.push(OutputStream::Stdout, frame.bytes.clone());
                Ok(())
            }
            Kind::Stderr => {
                self.shown.push(OutputStream::Stderr, frame.bytes.clone());
                Ok(())
            }
            Kind::Hello | Kind::Accepted | Kind::Refused | Kind::Done => {
                Err("a message stands where it does not belong".to_owned())
            }
        }
    }

    /// Waits until all of a stream is out.
    pub(super) async fn flush(&self, stream: &str) -> Result<()> {
        let known = self.streams(|streams| streams.get(stream).cloned());
        match known {
            Some(stream) => stream.flush().await,
            None => Ok(()),
        }
    }

    async fn tokens(&self, kind: TokenKind, text: &str, stream: &str) -> Result<(), String> {
        let stream = self.stream(stream)?;
        stream.take(kind, text).await.map_err(|error| error.to_string())
    }

    fn stream(&self, name: &str) -> Result<Arc<TokenStream>, String> {
        self.streams(|streams| {
            let count = streams.len();
            match streams.entry(name.to_owned()) {
                Entry::Occupied(known) => Ok(Arc::clone(known.get())),
                Entry::Vacant(_) if count >= STREAMS_MAX => {
                    Err(format!("a run has at most {STREAMS_MAX} streams of tokens"))
                }
                Entry::Vacant(free) => {
                    let (endpoint, place) = (self.endpoint.clone(), self.place.clone());
                    let started = TokenStream::start(endpoint, place, name);
                    let stream = Arc::new(started.map_err(|error| error.to_string())?);
                    Ok(Arc::clone(free.insert(stream)))
                }
            }
        })
    }

    fn streams<T>(&self, look: impl FnOnce(&mut HashMap<String, Arc<TokenStream>>) -> T) -> T {
        look(&mut self.streams.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Admitted {
    /// What the command finds in its environment.
    pub(crate) fn variables(&self) -> [(&'static str, std::ffi::OsString); 2] {
        let token = std::ffi::OsString::from(self.token.as_str());
        [(EMIT_VAR, self.path.clone().into_os_string()), (EMIT_TOKEN_VAR, token)]
    }

    /// Ends the right to emit; what was taken goes out within `late`.
    pub(crate) async fn finish(self, late: Duration) {
        self.dismiss();
        let streams = self.seat.streams(std::mem::take);
        if streams.is_empty() {
            return;
        }
        let endpoint = &self.seat.endpoint;
        let subject = self.seat.place.tokens(endpoint);
        let last = async {
            let mut fault = Ok(());
            for stream in streams.values() {
                fault = fault.and(stream.flush().await);
            }
            fault.and(endpoint.finish_live(&subject).await.map(drop))
        };
        let task = self.seat.place.task.as_deref().unwrap_or("-");
        match timeout(late, last).await {
            Ok(Ok(())) => {}
            // Live events are best effort: the run and its receipt do not depend on them.
            Ok(Err(error)) => tracing::warn!(task, %error, "not all tokens were published"),
            Err(_) => tracing::warn!(task, "not all tokens were published in time"),
        }
    }

    fn dismiss(&self) {
        self.seats.seats(|seats| seats.remove(&key(&self.token)));
        self.seat.ended.cancel();
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.dismiss();
    }
}

impl fmt::Debug for Seats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seats").field("count", &self.seats(|seats| seats.len())).finish()
    }
}

/// Under what a token is looked up: how long that takes tells nothing of the token.
fn key(token: &str) -> EventHash {
    EventHash::of(token.as_bytes())
}
