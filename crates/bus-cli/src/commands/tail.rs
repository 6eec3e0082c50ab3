//! `vakbus tail`: what happened last in a workspace, and what happens now.

mod said;
mod source;

use std::{num::NonZeroUsize, time::Duration};

use bus_core::{Endpoint, ErrorKind, EventFeed, Incoming, Overflow};
use bus_subjects::{Address, AddressKind, SessionId};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use self::source::{Record, Source};
use super::live;
use crate::{
    args::{Global, TailArgs, TailKind},
    engine::{self, Scope},
    error::{CliError, Exit},
    print as out,
    swarm::Signals,
    workspace::Part,
};

/// Runs the command.
pub(crate) fn run(args: &TailArgs, global: &Global) -> Result<Exit, CliError> {
    let is_wanted = |kind: &TailKind| args.only.is_empty() || args.only.contains(kind);
    let kept: Vec<_> = TailKind::KEPT.into_iter().filter(is_wanted).collect();
    let live: Vec<_> = TailKind::LIVE.into_iter().filter(is_wanted).collect();
    if kept.is_empty() && !args.follow {
        let what = "live events are kept by nobody, so there are no last ones";
        return Err(CliError::usage(what).next("hear them as they come: say --follow"));
    }
    engine::run(global, async |session| {
        if args.follow {
            session.place().check_shared("be followed")?;
        }
        let mut signals = Signals::new();
        let beginning = session.agent(Part::Operator, Scope::default());
        let Some(agent) = signals.unless_asked(beginning).await? else { return Ok(Exit::Done) };
        let endpoint = &agent.endpoint;
        // First of all, so that nothing falls between the last records and the next events.
        let feed = match args.follow && !live.is_empty() {
            true => hear(endpoint, args.session.as_ref()).await?,
            false => None,
        };
        let mut tail = Tail { endpoint, sources: Vec::new(), live, is_away: false, global };
        for kind in kept {
            tail.sources.extend(opened(endpoint, kind, args.session.as_ref()).await?);
        }
        if tail.sources.is_empty() && feed.is_none() {
            let what = format!("{} may read nothing of what is asked for", endpoint.agent());
            return Err(CliError::new(Exit::Refused, what));
        }
        if !tail.show_last(args.lines.into()).await? || !args.follow {
            return Ok(Exit::Done);
        }
        tail.follow(feed, &mut signals).await
    })
}

/// The live events of the session, or of all; none when the agent may not hear them.
async fn hear(
    endpoint: &Endpoint,
    session: Option<&SessionId>,
) -> Result<Option<EventFeed>, CliError> {
    let workspace = endpoint.workspace();
    let filter = match session {
        Some(session) => Address::filter_session_events(workspace, session),
        None => Address::filter_events(workspace),
    };
    let overflow = Overflow::DropOldest { capacity: WAITING_MAX };
    match endpoint.subscribe(filter, overflow).await {
        Err(error) if error.kind() == ErrorKind::Denied => {
            out::remark(&format!("{} may not hear live events: without them", endpoint.agent()));
            Ok(None)
        }
        heard => Ok(Some(heard?)),
    }
}

/// The source of a kind; none when the agent may not read it, or nobody keeps it here.
async fn opened(
    endpoint: &Endpoint,
    kind: TailKind,
    session: Option<&SessionId>,
) -> Result<Option<Source>, CliError> {
    match Source::open(endpoint, kind, session).await {
        Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::NotFound) => {
            let (agent, name) = (endpoint.agent(), kind.as_str());
            out::remark(&format!("{agent} may not read {name}: without them"));
            Ok(None)
        }
        source => Ok(source?),
    }
}

struct Tail<'a> {
    endpoint: &'a Endpoint,
    sources: Vec<Source>,
    live: Vec<TailKind>,
    /// Whether the last look at the records was in vain, and that was told.
    is_away: bool,
    global: &'a Global,
}

impl Tail<'_> {
    /// Shows the last records of all sources; says whether somebody still reads.
    async fn show_last(&self, count: usize) -> Result<bool, CliError> {
        let mut records = Vec::new();
        for source in &self.sources {
            records.extend(source.last(count).await?);
        }
        records.sort_by_key(|record| record.stored.time);
        let skipped = records.len().saturating_sub(count);
        self.show_all(records.into_iter().skip(skipped))
    }

    /// Shows what comes until a signal, or until nobody reads any more.
    async fn follow(
        &mut self,
        mut feed: Option<EventFeed>,
        signals: &mut Signals,
    ) -> Result<Exit, CliError> {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_read = tokio::select! {
                biased;
                _asked = signals.next(|| false) => return Ok(Exit::Done),
                _tick = looks.tick(), if !self.sources.is_empty() => {
                    let (is_read, is_all) = self.look().await?;
                    if !is_all {
                        looks.reset_immediately();
                    }
                    is_read
                }
                item = next(&mut feed) => match item {
                    Some(item) => self.tell(item)?,
                    None => return Err(CliError::new(Exit::Unreachable, "the bus was closed")),
                },
            };
            if !is_read {
                return Ok(Exit::Done);
            }
        }
    }

    /// Shows the records that are new, and says whether somebody still reads, and whether these
    /// were all. A bus that is away is told once, and looked for again.
    async fn look(&mut self) -> Result<(bool, bool), CliError> {
        let (mut records, mut away, mut is_all) = (Vec::new(), None, true);
        for source in &mut self.sources {
            match source.look(&mut records).await {
                Ok(its_all) => is_all &= its_all,
                Err(error) if is_passing(error.kind()) => away = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        match (&away, self.is_away) {
            (Some(error), false) => out::remark(&format!("the bus is away: {error}")),
            (None, true) => out::remark("the bus is there again"),
            _ => {}
        }
        self.is_away = away.is_some();
        records.sort_by_key(|record| record.stored.time);
        Ok((self.show_all(records.into_iter())?, is_all))
    }

    fn show_all(&self, mut records: impl Iterator<Item = Record>) -> Result<bool, CliError> {
        records.try_fold(true, |is_read, record| Ok(is_read && self.show(&record)?))
    }

    fn show(&self, record: &Record) -> Result<bool, CliError> {
        let Record { kind, stored } = record;
        let position = Some(stored.seq.0);
        let line = match (self.endpoint.open(&stored.frame), self.global.json) {
            (Ok(opened), true) => out::json_text(&said::as_json(*kind, &opened, position)),
            (Ok(opened), false) => said::line(*kind, &opened, position),
            (Err(error), true) => out::json_text(&json!({
                "kind": kind.as_str(),
                "position": position,
                "subject": stored.frame.subject.as_str(),
                "time": stored.time.to_string(),
                "unreadable": error.to_string(),
            })),
            (Err(error), false) => said::unreadable(*kind, stored.time, &error),
        };
        live::is_read(out::data(&line))
    }

    /// Shows what was heard, if it is asked for.
    fn tell(&self, item: Incoming) -> Result<bool, CliError> {
        match item {
            Incoming::Message(opened) => {
                let kind = kind_of(&opened.envelope.subject);
                let Some(kind) = kind.filter(|kind| self.live.contains(kind)) else {
                    return Ok(true);
                };
                let line = match self.global.json {
                    true => out::json_text(&said::as_json(kind, &opened, None)),
                    false => said::line(kind, &opened, None),
                };
                live::is_read(out::data(&line))
            }
            Incoming::Gap { missed } => {
                if self.global.json {
                    return live::is_read(out::data(&json!({ "gap": missed }).to_string()));
                }
                out::talk(&format!("gap: {} missed", out::counted(missed, "event", "events")));
                Ok(true)
            }
            Incoming::Refused(error) => {
                out::talk(&format!(
                    "warning: an event is refused: {}",
                    out::harmless(&error.to_string())
                ));
                Ok(true)
            }
            Incoming::Checkpoint(_) => Ok(true),
        }
    }
}

/// The next live item; never one without a feed.
async fn next(feed: &mut Option<EventFeed>) -> Option<Incoming> {
    match feed {
        Some(feed) => feed.next().await,
        None => std::future::pending().await,
    }
}

fn kind_of(subject: &bus_subjects::Subject) -> Option<TailKind> {
    match Address::kind_of(subject).ok()? {
        AddressKind::Tokens => Some(TailKind::Tokens),
        AddressKind::Terminal => Some(TailKind::Terminal),
        AddressKind::Alert => Some(TailKind::Alerts),
        _ => None,
    }
}

/// Whether the next look may be luckier.
const fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout)
}

/// How often kept records are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How many live events may wait for the reader.
const WAITING_MAX: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
