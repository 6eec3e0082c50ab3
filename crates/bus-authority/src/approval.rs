//! One approval as a machine: what is decided about it, and what moves it.

mod ask;
mod refusal;
mod state;

use bus_core::EndKind;
use bus_envelope::{EventHash, Timestamp};
use bus_subjects::{AgentId, SessionId};

pub use self::{
    ask::Ask,
    refusal::Refusal,
    state::{Asked, End, Event, State, Verdict},
};

/// An approval: a request, perhaps its verdict, perhaps its end.
///
/// [`Approval::decide`] says what a command would do and changes nothing; only what is stored moves
/// it, by [`Approval::see`]. So it stands for everybody who reads the same records as it stands
/// where the command was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    leaf: EventHash,
    session: SessionId,
    asker: AgentId,
    asked: Option<Asked>,
    verdict: Option<Verdict>,
    /// The first event that closed it without a verdict, where requests are answered.
    closed: Option<End>,
    /// The first end on the receipts of its session.
    end: Option<End>,
}

/// What somebody wants of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// To answer it.
    Resolve {
        /// Who.
        by: &'a AgentId,
        /// Whether that is an operator and no worker.
        may_resolve: bool,
        /// What is chosen.
        choice: &'a str,
    },
    /// To take its one use.
    Consume(Ask<'a>),
    /// To take it back.
    Withdraw {
        /// Who.
        by: &'a AgentId,
        /// Whether that is an operator and no worker.
        may_resolve: bool,
    },
    /// To put another request in its place.
    Supersede {
        /// Who.
        by: &'a AgentId,
    },
}

/// What a command leads to: what has to be stored in the step that decided it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// A verdict that may be used until then.
    Resolved {
        /// From when on it cannot be used.
        valid_until: Timestamp,
    },
    /// Its use.
    Consumed,
    /// Its withdrawal.
    Withdrawn,
    /// That another request has its place.
    Superseded,
}

impl Approval {
    /// An open approval, as who may read its request knows it.
    #[must_use]
    pub fn asked(leaf: EventHash, session: SessionId, asker: AgentId, asked: Asked) -> Self {
        Self { asked: Some(asked), ..Self::named(leaf, session, asker) }
    }

    /// The approval with this name, as its asker knows it, who may not read the request back.
    #[must_use]
    pub const fn named(leaf: EventHash, session: SessionId, asker: AgentId) -> Self {
        Self { leaf, session, asker, asked: None, verdict: None, closed: None, end: None }
    }

    /// The leaf hash of its request, which is its name.
    #[must_use]
    pub const fn leaf(&self) -> EventHash {
        self.leaf
    }

    /// The session it was asked for in.
    #[must_use]
    pub const fn session(&self) -> &SessionId {
        &self.session
    }

    /// Who asked.
    #[must_use]
    pub const fn asker(&self) -> &AgentId {
        &self.asker
    }

    /// What was asked, where that may be read.
    #[must_use]
    pub const fn request(&self) -> Option<&Asked> {
        self.asked.as_ref()
    }

    /// Its verdict.
    #[must_use]
    pub const fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// Its end.
    #[must_use]
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref().or(self.closed.as_ref())
    }

    /// How it stands at `now`.
    #[must_use]
    pub fn state_at(&self, now: Timestamp) -> State {
        if let Some(end) = self.end() {
            return end.kind.into();
        }
        let (state, until) = match &self.verdict {
            Some(verdict) => (State::Resolved, verdict.valid_until),
            None => (State::Open, self.asked.as_ref().and_then(|asked| asked.request.expires())),
        };
        match until {
            Some(at) if now >= at => State::Expired { at },
            _ => state,
        }
    }

    /// What `command` leads to at `now`. It changes nothing: the caller stores what it says, and
    /// shows the stored record to [`Approval::see`].
    ///
    /// # Errors
    /// The first [`Refusal`] in the order of the specification.
    pub fn decide(&self, command: &Command<'_>, now: Timestamp) -> Result<Effect, Refusal> {
        match command {
            Command::Resolve { by, may_resolve, choice } => {
                if !may_resolve || **by == self.asker {
                    return Err(Refusal::NotResolver);
                }
                let asked = self.asked.as_ref().ok_or(Refusal::Unknown)?;
                match self.state_at(now) {
                    State::Open => {}
                    State::Resolved => return Err(Refusal::AlreadyResolved),
                    ended => return Err(refusal_of(ended)),
                }
                if !asked.request.choices().iter().any(|offered| offered == choice) {
                    return Err(Refusal::OptionMissing);
                }
                Ok(Effect::Resolved { valid_until: now.plus(asked.request.validity()) })
            }
            Command::Consume(ask) => self.decide_use(ask, now),
            Command::Withdraw { by, may_resolve } => {
                let is_own = **by == self.asker;
                match self.state_at(now) {
                    State::Open if is_own || *may_resolve => Ok(Effect::Withdrawn),
                    State::Resolved if is_own => Ok(Effect::Withdrawn),
                    State::Resolved if *may_resolve => Err(Refusal::AlreadyResolved),
                    State::Open | State::Resolved => Err(Refusal::AskerMismatch),
                    ended => Err(refusal_of(ended)),
                }
            }
            Command::Supersede { by } => match self.state_at(now) {
                State::Open | State::Resolved | State::Expired { .. } => {
                    if **by == self.asker {
                        Ok(Effect::Superseded)
                    } else {
                        Err(Refusal::AskerMismatch)
                    }
                }
                ended => Err(refusal_of(ended)),
            },
        }
    }

    /// Takes a stored event in, in the order in which events are stored on their subject, and says
    /// whether it counts. Events of one subject may come before or after those of the other.
    pub fn see(&mut self, event: Event) -> bool {
        match event {
            Event::Verdict { verdict, may_resolve } => {
                let counts = may_resolve
                    && self.verdict.is_none()
                    && self.closed.is_none()
                    && verdict.by != self.asker
                    && self.asked.as_ref().is_none_or(|asked| answers(&verdict, asked));
                if counts {
                    self.verdict = Some(*verdict);
                }
                counts
            }
            Event::Closed { end, may_resolve } => {
                let may = match end.kind {
                    EndKind::Withdrawn => may_resolve || end.by == self.asker,
                    EndKind::Superseded => end.by == self.asker,
                    EndKind::Consumed => false,
                };
                let counts = may && self.verdict.is_none() && self.closed.is_none();
                if counts {
                    self.closed = Some(end);
                }
                counts
            }
            Event::Ended(end) => {
                let counts = self.end.is_none() && end.by == self.asker;
                if counts {
                    self.end = Some(end);
                }
                counts
            }
        }
    }

    fn decide_use(&self, ask: &Ask<'_>, now: Timestamp) -> Result<Effect, Refusal> {
        let verdict = match (self.state_at(now), &self.verdict) {
            (State::Resolved, Some(verdict)) => verdict,
            (state, _) => return Err(refusal_of(state)),
        };
        let what = verdict.authorization.as_ref().ok_or(Refusal::Unbound)?;
        // Before the choice: an ask for something else learns nothing of it.
        ask.check(self, what)?;
        if verdict.choice != what.approval_choice() {
            return Err(Refusal::ChoiceRefused);
        }
        Ok(Effect::Consumed)
    }
}

fn answers(verdict: &Verdict, asked: &Asked) -> bool {
    verdict.request_id == asked.id && asked.request.choices().contains(&verdict.choice)
}

/// Why an approval in `state` cannot be used.
const fn refusal_of(state: State) -> Refusal {
    match state {
        State::Open | State::Resolved => Refusal::Open,
        State::Consumed => Refusal::Consumed,
        State::Expired { .. } => Refusal::Expired,
        State::Withdrawn => Refusal::Withdrawn,
        State::Superseded => Refusal::Superseded,
    }
}
