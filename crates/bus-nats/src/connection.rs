//! One connection: every call bounded in time, every refusal told, its state to be watched.
//!
//! The client answers `Ok` to a publish that the server refuses, keeps what is sent while nobody is
//! connected, and lets calls wait for as long as it has no connection. Here a call fails at once
//! while there is none, ends when the connection does, and is told what the server refuses.

use std::{pin::pin, sync::Arc, time::Duration};

use async_nats::{Client, Subject, Subscriber};
use bus_core::{Error, ErrorKind, Result};
use bus_envelope::Timestamp;
use bus_subjects::WorkspaceId;
use tokio::{
    sync::{Mutex, watch},
    task::AbortHandle,
    time::{Instant, timeout},
};

use self::{
    answers::{Answers, subscribe_failed},
    call::{Call, deaf, refused},
    clock::ServerClock,
    configure::{closed, connect_failed, not_connected},
    fence::Rounds,
    keeper::{Keeper, Time},
    peers::Peers,
    refusals::Act,
    watcher::Watcher,
};
use crate::{options::NatsOptions, profile::Profile};

mod answers;
mod asking;
mod call;
mod calls;
mod clock;
mod configure;
mod fence;
mod keeper;
mod peers;
mod refusals;
mod sending;
mod state;
mod watcher;

pub(crate) use call::Mark;
pub(crate) use calls::rouse;
pub(crate) use keeper::USER_INFO;
pub use state::ConnectionState;

/// A connection to a server, made anew by itself when it is lost.
pub(crate) struct Connection {
    client: Client,
    options: NatsOptions,
    watcher: Arc<Watcher>,
    time: Arc<Time>,
    answers: Arc<Answers>,
    /// Answers of other agents, who must not be able to answer in the server's place.
    call_answers: Arc<Answers>,
    rounds: Rounds,
    peers: Arc<Peers>,
    /// One close at a time.
    closing: Mutex<()>,
    #[cfg_attr(not(test), expect(dead_code, reason = "held for its end"))]
    keeper: Task,
}

/// A task that ends when this is dropped.
struct Task(AbortHandle);

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// `Invalid` (an address, the inbox prefix), `Denied` (the server knows no such user, or does
    /// not let it hear its answers), `TooLarge` (its certificate, for this server), `Unavailable`.
    pub(crate) async fn open(options: NatsOptions) -> Result<Arc<Self>> {
        Self::open_at(options, clock::own_time()).await
    }

    /// Connects on a machine whose clock shows `own_time`.
    #[expect(clippy::disallowed_methods, reason = "an engine starts its own tasks")]
    async fn open_at(options: NatsOptions, own_time: Timestamp) -> Result<Arc<Self>> {
        const OP: &str = "connect";
        let addresses = options.addresses()?;
        let [inbox, of_calls] = options.own_inboxes()?;
        let watcher = Arc::new(Watcher::new([inbox.clone(), of_calls.clone()]));
        let auth = options.auth.clone();
        let connecting = configure::configure(&options, &inbox, &watcher).connect(addresses);
        let late = |_| Error::new(ErrorKind::Unavailable, OP, "no server answers in time");
        let connected = timeout(options.connect_wait, connecting).await.map_err(late)?;
        let client = connected.map_err(|error| connect_failed(OP, &auth, error))?;
        watcher.states.follow(&client);
        let time = Arc::new(Time::new(ServerClock::new(own_time)));
        let peers = Arc::<Peers>::default();
        let keeper = Keeper {
            client: client.clone(),
            watcher: Arc::clone(&watcher),
            time: Arc::clone(&time),
            peers: Arc::clone(&peers),
            answer_wait: options.answer_wait,
            barred_max: options.connect_wait,
        };
        // Also when this fails from here on.
        let keeper = Task(tokio::spawn(keeper.run()).abort_handle());
        let answers = Answers::open(OP, &client, (&client.new_inbox(), &watcher)).await?;
        let call_answers = Answers::open(OP, &client, (&of_calls, &watcher)).await?;
        let connection = Arc::new(Self {
            client,
            options,
            watcher,
            time,
            answers,
            call_answers,
            rounds: Rounds::default(),
            peers,
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
        let asking = keeper::ask(&self.client, &self.watcher, USER_INFO.to_owned());
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

    /// Tells how often there was a connection; holds on to no connection.
    pub(crate) fn connects(&self) -> impl Fn() -> u64 + Send + Sync + use<> {
        let watcher = Arc::clone(&self.watcher);
        move || watcher.states.connects()
    }

    /// Whether the server asks whoever connects who it is.
    pub(crate) fn asks_who(&self) -> bool {
        self.client.server_info().auth_required
    }

    /// The version of the server.
    pub(crate) fn server_version(&self) -> String {
        self.client.server_info().version
    }

    /// The server's time now and how wrong that may be; none when it has not told.
    pub(crate) fn heard_time(&self) -> Option<(Timestamp, Duration)> {
        self.time.clock.heard()
    }

    /// The largest message the server takes, headers included.
    pub(crate) fn payload_max(&self) -> usize {
        self.client.max_payload()
    }

    /// How the servers keep what is stored.
    pub(crate) fn profile(&self) -> Profile {
        self.options.profile
    }

    /// The subject on which the API of the servers is asked for `verb`.
    pub(crate) fn api_subject(&self, verb: &str) -> String {
        format!("{}.{verb}", self.options.api_prefix)
    }

    /// Whether what is kept is kept in this connection's own account, so that it may make it.
    pub(crate) fn keeps_itself(&self) -> bool {
        self.options.keeps_itself()
    }

    /// The workspace whose layout the servers keep.
    pub(crate) fn workspace(&self) -> Option<&WorkspaceId> {
        self.options.workspace.as_ref()
    }

    /// How long any call may take.
    pub(crate) fn answer_wait(&self) -> Duration {
        self.options.answer_wait
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
        Call::begin(&self.watcher, op, 1)
    }

    /// Waits for what the server must answer, as long as any call may take.
    pub(crate) async fn in_time<T>(
        &self,
        op: &'static str,
        future: impl Future<Output = T>,
    ) -> Result<T> {
        let (wait, future) = (self.options.answer_wait, pin!(future));
        self.begin(op).wait(wait, future, |watcher, mark| deaf(watcher, op, mark)).await
    }

    /// Waits for one of the answers to what was sent at `mark` for `subject`, to come on `inbox`,
    /// as long as any call may take. `Denied` when the server refuses one of the two.
    pub(crate) async fn answer_on<T>(
        &self,
        op: &'static str,
        mark: Mark,
        places: (&str, &str),
        answer: impl Future<Output = T>,
    ) -> Result<T> {
        self.answer_within(op, (mark, self.options.answer_wait), places, answer).await
    }

    /// As [`answer_on`](Self::answer_on), at most for `wait`.
    pub(crate) async fn answer_within<T>(
        &self,
        op: &'static str,
        (mark, wait): (Mark, Duration),
        (subject, inbox): (&str, &str),
        answer: impl Future<Output = T>,
    ) -> Result<T> {
        let refusal = |watcher: &Watcher, mark: Mark| {
            refused(watcher, op, (Act::Publish, subject), mark)
                // It was sent: only its answer cannot come.
                .or_else(|| refused(watcher, op, (Act::Subscribe, inbox), mark).map(Error::unknown))
        };
        let answer = pin!(answer);
        self.begin(op).since(mark).wait(wait, answer, refusal).await
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

    /// Hears what of `subject` falls to this member of `group`; in force after a
    /// [`confirm`](Self::confirm).
    pub(crate) async fn subscribe_in(
        &self,
        op: &'static str,
        subject: &'static str,
        group: &'static str,
    ) -> Result<Subscriber> {
        self.check_open(op)?;
        let subscribing = self.client.queue_subscribe(subject, group.to_owned());
        let subscribed = self.unless_full(op, subscribing).await?;
        subscribed.map_err(|error| subscribe_failed(op, error))
    }

    async fn hear(&self, op: &'static str, subject: Subject) -> Result<Subscriber> {
        let subscribed = self.unless_full(op, self.client.subscribe(subject)).await?;
        subscribed.map_err(|error| subscribe_failed(op, error))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.watcher.give_up();
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
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
