//! A real nats-server as a child of this process: found, configured, started, ended, supervised.
//!
//! [`NatsServer`] is one server in the caller's hand, for tests and tools; its methods block.
//! [`Supervised`] keeps one running in the background, for `vakbus up --nats` (D15).

use std::{net::SocketAddr, path::PathBuf, sync::atomic::AtomicBool, time::Duration};

use rustix::process::Signal;

use home::Home;
use process::{OnEnd, Process};
use ready::Wait;

pub use binary::{ServerBinary, Source, Version, find_server};
pub use config::{
    Authorization, Cluster, HostPort, LeafDoor, LeafNodes, LeafRemote, LeafTls, NkeyUser, Resolver,
    RoutePassword, ServerConfig, ServerTls, SyncPolicy, WebSocketDoor,
};
pub use error::{LastLines, ServerError};
pub use policy::RestartPolicy;
pub use supervised::{ServerState, ServerStates, Supervised};

mod binary;
mod config;
mod error;
mod guard;
mod home;
mod limit;
mod log;
mod policy;
mod process;
mod ready;
mod supervised;
mod text;

/// A nats-server that this process started, and the directory it works in.
///
/// Dropping it kills the server, waits for its end and lets others have the directory. The server
/// also ends when this process dies in any other way. Every method that waits blocks its thread.
#[derive(Debug)]
pub struct NatsServer {
    // The server must have ended before the directory is let go: fields go in this order.
    process: Option<Process>,
    home: Home,
    options: ServerOptions,
    /// Where it answered last; a restart keeps the port.
    address: Option<SocketAddr>,
    url: String,
}

/// What to start, where, and how long to wait for it.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The program.
    pub binary: ServerBinary,
    /// The directory for the server's streams, its configuration and its lock. Made when it is
    /// not there. One server a directory.
    pub dir: PathBuf,
    /// What the server is told.
    pub config: ServerConfig,
    /// How long the server may take until it is ready. Default 60 s: it reads its whole store,
    /// which took 10 s with 10,000 streams.
    pub ready_within: Duration,
    /// How long an orderly end may take before the server is killed. Default 10 s.
    pub stop_within: Duration,
}

impl ServerOptions {
    /// The defaults for a server in `dir`.
    pub fn new(binary: ServerBinary, dir: impl Into<PathBuf>) -> Self {
        Self {
            binary,
            dir: dir.into(),
            config: ServerConfig::default(),
            ready_within: Duration::from_secs(60),
            stop_within: Duration::from_secs(10),
        }
    }
}

impl NatsServer {
    /// Starts a server and waits until it is ready: it listens, and `JetStream` answers.
    ///
    /// For a server of a cluster it is enough that it listens: its JetStream answers when most of
    /// the others are there too.
    ///
    /// # Errors
    /// [`ServerError::Config`] for a setting that cannot be given to the server,
    /// [`ServerError::InUse`] when another server works in the directory,
    /// [`ServerError::PortTaken`], [`ServerError::Ended`] and [`ServerError::NotReady`] with the
    /// last lines of its log, [`ServerError::Io`]. Nothing is left running.
    pub fn start(options: ServerOptions) -> Result<Self, ServerError> {
        let mut server = Self::prepare(options)?;
        server.launch(Box::new(|| {}), &AtomicBool::new(false))?;
        Ok(server)
    }

    /// Takes the directory and checks the configuration; starts nothing.
    fn prepare(options: ServerOptions) -> Result<Self, ServerError> {
        let home = Home::take(&options.dir)?;
        let server = Self { process: None, home, options, address: None, url: String::new() };
        server.render()?;
        Ok(server)
    }

    /// Starts the program; `cancel`, once set, ends the wait for it.
    fn launch(&mut self, on_end: OnEnd, cancel: &AtomicBool) -> Result<(), ServerError> {
        self.process = None;
        self.write_config()?;
        let ports = self.home.fresh_ports()?;
        let process = Process::start(self.options.binary.path(), &self.home, on_end)?;
        let (listen, within) = (self.listen(), self.options.ready_within);
        let is_alone = self.options.config.cluster.is_none();
        let wait = Wait { process: &process, ports: &ports, listen, is_alone, within, cancel };
        let address = wait.run()?;
        let scheme = if self.options.config.tls.is_some() { "tls" } else { "nats" };
        self.url = format!("{scheme}://{address}");
        self.address = Some(address);
        self.process = Some(process);
        Ok(())
    }

    fn write_config(&self) -> Result<(), ServerError> {
        self.home.write_config(&self.render()?)
    }

    fn render(&self) -> Result<String, ServerError> {
        let ServerOptions { binary, config, .. } = &self.options;
        if config.is_linked() && binary.version() < Version::LINKED {
            let (oldest, found) = (Version::LINKED, binary.version());
            let reason = format!(
                "a domain, a cluster and leaf nodes need nats-server {oldest}, this is {found}"
            );
            return Err(ServerError::config("domain", reason));
        }
        let config = ServerConfig { listen: self.listen(), ..config.clone() };
        config.render_with_ports(self.home.dir(), &self.home.ports())
    }

    /// The address to listen on, with the port that was chosen before.
    fn listen(&self) -> SocketAddr {
        let mut listen = self.options.config.listen;
        if let Some(address) = self.address {
            listen.set_port(address.port());
        }
        listen
    }

    /// Where clients connect: `nats://127.0.0.1:4222`, or `tls://…`. A restart keeps it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The process number of the server, when it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.running().ok().map(Process::pid)
    }

    /// The last lines of the log of this run or, after its end, of the last one.
    #[must_use]
    pub fn last_lines(&self) -> LastLines {
        self.process.as_ref().map(Process::last_lines).unwrap_or_default()
    }

    /// Waits until the server has ended of its own accord, but not longer than `limit`; says
    /// whether it has.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> bool {
        self.process.as_ref().is_none_or(|process| process.wait(limit))
    }

    /// Ends the server in order; what has not ended after
    /// [`stop_within`](ServerOptions::stop_within) is killed. The directory stays taken.
    pub fn stop(&mut self) {
        if let Some(process) = &self.process {
            process.stop(self.options.stop_within);
        }
    }

    /// Kills the server (`SIGKILL`) and waits for its end. The directory stays taken.
    pub fn kill(&mut self) {
        if let Some(process) = &self.process {
            process.kill();
        }
    }

    /// Stops the server's clock, as a machine does that hangs (`SIGSTOP`): its connections stay
    /// open and nothing answers. When this returns, it stands still.
    ///
    /// # Errors
    /// [`ServerError::Ended`] when it does not run.
    pub fn freeze(&self) -> Result<(), ServerError> {
        self.running()?.freeze()
    }

    /// Lets a frozen server go on.
    ///
    /// # Errors
    /// [`ServerError::Ended`] when it does not run.
    pub fn thaw(&self) -> Result<(), ServerError> {
        self.running()?.signal(Signal::CONT)
    }

    /// Tells the server to take no new clients, send away those it has, and end. Returns at once;
    /// [`wait`](Self::wait) waits for the end.
    ///
    /// # Errors
    /// [`ServerError::Ended`] when it does not run.
    pub fn lame_duck(&self) -> Result<(), ServerError> {
        self.running()?.signal(Signal::USR2)
    }

    /// Starts the server again on the same port and store; ends it in order first if it runs.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.stop();
        self.launch(Box::new(|| {}), &AtomicBool::new(false))
    }

    /// Gives the running server another configuration and waits until it says that it has taken
    /// it. Address and directory stay what they are.
    ///
    /// # Errors
    /// [`ServerError::Config`] when the server refuses it (the one before stays in force, also for
    /// a restart), [`ServerError::Ended`] when it does not run, [`ServerError::NotReady`] when it
    /// says nothing.
    pub fn reload(&mut self, config: ServerConfig) -> Result<(), ServerError> {
        self.running()?;
        let listen = self.options.config.listen;
        let before = std::mem::replace(&mut self.options.config, ServerConfig { listen, ..config });
        let taken = self.ask_to_reload();
        if taken.is_err() {
            self.options.config = before;
            self.write_config()?;
        }
        taken
    }

    fn ask_to_reload(&self) -> Result<(), ServerError> {
        self.write_config()?;
        let process = self.running()?;
        let seen = process.lines_seen();
        process.signal(Signal::HUP)?;
        let within = self.options.stop_within;
        let verdict = process.find_line(seen, within, |line| {
            if line.contains("Reloaded server configuration") {
                return Some(Ok(()));
            }
            let (_, reason) = line.split_once("Failed to reload server configuration: ")?;
            Some(Err(ServerError::config("reload", reason)))
        });
        verdict.unwrap_or_else(|| {
            let missing = "it has not said that it took the configuration";
            let log = process.last_lines();
            Err(ServerError::NotReady { waited: within, missing, log })
        })
    }

    fn running(&self) -> Result<&Process, ServerError> {
        let Some(process) = &self.process else {
            let status = "not started".to_owned();
            return Err(ServerError::Ended { status, log: LastLines::default() });
        };
        match process.ended() {
            None => Ok(process),
            Some(status) => Err(ServerError::Ended { status, log: process.last_lines() }),
        }
    }
}
