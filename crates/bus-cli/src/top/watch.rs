//! The screen at work: keys, samples, looks at the bus and what the user asked for, all beside each
//! other, so that nothing which the bus is slow to answer holds up the keys.

use std::time::Duration;

use bus_core::Incoming;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use super::{
    act::{ANSWERS_WITHIN, IN_DOUBT, act},
    agents::Agents,
    dialog::Action,
    live::{Joined, next},
    look::{Looker, Sight},
    model::Notice,
    screen::{Asked, Screen},
    terminal::Typed,
    work::Work,
};
use crate::{
    engine::{Agent, Session},
    error::{CliError, Exit},
};

/// What is shown, and everything that is under way for it.
pub(super) struct Watch<'a> {
    session: &'a Session,
    every: Duration,
    pub(super) screen: Screen,
    agents: Agents,
    bus: Option<Bus>,
    looking: Work<'a, (Looker, Result<Sight, CliError>)>,
    joining: Work<'a, Result<Joined, CliError>>,
    acting: Work<'a, Notice>,
    /// When a bus that is away is joined again, if it is still away then.
    join_at: Option<Instant>,
    /// When the samples were counted last.
    counted: Instant,
    /// When it was drawn last.
    drawn: Instant,
    drawing: Drawing,
}

/// Whether it is to be drawn anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Drawing {
    /// Nothing has changed.
    UpToDate,
    /// With what else comes within a moment.
    Soon,
    /// The user waits for it.
    Now,
}

/// A bus that was joined.
struct Bus {
    agent: Agent,
    live: bus_core::EventFeed,
    /// Who looks; while that goes on, it is there.
    looker: Option<Looker>,
    /// When the look that goes on began, or when the next one does.
    look_at: Instant,
    /// Whether something was changed since the last look began.
    is_changed: bool,
}

/// Whether the screen stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It does.
    Stays,
    /// The user leaves it.
    Ends,
}

/// What happened.
enum News {
    Typed(Option<Typed>),
    Acted(Notice),
    Looked(Looker, Result<Sight, CliError>),
    Joined(Result<Joined, CliError>),
    Heard(Option<Incoming>),
    Tick,
}

impl<'a> Watch<'a> {
    /// Begins with a bus that was joined.
    pub(super) fn new(session: &'a Session, joined: Joined, every: Duration) -> Self {
        let now = Instant::now();
        Self {
            session,
            every,
            screen: Screen::default(),
            agents: Agents::default(),
            bus: Some(Bus::new(joined, now)),
            looking: Work::NONE,
            joining: Work::NONE,
            acting: Work::NONE,
            join_at: None,
            counted: now,
            drawn: now,
            drawing: Drawing::Now,
        }
    }

    /// The screen, when it is to be drawn now.
    pub(super) fn next_picture(&mut self) -> Option<&Screen> {
        let now = Instant::now();
        let is_due = match self.drawing {
            Drawing::UpToDate => now >= self.drawn + CLOCK_MOVES_WITHIN,
            Drawing::Soon => now >= self.drawn + DRAWN_TOGETHER,
            Drawing::Now => true,
        };
        if !is_due {
            return None;
        }
        (self.drawn, self.drawing) = (now, Drawing::UpToDate);
        self.refresh(now);
        Some(&self.screen)
    }

    /// Has it drawn anew, whatever the terminal shows.
    pub(super) fn draw_again(&mut self) {
        self.drawing = Drawing::Now;
    }

    /// Waits for something to happen, and takes it in.
    pub(super) async fn turn(&mut self, keys: &mut mpsc::Receiver<Typed>) -> Turn {
        self.begin_what_is_due(Instant::now());
        let tick = self.next_tick();
        let news = tokio::select! {
            biased;
            typed = keys.recv() => News::Typed(typed),
            notice = self.acting.done() => News::Acted(notice),
            joined = self.joining.done() => News::Joined(joined),
            (looker, looked) = self.looking.done() => News::Looked(looker, looked),
            () = sleep_until(tick) => News::Tick,
            heard = next(self.bus.as_mut().map(|bus| &mut bus.live)) => News::Heard(heard),
        };
        self.drawing = self.drawing.max(match &news {
            News::Tick => Drawing::UpToDate,
            News::Heard(_) => Drawing::Soon,
            News::Typed(_) | News::Acted(_) | News::Looked(..) | News::Joined(_) => Drawing::Now,
        });
        match news {
            News::Typed(None) => return Turn::Ends,
            News::Typed(Some(Typed::Resized)) | News::Tick => {}
            News::Typed(Some(Typed::Key(key))) => match self.screen.key(key) {
                Asked::Nothing => {}
                Asked::Quit => return Turn::Ends,
                Asked::Do(action) => self.act(action),
            },
            News::Acted(notice) => self.acted(notice),
            News::Joined(joined) => self.joined(joined),
            News::Looked(looker, looked) => self.looked(looker, looked),
            News::Heard(heard) => self.hear(heard).await,
        }
        Turn::Stays
    }

    /// What is still under way when the screen is left, in words.
    pub(super) fn left_behind(&self) -> Option<String> {
        self.acting.is_under_way().then(|| format!("what was asked for last: {IN_DOUBT}"))
    }

    /// Begins what is due and does not go on yet.
    fn begin_what_is_due(&mut self, now: Instant) {
        if let Some(bus) = &mut self.bus
            && (now >= bus.look_at || bus.is_changed)
            && let Some(mut looker) = bus.looker.take()
        {
            if std::mem::take(&mut bus.is_changed) {
                looker.expect_changes();
            }
            bus.look_at = now;
            self.looking.begin(async move {
                let looked = looker.look().await;
                (looker, looked)
            });
        }
        if self.join_at.is_some_and(|at| now >= at) && !self.joining.is_under_way() {
            let session = self.session;
            self.joining.begin(async move {
                timeout(ANSWERS_WITHIN, Joined::join(session))
                    .await
                    .unwrap_or_else(|_late| Err(CliError::new(Exit::Unreachable, no_answer())))
            });
        }
    }

    /// When something is due, or the clock on the screen is to be seen to move.
    fn next_tick(&self) -> Instant {
        let drawn_after = match self.drawing {
            Drawing::UpToDate => CLOCK_MOVES_WITHIN,
            Drawing::Soon | Drawing::Now => DRAWN_TOGETHER,
        };
        let next_look = self.bus.as_ref().map(|bus| match bus.looker {
            Some(_) => bus.look_at,
            None => bus.look_at + ANSWERS_WITHIN,
        });
        let next_join = self.join_at.filter(|_| !self.joining.is_under_way());
        let now = Instant::now();
        let ticks = [next_look, next_join].into_iter().flatten().filter(|tick| *tick > now);
        ticks.fold(self.drawn + drawn_after, Instant::min)
    }

    fn act(&mut self, action: Action) {
        let refused = |text: &str| Some(Notice { text: text.to_owned(), is_failure: true });
        let model = self.screen.model();
        if self.acting.is_under_way() {
            model.notice = refused("something else is being done still: nothing was begun");
            return;
        }
        let Some(bus) = &self.bus else {
            model.notice = refused("the bus is away: nothing was done");
            return;
        };
        model.notice = None;
        model.working = Some(action.told());
        self.acting.begin(act(bus.agent.clone(), action));
    }

    fn acted(&mut self, notice: Notice) {
        let model = self.screen.model();
        (model.working, model.notice) = (None, Some(notice));
        if let Some(bus) = &mut self.bus {
            bus.is_changed = true;
        }
    }

    fn looked(&mut self, looker: Looker, looked: Result<Sight, CliError>) {
        let now = Instant::now();
        // It may be that of a bus which was left meanwhile: then it is let go.
        if let Some(bus) = self.bus.as_mut().filter(|bus| bus.looker.is_none()) {
            bus.looker = Some(looker);
            bus.look_at = (bus.look_at + self.every).max(now + PAUSE_MIN);
        }
        match looked {
            Ok(sight) => {
                self.screen.model().see(sight);
                self.screen.model().away = None;
                self.join_at = None;
                self.joining.stop();
            }
            Err(error) => {
                self.away(error.to_string());
                // What was joined may come back by itself, and is kept; in case it does not, it is
                // joined anew beside it.
                self.join_at = self.join_at.or(Some(now + JOINED_BESIDE_AFTER));
            }
        }
    }

    fn joined(&mut self, joined: Result<Joined, CliError>) {
        let now = Instant::now();
        match joined {
            Ok(joined) => {
                self.looking.stop();
                self.bus = Some(Bus::new(joined, now));
                self.join_at = None;
            }
            Err(error) => {
                self.away(error.to_string());
                self.join_at = Some(now + JOINED_AGAIN_AFTER);
            }
        }
    }

    /// Takes live samples, and all that come within a moment: they are drawn together.
    async fn hear(&mut self, first: Option<Incoming>) {
        let Some(first) = first else { return self.feed_ended() };
        self.agents.hear(&first, Instant::now().into_std());
        for _ in 0..HEARD_TOGETHER {
            let live = self.bus.as_mut().map(|bus| &mut bus.live);
            match timeout(Duration::ZERO, next(live)).await {
                Ok(Some(more)) => self.agents.hear(&more, Instant::now().into_std()),
                Ok(None) => return self.feed_ended(),
                Err(_none_now) => return,
            }
        }
    }

    /// The connection is closed for good.
    fn feed_ended(&mut self) {
        self.bus = None;
        self.looking.stop();
        self.away("the connection was closed".to_owned());
        self.join_at = Some(Instant::now() + JOINED_AGAIN_AFTER);
    }

    fn away(&mut self, why: String) {
        let now = self.session.clock.now();
        let model = self.screen.model();
        let since = model.away.as_ref().map_or(now, |(since, _)| *since);
        model.away = Some((since, why));
    }

    /// Brings up to date what depends on the time alone.
    fn refresh(&mut self, now: Instant) {
        let is_late = |bus: &Bus| bus.looker.is_none() && now >= bus.look_at + ANSWERS_WITHIN;
        if self.bus.as_ref().is_some_and(is_late) && self.screen.model().away.is_none() {
            self.away(no_answer());
        }
        let span = now.saturating_duration_since(self.counted);
        if span >= self.every {
            self.counted = now;
            self.agents.count(span);
        }
        let (rate, missed) = self.agents.heard();
        let (samples, rows) = (rate.clone(), self.agents.rows(now.into_std()));
        let model = self.screen.model();
        (model.samples, model.missed, model.agents) = (samples, missed, rows);
    }
}

impl Bus {
    fn new(joined: Joined, now: Instant) -> Self {
        let Joined { agent, live, looker } = joined;
        Self { agent, live, looker: Some(looker), look_at: now, is_changed: false }
    }
}

fn no_answer() -> String {
    format!("no answer within {}", humantime::format_duration(ANSWERS_WITHIN))
}

/// How many samples are taken at once at most.
const HEARD_TOGETHER: usize = 1024;

/// How long samples are gathered before they are drawn.
const DRAWN_TOGETHER: Duration = Duration::from_millis(100);

/// The clock shows seconds.
const CLOCK_MOVES_WITHIN: Duration = Duration::from_secs(1);

/// How long a bus that is slow to answer is left alone at least between two looks.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// After how long a bus that is away is tried again.
const JOINED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// After how long one that does not answer, but is not closed, is joined anew.
const JOINED_BESIDE_AFTER: Duration = Duration::from_secs(10);
