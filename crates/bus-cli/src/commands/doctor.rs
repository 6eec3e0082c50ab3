//! `vakbus doctor`: looks at everything that a bus rests on, and says how to mend what is wrong.

mod audit;
mod checks;
mod daemon;
mod finding;
mod local;
mod monitor;
mod probes;
mod servers;

use std::time::Duration;

use tokio::time::timeout;

use self::{
    finding::{Finding, Level, Tally},
    monitor::Monitor,
};
use crate::{
    args::{DoctorArgs, Global},
    engine::{self, NatsPlace, Paths},
    error::{CliError, Exit},
    home::Home,
    secrets::Secrets,
};

/// Checks and tells. What is on this machine is told first, also when no engine is reached.
pub(crate) fn run(args: &DoctorArgs, global: &Global) -> Result<Exit, CliError> {
    if global.memory {
        let what = "a bus in the memory of this process rests on nothing";
        return Err(CliError::usage(what).next("leave --memory out"));
    }
    let home = Home::locate(global.data_dir.as_deref())?;
    let secrets = Secrets::new(&global.config, &home);
    let monitor = args.monitor.as_deref().map(Monitor::parse).transpose()?;
    let mut told = Told { global, tally: Tally::default() };
    told.all(local::findings(&home, &secrets, global))?;
    let mut found = Vec::new();
    let reached = engine::block_on(reach((&home, &secrets), monitor, global, &mut found));
    // What was seen is told, whatever could not be seen after it.
    told.all(found)?;
    let exit = match reached {
        Ok(()) => None,
        // A wrong call is that, whatever else there is.
        Err(error) if error.code() == Exit::Usage => return Err(error),
        Err(error) => {
            told.all(vec![local::told("engine", &error)])?;
            Some(Exit::Unreachable)
        }
    };
    told.tally.tell(global)?;
    Ok(match (exit, told.tally.bad) {
        (Some(exit), _) => exit,
        (None, 0) => Exit::Done,
        (None, _) => Exit::Failed,
    })
}

/// What the engine is and says; each finding goes to `found` as soon as it is there.
async fn reach(
    (home, secrets): (&Home, &Secrets),
    monitor: Option<Monitor>,
    global: &Global,
    found: &mut Vec<Finding>,
) -> Result<(), CliError> {
    let look = async {
        if let Some(place) = NatsPlace::find(global, home, secrets)? {
            let looked = servers::look(&place, home, (monitor, global), found).await;
            // Nothing was changed: nothing waits for it.
            let _closed = place.close().await;
            return looked;
        }
        if monitor.is_some() {
            let what = "--monitor is for a NATS server, and none keeps this bus";
            return Err(CliError::usage(what).next("leave it out, or name the server: --nats-url"));
        }
        let paths = Paths::new(global, home);
        if !paths.is_served() {
            let what = "no daemon runs for this data directory";
            return Err(CliError::new(Exit::Unreachable, what).next("start one: vakbus up"));
        }
        daemon::look(&paths, home, global, found).await
    };
    timeout(WITHIN, look).await.unwrap_or_else(|_late| {
        let limit = humantime::format_duration(WITHIN);
        let what = format!("the engine did not answer all questions within {limit}");
        Err(CliError::new(Exit::Unreachable, what).next("see that it runs: vakbus status"))
    })
}

/// What was told so far.
struct Told<'a> {
    global: &'a Global,
    tally: Tally,
}

impl Told<'_> {
    fn all(&mut self, findings: Vec<Finding>) -> Result<(), CliError> {
        for finding in findings {
            self.tally.count(&finding);
            // With --quiet only what is wrong is told.
            if !self.global.quiet || matches!(finding.level, Level::Warn | Level::Bad) {
                finding.tell(self.global)?;
            }
        }
        Ok(())
    }
}

/// How long all questions to the engine may take together.
const WITHIN: Duration = Duration::from_secs(30);
