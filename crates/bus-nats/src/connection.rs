//! One connection: every call bounded in time, every refusal told, its state to be watched.
//!
//! The client answers `Ok` to a publish that the server refuses, keeps what is sent while nobody is
//! connected, and lets calls wait for as long as it has no connection. Here a call fails at once
//! while there is none, ends when the connection does, and is told what the server refuses.

use std::{sync::Arc, time::Duration};

use async_nats::{
    Auth, Client, ConnectErrorKind, ConnectOptions, HeaderMap, Message, Request, RequestErrorKind,
    Subscriber,
};
use bus_core::{Error, ErrorKind, Result};
use bus_envelope::Timestamp;
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::{
    sync::{broadcast, watch},
    time::timeout,
};

use self::{clock::ServerClock, watcher::Watcher};
use crate::options::{NatsAuth, NatsOptions};

mod clock;
mod watcher;

pub use watcher::ConnectionState;
use watcher::Violation;

/// A connection to a server, made anew by itself when it is lost.
pub(crate) struct Connection {
    client: Client,
    options: NatsOptions,
    clock: ServerClock,
    states: Arc<watch::Sender<ConnectionState>>,
    violations: broadcast::Sender<Violation>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// `Invalid` (an address), `Denied` (the server knows no such user), `Unavailable`.
    pub(crate) async fn open(options: NatsOptions) -> Result<Arc<Self>> {
        const OP: &str = "connect";
        let addresses = options.addresses()?;
        let watcher = Watcher::new();
        let (states, violations) = (watcher.states(), watcher.violations());
        let connecting = configure(&options, watcher).connect(addresses);
        let late = |_| Error::new(ErrorKind::Unavailable, OP, "no server answers in time");
        let connected = timeout(options.connect_wait, connecting).await.map_err(late)?;
        let client = connected.map_err(|error| {
            let (kind, why) = match error.kind() {
                ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                    (ErrorKind::Denied, "the server knows no such user")
                }
                ConnectErrorKind::Tls => (ErrorKind::Unavailable, "no encrypted connection"),
                _ => (ErrorKind::Unavailable, "no server can be reached"),
            };
            Error::new(kind, OP, why).because(error)
        })?;
        watcher::connected_first(&states);
        let clock = ServerClock::default();
        Ok(Arc::new(Self { client, options, clock, states, violations }))
    }

    /// The client, for what this does not offer.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// What the connection was made with.
    pub(crate) fn options(&self) -> &NatsOptions {
        &self.options
    }

    /// The state, to be watched.
    pub(crate) fn states(&self) -> watch::Receiver<ConnectionState> {
        self.states.subscribe()
    }

    /// The largest message the server takes, headers included.
    pub(crate) fn payload_max(&self) -> usize {
        self.client.max_payload()
    }

    /// A subject of this connection's own.
    pub(crate) fn new_inbox(&self) -> String {
        self.client.new_inbox()
    }

    /// The time of the server's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Learns the server's time from one of its answers.
    pub(crate) fn note_server_time(&self, time: Timestamp) {
        self.clock.note(time);
    }

    /// Refuses a call when the bus is closed or not connected.
    pub(crate) fn check_open(&self, op: &'static str) -> Result<()> {
        match &*self.states.borrow() {
            ConnectionState::Connected { .. } => Ok(()),
            ConnectionState::Disconnected => Err(not_connected(op)),
            ConnectionState::Closed => Err(Error::new(ErrorKind::Closed, op, "the bus is closed")),
        }
    }

    /// Waits for what the server must answer, as long as any call may take.
    pub(crate) async fn in_time<T>(
        &self,
        op: &'static str,
        future: impl Future<Output = T>,
    ) -> Result<T> {
        let mut states = self.states();
        let epoch = states.borrow_and_update().epoch();
        tokio::select! {
            answer = timeout(self.options.answer_wait, future) => {
                answer.map_err(|_| no_answer(op, self.options.answer_wait))
            }
            error = ended(op, &mut states, epoch) => Err(error),
        }
    }

    /// Asks on `subject` and waits for the answer, as long as any call may take.
    pub(crate) async fn request(
        &self,
        op: &'static str,
        subject: String,
        headers: Option<HeaderMap>,
        body: Bytes,
    ) -> Result<Message> {
        self.request_within(op, (subject, headers, body), self.options.answer_wait).await
    }

    /// Asks on `subject` and waits for the answer, at most for `wait`.
    ///
    /// # Errors
    /// `NoRecipient` (nobody listens), `Denied`, `TooLarge`, `Closed`; `Timeout` and `Unavailable`,
    /// with outcome unknown once it was sent.
    pub(crate) async fn request_within(
        &self,
        op: &'static str,
        (subject, headers, body): (String, Option<HeaderMap>, Bytes),
        wait: Duration,
    ) -> Result<Message> {
        self.check_open(op)?;
        let mut states = self.states();
        let epoch = states.borrow_and_update().epoch();
        let mut violations = self.violations.subscribe();
        let mut request = Request::new().payload(body).timeout(None);
        if let Some(headers) = headers {
            request = request.headers(headers);
        }
        let asking = self.client.send_request(subject.clone(), request);
        tokio::select! {
            asked = timeout(wait, asking) => match asked {
                Ok(answer) => answer.map_err(|error| request_failed(op, error)),
                Err(_) => Err(no_answer(op, wait)),
            },
            error = watcher::refused(op, &mut violations, &subject) => Err(error),
            error = ended(op, &mut states, epoch) => Err(error),
        }
    }

    /// Hands a message to the connection. Whether the server takes it is known after a
    /// [`fence`](Self::fence).
    pub(crate) async fn publish(
        &self,
        op: &'static str,
        subject: String,
        reply: Option<String>,
        headers: Option<HeaderMap>,
        body: Bytes,
    ) -> Result<()> {
        self.check_open(op)?;
        let client = &self.client;
        let headers = headers.unwrap_or_default();
        let publishing = async {
            match reply {
                Some(reply) => {
                    client.publish_with_reply_and_headers(subject, reply, headers, body).await
                }
                None => client.publish_with_headers(subject, headers, body).await,
            }
        };
        let sent = timeout(self.options.answer_wait, publishing);
        let sent = sent.await.map_err(|_| {
            Error::new(ErrorKind::Unavailable, op, "the connection takes no more now")
        })?;
        sent.map_err(|error| {
            let kind = match error.kind() {
                async_nats::PublishErrorKind::MaxPayloadExceeded => ErrorKind::TooLarge,
                async_nats::PublishErrorKind::InvalidSubject => ErrorKind::Invalid,
                async_nats::PublishErrorKind::Send => ErrorKind::Unavailable,
            };
            Error::new(kind, op, "the connection does not take it").because(error)
        })
    }

    /// Hears `subject`; in force after a [`fence`](Self::fence).
    pub(crate) async fn subscribe(
        &self,
        op: &'static str,
        subject: String,
    ) -> Result<Subscriber> {
        self.check_open(op)?;
        let subscribed = timeout(self.options.answer_wait, self.client.subscribe(subject)).await;
        let late = |_| Error::new(ErrorKind::Unavailable, op, "the connection takes no more now");
        subscribed.map_err(late)?.map_err(|error| {
            Error::new(ErrorKind::Unavailable, op, "the connection does not take it").because(error)
        })
    }

    /// A round trip to the server: what was sent before has reached it, and every subscription
    /// made before is in force. The client's own `flush` waits for the socket alone.
    pub(crate) async fn fence(&self, op: &'static str) -> Result<()> {
        let inbox = self.new_inbox();
        let mut back = self.subscribe(op, inbox.clone()).await?;
        self.publish(op, inbox, None, None, Bytes::new()).await?;
        match self.in_time(op, back.next()).await? {
            Some(_) => Ok(()),
            None => Err(not_connected(op).unknown()),
        }
    }

    /// Ends the connection once the server has everything that was handed over; calls after it
    /// are `Closed`. A second close is fine.
    pub(crate) async fn close(&self) -> Result<()> {
        const OP: &str = "close";
        let is_connected = match &*self.states.borrow() {
            ConnectionState::Closed => return Ok(()),
            state => matches!(state, ConnectionState::Connected { .. }),
        };
        let fenced = self.fence(OP).await;
        self.states.send_replace(ConnectionState::Closed);
        // Ends the client's own task. Nothing waits any more that it could lose.
        let _ended = timeout(self.options.answer_wait, self.client.drain()).await;
        if is_connected { fenced.map_err(Error::unknown) } else { Ok(()) }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("state", &*self.states.borrow()).finish_non_exhaustive()
    }
}

fn configure(options: &NatsOptions, watcher: Watcher) -> ConnectOptions {
    let auth = options.auth.clone();
    // The key signs here and nowhere else: the client never holds a seed.
    let mut connect = ConnectOptions::with_auth_callback(move |nonce| {
        let auth = auth.clone();
        async move {
            let mut answer = Auth::new();
            let key = match &auth {
                NatsAuth::None => return Ok(answer),
                NatsAuth::Nkey(key) => {
                    answer.nkey = Some(key.public().text());
                    &**key
                }
                NatsAuth::Jwt(credentials) => {
                    answer.jwt = Some(credentials.jwt().to_owned());
                    credentials.key()
                }
            };
            answer.signature = Some(key.sign(&nonce).to_vec());
            Ok(answer)
        }
    });
    connect = connect
        .name(&options.name)
        .custom_inbox_prefix(&options.inbox_prefix)
        .connection_timeout(options.connect_wait)
        .request_timeout(None)
        .ping_interval(options.ping_interval)
        .client_capacity(options.waiting_max)
        .require_tls(options.tls.required)
        .reconnect_delay_callback(watcher::pause_before)
        .event_callback(move |event| watcher.clone().note(event));
    if options.tls.first {
        connect = connect.tls_first();
    }
    for roots in &options.tls.roots {
        connect = connect.add_root_certificates(roots.clone());
    }
    if let Some((certificate, key)) = &options.tls.client {
        connect = connect.add_client_certificate(certificate.clone(), key.clone());
    }
    connect
}

/// Waits until the connection that a call went through is no more.
async fn ended(
    op: &'static str,
    states: &mut watch::Receiver<ConnectionState>,
    epoch: Option<u64>,
) -> Error {
    // The sender lives as long as the connection that waits.
    let _gone = states.wait_for(|state| state.epoch() != epoch).await;
    let why = "the connection was lost before the answer came";
    Error::new(ErrorKind::Unavailable, op, why).unknown()
}

fn request_failed(op: &'static str, error: async_nats::RequestError) -> Error {
    let (kind, why) = match error.kind() {
        RequestErrorKind::NoResponders => {
            return Error::new(ErrorKind::NoRecipient, op, "nobody listens");
        }
        RequestErrorKind::MaxPayloadExceeded => {
            let why = "it is larger than the server's max_payload";
            return Error::new(ErrorKind::TooLarge, op, why).because(error);
        }
        RequestErrorKind::InvalidSubject => {
            return Error::new(ErrorKind::Invalid, op, "the subject is none").because(error);
        }
        RequestErrorKind::TimedOut => (ErrorKind::Timeout, "no answer came in time"),
        RequestErrorKind::Other => (ErrorKind::Unavailable, "the connection ended"),
    };
    Error::new(kind, op, why).because(error).unknown()
}

fn no_answer(op: &'static str, wait: Duration) -> Error {
    Error::new(ErrorKind::Timeout, op, format!("no answer came within {wait:?}")).unknown()
}

fn not_connected(op: &'static str) -> Error {
    Error::new(ErrorKind::Unavailable, op, "there is no connection to a server now")
}
