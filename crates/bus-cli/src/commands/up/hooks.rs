//! Hooks: a command is run, or a URL posted to, for each dead letter and each approval asked for.

mod call;
mod cursor;
mod news;

use std::time::Duration;

use bus_core::{Endpoint, Follow, Seq, Stored};
use bus_runner::CommandSpec;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::{
    call::Caller,
    cursor::{Cursors, Place},
    news::{Batch, News, Topic, Waits},
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
    print as out,
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
        for (topic, hook) in self.0 {
            let mut spec = CommandSpec::new("sh", ["-c"]);
            secrets.withhold(&mut spec);
            let place = Place { run: run.clone(), topic, bus: bus.to_owned() };
            let (caller, auditors) = (Caller::new(hook, spec), auditors.clone());
            chores.start(topic.name(), |stop| Watch { place, caller, auditors }.run(stop));
        }
    }
}

/// One hook at work.
struct Watch {
    place: Place,
    caller: Caller,
    auditors: Auditors,
}

impl Watch {
    /// Looks until it is told to stop; what goes wrong is told and tried again.
    async fn run(self, stop: CancellationToken) {
        let mut told = Told::default();
        let mut cursors = match self.place.load() {
            Ok(cursors) => cursors,
            Err(error) => {
                out::remark(&error.as_warning());
                Cursors::default()
            }
        };
        loop {
            let Seated { endpoints, trouble } = self.auditors.seated().await;
            let mut wrong = trouble;
            for endpoint in endpoints {
                if stop.is_cancelled() {
                    return;
                }
                let looked = self.look(&endpoint, &mut cursors, &stop).await;
                wrong = wrong.or(looked.err());
            }
            told.note(wrong.map(|error| {
                let what = format!("the hook for {} waits: {error}", self.place.topic.plural());
                CliError::new(error.code(), what).as_warning()
            }));
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Tells what is new in one workspace.
    async fn look(
        &self,
        endpoint: &Endpoint,
        cursors: &mut Cursors,
        stop: &CancellationToken,
    ) -> Result<(), CliError> {
        let workspace = endpoint.workspace().as_str().to_owned();
        let account = endpoint.identity().certificate().issuer.text();
        let from = match cursors.next(&workspace, &account) {
            Some(next) => next,
            None => self.begin(endpoint, cursors, &workspace, &account).await?,
        };
        let (stream, filter) = self.place.topic.source(endpoint)?;
        let mut follow = Follow::new(endpoint.clone(), stream, filter, from);
        let mut at = from;
        loop {
            let mut batch = Batch::of(self.place.topic);
            let seen = |record: Stored| batch.see(endpoint, &record);
            let count = follow.look_some(RECORDS_MAX, seen).await?;
            let (news, waits) = batch.news(endpoint).await?;
            for News { seq, body } in news {
                if !self.caller.tell(&body, stop).await {
                    return Ok(());
                }
                at = Seq(seq.0.saturating_add(1));
                cursors.told((&workspace, &account, &self.place.bus), at);
                self.place.keep(cursors)?;
            }
            let end = waits.as_ref().map_or(follow.position(), |waits| waits.seq);
            if end != at {
                at = end;
                cursors.told((&workspace, &account, &self.place.bus), at);
                self.place.keep(cursors)?;
            }
            if let Some(Waits { error, .. }) = waits {
                return Err(error.into());
            }
            if count < RECORDS_MAX || stop.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// Where a workspace is begun that was never looked at, or whose stream is another one now: at
    /// its end.
    async fn begin(
        &self,
        endpoint: &Endpoint,
        cursors: &mut Cursors,
        workspace: &str,
        account: &str,
    ) -> Result<Seq, CliError> {
        let (stream, filter) = self.place.topic.source(endpoint)?;
        let follow = Follow::at_end(endpoint.clone(), stream, filter).await?;
        let next = follow.position();
        let kept = cursors.kept(workspace, account);
        let next = match kept {
            // What came while no daemon ran is told now.
            Some(kept) if kept <= next => kept,
            _ => {
                let what = self.place.topic.plural();
                let from = format!("{what} of {workspace} are told from now on");
                out::remark(&match next.0 > 1 {
                    true => format!("{from}; those that are kept already are not"),
                    false => from,
                });
                next
            }
        };
        cursors.told((workspace, account, &self.place.bus), next);
        self.place.keep(cursors)?;
        Ok(next)
    }
}

/// How often what is new is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How many records are looked at before what they say is told.
const RECORDS_MAX: u64 = 256;
