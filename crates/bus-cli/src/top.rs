//! `vakbus top`: one screen over queues, agents at work, approvals that wait, and dead letters.

mod act;
mod agents;
mod dialog;
mod live;
mod look;
mod model;
mod pace;
mod screen;
mod terminal;
#[cfg(test)]
mod tests;
mod view;
mod watch;
mod work;

use bus_envelope::Timestamp;
use ratatui::{Terminal, backend::TestBackend};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, timeout},
};

use self::{
    agents::Agents,
    live::Joined,
    screen::Screen,
    terminal::Held,
    view::Heading,
    watch::{Turn, Watch},
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
    let Joined { mut live, mut looker, .. } = Joined::join(session).await?;
    let (mut screen, mut agents) = (Screen::default(), Agents::default());
    let _samples_came = timeout(args.interval, async {
        while let Some(heard) = live.next().await {
            agents.hear(&heard, Instant::now().into_std());
        }
    })
    .await;
    screen.model().see(looker.look().await?);
    agents.count(args.interval);
    let (samples, missed) = agents.heard();
    (screen.model().samples, screen.model().missed) = (samples.clone(), missed);
    screen.model().agents = agents.rows(Instant::now().into_std());
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
    let joined = Joined::join(session).await?;
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
    let mut watch = Watch::new(session, joined, args.interval);
    let mut held = Held::take()?;
    loop {
        if let Some(screen) = watch.next_picture() {
            let now = session.clock.now();
            held.terminal.draw(|frame| view::draw(frame, screen, &heading, now)).map_err(failed)?;
        }
        let turn = tokio::select! {
            biased;
            _ended = terminate.recv() => Turn::Ends,
            _gone = hangup.recv() => Turn::Ends,
            _ended = interrupt.recv() => Turn::Ends,
            _again = goes_on.recv() => {
                held.enter().map_err(failed)?;
                watch.draw_again();
                Turn::Stays
            }
            turn = watch.turn(&mut held.keys) => turn,
        };
        if turn == Turn::Ends {
            drop(held);
            if let Some(left) = watch.left_behind() {
                out::remark(&left);
            }
            return Ok(Exit::Done);
        }
    }
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
