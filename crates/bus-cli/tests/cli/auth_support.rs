//! Servers that run what `vakbus auth server-config` wrote.

use std::{
    fs::File,
    net::{SocketAddr, TcpStream},
    process::{Child, Command},
    sync::Arc,
    time::Duration,
};

use bus_core::{ErrorKind, Result};
use bus_crypto::creds;
use bus_nats::{NatsAuth, NatsBus, NatsOptions};
use bus_testserver::free_address;

use crate::{
    nats_support::program,
    support::{Outcome, Place, run},
};

/// A place whose operator has a server.
pub(crate) struct Operated {
    pub(crate) place: Place,
    listen: SocketAddr,
    server: Option<Child>,
}

impl Operated {
    /// A server that knows the workspace `default`.
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// As [`Self::start`], with more words to what writes its configuration.
    pub(crate) fn with(more: &[&str]) -> Self {
        let (place, listen) = (Place::new(), free_address());
        let address = listen.to_string();
        let args = ["auth", "server-config", "--out", "server", "--listen", &address];
        let made = place.run(&[&args, more].concat());
        assert_eq!(made.code, Some(0), "{made:?}");
        let mut operated = Self { place, listen, server: None };
        operated.start_server();
        operated
    }

    pub(crate) fn start_server(&mut self) {
        let mut command = Command::new(program());
        command.arg("-c").arg(self.place.path("server/server.conf"));
        let log = self.place.path("server.log");
        let log = File::options().create(true).append(true).open(log).unwrap();
        command.stderr(log);
        self.server = Some(command.spawn().unwrap());
        let listens = |_| TcpStream::connect(self.listen).is_ok();
        assert!((0..1_000_000).any(listens), "the server never listens");
    }

    /// What the server has logged.
    pub(crate) fn log(&self) -> String {
        self.place.read("server.log")
    }

    pub(crate) fn kill_server(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listen
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.listen)
    }

    /// `vakbus` in `place`, which uses the server.
    pub(crate) fn command(&self, place: &Place, args: &[&str]) -> Command {
        let mut command = place.command();
        command.args(args).env("VAKBUS_NATS_URL", self.url());
        command
    }

    /// Runs it in the operator's own place.
    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        run(self.command(&self.place, args), "")
    }

    /// As [`Self::run`], when it has to go well.
    pub(crate) fn does(&self, args: &[&str]) -> String {
        let outcome = self.run(args);
        assert_eq!(outcome.code, Some(0), "{args:?}: {outcome:?}");
        outcome.stdout.trim_end().to_owned()
    }

    /// Another machine with a copy of all keys.
    pub(crate) fn copy(&self) -> Place {
        let place = Place::new();
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(self.place.path("data")).arg(place.path("data"));
        assert!(copy.status().unwrap().success());
        place
    }

    /// Logs in with the credentials in a file of the operator's place.
    pub(crate) async fn log_in(&self, file: &str) -> Result<NatsBus> {
        let credentials = creds::parse(&self.place.read(file)).unwrap();
        let options = NatsOptions {
            auth: NatsAuth::Jwt(Arc::new(credentials)),
            inbox_prefix: format!("_INBOX.{}", file.strip_suffix(".creds").unwrap()),
            connect_wait: Duration::from_millis(500),
            ..NatsOptions::new(self.url())
        };
        NatsBus::open(options).await
    }

    /// Whether the server lets in nobody with these credentials.
    pub(crate) async fn refuses(&self, file: &str) -> bool {
        self.log_in(file).await.is_err_and(|error| error.kind() == ErrorKind::Denied)
    }
}

impl Drop for Operated {
    fn drop(&mut self) {
        self.kill_server();
    }
}
