//! Finds out when a started server is ready: it says its port, greets, and `JetStream` answers.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use serde::Deserialize;

use super::{error::ServerError, limit::Limit, process::Process};

/// What is waited for.
pub(super) struct Wait<'a> {
    pub(super) process: &'a Process,
    /// The folder where the server says which ports it took.
    pub(super) ports: &'a Path,
    /// The address it was told to listen on.
    pub(super) listen: SocketAddr,
    /// Whether its JetStream answers without other servers.
    pub(super) is_alone: bool,
    pub(super) within: Duration,
    /// Set by somebody else to end the waiting.
    pub(super) cancel: &'a AtomicBool,
}

impl Wait<'_> {
    /// Waits until the server is ready and returns the address that it answers on.
    pub(super) fn run(&self) -> Result<SocketAddr, ServerError> {
        let limit = Limit::new(self.within);
        let mut missing = "it has not said its port";
        loop {
            if let Some(status) = self.process.ended() {
                return Err(self.ended(status));
            }
            if let Some(port) = port_of(self.ports, self.process.pid()) {
                let address = reachable(SocketAddr::new(self.listen.ip(), port));
                let limit = limit.left().min(ANSWER_WITHIN);
                match ask(address, self.process.pid(), self.is_alone, limit) {
                    Ok(None) => return Ok(address),
                    Ok(Some(reason)) => missing = reason,
                    Err(_) => missing = "it does not answer on its port",
                }
            }
            if limit.is_over() || self.cancel.load(Ordering::Acquire) {
                let log = self.process.last_lines();
                return Err(ServerError::NotReady { waited: limit.gone(), missing, log });
            }
            // Nothing tells when the file is there; an end is noticed at once.
            self.process.wait(PAUSE);
        }
    }

    fn ended(&self, status: String) -> ServerError {
        let log = self.process.last_lines();
        if log.0.iter().any(|line| line.contains("address already in use")) {
            return ServerError::PortTaken { address: self.listen.to_string() };
        }
        ServerError::Ended { status, log }
    }
}

/// What the server says about itself when a client connects.
#[derive(Deserialize)]
struct Greeting {
    #[serde(default)]
    jetstream: bool,
    #[serde(default)]
    auth_required: bool,
    #[serde(default)]
    tls_required: bool,
}

/// The ports that a server took.
#[derive(Deserialize)]
struct Ports {
    nats: Vec<String>,
}

/// Reads the port of clients from the file that the server writes once it listens.
///
/// `None` while it is not there or not whole yet.
fn port_of(folder: &Path, pid: u32) -> Option<u16> {
    let ending = format!("_{pid}.ports");
    let mut entries = fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let file = entries.find(|entry| entry.file_name().to_string_lossy().ends_with(&ending))?;
    let ports: Ports = serde_json::from_slice(&fs::read(file.path()).ok()?).ok()?;
    ports.nats.first()?.rsplit_once(':')?.1.parse().ok()
}

/// An address that reaches a server which listens on `address`.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// Says what is missing, or nothing when the server is ready.
///
/// Where a login or another server is needed the greeting has to do: the server opens its port
/// after `JetStream` has read its store.
fn ask(
    address: SocketAddr,
    pid: u32,
    is_alone: bool,
    limit: Duration,
) -> io::Result<Option<&'static str>> {
    let limit = limit.max(Duration::from_millis(1));
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let mut lines = BufReader::new(stream.try_clone()?.take(ANSWER_BYTES_MAX)).lines();
    let mut next = || lines.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
    let greeting = next()?;
    let greeting = greeting.strip_prefix("INFO ").ok_or(io::ErrorKind::InvalidData)?;
    let greeting: Greeting = serde_json::from_str(greeting)?;
    if !greeting.jetstream {
        return Ok(Some("JetStream is not on yet"));
    }
    if greeting.auth_required || greeting.tls_required || !is_alone {
        return Ok(None);
    }
    let inbox = format!("_INBOX.vakbus-ready.{pid}");
    let hello = r#"{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}"#;
    let request = format!("CONNECT {hello}\r\nSUB {inbox} 1\r\nPUB $JS.API.INFO {inbox} 0\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    loop {
        let line = next()?;
        if line.starts_with("MSG ") {
            let is_error = next()?.contains("\"error\"");
            return Ok(is_error.then_some("JetStream answers with an error"));
        }
        if line.starts_with("HMSG ") {
            return Ok(Some("nobody answers for JetStream yet"));
        }
        if line.starts_with("-ERR") {
            return Ok(Some("it refuses a client"));
        }
    }
}

/// How often is looked while nothing can be waited for.
const PAUSE: Duration = Duration::from_millis(3);
/// An answer that takes longer is asked for again.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Greeting and account information are a few KiB.
const ANSWER_BYTES_MAX: u64 = 256 * 1024;
