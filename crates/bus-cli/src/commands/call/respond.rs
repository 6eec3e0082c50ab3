//! `vakbus reply`: answers the requests of a verb with a command, for as long as it is wanted.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use bus_core::{Answers, Asked, Calls, Endpoint, Heard};
use bus_runner::{CommandSpec, StopSignal};
use bus_subjects::{Filter, RoleName};
use serde_json::json;
use tokio::{task::JoinSet, time::MissedTickBehavior};

use super::work::answer_of;
use crate::{
    args::{Global, ReplyArgs, Target},
    engine::{self, Scope, Session},
    error::{CliError, Exit},
    print as out,
    swarm::{Asked as Wanted, Signals},
    workspace::Part,
};

/// Answers until it is told to stop.
pub(crate) fn run(args: ReplyArgs, global: &Global) -> Result<Exit, CliError> {
    let mut words = args.command.clone().into_iter();
    let Some(program) = words.next() else {
        return Err(CliError::usage("no command is given").next("vakbus reply --help"));
    };
    let mut command = CommandSpec::new(program, words);
    command.timeout = Some(args.timeout);
    engine::run(global, async |session| serve(&args, command, session, global).await)
}

async fn serve(
    args: &ReplyArgs,
    mut command: CommandSpec,
    session: &Session,
    global: &Global,
) -> Result<Exit, CliError> {
    session.place().check_shared("ask for an answer")?;
    session.secrets.withhold(&mut command);
    let mut signals = Signals::new();
    // A worker answers for the module that is called like its role.
    let queue = RoleName::parse(args.target.module.as_str())?;
    let scope = Scope { session: None, queue: Some(queue) };
    let beginning = async {
        let agent = session.agent(Part::Worker, scope).await?;
        let filter = Filter::from(&args.target.subject(agent.endpoint.workspace()));
        let calls = agent.endpoint.calls(filter, WAITING_MAX).await?;
        Ok((agent, calls))
    };
    let begun = signals.unless_asked(beginning).await?;
    let Some((agent, mut calls)) = begun else { return Ok(Exit::Done) };
    out::remark(&format!("answering {} as {}", args.target, agent.endpoint.agent()));
    let responder = Responder {
        endpoint: agent.endpoint.clone(),
        command,
        target: args.target.clone(),
        is_json: global.json,
    };
    let mut work = Work { responder: Arc::new(responder), running: JoinSet::new() };
    let done = work.until_stopped(args, session, &mut calls, &mut signals).await;
    // A publish needs no answer, a goodbye does: the answers have arrived then.
    let closed = agent.engine.close().await;
    done?;
    closed?;
    Ok(Exit::Done)
}

/// What answers, and the commands that run for it.
struct Work {
    responder: Arc<Responder>,
    running: JoinSet<Result<(), CliError>>,
}

impl Work {
    /// Takes requests while there is room for their commands; after a signal lets those end.
    async fn until_stopped(
        &mut self,
        args: &ReplyArgs,
        session: &Session,
        calls: &mut Calls,
        signals: &mut Signals,
    ) -> Result<(), CliError> {
        let stop = StopSignal::new();
        let mut is_draining = false;
        let mut renewals = tokio::time::interval(RENEW_EVERY);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !is_draining || !self.running.is_empty() {
            let has_room = !is_draining && self.running.len() < usize::from(args.concurrency);
            tokio::select! {
                asked = calls.next(), if has_room => match asked {
                    Some(asked) => self.take(asked, &stop)?,
                    None => return Err(CliError::new(Exit::Unreachable, "the bus was closed")),
                },
                Some(ended) = self.running.join_next() => ended.map_err(|error| {
                    CliError::new(Exit::Failed, format!("an answer was given up: {error}"))
                })??,
                asked = signals.next(|| false) => match asked {
                    Wanted::Nothing => {}
                    Wanted::Drain => {
                        is_draining = true;
                        out::remark("finishing what runs; a second signal stops it now");
                    }
                    Wanted::StopNow => stop.end(),
                },
                _tick = renewals.tick() => session.renew(),
            }
        }
        Ok(())
    }

    fn take(&mut self, asked: Asked, stop: &StopSignal) -> Result<(), CliError> {
        match asked {
            Asked::Question(heard) => {
                let (responder, stop) = (Arc::clone(&self.responder), stop.child());
                self.running.spawn(async move { responder.answer(&heard, stop).await });
            }
            Asked::Gap { missed } => {
                if self.responder.is_json {
                    out::json(&json!({ "gap": missed }))?;
                }
                let missed = out::counted(missed, "request", "requests");
                out::talk(&format!(
                    "warning: {missed} or more not heard: too many at once, or the daemon was away"
                ));
            }
            Asked::Refused(error) => {
                out::talk(&format!("warning: a request is not answered: {error}"));
            }
        }
        Ok(())
    }
}

/// Who answers, and how.
struct Responder {
    endpoint: Endpoint,
    command: CommandSpec,
    target: Target,
    is_json: bool,
}

impl Responder {
    async fn answer(&self, heard: &Heard, stop: StopSignal) -> Result<(), CliError> {
        let answer = answer_of(&self.command, &self.target, heard, stop).await;
        let why = answer.as_ref().err().cloned();
        if let Err(error) = self.endpoint.answer(heard, answer).await {
            // The asker has its own end; the next one may fare better.
            out::talk(&format!("warning: an answer was not sent: {error}"));
            return self.tell(heard, "unsent", Some(&error.to_string()));
        }
        let outcome = if why.is_none() { "answered" } else { "failed" };
        self.tell(heard, outcome, why.as_deref())
    }

    fn tell(&self, heard: &Heard, outcome: &str, why: Option<&str>) -> Result<(), CliError> {
        let envelope = &heard.opened.envelope;
        let (id, from) = (&envelope.id, &envelope.lineage.agent);
        if self.is_json {
            let line = json!({
                "event": outcome, "request": id, "from": from.as_str(), "reason": why,
            });
            return out::json(&line);
        }
        let why = why.map_or_else(String::new, |why| format!(": {}", out::harmless(why)));
        out::remark(&format!("{outcome} {id} of {from}{why}"));
        Ok(())
    }
}

/// How many requests may wait for a command: as many as may be answered at all.
const WAITING_MAX: NonZeroUsize = NonZeroUsize::new(Answers::KEPT_MAX).unwrap();

/// How often secrets and revocations are read again.
const RENEW_EVERY: Duration = Duration::from_secs(2);
