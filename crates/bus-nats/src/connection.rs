//! One connection: every call bounded in time, every refusal told, its state to be watched.
//!
//! The client answers `Ok` to a publish that the server refuses, keeps what is sent while nobody is
//! connected, and lets calls wait for as long as it has no connection. Here a call fails at once
//! while there is none, ends when the connection does, and is told what the server refuses.

use std::{sync::Arc, time::Duration};

use async_nats::{Client, HeaderMap, Message, Request, Subject, Subscriber};
use bus_core::{Error, ErrorKind, Result};
use bus_envelope::Timestamp;
use bytes::Bytes;
use tokio::{
    sync::{Mutex, watch},
    task::AbortHandle,
    time::{Instant, timeout},
};

use self::{
    call::{Call, UnderWay, deaf, ended, refused},
    clock::ServerClock,
    configure::{closed, connect_failed, not_connected, publish_failed, request_failed},
    fence::Rounds,
    keeper::{Keeper, Time},
    refusals::Act,
    watcher::Watcher,
};
use crate::options::NatsOptions;

mod call;
mod clock;
mod configure;
mod fence;
mod keeper;
mod refusals;
mod state;
mod watcher;

pub(crate) use call::Mark;
pub use state::ConnectionState;

/// A connection to a server, made anew by itself when it is lost.
pub(crate) struct Connection {
    client: Client,
    options: NatsOptions,
    watcher: Arc<Watcher>,
    time: Arc<Time>,
    under_way: UnderWay,
    rounds: Rounds,
    /// One close at a time.
    closing: Mutex<()>,
    keeper: AbortHandle,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// `Invalid` (an address, the inbox prefix), `Denied` (the server knows no such user, or does
    /// not let it hear its answers), `Unavailable`.
    pub(crate) async fn open(options: NatsOptions) -> Result<Arc<Self>> {
        Self::open_at(options, clock::own_time()).await
    }

    /// Connects on a machine whose clock shows `own_time`.
    #[expect(clippy::disallowed_methods, reason = "an engine starts its own tasks")]
    async fn open_at(options: NatsOptions, own_time: Timestamp) -> Result<Arc<Self>> {
        const OP: &str = "connect";
        let addresses = options.addresses()?;
        let inbox = options.own_inbox()?;
        let watcher = Arc::new(Watcher::new(inbox.clone()));
        let connecting = configure::configure(&options, &inbox, &watcher).connect(addresses);
        let late = |_| Error::new(ErrorKind::Unavailable, OP, "no server answers in time");
        let connected = timeout(options.connect_wait, connecting).await.map_err(late)?;
        let client = connected.map_err(|error| connect_failed(OP, error))?;
        watcher.states.follow(&client);
        let time = Arc::new(Time::new(ServerClock::new(own_time)));
        let keeper = Keeper {
            client: client.clone(),
            watcher: Arc::clone(&watcher),
            time: Arc::clone(&time),
            answer_wait: options.answer_wait,
            barred_max: options.connect_wait,
        };
        let keeper = tokio::spawn(keeper.run()).abort_handle();
        let connection = Arc::new(Self {
            client,
            options,
            watcher,
            time,
            under_way: UnderWay::default(),
            rounds: Rounds::default(),
            closing: Mutex::default(),
            keeper,
        });
        connection.hear_first(OP).await?;
        Ok(connection)
    }

    /// Asks the server for its time. When it may not be asked, the API's answers tell it later;
    /// but when its answers do not reach us, nothing would.
    async fn hear_first(&self, op: &'static str) -> Result<()> {
        let asked = Instant::now();
        let asking = keeper::ask(&self.client, &self.watcher, keeper::USER_INFO.to_owned());
        if let Ok(Some(time)) = timeout(self.options.connect_wait, asking).await {
            self.time.clock.note(time, asked);
        }
        match deaf(&self.watcher, op, self.violation_mark()) {
            Some(denied) => Err(denied),
            None => Ok(()),
        }
    }

    /// The client, for what this does not offer.
    #[cfg(test)]
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The state, to be watched.
    pub(crate) fn states(&self) -> watch::Receiver<ConnectionState> {
        self.watcher.states.watch()
    }

    /// The largest message the server takes, headers included.
    #[cfg(test)]
    pub(crate) fn payload_max(&self) -> usize {
        self.client.max_payload()
    }

    /// A subject of this connection's own.
    pub(crate) fn new_inbox(&self) -> String {
        self.client.new_inbox()
    }

    /// The time of the server's clock.
    pub(crate) fn now(&self) -> Timestamp {
        if self.time.clock.is_due() {
            self.time.wanted.notify_one();
        }
        self.time.clock.now()
    }

    /// Learns the server's time from an answer that came not long ago.
    pub(crate) fn note_server_time(&self, time: Timestamp) {
        self.time.clock.note_loosely(time);
    }

    /// Learns the server's time from the answer to a question asked at `asked`; one `without_body`
    /// can be asked again for the time's sake.
    pub(crate) fn note_answer(&self, time: Timestamp, asked: Instant, without_body: Option<&str>) {
        self.time.clock.note(time, asked);
        if let Some(subject) = without_body {
            self.time.remember(subject);
        }
    }

    /// Refuses a call when the bus is closed or not connected.
    pub(crate) fn check_open(&self, op: &'static str) -> Result<()> {
        if self.watcher.states.is_closing() {
            return Err(closed(op));
        }
        self.check_connected(op)
    }

    fn check_connected(&self, op: &'static str) -> Result<()> {
        let states = &self.watcher.states;
        states.settle(&self.client);
        match states.now() {
            ConnectionState::Connected { .. } => Ok(()),
            ConnectionState::Disconnected => Err(not_connected(op)),
            ConnectionState::Denied => {
                let why = self.watcher.barred_why();
                let why = format!("the server lets this identity in no more: {why}");
                Err(Error::new(ErrorKind::Denied, op, why))
            }
            ConnectionState::Closed => Err(closed(op)),
        }
    }

    fn begin(&self, op: &'static str) -> Call<'_> {
        Call::begin(&self.watcher, &self.under_way, op)
    }

    /// Waits for what the server must answer, as long as any call may take.
    pub(crate) async fn in_time<T>(
        &self,
        op: &'static str,
        future: impl Future<Output = T>,
    ) -> Result<T> {
        let wait = self.options.answer_wait;
        self.begin(op).wait(wait, future, |watcher, mark| deaf(watcher, op, mark)).await
    }

    /// Waits for one of the answers to what was sent at `mark` for `subject`, to come on `inbox`,
    /// as long as any call may take. `Denied` when the server refuses one of the two.
    pub(crate) async fn answer_on<T>(
        &self,
        op: &'static str,
        mark: Mark,
        (subject, inbox): (&str, &str),
        answer: impl Future<Output = T>,
    ) -> Result<T> {
        let refusal = |watcher: &Watcher, mark: Mark| {
            refused(watcher, op, (Act::Publish, subject), mark)
                // It was sent: only its answer cannot come.
                .or_else(|| refused(watcher, op, (Act::Subscribe, inbox), mark).map(Error::unknown))
        };
        self.begin(op).since(mark).wait(self.options.answer_wait, answer, refusal).await
    }

    /// Asks on `subject` and waits for the answer, as long as any call may take.
    pub(crate) async fn request(
        &self,
        op: &'static str,
        subject: impl Into<Subject>,
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
        (subject, headers, body): (impl Into<Subject>, Option<HeaderMap>, Bytes),
        wait: Duration,
    ) -> Result<Message> {
        self.check_open(op)?;
        let mut call = self.begin(op);
        if let Some(denied) = deaf(&self.watcher, op, call.mark()) {
            return Err(denied);
        }
        let subject = subject.into();
        let mut request = Request::new().payload(body).timeout(None);
        if let Some(headers) = headers {
            request = request.headers(headers);
        }
        let asking = self.client.send_request(subject.clone(), request);
        let refusal = |watcher: &Watcher, mark: Mark| {
            refused(watcher, op, (Act::Publish, &subject), mark)
                .or_else(|| deaf(watcher, op, mark).map(Error::unknown))
        };
        let mark = call.mark();
        call.wait(wait, asking, refusal).await?.map_err(|error| {
            let failed = request_failed(op, error);
            // The client ends what waits with the connection, and does not say whose end it was.
            let end = (failed.kind() == ErrorKind::Unavailable)
                .then(|| ended(&self.watcher, op, mark))
                .flatten();
            end.unwrap_or(failed)
        })
    }

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
        self.send(op, (subject.into(), reply, headers, body)).await
    }

    async fn send(
        &self,
        op: &'static str,
        (subject, reply, headers, body): (Subject, Option<String>, Option<HeaderMap>, Bytes),
    ) -> Result<()> {
        let client = &self.client;
        let publishing = async {
            match (reply, headers) {
                (None, None) => client.publish(subject, body).await,
                (None, Some(headers)) => client.publish_with_headers(subject, headers, body).await,
                (Some(reply), None) => client.publish_with_reply(subject, reply, body).await,
                (Some(reply), Some(headers)) => {
                    client.publish_with_reply_and_headers(subject, reply, headers, body).await
                }
            }
        };
        let sent = self.unless_full(op, publishing).await?;
        sent.map_err(|error| publish_failed(op, error))
    }

    /// Hears `subject`; in force after a [`fence`](Self::fence).
    pub(crate) async fn subscribe(
        &self,
        op: &'static str,
        subject: impl Into<Subject>,
    ) -> Result<Subscriber> {
        self.check_open(op)?;
        self.hear(op, subject.into()).await
    }

    async fn hear(&self, op: &'static str, subject: Subject) -> Result<Subscriber> {
        let subscribed = self.unless_full(op, self.client.subscribe(subject)).await?;
        subscribed.map_err(|error| {
            let kind = match error.kind() {
                async_nats::client::SubscribeErrorKind::InvalidSubject => ErrorKind::Invalid,
                _ => ErrorKind::Unavailable,
            };
            Error::new(kind, op, "the connection does not take it").because(error)
        })
    }

    /// What the client cannot take now it never sees.
    async fn unless_full<T>(
        &self,
        op: &'static str,
        handing_over: impl Future<Output = T>,
    ) -> Result<T> {
        let full = |_| Error::new(ErrorKind::Unavailable, op, "the connection takes no more now");
        timeout(self.options.answer_wait, handing_over).await.map_err(full)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.watcher.give_up();
        self.keeper.abort();
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.watcher.states.now();
        f.debug_struct("Connection").field("state", &state).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
