//! Three real servers that keep copies of each other's streams.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::atomic::{AtomicU16, Ordering},
    thread,
    time::{Duration, Instant},
};

use bus_crypto::SystemEntropy;
use bus_nats::server::{
    Authorization, Cluster, LastLines, RoutePassword, ServerConfig, ServerError,
};

use crate::{TestServer, wire};

/// A cluster of three on this machine, each server with a folder of its own.
///
/// Servers are counted from 0 to 2; they are called `n1` to `n3`. All go when it is dropped.
#[derive(Debug)]
pub struct TestCluster {
    servers: Vec<TestServer>,
}

impl TestCluster {
    /// How many servers there are.
    pub const SERVERS: usize = 3;

    /// Starts three servers with the default configuration and waits until they keep copies.
    ///
    /// # Panics
    /// When there is no server, or they do not become a cluster.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&ServerConfig::default())
    }

    /// Starts three servers with this configuration; name, address and cluster are given to each.
    ///
    /// Waits until they keep copies where everybody may ask them ([`Authorization::Open`]); else
    /// until all three let clients in.
    ///
    /// # Panics
    /// When there is no server, or they do not become a cluster.
    #[must_use]
    #[expect(clippy::panic, reason = "test support: without its servers a test must fail")]
    pub fn start_with(config: &ServerConfig) -> Self {
        let mut last = None;
        for _ in 0..START_TRIES {
            match Self::try_start(config) {
                Ok(cluster) => {
                    if matches!(config.authorization, Authorization::Open) {
                        cluster.wait_ready();
                    }
                    return cluster;
                }
                // Somebody else was given one of the ports in between.
                Err(error @ ServerError::PortTaken { .. }) => last = Some(error),
                Err(error) => panic!("{error}"),
            }
        }
        panic!("{}", last.map_or_else(String::new, |error| error.to_string()));
    }

    fn try_start(config: &ServerConfig) -> Result<Self, ServerError> {
        let password = RoutePassword::generate(&SystemEntropy::new())?;
        let routes: Vec<SocketAddr> = (0..Self::SERVERS).map(|_| free_address()).collect();
        let config_of = |place: usize| {
            ServerConfig {
                name: format!("n{}", place + 1),
                // Fixed, so that it is never one that a restart finds taken by a client.
                listen: free_address(),
                domain: config.domain.clone().or_else(|| Some("hub".to_owned())),
                cluster: Some(Cluster {
                    name: "vak".to_owned(),
                    listen: routes.get(place).copied().unwrap_or_else(free_address),
                    // All of them: until they have met, they take the number for their own.
                    routes: routes.iter().map(|route| (*route).into()).collect(),
                    password: Some(password.clone()),
                    tls: None,
                }),
                ..config.clone()
            }
        };
        let configs: Vec<_> = (0..Self::SERVERS).map(config_of).collect();
        let servers = thread::scope(|scope| {
            let starting = configs
                .into_iter()
                .map(|config| scope.spawn(move || TestServer::try_start_with(config)));
            let starting: Vec<_> = starting.collect();
            starting.into_iter().map(joined).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(Self { servers })
    }

    /// Where clients connect, in the servers' order. Restarts keep it.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.url().to_owned()).collect()
    }

    /// The server at `place`: `url`, `reload` and the rest are its own.
    ///
    /// # Panics
    /// When there is no such place.
    #[expect(clippy::panic, reason = "test support: a test that names no server must fail")]
    pub fn server(&mut self, place: usize) -> &mut TestServer {
        self.servers.get_mut(place).unwrap_or_else(|| panic!("there is no server {place}"))
    }

    /// The place of the server that is called `name`.
    #[must_use]
    pub fn place_of(&self, name: &str) -> Option<usize> {
        (0..self.servers.len()).find(|place| format!("n{}", place + 1) == name)
    }

    /// Kills a server and waits for its end.
    ///
    /// # Panics
    /// When there is no such place.
    pub fn kill(&mut self, place: usize) {
        self.server(place).kill();
    }

    /// Stops a server's clock: its connections stay open and nothing answers.
    ///
    /// # Panics
    /// When it does not run.
    #[expect(clippy::panic, reason = "test support: what does not run cannot be frozen")]
    pub fn freeze(&mut self, place: usize) {
        self.server(place).freeze().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Lets a frozen server go on.
    ///
    /// # Panics
    /// When it does not run.
    #[expect(clippy::panic, reason = "test support: what does not run cannot go on")]
    pub fn thaw(&mut self, place: usize) {
        self.server(place).thaw().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Starts a server again, on its store, and waits until it lets clients in.
    ///
    /// # Errors
    /// As [`bus_nats::server::NatsServer::start`].
    ///
    /// # Panics
    /// When there is no such place.
    pub fn restart(&mut self, place: usize) -> Result<(), ServerError> {
        self.server(place).restart()
    }

    /// Kills all three, starts them again on their stores and waits until they keep copies.
    ///
    /// # Errors
    /// As [`bus_nats::server::NatsServer::start`].
    ///
    /// # Panics
    /// When they do not become a cluster again.
    pub fn restart_all(&mut self) -> Result<(), ServerError> {
        for server in &mut self.servers {
            server.kill();
        }
        thread::scope(|scope| {
            let starting: Vec<_> = self
                .servers
                .iter_mut()
                .map(|server| scope.spawn(move || server.restart()))
                .collect();
            starting.into_iter().try_for_each(joined)
        })?;
        self.wait_ready();
        Ok(())
    }

    /// Waits until every server that runs answers for its JetStream, somebody leads each stream,
    /// and a stream of three copies can be made; one is made and removed.
    ///
    /// # Panics
    /// When that takes longer than a minute: the last answers are named.
    #[expect(clippy::panic, reason = "test support: without its servers a test must fail")]
    #[expect(clippy::disallowed_methods, reason = "nothing tells when servers have elected one")]
    pub fn wait_ready(&self) {
        let begun = Instant::now();
        let mut said = Err("nobody was asked".to_owned());
        while begun.elapsed() < READY_WITHIN {
            said = self.ask_ready();
            if said.is_ok() {
                return;
            }
            thread::sleep(PAUSE);
        }
        let logs: Vec<LastLines> = self.servers.iter().map(|server| server.last_lines()).collect();
        panic!("the cluster is not ready: {said:?}; {logs:?}");
    }

    fn ask_ready(&self) -> Result<(), String> {
        let running = || self.servers.iter().filter(|server| server.pid().is_some());
        for server in running() {
            good(wire::ask(server.url(), "$JS.API.INFO", "")?)?;
        }
        let first = running().next().ok_or("no server runs")?;
        let config = r#"{"name":"VAKBUS_READY","subjects":["vakbus.ready"],"num_replicas":3}"#;
        let made = wire::ask(first.url(), "$JS.API.STREAM.CREATE.VAKBUS_READY", config)?;
        // A try before this one may have made it.
        if !made.contains("\"err_code\":10058") {
            good(made)?;
        }
        good(wire::ask(first.url(), "vakbus.ready", "")?)?;
        good(wire::ask(first.url(), "$JS.API.STREAM.DELETE.VAKBUS_READY", "")?)?;
        // Those that nobody leads yet are listed as missing.
        let list = wire::ask(first.url(), "$JS.API.STREAM.LIST", "")?;
        if list.contains("\"missing\":[") { Err(list) } else { good(list) }
    }

    /// What the server at `place` answers on `subject`; in words what went wrong.
    ///
    /// # Errors
    /// When it does not run, or says nothing within five seconds.
    pub fn ask(&self, place: usize, subject: &str, body: &str) -> Result<String, String> {
        let server =
            self.servers.get(place).ok_or_else(|| format!("there is no server {place}"))?;
        wire::ask(server.url(), subject, body)
    }

    /// The place of the server that leads a stream; `None` while none does.
    #[must_use]
    pub fn leader_of(&self, stream: &str) -> Option<usize> {
        let verb = format!("$JS.API.STREAM.INFO.{stream}");
        let running = self.servers.iter().filter(|server| server.pid().is_some());
        let answers = running.filter_map(|server| wire::ask(server.url(), &verb, "").ok());
        answers.filter_map(|answer| self.place_of(leader_in(&answer)?)).next()
    }
}

/// Who leads, in what a server says about a stream.
fn leader_in(answer: &str) -> Option<&str> {
    let (_, rest) = answer.split_once("\"leader\":\"")?;
    rest.split('"').next()
}

fn good(answer: String) -> Result<(), String> {
    if answer.contains("\"error\"") { Err(answer) } else { Ok(()) }
}

#[expect(clippy::panic, reason = "test support: a thread of ours panics only as its test does")]
fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|_| panic!("a server could not be started"))
}

/// An address that nobody listens on, with a port that no client is given by the system.
///
/// # Panics
/// When there is none.
#[must_use]
#[expect(clippy::panic, reason = "test support: without its port a test must fail")]
pub fn free_address() -> SocketAddr {
    // Processes begin at different places, and each goes on from where it was.
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = std::process::id().wrapping_mul(97) % u32::from(PORTS);
    for _ in 0..PORTS {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from((begin + step) % u32::from(PORTS)).unwrap_or_default();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, FIRST_PORT + port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("all {PORTS} ports from {FIRST_PORT} on are taken");
}

/// Below those that systems give to clients by themselves (32,768 and up).
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 12_000;
const START_TRIES: usize = 5;
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How often is asked while nothing can be waited for.
const PAUSE: Duration = Duration::from_millis(20);
