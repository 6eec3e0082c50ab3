//! Hooks: a command is run, or a URL posted to, for each dead letter and each approval asked for.

mod call;
mod cursor;
mod lane;
mod news;

use std::{collections::HashMap, sync::Arc, time::Duration};

use bus_core::Endpoint;
use bus_runner::CommandSpec;
use bus_subjects::WorkspaceId;
use tokio::{
    sync::{Semaphore, watch},
    task::{JoinError, JoinSet},
    time::sleep,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::{
    call::Caller,
    cursor::{Ledger, Place},
    lane::Lane,
    news::Topic,
};
use super::{
    auditors::{Auditors, Seated},
    chores::{Chores, Told},
};
use crate::{
    args::{Global, UpArgs},
    config::Hook,
    error::CliError,
    home::Home,
    secrets::Secrets,
};

/// The hooks that a daemon was given.
pub(super) struct Hooks(Vec<(Topic, Hook)>);

impl Hooks {
    /// Those of the options, else of the settings; none when neither names any.
    ///
    /// # Errors
    /// When an option is no hook. It is not told then: it may hold a secret.
    pub(super) fn of(args: &UpArgs, global: &Global) -> Result<Self, CliError> {
        let config = &global.config;
        let mut hooks = Vec::new();
        for (topic, option, given, set) in [
            (Topic::DeadLetter, "--on-dead-letter", &args.on_dead_letter, config.on_dead_letter()),
            (Topic::Approval, "--on-approval", &args.on_approval, config.on_approval()),
        ] {
            let hook = match given {
                Some(text) => Some(Hook::parse(text).map_err(|expected| {
                    CliError::usage(format!("{option}: {expected}")).next("vakbus up --help")
                })?),
                None => set.cloned(),
            };
            hooks.extend(hook.map(|hook| (topic, hook)));
        }
        Ok(Self(hooks))
    }

    /// Starts a chore for each hook.
    ///
    /// `bus` is where positions are counted: a server's URL, or this machine's own engine; `run`
    /// is where they are kept.
    pub(super) fn start(
        self,
        (chores, auditors): (&mut Chores, &Auditors),
        (run, bus): (&Home, &str),
        secrets: &Secrets,
    ) {
        let places = Arc::new(Semaphore::new(COMMANDS_MAX));
        for (topic, hook) in self.0 {
            let mut spec = CommandSpec::new("sh", ["-c"]);
            secrets.withhold(&mut spec);
            let place = Place { run: run.clone(), topic, bus: bus.to_owned() };
            let counts = chores.counts().hook(topic.name());
            let caller = Arc::new(Caller::new((hook, spec), counts, Arc::clone(&places)));
            let (ledger, auditors) = (Arc::new(Ledger::open(place)), auditors.clone());
            let watch = Watch { ledger, topic, caller, auditors };
            chores.start(topic.name(), |stop| watch.run(stop));
        }
    }
}

/// One hook at work, in each workspace on a lane of its own.
struct Watch {
    ledger: Arc<Ledger>,
    topic: Topic,
    caller: Arc<Caller>,
    auditors: Auditors,
}

/// The lanes at work, each with what hands it its auditor and ends it.
#[derive(Default)]
struct Lanes {
    by_account: HashMap<(WorkspaceId, String), (watch::Sender<Endpoint>, DropGuard)>,
    tasks: JoinSet<()>,
}

impl Watch {
    /// Has a lane for each workspace that is served, until it is told to stop.
    async fn run(self, stop: CancellationToken) {
        let (mut told, mut lanes) = (Told::default(), Lanes::default());
        loop {
            let Seated { endpoints, trouble } = self.auditors.seated().await;
            told.note(trouble.map(|error| {
                let what = format!("the hook for {} waits: {error}", self.topic.plural());
                CliError::new(error.code(), what).as_warning()
            }));
            lanes.keep(&endpoints);
            for endpoint in endpoints {
                lanes.hand(endpoint, &self, &stop);
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = sleep(LOOK_EVERY) => {}
                Some(ended) = lanes.tasks.join_next() => carry_on(ended),
            }
        }
        // Each ends with the call that is under way.
        while let Some(ended) = lanes.tasks.join_next().await {
            carry_on(ended);
        }
    }
}

impl Lanes {
    /// Ends those of workspaces that are not served any more.
    fn keep(&mut self, endpoints: &[Endpoint]) {
        self.by_account
            .retain(|lane, _| endpoints.iter().any(|endpoint| name_of(endpoint) == *lane));
    }

    /// Gives the lane of a workspace its auditor, and begins it when there is none.
    fn hand(&mut self, endpoint: Endpoint, watch: &Watch, stop: &CancellationToken) {
        let name = name_of(&endpoint);
        if let Some((sender, _)) = self.by_account.get(&name) {
            sender.send_replace(endpoint);
            return;
        }
        let (sender, endpoint) = watch::channel(endpoint);
        let lane = Lane {
            topic: watch.topic,
            ledger: Arc::clone(&watch.ledger),
            caller: Arc::clone(&watch.caller),
            endpoint,
        };
        let ends = stop.child_token();
        self.tasks.spawn(lane.run(ends.clone()));
        self.by_account.insert(name, (sender, ends.drop_guard()));
    }
}

/// A workspace, and its account: a later one of its name is another.
fn name_of(endpoint: &Endpoint) -> (WorkspaceId, String) {
    let account = endpoint.identity().certificate().issuer.text();
    (endpoint.workspace().clone(), account)
}

/// A lane that broke down takes the hook with it, which is told.
fn carry_on(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

/// How many commands of hooks run at a time: each workspace has one under way at most, and a
/// machine may have hundreds of workspaces.
const COMMANDS_MAX: usize = 16;

/// How often new workspaces are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);
