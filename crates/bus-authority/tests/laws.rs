//! Laws of the machine, over any sequence of commands by anybody at any time.
#![expect(clippy::unwrap_used, reason = "a law that cannot be told fails")]

use std::time::Duration;

use bus_authority::{Approval, Ask, Asked, Command, Effect, End, Event, Refusal, State, Verdict};
use bus_core::{ApprovalRequest, Authorization, EndKind, Seq};
use bus_envelope::{EventHash, Timestamp};
use bus_subjects::{AgentId, SessionId};
use proptest::prelude::*;

/// Who may act: the first asked.
const AGENTS: usize = 16;

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Resolve {
        by: usize,
        may_resolve: bool,
        choice: usize,
    },
    Consume {
        by: usize,
        action: bool,
        target: bool,
        run: bool,
        session: bool,
    },
    Withdraw {
        by: usize,
        may_resolve: bool,
    },
    Supersede {
        by: usize,
    },
    /// A record of somebody, whatever the machine says to it.
    Forge {
        by: usize,
        kind: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let by = prop_oneof![3 => Just(0_usize), 2 => 1..AGENTS];
    let mostly = || prop::bool::weighted(0.85);
    prop_oneof![
        2 => (0_u64..400).prop_map(Step::Wait),
        3 => (1..AGENTS, mostly(), 0_usize..4)
            .prop_map(|(by, may_resolve, choice)| Step::Resolve { by, may_resolve, choice }),
        5 => (by.clone(), mostly(), mostly(), mostly(), mostly()).prop_map(
            |(by, action, target, run, session)| Step::Consume { by, action, target, run, session }
        ),
        1 => (by.clone(), any::<bool>())
            .prop_map(|(by, may_resolve)| Step::Withdraw { by, may_resolve }),
        1 => by.clone().prop_map(|by| Step::Supersede { by }),
        1 => (1..AGENTS, 0_usize..3).prop_map(|(by, kind)| Step::Forge { by, kind }),
    ]
}

/// A scene with one approval and the records that its commands led to.
struct Scene {
    approval: Approval,
    now: Timestamp,
    records: Vec<Event>,
}

const CHOICES: [&str; 3] = ["yes", "no", "later"];

impl Scene {
    fn new() -> Self {
        let now = Timestamp::parse("2026-05-01T12:00:00.000000000Z").unwrap();
        Self { approval: asked(now), now, records: Vec::new() }
    }

    fn store(&mut self, event: Event) -> bool {
        self.records.push(event.clone());
        self.approval.see(event)
    }

    fn end(&self, kind: EndKind, by: usize) -> End {
        let seq = Seq(self.records.len() as u64 + 1);
        let leaf = EventHash::of(&seq.0.to_be_bytes());
        End { kind, leaf, seq, by: agent(by), at: self.now, instead: None }
    }

    /// Decides a step and stores what comes of it.
    fn play(&mut self, step: &Step) -> Option<Result<Effect, Refusal>> {
        match *step {
            Step::Wait(seconds) => {
                self.now = self.now.plus(Duration::from_secs(seconds));
                None
            }
            Step::Forge { by, kind } => {
                let kind = EndKind::ALL.into_iter().nth(kind).unwrap();
                let end = self.end(kind, by);
                assert!(
                    !self.store(Event::Ended(end)),
                    "an end by another agent counts for nothing"
                );
                None
            }
            Step::Resolve { by, may_resolve, choice } => {
                let choice = CHOICES.get(choice).copied().unwrap_or("perhaps");
                Some(self.resolve(&agent(by), may_resolve, choice))
            }
            Step::Consume { by, action, target, run, session } => {
                let decided = self.consume(by, [action, target, run, session]);
                let is_exact = by == 0 && action && target && run && session;
                assert!(is_exact || decided.is_err(), "only the exact use is allowed");
                Some(decided)
            }
            Step::Withdraw { by, may_resolve } => {
                let command = Command::Withdraw { by: &agent(by), may_resolve };
                let decided = self.approval.decide(&command, self.now);
                if decided.is_ok() {
                    let end = self.end(EndKind::Withdrawn, by);
                    assert!(self.store(match by {
                        0 => Event::Ended(end),
                        _ => Event::Closed { end, may_resolve },
                    }));
                }
                Some(decided)
            }
            Step::Supersede { by } => {
                let command = Command::Supersede { by: &agent(by) };
                let decided = self.approval.decide(&command, self.now);
                if decided.is_ok() {
                    let end = self.end(EndKind::Superseded, by);
                    assert!(self.store(Event::Ended(end)));
                }
                Some(decided)
            }
        }
    }

    fn resolve(
        &mut self,
        by: &AgentId,
        may_resolve: bool,
        choice: &str,
    ) -> Result<Effect, Refusal> {
        let command = Command::Resolve { by, may_resolve, choice };
        let decided = self.approval.decide(&command, self.now);
        if let Ok(Effect::Resolved { valid_until }) = decided {
            let verdict = Box::new(Verdict {
                leaf: EventHash::of(choice.as_bytes()),
                request_id: "ask-1".to_owned(),
                by: by.clone(),
                at: self.now,
                choice: choice.to_owned(),
                note: None,
                authorization: Some(Authorization::of(&request())),
                valid_until: Some(valid_until),
                trace: None,
            });
            assert!(self.store(Event::Verdict { verdict, may_resolve }));
        }
        decided
    }

    /// A use in which action, target, run and session are right or not.
    fn consume(&mut self, by: usize, right: [bool; 4]) -> Result<Effect, Refusal> {
        let [action, target, run, session] = right;
        let session = SessionId::parse(if session { "s1" } else { "s2" }).unwrap();
        let ask = Ask {
            action: if action { "deploy" } else { "deploy " },
            target: if target { "web-1" } else { "web-2" },
            run: if run { Some("r-1") } else { None },
            asker: &agent(by),
            session: &session,
        };
        let decided = self.approval.decide(&Command::Consume(ask), self.now);
        if decided.is_ok() {
            let end = self.end(EndKind::Consumed, by);
            assert!(self.store(Event::Ended(end)));
        }
        decided
    }
}

fn agent(n: usize) -> AgentId {
    AgentId::parse(&format!("agent-{n}")).unwrap()
}

fn request() -> ApprovalRequest {
    let until = Timestamp::parse("2026-05-01T12:30:00.000000000Z").unwrap();
    ApprovalRequest::new("deploy", "web-1", &CHOICES)
        .unwrap()
        .run("r-1")
        .unwrap()
        .valid_for(Duration::from_secs(1_000))
        .unwrap()
        .answer_until(until)
}

fn asked(at: Timestamp) -> Approval {
    let session = SessionId::parse("s1").unwrap();
    let asked = Asked { id: "ask-1".to_owned(), at, request: request() };
    Approval::asked(EventHash::of(b"request"), session, agent(0), asked)
}

const fn is_end(state: State) -> bool {
    !matches!(state, State::Open | State::Resolved | State::Expired { .. })
}

proptest! {
    #[test]
    fn of_any_uses_at_most_one_is_taken(steps in prop::collection::vec(step(), 0..60)) {
        let mut scene = Scene::new();
        let taken = steps
            .iter()
            .filter(|step| scene.play(step) == Some(Ok(Effect::Consumed)))
            .count();
        prop_assert!(taken <= 1);
    }

    #[test]
    fn a_refusal_changes_nothing(steps in prop::collection::vec(step(), 0..60)) {
        let mut scene = Scene::new();
        for step in &steps {
            let (before, stored) = (scene.approval.clone(), scene.records.len());
            if matches!(scene.play(step), Some(Err(_))) {
                prop_assert_eq!(&scene.approval, &before);
                prop_assert_eq!(scene.records.len(), stored);
            }
        }
    }

    #[test]
    fn no_end_is_left(steps in prop::collection::vec(step(), 0..60)) {
        let mut scene = Scene::new();
        for step in &steps {
            let before = scene.approval.state_at(scene.now);
            scene.play(step);
            if is_end(before) {
                prop_assert_eq!(scene.approval.state_at(scene.now), before);
            }
        }
    }

    #[test]
    fn a_state_only_moves_forward_in_time(
        steps in prop::collection::vec(step(), 0..30),
        seconds in prop::collection::vec(0_u64..4_000, 2..8),
    ) {
        let mut scene = Scene::new();
        for step in &steps {
            scene.play(step);
        }
        let mut seconds = seconds;
        seconds.sort_unstable();
        let start = Timestamp::parse("2026-05-01T12:00:00.000000000Z").unwrap();
        let states: Vec<State> = seconds
            .iter()
            .map(|s| scene.approval.state_at(start.plus(Duration::from_secs(*s))))
            .collect();
        for (before, after) in states.iter().zip(states.iter().skip(1)) {
            let stays = before == after;
            let runs_out = matches!(before, State::Open | State::Resolved)
                && matches!(after, State::Expired { .. });
            prop_assert!(stays || runs_out);
        }
    }

    #[test]
    fn what_is_stored_gives_the_state_that_was_decided(
        steps in prop::collection::vec(step(), 0..60),
        receipts_first in any::<bool>(),
    ) {
        let mut scene = Scene::new();
        for step in &steps {
            scene.play(step);
        }
        // Each subject in its own order, one subject after the other.
        let (receipts, answers): (Vec<Event>, Vec<Event>) =
            scene.records.iter().cloned().partition(|event| matches!(event, Event::Ended(_)));
        let mut read = asked(Timestamp::MIN);
        let order = if receipts_first { [receipts, answers] } else { [answers, receipts] };
        for event in order.into_iter().flatten() {
            read.see(event);
        }
        prop_assert_eq!(read.state_at(scene.now), scene.approval.state_at(scene.now));
        prop_assert_eq!(read.end(), scene.approval.end());
        prop_assert_eq!(read.verdict(), scene.approval.verdict());
    }
}
