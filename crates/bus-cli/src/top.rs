//! `vakbus top`: one screen over queues, agents at work, approvals that wait, and dead letters.

mod dialog;
mod feed;
mod model;
mod screen;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use std::time::Duration;

use bus_envelope::Timestamp;
use ratatui::{Terminal, backend::TestBackend};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval, timeout},
};

use self::{
    feed::Feed,
    model::Notice,
    screen::{Asked, Screen},
    terminal::{Held, Typed},
    view::Heading,
};
use crate::{
    args::{Global, TopArgs},
    engine::{self, Place, Session},
    error::{CliError, Exit},
    print as out, telemetry,
};

/// Shows the screen until the user leaves it, or one picture of it.
pub(crate) fn run(args: &TopArgs, global: &Global) -> Result<Exit, CliError> {
    if global.json && !args.once {
        return Err(CliError::usage("--json is for one picture").next("say --once --json"));
    }
    engine::run(global, async |session| match args.once {
        true => once(args, global, session).await,
        false => watch(args, session).await,
    })
}

/// One picture, after samples had a moment to come.
async fn once(args: &TopArgs, global: &Global, session: &Session) -> Result<Exit, CliError> {
    let mut feed = Feed::join(session).await?;
    let mut screen = Screen::default();
    let _samples_came =
        timeout(args.interval, async { while feed.hear(screen.model()).await {} }).await;
    feed.look(screen.model()).await?;
    let now = session.clock.now();
    if global.json {
        out::json(&screen.shown().to_json(now))?;
        return Ok(Exit::Done);
    }
    let (columns, rows) = args.size.unwrap_or(PICTURE);
    out::text(&picture(&screen, &heading(session), now, (columns, rows))?)?;
    Ok(Exit::Done)
}

/// The screen as text: its lines without what is blank at their ends.
fn picture(
    screen: &Screen,
    heading: &Heading,
    now: Timestamp,
    (columns, rows): (u16, u16),
) -> Result<String, CliError> {
    let failed = |error| CliError::new(Exit::Failed, format!("cannot draw: {error}"));
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).map_err(failed)?;
    terminal.draw(|frame| view::draw(frame, screen, heading, now)).map_err(failed)?;
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for line in buffer.content().chunks(usize::from(columns.max(1))) {
        let line: String = line.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    Ok(text)
}

async fn watch(args: &TopArgs, session: &Session) -> Result<Exit, CliError> {
    // Before the terminal is taken: what cannot begin says so as every other command does.
    let mut feed = Some(Feed::join(session).await?);
    let mut screen = Screen::default();
    let heading = heading(session);
    let failed = |error| CliError::new(Exit::Failed, format!("cannot draw: {error}"));
    telemetry::are_heard();
    let listen = |kind| {
        signal(kind).map_err(|error| {
            CliError::new(Exit::Failed, format!("cannot listen for signals: {error}"))
        })
    };
    let (mut terminate, mut hangup) =
        (listen(SignalKind::terminate())?, listen(SignalKind::hangup())?);
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut goes_on = listen(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
    let mut held = Held::take()?;
    let mut looks = interval(args.interval);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut join_after = Instant::now();
    loop {
        let now = session.clock.now();
        held.terminal.draw(|frame| view::draw(frame, &screen, &heading, now)).map_err(failed)?;
        let asked = tokio::select! {
            biased;
            _ended = terminate.recv() => return Ok(Exit::Done),
            _gone = hangup.recv() => return Ok(Exit::Done),
            _ended = interrupt.recv() => return Ok(Exit::Done),
            _again = goes_on.recv() => {
                held.enter().map_err(failed)?;
                Asked::Nothing
            }
            typed = held.keys.recv() => match typed {
                Some(Typed::Key(key)) => screen.key(key),
                Some(Typed::Resized) => Asked::Nothing,
                None => return Ok(Exit::Done),
            },
            _tick = looks.tick() => {
                look(session, &mut feed, &mut screen, &mut join_after).await;
                Asked::Nothing
            }
            // What comes together is drawn together.
            () = settled(&mut feed, &mut screen) => Asked::Nothing,
        };
        match asked {
            Asked::Nothing => {}
            Asked::Quit => return Ok(Exit::Done),
            Asked::Do(action) => {
                screen.model().notice = Some(act(&mut feed, action).await);
                look(session, &mut feed, &mut screen, &mut join_after).await;
            }
        }
    }
}

/// Takes live samples for a moment, or waits while there is no bus.
async fn settled(feed: &mut Option<Feed>, screen: &mut Screen) {
    let Some(joined) = feed else { return std::future::pending().await };
    let is_there = joined.hear(screen.model()).await;
    let _until = timeout(DRAWN_TOGETHER, async {
        while joined.hear(screen.model()).await {}
        std::future::pending::<()>().await;
    })
    .await;
    if !is_there {
        *feed = None;
    }
}

async fn act(feed: &mut Option<Feed>, action: dialog::Action) -> Notice {
    let Some(feed) = feed else {
        let text = "the bus is away: nothing was done".to_owned();
        return Notice { text, is_failure: true };
    };
    match timeout(ANSWERS_WITHIN, feed.act(action)).await {
        Ok(Ok(text)) => Notice { text, is_failure: false },
        Ok(Err(error)) => Notice { text: error.to_string(), is_failure: true },
        Err(_late) => {
            let limit = humantime::format_duration(ANSWERS_WITHIN);
            let text =
                format!("no answer within {limit}: it may be done, look before you repeat it");
            Notice { text, is_failure: true }
        }
    }
}

/// Looks once, or tries to join a bus that is away. What is known stays on the screen meanwhile.
async fn look(
    session: &Session,
    feed: &mut Option<Feed>,
    screen: &mut Screen,
    join_after: &mut Instant,
) {
    let looked = match feed {
        Some(feed) => timeout(ANSWERS_WITHIN, feed.look(screen.model())).await,
        None if Instant::now() < *join_after => return,
        None => match timeout(ANSWERS_WITHIN, Feed::join(session)).await {
            Ok(Ok(joined)) => {
                let joined = feed.insert(joined);
                timeout(ANSWERS_WITHIN, joined.look(screen.model())).await
            }
            Ok(Err(error)) => Ok(Err(error)),
            Err(late) => Err(late),
        },
    };
    let why = match looked {
        Ok(Ok(())) => {
            screen.model().away = None;
            return;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_late) => format!("no answer within {}", humantime::format_duration(ANSWERS_WITHIN)),
    };
    // It is joined anew: a connection that broke may not come back by itself.
    *feed = None;
    *join_after = Instant::now() + JOINED_AGAIN_AFTER;
    let now = session.clock.now();
    let since = screen.model().away.as_ref().map_or(now, |(since, _)| *since);
    screen.model().away = Some((since, why));
}

fn heading(session: &Session) -> Heading {
    let bus = match session.place() {
        Place::Daemon { .. } => "daemon of this data directory".to_owned(),
        Place::Disk(_) => "this data directory, no daemon".to_owned(),
        Place::Nats(place) => place.told(),
        Place::Memory(_) => "the memory of this process".to_owned(),
    };
    Heading { workspace: session.workspace.name().to_string(), bus }
}

/// The size of a picture, unless another one is asked for.
const PICTURE: (u16, u16) = (100, 30);

/// How long samples are gathered before they are drawn.
const DRAWN_TOGETHER: Duration = Duration::from_millis(100);

/// How long a look may take before the bus counts as away.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// After how long a bus that is away is tried again.
const JOINED_AGAIN_AFTER: Duration = Duration::from_secs(1);
