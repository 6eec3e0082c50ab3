//! `vakbus up`: the daemon that keeps the bus of a data home and serves it to its processes.

mod audit;
mod auditors;
mod beside;
mod chores;
mod control;
mod counts;
mod grounds;
mod hooks;
mod hub;
mod keeper;
pub(super) mod nats;
pub(super) mod notify;
mod registrar;
mod seat;
pub(super) mod signals;
mod status;
mod watching;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bus_core::{Clock, Engine, Metered, SystemClock, Traffic};
use bus_disk::DiskBus;
use bus_link::{Admission, LinkLimits, LinkServer};
use bus_mem::InMemoryBus;
use serde_json::{Value, json};

use self::{
    beside::Daemon,
    chores::Chores,
    grounds::{Grounds, Site},
    hooks::Hooks,
    hub::Hub,
    signals::{Ask, Asks},
};
pub(crate) use self::{counts::Counts as DaemonCounts, status::run as status};
use super::task::durability;
use crate::{
    args::{Global, StatusArgs, UpArgs},
    engine::{self, Paths, Running, cannot_open, disk_options, is_taken, open_disk},
    error::{CliError, Exit},
    gateway,
    home::Home,
    print as out,
    workspace::Workspace,
};

/// Runs the daemon until it is told to stop.
pub(crate) fn run(args: &UpArgs, global: &Global) -> Result<Exit, CliError> {
    if args.check {
        return status(&StatusArgs::default(), global);
    }
    engine::block_on(async {
        match (args.nats, global.config.nats_url().is_some() && !global.memory) {
            (true, _) => nats::supervise(args, global).await,
            (false, true) => nats::keep_house(args, global).await,
            (false, false) => serve(args, global).await,
        }
    })
}

async fn serve(args: &UpArgs, global: &Global) -> Result<Exit, CliError> {
    let mut asks = Asks::new();
    let home = Home::locate(global.data_dir.as_deref())?;
    // Made here, so that the first command finds it; others are noticed when they come.
    drop(Workspace::open_or_new(&home, &global.workspace)?);
    let (hub, hooks) = (Hub::of(args, global, &home)?, Hooks::of(args, global)?);
    let paths = Paths::new(global, &home);
    paths.run.create()?;
    if paths.is_served() {
        return Err(second(&paths));
    }
    leave_nats(&paths).await?;
    let gateway = gateway::open(args, &home).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (engine, disk) = tokio::select! {
        opened = open(args, global, &paths, &clock) => opened?,
        // Nothing is served yet, and a journal that is only read needs no ending.
        () = asks.stop() => return Ok(Exit::Done),
    };
    let traffic = gateway.is_some().then(Arc::<Traffic>::default);
    let engine = match &traffic {
        Some(traffic) => Arc::new(Metered::new(engine, Arc::clone(traffic))),
        None => engine,
    };
    let admission = Admission::new(Arc::clone(&clock));
    let limits = LinkLimits::default();
    let server =
        LinkServer::bind(&paths.socket, Arc::clone(&engine), admission.clone(), limits).await?;
    let host = control::Host::new(disk.as_ref(), home.path().to_owned());
    let server = server.control(Arc::new(host));
    let mut grounds = Grounds::new(home.clone(), Site::Own(Arc::clone(&engine), admission));
    grounds.refresh().await?;
    let carrying = match hub {
        Some(hub) => Some(hub.carry(Arc::clone(&engine), Arc::clone(&clock)).await?),
        None => {
            hub::tell_waiting(grounds.engines()).await;
            None
        }
    };
    let daemon = Daemon { global, home: &home, paths: &paths, is_asked: gateway.is_some() };
    let mut chores = daemon.on_its_own(&grounds, (carrying, hooks), Arc::clone(&clock));
    let running = Running {
        pid: std::process::id(),
        since: clock.now().to_string(),
        socket: paths.socket.display().to_string(),
        durability: durability(engine.promises().durability).to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        http: gateway::url(gateway.as_ref()),
    };
    chores.answer(gateway, engine.promises().engine, traffic);
    paths.write(&running)?;
    ready(&running, &grounds, global)?;
    let watched = tokio::select! {
        () = server.serve(std::future::pending()) => Ok(()),
        watched = watch(&mut grounds, &mut asks, &chores) => watched,
    };
    chores.stop().await;
    let stopped = stop(server, disk, &mut asks).await;
    paths.forget();
    watched.and(stopped).map(|()| Exit::Done)
}

/// Has the bus of the data home be this machine's own again, unless its server runs.
async fn leave_nats(paths: &Paths) -> Result<(), CliError> {
    nats::check_free(paths).await?;
    if paths.leave_nats()? {
        let store = paths.nats.display();
        out::remark(&format!("this machine's own engine from now on; {store} is left as it is"));
    }
    Ok(())
}

/// Opens the engine: on disk, or with `--memory` one that keeps nothing.
async fn open(
    args: &UpArgs,
    global: &Global,
    paths: &Paths,
    clock: &Arc<dyn Clock>,
) -> Result<(Arc<dyn Engine>, Option<DiskBus>), CliError> {
    if global.memory {
        let bus = InMemoryBus::with_limits(Arc::clone(clock), global.config.limits());
        return Ok((Arc::new(bus), None));
    }
    let sync = args.sync.unwrap_or(global.config.sync());
    let mut options = disk_options(paths, global, sync, clock);
    let told = AtomicU64::new(0);
    options.progress = Arc::new(move |progress| {
        let (records, bytes) = (progress.records, progress.bytes);
        // A small journal is read before anybody could wonder.
        if records.saturating_sub(told.load(Ordering::Relaxed)) >= TOLD_EVERY {
            told.store(records, Ordering::Relaxed);
            out::remark(&format!("reading the journal: {records} records, {bytes} bytes"));
        }
    });
    match open_disk(options).await {
        Ok(bus) => Ok((Arc::new(bus.connect()), Some(bus))),
        Err(error) if is_taken(&error) => {
            let next =
                "vakbus status says whether a daemon runs; else wait for that process to end";
            Err(CliError::new(Exit::Failed, error.to_string()).next(next))
        }
        Err(error) => Err(cannot_open(error)),
    }
}

/// Tells who started it that it serves.
fn ready(running: &Running, grounds: &Grounds, global: &Global) -> Result<(), CliError> {
    let Running { pid, socket, durability, http, .. } = running;
    if global.json {
        let line = json!({
            "ready": true,
            "pid": pid,
            "socket": socket,
            "workspaces": grounds.names(),
            "durability": durability,
        });
        out::json(&with_http(line, http.as_deref()))?;
    } else {
        let (names, asked) = (grounds.names().join(", "), asked_at(http.as_deref()));
        let line = format!("ready: pid {pid}, socket {socket}, {durability}, workspaces {names}");
        out::line(&format!("{line}{asked}"))?;
    }
    notify::tell("READY=1");
    Ok(())
}

/// The line of JSON that says ready, with where HTTP is answered.
fn with_http(line: Value, http: Option<&str>) -> Value {
    match http {
        Some(http) => out::with(line, json!({ "http": http })),
        None => line,
    }
}

/// The same for people.
fn asked_at(http: Option<&str>) -> String {
    http.map_or_else(String::new, |http| format!(", metrics {http}/metrics"))
}

/// Looks after the workspaces until a stop is asked for.
async fn watch(grounds: &mut Grounds, asks: &mut Asks, chores: &Chores) -> Result<(), CliError> {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut keeper = keeper::Keeper::default();
    let mut sweeps = tokio::time::interval(SWEEP_EVERY);
    sweeps.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            ask = asks.next() => match ask {
                Ask::Stop => return Ok(()),
                Ask::Reload => {
                    grounds.forget_times();
                    grounds.refresh_or_warn().await;
                    chores.refresh(grounds);
                    out::remark("read again: workspaces, agents, revocations");
                }
            },
            _tick = looks.tick() => {
                grounds.refresh_or_warn().await;
                chores.refresh(grounds);
            }
            _tick = sweeps.tick() => keeper.sweep(grounds.engines()).await,
        }
    }
}

/// Answers what was accepted, stores it, and lets go of everything; a second signal does not wait.
async fn stop(server: LinkServer, disk: Option<DiskBus>, asks: &mut Asks) -> Result<(), CliError> {
    notify::tell("STOPPING=1");
    out::remark("stopping: what was accepted is stored and answered first");
    tokio::select! {
        () = server.close() => {}
        () = asks.stop() => out::talk("stopping now"),
    }
    match disk {
        // What was answered is stored already; this frees the data home.
        Some(bus) => Ok(bus.shut_down().await?),
        None => Ok(()),
    }
}

/// The refusal of a second daemon.
fn second(paths: &Paths) -> CliError {
    let who = match paths.running() {
        Some(running) => {
            format!("a daemon runs already: pid {}, since {}", running.pid, running.since)
        }
        None => format!("somebody serves {} already", paths.socket.display()),
    };
    CliError::new(Exit::Failed, who).next("use it, or stop it first: vakbus status")
}

/// How often new workspaces and revocations are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often what nobody needs any more is swept.
const SWEEP_EVERY: Duration = Duration::from_secs(600);

/// After how many records more the reading of a journal is told again.
const TOLD_EVERY: u64 = 50_000;
