//! The NATS engine beside the bare client, on the same small server, with the same bytes.
//!
//! Both ways have connections of their own, the same runtime and the same windows. Each case starts
//! a server and ends it; what its figures count is said at the case.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use async_nats::Client;
use bus_nats::{
    NatsBus, NatsOptions, Profile,
    server::{NatsServer, ServerConfig, ServerOptions, SyncPolicy},
};
use futures_util::StreamExt;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::case::wall_time;

pub(crate) mod append;
pub(crate) mod ask;
pub(crate) mod live;
pub(crate) mod mailboxes;
pub(crate) mod objects;
pub(crate) mod pull;
pub(crate) mod state;

/// A server for one case, and the runtime that both ways share.
pub(crate) struct Ground {
    // The connections end with the runtime, before their server, and the server before its folder.
    runtime: Runtime,
    server: NatsServer,
    site: Site,
    _home: TempDir,
}

/// Where the server is and how it keeps what it stores.
#[derive(Clone)]
pub(crate) struct Site {
    url: String,
    profile: Profile,
}

impl Ground {
    /// A server that syncs as it does unless told otherwise: every two minutes.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn new() -> Result<Self> {
        Self::with(SyncPolicy::Every(Duration::from_secs(120)), Profile::Development)
    }

    /// A server whose acknowledgements survive a power cut.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn synced() -> Result<Self> {
        Self::with(SyncPolicy::Always, Profile::Synced)
    }

    fn with(sync: SyncPolicy, profile: Profile) -> Result<Self> {
        let home = tempfile::tempdir_in(folder()?).context("make a directory")?;
        let config = ServerConfig { sync, ..ServerConfig::default() };
        let options = ServerOptions { config, ..bus_testserver::options(home.path()) };
        let server = NatsServer::start(options).context("start a server")?;
        let runtime = Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
        let site = Site { url: server.url().to_owned(), profile };
        Ok(Self { runtime, server, site, _home: home })
    }

    /// Runs `work`, whose measured part should be a task of its own.
    pub(crate) fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime.block_on(work)
    }

    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// The resident memory of the server, in bytes.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn server_memory(&self) -> Result<f64> {
        let pid = self.server.pid().context("the server runs")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next());
        let kilobytes: f64 = kilobytes.context("the system tells the memory")?.parse()?;
        Ok(kilobytes * 1024.0)
    }
}

impl Site {
    /// A bare client with its defaults, on a connection of its own.
    ///
    /// # Errors
    /// It cannot connect.
    pub(crate) async fn client(&self) -> Result<Client> {
        Ok(async_nats::connect(&self.url).await?)
    }

    /// Our engine with its defaults, on a connection of its own.
    ///
    /// # Errors
    /// It cannot connect.
    pub(crate) async fn bus(&self) -> Result<NatsBus> {
        let options = NatsOptions { profile: self.profile, ..NatsOptions::new(&self.url) };
        Ok(NatsBus::open(options).await?)
    }
}

/// Waits until the server has taken everything that `client` sent it.
///
/// # Errors
/// The connection ended.
pub(crate) async fn round_trip(client: &Client) -> Result<()> {
    let inbox = client.new_inbox();
    let mut echo = client.subscribe(inbox.clone()).await?;
    client.publish(inbox, Vec::new().into()).await?;
    echo.next().await.context("the connection ended")?;
    Ok(())
}

/// How many bytes a message is on the wire, beside its subjects and the line of the protocol:
/// headers and body.
pub(crate) fn wire_bytes(message: &async_nats::Message) -> usize {
    let reply = message.reply.as_ref().map_or(0, |reply| reply.len());
    message.length - message.subject.len() - reply
}

/// So many a second since `start`.
pub(crate) fn rate(count: usize, start: Duration) -> f64 {
    count as f64 / wall_time().saturating_sub(start).as_secs_f64()
}

/// The middle of what was measured, in microseconds.
///
/// # Errors
/// Nothing was.
pub(crate) fn middle(mut times: Vec<Duration>) -> Result<f64> {
    times.sort();
    let middle = times.get(times.len() / 2).context("there must be a call")?;
    Ok(middle.as_secs_f64() * 1e6)
}

/// Beside the other files of the build: the folder for temporary files may be in memory.
fn folder() -> Result<PathBuf> {
    let program = std::env::current_exe().context("find this program")?;
    let place = program.parent().context("find the folder of this program")?;
    Ok(place.to_owned())
}

const WORKERS: usize = 2;
