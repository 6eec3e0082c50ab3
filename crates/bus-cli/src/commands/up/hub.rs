//! The courier of a daemon: what waits in the outboxes here is carried to a hub that may be away.

use std::{sync::Arc, time::Duration};

use bus_core::{
    Bus, Clock, Courier, CourierEvent, Endpoint, Engine, ErrorKind, Identity, Roster, planes,
};
use bus_crypto::jwt;
use bus_nats::{NatsAuth, NatsBus, NatsOptions, permissions::Layout};
use bus_subjects::{AgentId, WorkspaceId};
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use super::seat::seat;
use crate::{
    args::{Global, UpArgs},
    engine::{credentials, given},
    error::{CliError, Exit},
    home::{Home, State},
    print as out,
    secrets::Secrets,
    workspace::{Part, Workspace},
};

/// A hub that was named, and who carries to it.
pub(super) struct Hub {
    url: String,
    options: NatsOptions,
    agent: AgentId,
    workspace: Workspace,
    home: Home,
    state: Option<State>,
    secrets: Secrets,
    roster: Arc<Roster>,
}

/// A courier at work.
pub(super) struct Carrying {
    stop: CancellationToken,
    task: JoinHandle<()>,
    workspace: Workspace,
    home: Home,
    /// What tells the workspace from a later one of its name.
    state: Option<State>,
    roster: Arc<Roster>,
}

impl Hub {
    /// The hub that the options name; none without one.
    ///
    /// # Errors
    /// When its credentials or those of the courier cannot be read.
    pub(super) fn of(
        args: &UpArgs,
        global: &Global,
        home: &Home,
    ) -> Result<Option<Self>, CliError> {
        let Some(url) = args.hub_url.clone() else { return Ok(None) };
        let workspace = Workspace::open_or_new(home, &global.workspace)?;
        let state = Workspace::state_of(home, workspace.name());
        let secrets = Secrets::new(&global.config, home);
        let agent = workspace.actor(None, Part::Courier)?;
        let mut options = NatsOptions::new("");
        options.servers = url.split(',').map(str::to_owned).collect();
        options.name = format!("vakbus {agent}");
        options.auth = match &args.hub_creds {
            Some(file) => credentials(file)?,
            None => given(global, &secrets)?.unwrap_or_default(),
        };
        options.tls = global.config.nats_tls()?;
        options.inbox_prefix = format!("_INBOX.{agent}");
        if let Some(agent) = agent_of(&options.auth, &workspace) {
            options.inbox_prefix = format!("_INBOX.{agent}");
            options.api_prefix = Layout::API_PREFIX.to_owned();
            options.workspace = Some(workspace.name().clone());
        }
        options.profile = global.config.nats_profile();
        // It may be far away, and a run of records has up to 4 MiB.
        options.answer_wait = HUB_ANSWERS_WITHIN;
        options.check()?;
        let roster = Arc::new(workspace.living_roster()?);
        let home = home.clone();
        Ok(Some(Self { url, options, agent, workspace, home, state, secrets, roster }))
    }

    /// The courier's identity here.
    pub(super) fn identity(&self) -> Result<Identity, CliError> {
        self.workspace.identity(&self.agent)
    }

    /// The workspace whose outboxes are carried, and whose word counts there.
    pub(super) fn ground(&self) -> (&Workspace, &Arc<Roster>) {
        (&self.workspace, &self.roster)
    }

    /// Makes the outboxes at `engine`, and starts to carry.
    ///
    /// # Errors
    /// Those of declaring a stream.
    #[expect(
        clippy::disallowed_methods,
        reason = "the command line is one of the places that spawn"
    )]
    pub(super) async fn carry(
        self,
        engine: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
    ) -> Result<Carrying, CliError> {
        match engine.declare(planes::outbox(self.workspace.name())?).await {
            // The store is another account's, which has made it.
            Err(error) if error.kind() == ErrorKind::Denied => {}
            declared => declared?,
        }
        let keyring = Arc::new(self.workspace.keyring(&self.secrets)?);
        let home = seat(engine, self.identity()?, &self.roster, &keyring, clock)?;
        let stop = CancellationToken::new();
        let task = tokio::spawn(carry(home, self.options, self.url, stop.clone()));
        let Self { workspace, home, state, roster, .. } = self;
        Ok(Carrying { stop, task, workspace, home, state, roster })
    }
}

impl Carrying {
    /// Learns which keys were taken back meanwhile. Whose workspace is gone carries no more: one
    /// that was made again under its name has another account, and knows none of these agents.
    pub(super) fn refresh(&self) {
        if self.stop.is_cancelled() {
            return;
        }
        let name = self.workspace.name();
        if Workspace::state_of(&self.home, name) != self.state {
            self.stop.cancel();
            out::remark(&format!(
                "the workspace {name} is not the one whose outboxes were carried: nothing is \
                 carried to the hub until this daemon is started again"
            ));
            return;
        }
        if let Err(error) = self.workspace.revoke_in(&self.roster) {
            tracing::warn!("not all revocations are read again: {error}");
        }
    }

    /// Has it end, with the answers of the hub that are under way.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        // What it holds is handed back by then, or comes again after its lease.
        let _ended = timeout(ENDS_WITHIN, self.task).await;
    }
}

/// Who logs in, when that is one of this workspace's agents: they have the store of the hub behind
/// imports, and hear their own answers alone.
fn agent_of(auth: &NatsAuth, workspace: &Workspace) -> Option<AgentId> {
    let NatsAuth::Jwt(credentials) = auth else { return None };
    let user = jwt::decode_user(credentials.jwt()).ok()?;
    let account = user.issuer_account.unwrap_or(user.issuer);
    AgentId::parse(&user.name).ok().filter(|_| account == *workspace.account())
}

/// Tells what waits in outboxes here for a hub that nobody names.
pub(super) async fn tell_waiting(engines: Vec<(WorkspaceId, Arc<dyn Engine>)>) {
    for (workspace, engine) in engines {
        let Ok(stream) = planes::outbox_stream(&workspace) else { continue };
        // Without outboxes there is nothing to tell.
        let Ok(lag) = engine.lag(stream).await else { continue };
        let waiting = lag.pending.saturating_add(lag.in_flight);
        if waiting > 0 {
            let records = out::counted(waiting, "record waits", "records wait");
            let what = format!("{records} for a hub in the outboxes of {workspace}");
            out::remark(&format!("{what}: name it with --hub-url URL"));
        }
    }
}

/// Carries until it is told to stop, whatever becomes of the hub: work here goes on without it.
async fn carry(home: Endpoint, options: NatsOptions, url: String, stop: CancellationToken) {
    let mut told = None;
    while !stop.is_cancelled() {
        let ended = tokio::select! {
            () = stop.cancelled() => return,
            opened = NatsBus::open(options.clone()) => match opened {
                Ok(hub) => {
                    if told.take().is_some() {
                        out::remark(&format!("the hub {url} is there again"));
                    }
                    let courier = Courier::new(home.clone(), Arc::new(hub.clone()));
                    let ended = courier.run(&stop, teller(&url)).await;
                    // It holds nothing any more.
                    let _closed = hub.close().await;
                    ended
                }
                Err(error) => Err(error),
            },
        };
        // The engine here was closed, or it was told to stop.
        let Err(error) = ended else { return };
        // The same trouble is told once.
        if told != Some(error.kind()) {
            told = Some(error.kind());
            out::remark(&trouble(&url, &error).as_warning());
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(again_after(error.kind())) => {}
        }
    }
}

/// Tells that something does not go on, once until it does.
fn teller(url: &str) -> impl FnMut(CourierEvent) + Send {
    let mut is_told = false;
    move |event| match event {
        CourierEvent::Delayed { error, .. } if !is_told => {
            is_told = true;
            out::remark(&trouble(url, &error).as_warning());
        }
        CourierEvent::Delayed { .. } => {}
        CourierEvent::Carried { .. } | CourierEvent::Refused { .. } => is_told = false,
    }
}

/// After how long a hub that could not be joined is tried again. Two couriers that took over from
/// each other all the time would carry nothing.
fn again_after(kind: ErrorKind) -> Duration {
    const AGAIN_AFTER: Duration = Duration::from_secs(2);
    const AFTER_ANOTHER: Duration = Duration::from_secs(5 * 60);
    if kind == ErrorKind::Conflict { AFTER_ANOTHER } else { AGAIN_AFTER }
}

/// Why nothing is carried now, and what to do about it.
fn trouble(url: &str, error: &bus_core::Error) -> CliError {
    let what = format!("nothing is carried to the hub {url} now: {error}");
    let next = match error.kind() {
        ErrorKind::Denied => "see that its credentials are good there: --hub-creds FILE",
        ErrorKind::Conflict => "run one courier for a workspace only",
        _ => "what is sent to it waits here: vakbus outbox status",
    };
    CliError::new(Exit::of(error.kind()), what).next(next)
}

/// How long a courier that is told to stop is waited for.
const ENDS_WITHIN: Duration = Duration::from_secs(8);

const HUB_ANSWERS_WITHIN: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_taken_over_from_leaves_the_other_in_peace_for_minutes() {
        assert!(again_after(ErrorKind::Conflict) >= Duration::from_secs(60));
        assert!(again_after(ErrorKind::Unavailable) <= Duration::from_secs(5));
    }
}
