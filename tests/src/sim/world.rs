//! The world of a run: its time, what happens next in it, and all who live there.

use std::{collections::BTreeMap, time::Duration};

use bus_core::Seq;
use bus_envelope::Timestamp;

use super::{
    Options, Violation,
    agent::{Agent, Job, Kind, State, Timer},
    command::{Answer, Command, Plane},
    live::Live,
    random::Random,
    server::{Caller, Reply, Server},
    trace::Trace,
    worker::LIVE_SESSIONS,
};

/// Everything there is; what happens depends on the seed and the options alone.
#[derive(Debug)]
pub(super) struct World {
    options: Options,
    pub(super) random: Random,
    /// True time since the beginning, in nanoseconds.
    pub(super) now: u64,
    /// How far the broker's clock is ahead of true time, in nanoseconds.
    pub(super) skew: i64,
    coming: BTreeMap<(u64, u64), Event>,
    scheduled: u64,
    alarms: BTreeMap<usize, u64>,
    pub(super) agents: Vec<Agent>,
    pub(super) server: Server,
    pub(super) live: Live,
    pub(super) trace: Trace,
    /// Nobody makes trouble any more.
    pub(super) is_calm: bool,
    pub(super) steps: u64,
    /// Queues that many share; those behind them are inboxes.
    pub(super) roles: usize,
    pub(super) sessions: u64,
    /// Order keys in use.
    pub(super) keys: u64,
    /// The mean time between two tasks of one producer, in nanoseconds.
    pub(super) pace: u64,
    /// What producers were told is stored.
    pub(super) acknowledged: Vec<(Plane, Seq)>,
    pub(super) tally: Tally,
}

/// Something that happens.
#[derive(Debug, Clone)]
pub(super) enum Event {
    ToBroker(Caller, Command),
    ToAgent(Caller, Answer),
    Timer { agent: usize, life: u32, timer: Timer },
    Alarm { queue: usize },
    Jump,
    Mayhem,
    Listen { listener: usize },
}

/// What went wrong on the way, as it should.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) crashes: u64,
    pub(super) jumps: u64,
    pub(super) lost: u64,
    pub(super) copies: u64,
    pub(super) repeats: u64,
    pub(super) races: u64,
}

impl World {
    /// The world of `seed` at its beginning.
    pub(super) fn new(seed: u64, options: Options) -> Result<Self, Violation> {
        let agents_wanted = options.agents.max(Options::AGENTS_MIN);
        let operators = (agents_wanted / 500).max(1);
        let producers = (agents_wanted / 10).max(2);
        let inboxes = (agents_wanted / 20).clamp(1, 100);
        let workers = agents_wanted - operators - producers - inboxes;
        let roles = (agents_wanted / 200).clamp(2, 8);
        let kinds = std::iter::repeat_n(Kind::Operator, operators)
            .chain(std::iter::repeat_n(Kind::Producer, producers))
            .chain((0..inboxes).map(|n| Kind::Worker { queue: roles + n }))
            .chain((0..workers).map(|n| Kind::Worker { queue: n % roles }));
        let sessions = (workers / 6).max(1);
        let mut world = Self {
            options,
            random: Random::new(seed),
            now: 0,
            skew: 0,
            coming: BTreeMap::new(),
            scheduled: 0,
            alarms: BTreeMap::new(),
            agents: kinds.map(Agent::new).collect(),
            server: Server::new(&options, seed, roles, inboxes)?,
            live: Live::new(
                sessions.min(LIVE_SESSIONS),
                agents_wanted / 20 + 4,
                seed,
                options.fault,
            )?,
            trace: Trace::new(LINES_KEPT),
            is_calm: false,
            steps: 0,
            roles,
            sessions: sessions as u64,
            keys: 1 + workers as u64 / 20,
            // As much work as keeps seven workers of ten busy.
            pace: 6_400_000_000 * producers as u64 / workers as u64,
            acknowledged: Vec::new(),
            tally: Tally::default(),
        };
        for agent in 0..world.agents.len() {
            let delay = world.random.below(2_000);
            world.after(agent, Duration::from_millis(delay), Timer::Restart);
        }
        for listener in 0..world.live.listeners() {
            world.schedule_within(2, Event::Listen { listener });
        }
        world.schedule_within(20, Event::Jump);
        world.schedule_within(1, Event::Mayhem);
        Ok(world)
    }

    /// Runs to the end: trouble for as many steps as wanted, then calm until all work is done.
    pub(super) fn run(&mut self) -> Result<(), Violation> {
        while self.steps < self.options.steps && self.step()? {
            if self.steps.is_multiple_of(AUDIT_EVERY) {
                self.audit()?;
            }
        }
        self.trace.add(format_args!("{} calm", self.clock_text()));
        self.is_calm = true;
        let until = self.now.saturating_add(CALM_MAX);
        while self.server.ledger.stored_now() > 0 {
            let goes_on = self.now < until && self.step()?;
            Violation::unless(goes_on, "the queues are worked off", || {
                format!("{} messages stay for ever", self.server.ledger.stored_now())
            })?;
        }
        self.live.drain()?;
        self.audit()?;
        self.server.audit_receipts()?;
        for (plane, seq) in std::mem::take(&mut self.acknowledged) {
            let end = self.server.ledger.end_of(plane, seq)?;
            Violation::unless(end.is_some(), "the queues are worked off", || {
                format!("{plane:?} {} has not ended", seq.0)
            })?;
            self.acknowledged.push((plane, seq));
        }
        Ok(())
    }

    pub(super) fn agent_mut(&mut self, agent: usize) -> &mut Agent {
        #[expect(clippy::indexing_slicing, reason = "agents are numbered by this very list")]
        &mut self.agents[agent]
    }

    pub(super) fn after(&mut self, agent: usize, delay: Duration, timer: Timer) {
        let delay = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        let life = self.agent_mut(agent).life;
        let at = self.now.saturating_add(delay);
        self.schedule(at, Event::Timer { agent, life, timer });
    }

    pub(super) fn schedule(&mut self, at: u64, event: Event) {
        self.scheduled += 1;
        self.coming.insert((at, self.scheduled), event);
    }

    /// What a clock on the broker's machine shows.
    pub(super) fn machine_time(&self) -> Timestamp {
        let ns = i128::from(self.now) + i128::from(self.skew);
        Timestamp::from_unix_ns(ORIGIN + ns)
    }

    /// Ends an agent's life: it forgets everything, and comes back some time later.
    pub(super) fn crash(&mut self, agent: usize) {
        let victim = self.agent_mut(agent);
        if matches!(victim.state, State::Down) {
            return;
        }
        let caller = Caller { agent, life: victim.life, call: 0 };
        victim.life += 1;
        victim.state = State::Down;
        victim.pending = None;
        self.tally.crashes += 1;
        self.trace.add(format_args!("{} a{agent} crashes", self.clock_text()));
        self.transmit(caller, Command::Leave);
        let away = self.random.between(100, 20_000);
        self.after(agent, Duration::from_millis(away), Timer::Restart);
    }

    /// The time as the trace shows it: true seconds.
    pub(super) fn clock_text(&self) -> String {
        format!("{}.{:09}", self.now / 1_000_000_000, self.now % 1_000_000_000)
    }

    /// Lets the next thing happen; `false` when nothing ever will.
    fn step(&mut self) -> Result<bool, Violation> {
        let Some(((at, _), event)) = self.coming.pop_first() else { return Ok(false) };
        self.now = at;
        match event {
            Event::ToBroker(caller, command) => {
                self.note(caller, ">", &command);
                let mut replies = Vec::new();
                let now = self.machine_time();
                self.server.apply(caller, command, now, &mut replies)?;
                self.answer(&mut replies);
            }
            Event::ToAgent(caller, answer) => {
                self.note(caller, "<", &answer);
                self.answered(caller, answer)?;
            }
            Event::Timer { agent, life, timer } => {
                if self.agent_mut(agent).life != life || !self.ring(agent, timer)? {
                    return Ok(true);
                }
            }
            Event::Alarm { queue } => {
                if !self.look(queue)? {
                    return Ok(true);
                }
            }
            Event::Jump => self.jump()?,
            Event::Mayhem => self.mayhem(),
            Event::Listen { listener } => self.listen(listener)?,
        }
        self.steps += 1;
        Ok(true)
    }

    /// An alarm or a jump let the broker look: what it handed out goes on its way.
    pub(super) fn answer(&mut self, replies: &mut Vec<Reply>) {
        for (caller, answer) in replies.iter() {
            self.note(*caller, "=", answer);
        }
        self.reply(replies);
        for queue in self.server.take_changed() {
            self.set_alarm(queue);
        }
    }

    fn set_alarm(&mut self, queue: usize) {
        let Some(due) = self.server.desks().get(queue).and_then(|desk| desk.alarm) else { return };
        let due = due.unix_ns() - ORIGIN - i128::from(self.skew);
        let due = u64::try_from(due).unwrap_or(0).max(self.now);
        if self.alarms.get(&queue).is_none_or(|&at| at > due) {
            self.alarms.insert(queue, due);
            self.schedule(due, Event::Alarm { queue });
        }
    }

    /// Lets the broker look at a queue; `false` when there was no reason to.
    fn look(&mut self, queue: usize) -> Result<bool, Violation> {
        if self.alarms.get(&queue) == Some(&self.now) {
            self.alarms.remove(&queue);
        }
        let now = self.server.time(self.machine_time());
        match self.server.desks().get(queue).and_then(|desk| desk.alarm) {
            Some(due) if due <= now => {}
            Some(_) => {
                self.set_alarm(queue);
                return Ok(false);
            }
            None => return Ok(false),
        }
        self.trace.add(format_args!("{} alarm q{queue}", self.clock_text()));
        let (mut replies, now) = (Vec::new(), self.machine_time());
        self.server.look(queue, now, &mut replies)?;
        self.answer(&mut replies);
        Ok(true)
    }

    /// A timer of an agent's; `false` when it means nothing any more.
    fn ring(&mut self, agent: usize, timer: Timer) -> Result<bool, Violation> {
        match timer {
            Timer::Restart => {
                self.agent_mut(agent).state = State::Idle;
                self.turn(agent)?;
            }
            Timer::Turn => self.turn(agent)?,
            Timer::Timeout(call) => {
                let waits = self.agent_mut(agent).pending.as_ref().is_some_and(|(c, _)| *c == call);
                if !waits {
                    return Ok(false);
                }
                self.repeat(agent, call);
            }
            Timer::Finish => {
                // An extension that is not answered yet is of no interest any more.
                self.agent_mut(agent).pending = None;
                self.finish_job(agent)?;
            }
            Timer::Extend => self.extend_lease(agent),
        }
        Ok(true)
    }

    fn turn(&mut self, agent: usize) -> Result<(), Violation> {
        match self.agent_mut(agent).kind {
            Kind::Producer => self.produce(agent),
            Kind::Operator => {
                self.operate(agent);
                Ok(())
            }
            Kind::Worker { queue } => {
                self.send(agent, Command::Claim { queue });
                Ok(())
            }
        }
    }

    fn answered(&mut self, caller: Caller, answer: Answer) -> Result<(), Violation> {
        let Caller { agent, life, call } = caller;
        let asker = self.agent_mut(agent);
        // An answer to an earlier life, or to a call that was answered before.
        let expected = asker.pending.take_if(|(pending, _)| *pending == call && life == asker.life);
        let Some((_, command)) = expected else { return Ok(()) };
        match (asker.kind, answer) {
            (Kind::Worker { queue }, Answer::Claimed { lease, claim }) => {
                let plane = if queue < self.roles { Plane::Work } else { Plane::Inbox };
                self.start_job(agent, Job { plane, lease, claim })
            }
            (Kind::Worker { .. }, answer) => self.worker_answered(agent, answer),
            (_, answer) => {
                self.maker_answered(agent, &command, &answer);
                Ok(())
            }
        }
    }

    fn audit(&mut self) -> Result<(), Violation> {
        let now = self.machine_time();
        self.server.audit(now)
    }

    pub(super) fn schedule_within(&mut self, seconds: u64, event: Event) {
        let at = self.now.saturating_add(self.random.below(seconds * 1_000_000_000));
        self.schedule(at, event);
    }

    fn note(&mut self, caller: Caller, arrow: &str, what: &dyn std::fmt::Display) {
        let Caller { agent, life, call } = caller;
        let time = self.clock_text();
        self.trace.add(format_args!("{time} a{agent}.{life}/{call} {arrow} {what}"));
    }
}

/// Lines of the trace that are kept as text.
const LINES_KEPT: usize = 60;
/// Steps between two looks at all that is stored.
const AUDIT_EVERY: u64 = 5_000;
/// How long calm may last before all work is done: six hours.
const CALM_MAX: u64 = 6 * 3_600 * 1_000_000_000;
/// When a run begins, in nanoseconds of Unix time.
const ORIGIN: i128 = 1_780_000_000_000_000_000;
