//! `vakbus up --nats`: a nats-server of this data home, started, watched over and ended (D15).

mod moved;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use bus_core::{Clock, SystemClock};
use bus_crypto::SystemEntropy;
use bus_gateway::Gateway;
use bus_nats::server::{
    RestartPolicy, ServerBinary, ServerError, ServerOptions, ServerState, ServerStates, ServerTls,
    Supervised, SyncPolicy, find_server,
};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    super::auth::{check_encrypted, operated},
    asked_at,
    beside::Daemon,
    grounds::{Grounds, Site},
    hooks::Hooks,
    hub::Hub,
    notify,
    registrar::Registrar,
    second,
    signals::Asks,
    watch, with_http,
};
use crate::{
    args::{Global, UpArgs},
    config::SyncMode,
    engine::{NatsPlace, NatsRunning, Paths},
    error::{CliError, Exit},
    gateway,
    home::Home,
    operator::{Operator, all_workspaces},
    print as out,
    secrets::Secrets,
    workspace::Workspace,
};

/// Runs the server until it is told to stop, or given up.
pub(super) async fn supervise(args: &UpArgs, global: &Global) -> Result<Exit, CliError> {
    let mut asks = Asks::new();
    let home = Home::locate(global.data_dir.as_deref())?;
    let paths = Paths::new(global, &home);
    check_alone(global, &paths)?;
    check_free(&paths).await?;
    drop(Workspace::open_or_new(&home, &global.workspace)?);
    let (hub, hooks) = (Hub::of(args, global, &home)?, Hooks::of(args, global)?);
    let gateway = gateway::open(args, &home).await?;
    paths.run.create()?;
    let binary = find_server(None).map_err(|error| failed(&error))?;
    let (version, program) = (binary.version(), binary.path().display().to_string());
    let options = options(args, global, (&home, &paths), binary)?;
    moved::into_account(&home, &paths.nats)?;
    out::remark(&format!("starting nats-server {version} ({program}) in {}", paths.nats.display()));
    let server =
        Supervised::start(options, RestartPolicy::default(), Arc::new(SystemEntropy::new()))
            .map_err(|error| failed(&error))?;
    let mut states = server.states();
    let ready = tokio::select! {
        ready = server.ready() => ready.map_err(|error| failed(&error)),
        () = asks.stop() => {
            server.stop().await;
            return Ok(Exit::Done);
        }
    };
    let url = ready?;
    let running = running(args, global, url, gateway::url(gateway.as_ref()));
    let mut run = Run { running, paths, global };
    // Seen herewith: what `follow` tells comes after it.
    run.note(&states.changed().await)?;
    let served = run.serve((home, hub, hooks), gateway, &mut states, &mut asks).await;
    notify::tell("STOPPING=1");
    out::remark("stopping: the server ends in order");
    tokio::select! {
        () = server.stop() => {}
        () = asks.stop() => out::talk("stopping now"),
    }
    served.map(|()| Exit::Done)
}

/// Refuses a second server beside one that is named, and a data home that a daemon serves.
fn check_alone(global: &Global, paths: &Paths) -> Result<(), CliError> {
    if global.config.nats_url().is_some() {
        let what = "server.bus.nats_url names a server, so none is to be started here";
        return Err(
            CliError::usage(what).next("leave --nats out, or unset it: vakbus config unset")
        );
    }
    match paths.is_served() {
        true => Err(second(paths)),
        false => Ok(()),
    }
}

/// Refuses to go on while a supervised server has the data home. One whose supervisor died ends in
/// a moment.
pub(super) async fn check_free(paths: &Paths) -> Result<(), CliError> {
    let until = Instant::now() + ENDS_WITHIN;
    while paths.is_nats_held() {
        // A file that is damaged says nothing of anybody.
        let running = paths.nats().ok().flatten();
        if Instant::now() < until && running.as_ref().is_some_and(|running| !running.is_alive()) {
            sleep(PAUSE).await;
            continue;
        }
        let who = running.map_or_else(String::new, |NatsRunning { pid, since, .. }| {
            format!(": pid {pid}, since {since}")
        });
        let what = format!("vakbus up --nats runs already{who}");
        return Err(CliError::new(Exit::Failed, what).next("use it, or stop it first"));
    }
    Ok(())
}

fn options(
    args: &UpArgs,
    global: &Global,
    (home, paths): (&Home, &Paths),
    binary: ServerBinary,
) -> Result<ServerOptions, CliError> {
    let mut options = own_options(home, &paths.nats, binary)?;
    let config = &mut options.config;
    config.listen = args.listen.unwrap_or_else(|| last_address(paths));
    check_encrypted(config.listen, args.tls_cert.is_some())?;
    config.sync = match sync(args, global) {
        SyncMode::Always => SyncPolicy::Always,
        SyncMode::Every(time) => SyncPolicy::Every(time),
    };
    if let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) {
        let absolute = |path| {
            let failed = |error| CliError::usage(format!("cannot find the certificate: {error}"));
            std::path::absolute(path).map_err(failed)
        };
        let (cert, key) = (absolute(cert)?, absolute(key)?);
        config.tls = Some(ServerTls { cert, key, ca: None, verify: false });
    }
    Ok(options)
}

/// A server in `dir` that lets in the users of a data home's accounts, on this machine alone.
pub(in crate::commands) fn own_options(
    home: &Home,
    dir: &Path,
    binary: ServerBinary,
) -> Result<ServerOptions, CliError> {
    let operator = Operator::open_or_new(home)?;
    let config = operated(&operator, &all_workspaces(home)?)?;
    Ok(ServerOptions { config, ..ServerOptions::new(binary, dir) })
}

fn sync(args: &UpArgs, global: &Global) -> SyncMode {
    args.sync.unwrap_or(global.config.sync())
}

/// The address of the last time, so that who is still connected finds it again; at first any.
fn last_address(paths: &Paths) -> SocketAddr {
    let running = paths.nats().ok().flatten();
    let last = running.and_then(|running| running.url.rsplit_once("://")?.1.parse().ok());
    match last {
        Some(address) if SocketAddr::ip(&address).is_loopback() => address,
        _ => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    }
}

fn running(args: &UpArgs, global: &Global, url: String, http: Option<String>) -> NatsRunning {
    NatsRunning {
        pid: std::process::id(),
        since: SystemClock::new().now().to_string(),
        url: reachable(&url),
        server: 0,
        durability: match sync(args, global) {
            SyncMode::Always => "synced".to_owned(),
            SyncMode::Every(_) => "written".to_owned(),
        },
        version: env!("CARGO_PKG_VERSION").to_owned(),
        http,
    }
}

/// Where this machine reaches a server that listens on all of its addresses.
fn reachable(url: &str) -> String {
    let Some((scheme, address)) = url.split_once("://") else { return url.to_owned() };
    let Ok(mut address) = address.parse::<SocketAddr>() else { return url.to_owned() };
    match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    format!("{scheme}://{address}")
}

/// A supervisor whose server has been ready once.
struct Run<'a> {
    running: NatsRunning,
    paths: Paths,
    global: &'a Global,
}

impl Run<'_> {
    /// Looks after the workspaces, and tells what becomes of the server.
    async fn serve(
        &mut self,
        (home, hub, hooks): (Home, Option<Hub>, Hooks),
        gateway: Option<Gateway>,
        states: &mut ServerStates,
        asks: &mut Asks,
    ) -> Result<(), CliError> {
        let place = NatsPlace::supervised(self.running.clone(), self.global, &home)?;
        let registrar = Box::new(Registrar::of(&place)?);
        let site = Site::Servers(Box::new(place.clone()), registrar);
        let mut grounds = Grounds::new(home.clone(), site);
        grounds.refresh().await?;
        let daemon = Daemon {
            global: self.global,
            home: &home,
            paths: &self.paths,
            is_asked: gateway.is_some(),
        };
        let mut chores = daemon.on_servers((hub, hooks), &place, &grounds).await?;
        chores.answer(gateway, NATS, None);
        self.ready(&grounds)?;
        let watched = tokio::select! {
            watched = watch(&mut grounds, asks, &chores) => watched,
            failed = self.follow(states) => failed,
        };
        chores.stop().await;
        // They hold nothing that anybody waits for.
        let _closed = place.close().await;
        watched
    }

    /// Tells what becomes of the server; returns when it is given up.
    async fn follow(&mut self, states: &mut ServerStates) -> Result<(), CliError> {
        loop {
            let state = states.changed().await;
            if let ServerState::Failed(error) = &state {
                return Err(failed(error));
            }
            self.note(&state)?;
            self.tell(&state)?;
        }
    }

    /// Writes how the server is reached now, for the other commands.
    fn note(&mut self, state: &ServerState) -> Result<(), CliError> {
        let ServerState::Running { pid, .. } = state else { return Ok(()) };
        self.running.server = *pid;
        self.paths.write_nats(&self.running)
    }

    fn ready(&self, grounds: &Grounds) -> Result<(), CliError> {
        let NatsRunning { pid, url, server, durability, http, .. } = &self.running;
        if self.global.json {
            let line = json!({
                "ready": true,
                "engine": NATS,
                "pid": pid,
                "url": url,
                "server": server,
                "workspaces": grounds.names(),
                "durability": durability,
            });
            out::json(&with_http(line, http.as_deref()))?;
        } else {
            let (names, asked) = (grounds.names().join(", "), asked_at(http.as_deref()));
            let at = format!("nats-server {server} at {url}");
            out::line(&format!("ready: pid {pid}, {at}, {durability}, workspaces {names}{asked}"))?;
        }
        notify::tell("READY=1");
        Ok(())
    }

    fn tell(&self, state: &ServerState) -> Result<(), CliError> {
        match state {
            ServerState::Restarting { reason, deaths, after } => {
                let reason = out::harmless(&reason.to_string());
                if self.global.json {
                    let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                    return out::json(&json!({
                        "event": "died",
                        "reason": reason,
                        "deaths": deaths,
                        "again_in_ms": after_ms,
                    }));
                }
                out::remark(&format!("{reason}; started again in {after:.0?} (death {deaths})"));
            }
            ServerState::Running { url, pid } if self.global.json => {
                return out::json(&json!({ "event": "running", "server": pid, "url": url }));
            }
            ServerState::Running { url, pid } => {
                out::remark(&format!("nats-server {pid} runs again at {url}"));
            }
            ServerState::Starting | ServerState::Failed(_) | ServerState::Stopped => {}
        }
        Ok(())
    }
}

/// Declares and sweeps on a server that somebody else runs, until told to stop.
pub(super) async fn keep_house(args: &UpArgs, global: &Global) -> Result<Exit, CliError> {
    if args.sync.is_some() {
        let what = "--sync is for a bus that is kept here; that server's operator decides there";
        return Err(CliError::usage(what).next("leave it out"));
    }
    let mut asks = Asks::new();
    let home = Home::locate(global.data_dir.as_deref())?;
    drop(Workspace::open_or_new(&home, &global.workspace)?);
    let secrets = Secrets::new(&global.config, &home);
    let (hub, hooks) = (Hub::of(args, global, &home)?, Hooks::of(args, global)?);
    let Some(place) = NatsPlace::find(global, &home, &secrets)? else {
        return Err(CliError::usage("no server is named").next("give --nats-url"));
    };
    let gateway = gateway::open(args, &home).await?;
    let registrar = Box::new(Registrar::of(&place)?);
    let site = Site::Servers(Box::new(place.clone()), registrar);
    let mut grounds = Grounds::new(home.clone(), site);
    grounds.refresh().await?;
    let paths = Paths::new(global, &home);
    paths.run.create()?;
    let daemon = Daemon { global, home: &home, paths: &paths, is_asked: gateway.is_some() };
    let mut chores = daemon.on_servers((hub, hooks), &place, &grounds).await?;
    let http = gateway::url(gateway.as_ref());
    chores.answer(gateway, NATS, None);
    if global.json {
        let line = json!({
            "ready": true,
            "engine": NATS,
            "pid": std::process::id(),
            "url": place.url(),
            "workspaces": grounds.names(),
            "profile": place.profile(),
        });
        out::json(&with_http(line, http.as_deref()))?;
    } else {
        let (names, asked) = (grounds.names().join(", "), asked_at(http.as_deref()));
        let told = place.told();
        out::line(&format!("ready: keeps house on {told}, workspaces {names}{asked}"))?;
    }
    notify::tell("READY=1");
    let watched = watch(&mut grounds, &mut asks, &chores).await;
    notify::tell("STOPPING=1");
    chores.stop().await;
    let closed = place.close().await;
    watched.and(closed).map(|()| Exit::Done)
}

/// The failure of a server, with what to do about it.
pub(in crate::commands) fn failed(error: &ServerError) -> CliError {
    let failed = CliError::new(Exit::of(error.kind()), error.to_string());
    match error {
        ServerError::NotFound { .. } | ServerError::TooOld { .. } => failed.next(
            "get it from https://github.com/nats-io/nats-server/releases, and put it into PATH or \
             name it in NATS_SERVER",
        ),
        ServerError::NotAServer { .. } => failed.next("name a nats-server in NATS_SERVER"),
        ServerError::PortTaken { .. } => {
            failed.next("name another with --listen, such as 127.0.0.1:0 for a free port")
        }
        ServerError::InUse { .. } => failed.next("use that one, or stop it first: vakbus status"),
        ServerError::Config { .. } => failed.next("vakbus up --help"),
        _ => failed.next("read its last lines above; its log and store are in DATA_DIR/nats"),
    }
}

/// How long a server whose supervisor died may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// The engine.
const NATS: &str = "nats";

#[cfg(test)]
mod tests;
