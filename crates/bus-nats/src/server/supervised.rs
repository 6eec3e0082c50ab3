//! Keeps a server running: starts it again when it dies, and gives up when that does not help.
//!
//! It works in a thread of its own, so that it needs no runtime and outlives the one that started
//! it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use bus_crypto::Entropy;
use tokio::sync::watch;

use super::{
    NatsServer, ServerOptions,
    error::ServerError,
    limit::Limit,
    policy::{Deaths, RestartPolicy},
};

/// A server that is kept running in the background.
///
/// Dropping it kills the server and waits for its end; [`stop`](Self::stop) and
/// [`retire`](Self::retire) end it in order.
#[derive(Debug)]
pub struct Supervised {
    states: ServerStates,
    orders: Orders,
    thread: Option<JoinHandle<()>>,
}

/// How a supervised server is.
#[derive(Debug, Clone)]
pub enum ServerState {
    /// It was started and is not ready yet.
    Starting,
    /// It is ready.
    Running {
        /// Where clients connect. It stays the same over restarts.
        url: String,
        /// The process number.
        pid: u32,
    },
    /// It died and is started again.
    Restarting {
        /// What it died of.
        reason: Arc<ServerError>,
        /// How often in a row it died.
        deaths: u32,
        /// When it is started again, counted from now.
        after: Duration,
    },
    /// It is not started any more.
    Failed(Arc<ServerError>),
    /// It was ended because it was asked for.
    Stopped,
}

/// The state of a supervised server, for whoever wants to follow it.
#[derive(Debug, Clone)]
pub struct ServerStates(watch::Receiver<ServerState>);

impl Supervised {
    /// Takes the directory and starts the server in the background.
    ///
    /// `entropy` spreads the waits between two starts.
    ///
    /// # Errors
    /// [`ServerError::InUse`] when another server works in the directory, [`ServerError::Config`]
    /// for a setting that cannot be given to the server, [`ServerError::Io`]. What goes wrong
    /// later is a [`ServerState`].
    pub fn start(
        options: ServerOptions,
        policy: RestartPolicy,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, ServerError> {
        let dir = options.dir.clone();
        let server = NatsServer::prepare(options)?;
        let (states, seen) = watch::channel(ServerState::Starting);
        let (sender, events) = mpsc::channel();
        let orders = Orders { events: sender, cancel: Arc::new(AtomicBool::new(false)) };
        let keeper = Keeper {
            server,
            deaths: Deaths::new(policy),
            entropy,
            states,
            events,
            orders: orders.clone(),
            runs: 0,
        };
        let thread = thread::Builder::new().name("nats-supervisor".to_owned());
        let thread = thread.spawn(move || keeper.run());
        let thread = thread.map_err(ServerError::io("supervise the server of", &dir))?;
        Ok(Self { states: ServerStates(seen), orders, thread: Some(thread) })
    }

    /// How the server is now.
    #[must_use]
    pub fn state(&self) -> ServerState {
        self.states.now()
    }

    /// Follows how the server is.
    #[must_use]
    pub fn states(&self) -> ServerStates {
        self.states.clone()
    }

    /// Waits until the server is ready and returns its URL.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// What the supervisor gave up for.
    pub async fn ready(&self) -> Result<String, Arc<ServerError>> {
        let mut states = self.states();
        loop {
            match states.now() {
                ServerState::Running { url, .. } => return Ok(url),
                ServerState::Failed(error) => return Err(error),
                ServerState::Stopped => return Err(Arc::new(stopped())),
                ServerState::Starting | ServerState::Restarting { .. } => {}
            }
            states.changed().await;
        }
    }

    /// Ends the server in order and waits for that.
    ///
    /// Clients are cut off. When the future is dropped, the server is killed.
    pub async fn stop(self) {
        self.orders.give(Order::Stop);
        self.states().over().await;
    }

    /// Lets the server send its clients away before it ends (lame duck), and waits for that.
    ///
    /// When the future is dropped, the server is killed.
    pub async fn retire(self) {
        self.orders.give(Order::Retire);
        self.states().over().await;
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.orders.give(Order::Kill);
        if let Some(thread) = self.thread.take() {
            // Its panic would have been ours, and has been printed.
            let _ignored = thread.join();
        }
    }
}

impl ServerStates {
    /// How the server is now.
    #[must_use]
    pub fn now(&self) -> ServerState {
        self.0.borrow().clone()
    }

    /// Waits for the next state that was not seen here yet and returns it; when there will be no
    /// more, returns the last one at once.
    ///
    /// Cancel safe. States that passed quickly are skipped.
    pub async fn changed(&mut self) -> ServerState {
        // An error says that the supervisor is gone: the last state stays.
        let _ignored = self.0.changed().await;
        self.0.borrow_and_update().clone()
    }

    /// Waits until the server is not kept running any more.
    async fn over(&mut self) {
        let is_over =
            |state: &ServerState| matches!(state, ServerState::Stopped | ServerState::Failed(_));
        // An error says that the supervisor is gone, and so is the server.
        let _ignored = self.0.wait_for(is_over).await;
    }
}

/// What the supervisor's thread waits for.
#[derive(Debug)]
enum Event {
    /// The server of this run ended.
    Ended {
        run: u64,
    },
    Order(Order),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Stop,
    Retire,
    Kill,
}

/// What came of waiting.
enum Happening {
    Ended,
    Order(Order),
    Nothing,
}

/// The way to the supervisor's thread.
#[derive(Debug, Clone)]
struct Orders {
    events: mpsc::Sender<Event>,
    /// Ends the wait for a server that is starting.
    cancel: Arc<AtomicBool>,
}

impl Orders {
    fn give(&self, order: Order) {
        self.cancel.store(true, Ordering::Release);
        // Nobody listens any more when the server is gone for good.
        let _ignored = self.events.send(Event::Order(order));
    }
}

/// The supervisor's thread.
struct Keeper {
    server: NatsServer,
    deaths: Deaths,
    entropy: Arc<dyn Entropy>,
    states: watch::Sender<ServerState>,
    events: mpsc::Receiver<Event>,
    orders: Orders,
    runs: u64,
}

impl Keeper {
    fn run(mut self) {
        let last = loop {
            let started = Limit::new(Duration::ZERO);
            let reason = match self.start() {
                Ok(()) => match self.wait(None) {
                    Happening::Order(order) => break self.obey(order),
                    Happening::Ended | Happening::Nothing => self.why(),
                },
                Err(error) => error,
            };
            if self.orders.cancel.load(Ordering::Acquire) {
                // It was not let finish: what it came to is of no interest.
                break ServerState::Stopped;
            }
            if reason.is_final() {
                break ServerState::Failed(Arc::new(reason));
            }
            let Some(after) = self.deaths.count(started.gone(), self.dice()) else {
                let (deaths, last) = (self.deaths.in_a_row(), Box::new(reason));
                break ServerState::Failed(Arc::new(ServerError::GaveUp { deaths, last }));
            };
            let deaths = self.deaths.in_a_row();
            tracing::warn!(%reason, deaths, ?after, "nats-server died and is started again");
            let reason = Arc::new(reason);
            self.states.send_replace(ServerState::Restarting { reason, deaths, after });
            if let Some(order) = self.pause(after) {
                break self.obey(order);
            }
        };
        // The directory is free before anybody hears that it is over.
        drop(self.server);
        self.states.send_replace(last);
    }

    fn start(&mut self) -> Result<(), ServerError> {
        self.runs += 1;
        let (run, events) = (self.runs, self.orders.events.clone());
        let on_end = move || {
            // Nobody listens any more when the supervisor ended it.
            let _ignored = events.send(Event::Ended { run });
        };
        self.states.send_if_modified(|state| {
            // The first time it says so already.
            !matches!(std::mem::replace(state, ServerState::Starting), ServerState::Starting)
        });
        self.server.launch(Box::new(on_end), &self.orders.cancel)?;
        let (url, pid) = (self.server.url().to_owned(), self.server.pid().unwrap_or_default());
        tracing::info!(url, pid, "nats-server is ready");
        self.states.send_replace(ServerState::Running { url, pid });
        Ok(())
    }

    /// Waits until the server ends or an order comes, but not longer than `limit`.
    fn wait(&self, limit: Option<Limit>) -> Happening {
        loop {
            let event = match limit {
                Some(limit) => self.events.recv_timeout(limit.left()).ok(),
                // We hold a sender ourselves, so that it never hears of their end.
                None => self.events.recv().ok(),
            };
            match event {
                Some(Event::Order(order)) => return Happening::Order(order),
                Some(Event::Ended { run }) if run == self.runs => return Happening::Ended,
                // The end of a run that was dealt with.
                Some(Event::Ended { .. }) => {}
                None => return Happening::Nothing,
            }
        }
    }

    /// Waits for `span` after a death; an order ends that.
    fn pause(&mut self, span: Duration) -> Option<Order> {
        // The end of the run that died may still be on its way.
        self.runs += 1;
        match self.wait(Some(Limit::new(span))) {
            Happening::Order(order) => Some(order),
            Happening::Ended | Happening::Nothing => None,
        }
    }

    fn obey(&mut self, order: Order) -> ServerState {
        let ServerOptions { config, stop_within, .. } = &self.server.options;
        let patience = match (order, &self.server.process) {
            (Order::Kill, _) | (_, None) => Duration::ZERO,
            (Order::Stop, Some(process)) => {
                process.ask_to_end();
                *stop_within
            }
            (Order::Retire, Some(_)) => {
                // One that has ended already has no clients to send away.
                let _ignored = self.server.lame_duck();
                config.lame_duck_grace + config.lame_duck_duration + *stop_within
            }
        };
        // A further order says that there is no time for this.
        let is_running = self.server.pid().is_some();
        if is_running && !matches!(self.wait(Some(Limit::new(patience))), Happening::Ended) {
            tracing::debug!(?order, "nats-server has not ended in order and is killed");
        }
        self.server.kill();
        ServerState::Stopped
    }

    fn why(&self) -> ServerError {
        match self.server.running() {
            Err(error) => error,
            // It cannot run: its thread said that it ended.
            Ok(_) => stopped(),
        }
    }

    fn dice(&self) -> u32 {
        let mut bytes = [0; 4];
        // Without randomness the waits are merely not spread.
        let _ignored = self.entropy.fill(&mut bytes);
        u32::from_le_bytes(bytes)
    }
}

fn stopped() -> ServerError {
    let log = super::LastLines::default();
    ServerError::Ended { status: "stopped".to_owned(), log }
}
