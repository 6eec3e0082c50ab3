//! What goes on beside the calls of a connection: its state is held against the client's word, and
//! the server is asked for its time.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_nats::{Client, Request};
use bus_envelope::Timestamp;
use serde::Deserialize;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};

use super::{
    call::ROUSED_EVERY,
    clock::{GOOD_FOR, ServerClock},
    peers::Peers,
    state::ConnectionState,
    watcher::Watcher,
};

/// The server's clock, and how it is asked.
#[derive(Debug)]
pub(super) struct Time {
    pub(super) clock: ServerClock,
    /// Somebody reads a clock that was set long ago.
    pub(super) wanted: Notify,
    /// A question without a body that the server has answered with its time.
    known: Mutex<Option<String>>,
}

/// Runs until the connection is closed, or nobody has it any more and this is dropped.
pub(super) struct Keeper {
    pub(super) client: Client,
    pub(super) watcher: Arc<Watcher>,
    pub(super) time: Arc<Time>,
    pub(super) peers: Arc<Peers>,
    pub(super) answer_wait: Duration,
    /// How long the server may refuse to let us in before we give up.
    pub(super) barred_max: Duration,
}

impl Time {
    pub(super) fn new(clock: ServerClock) -> Self {
        Self { clock, wanted: Notify::new(), known: Mutex::default() }
    }

    /// Remembers a question that is answered with the time.
    pub(super) fn remember(&self, subject: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_deref() != Some(subject) {
            *known = Some(subject.to_owned());
        }
    }

    fn questions(&self) -> impl Iterator<Item = String> + use<> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        [USER_INFO.to_owned()].into_iter().chain(known)
    }
}

impl Keeper {
    pub(super) async fn run(self) {
        tokio::select! {
            () = self.follow() => {}
            () = self.keep_time() => {}
        }
    }

    /// Shows the client's state at each of its events, and now and then without one.
    async fn follow(&self) {
        let (states, watcher) = (&self.watcher.states, &self.watcher);
        while !states.now().is_final() {
            states.settle(&self.client);
            if states.now().epoch().is_some() {
                watcher.is_let_in();
            } else if watcher.barred_for().is_some_and(|so_far| so_far >= self.barred_max) {
                watcher.give_up();
                states.end(ConnectionState::Denied);
            }
            // The client tells of its change just before it makes it.
            let _stirred = timeout(SOON, watcher.stirred.notified()).await;
            states.settle(&self.client);
            let _stirred = timeout(LOOK, watcher.stirred.notified()).await;
            states.calls.wake();
            self.peers.tidy();
        }
    }

    /// Asks for the time again when it is read and was heard long ago, and after each reconnect.
    async fn keep_time(&self) {
        let mut states = self.watcher.states.watch();
        loop {
            let epoch = states.borrow_and_update().epoch();
            tokio::select! {
                () = self.time.wanted.notified() => {}
                _over = states.wait_for(|state| state.epoch() != epoch) => {}
            }
            if states.borrow().epoch().is_none() {
                let _up = states.wait_for(|state| state.epoch().is_some()).await;
            }
            for question in self.time.questions() {
                let asked = Instant::now();
                let asking = ask(&self.client, &self.watcher, question);
                if let Ok(Some(time)) = timeout(self.answer_wait, asking).await {
                    self.time.clock.note(time, asked);
                    break;
                }
            }
            tokio::select! {
                () = sleep(GOOD_FOR) => {}
                _over = states.changed() => {}
            }
        }
    }
}

/// Asks the server a question that it answers with its time; `None` when it does not.
pub(super) async fn ask(client: &Client, watcher: &Watcher, question: String) -> Option<Timestamp> {
    let mut news = watcher.states.news();
    let mark = watcher.refusals.count();
    let epoch = watcher.states.connects();
    let request = Request::new().timeout(None);
    let asking = client.send_request(question.clone(), request);
    let is_over = async {
        while !watcher.refusals.has(super::refusals::Act::Publish, &question, mark)
            && watcher.refusals.hears(epoch)
            && watcher.states.now().epoch() == Some(epoch)
        {
            if news.changed().await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        answer = asking => time_in(&answer.ok()?.payload),
        () = is_over => None,
    }
}

/// The time in an answer, wherever the server puts it.
fn time_in(body: &[u8]) -> Option<Timestamp> {
    let told: Told = serde_json::from_slice(body).ok()?;
    let text = told.ts.or(told.server.map(|server| server.time))?;
    Timestamp::parse_rfc3339(&text).ok()
}

#[derive(Deserialize)]
struct Told {
    ts: Option<String>,
    server: Option<Server>,
}

#[derive(Deserialize)]
struct Server {
    time: String,
}

/// Who are we? Every user may ask unless its rights say otherwise, and the answer has the time.
pub(crate) const USER_INFO: &str = "$SYS.REQ.USER.INFO";
/// How long after an event its state is looked at again.
const SOON: Duration = Duration::from_millis(5);
/// How often it is looked at without any event, and all calls are roused.
const LOOK: Duration = Duration::from_millis(500);
const _OFTEN_ENOUGH: () = assert!(SOON.as_millis() + LOOK.as_millis() < ROUSED_EVERY.as_millis());
