//! `vakbus record`: keeps what a session says live, until it is told to stop.

use std::time::Duration;

use bus_core::Stop;
use bus_runner::{Recorded, RecordingPolicy};
use serde_json::json;
use tokio::time::MissedTickBehavior;

use crate::{
    args::{Global, RecordArgs},
    engine::{self, Session},
    error::{CliError, Exit},
    print as out, recording,
    swarm::{Asked, Signals},
};

/// Records until a signal comes.
pub(crate) fn run(args: &RecordArgs, global: &Global) -> Result<Exit, CliError> {
    engine::run(global, async |session| {
        session.place().check_shared("publish an event")?;
        let mut signals = Signals::new();
        let recorded = record(args, session, &mut signals).await?;
        match global.json {
            true => out::json(&json!({
                "session": args.session.as_str(),
                "recorded": recording::json(&recorded),
            }))?,
            false => out::line(&recording::told(&recorded))?,
        }
        Ok(Exit::Done)
    })
}

async fn record(
    args: &RecordArgs,
    session: &Session,
    signals: &mut Signals,
) -> Result<Recorded, CliError> {
    let policy = args.policy();
    let beginning = async {
        let agent = session.agent(recording::PART, engine::Scope::default()).await?;
        recording::start(agent.endpoint, &args.session, policy).await
    };
    let recorder = tokio::select! {
        biased;
        begun = beginning => begun?,
        _asked = signals.next(|| false) => {
            let what = "interrupted before anything was recorded";
            return Err(CliError::new(Exit::Failed, what));
        }
    };
    let RecordingPolicy { kinds, bytes_max, .. } = policy;
    let (name, most) = (&args.session, recording::size(bytes_max));
    out::remark(&format!("recording {kinds} of session {name}, at most {most}; Ctrl-C ends it"));
    let stop = Stop::default();
    let recording = recorder.run(&stop);
    tokio::pin!(recording);
    let mut renewals = tokio::time::interval(RENEW_EVERY);
    renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            recorded = &mut recording => return recorded.map_err(recording::explained),
            asked = signals.next(|| false) => match asked {
                Asked::Nothing => {}
                Asked::Drain => {
                    stop.drain.cancel();
                    out::remark("storing what came until now; a second signal ends it at once");
                }
                Asked::StopNow => stop.now.cancel(),
            },
            _tick = renewals.tick() => session.renew(),
        }
    }
}

/// How often secrets and revocations are read again: an event that is sealed under a secret which
/// is not known here is not recorded.
const RENEW_EVERY: Duration = Duration::from_secs(2);
