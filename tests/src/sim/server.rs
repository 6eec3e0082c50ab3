//! The broker as agents reach it: parks who waits, and has every answer entered in the books.

mod operate;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use bus_core::{ConsumerSpec, Expect, Frame, planes};
use bus_envelope::Timestamp;
use bus_mem::core::ConsumerKey;
use bus_subjects::{ConsumerName, Filter, StreamName, Subject, WorkspaceId};

use super::{
    Options, Violation,
    command::{Answer, Command, Lease, Plane},
    ledger::Ledger,
    saboteur::Saboteur,
};

/// The broker, who waits for it, and the books.
#[derive(Debug)]
pub(super) struct Server {
    saboteur: Saboteur,
    pub(super) ledger: Ledger,
    names: BTreeMap<Plane, StreamName>,
    queues: Vec<Desk>,
    by_consumer: BTreeMap<ConsumerKey, usize>,
    touched: Vec<ConsumerKey>,
    /// Queues whose alarm may have changed.
    changed: Vec<usize>,
    /// The latest time the broker was told.
    latest: Timestamp,
}

/// The time of one call.
#[derive(Debug, Clone, Copy)]
struct Now {
    /// What the machine's clock shows, which may have gone back.
    machine: Timestamp,
    /// What counts: never before an earlier one.
    counted: Timestamp,
}

/// One queue and those who wait at it.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) plane: Plane,
    pub(super) subject: Subject,
    spec: ConsumerSpec,
    consumer: Option<ConsumerKey>,
    parked: VecDeque<Caller>,
    /// When the broker wants to look by itself.
    pub(super) alarm: Option<Timestamp>,
}

/// One call of one life of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) agent: usize,
    pub(super) life: u32,
    pub(super) call: u64,
}

/// An answer on its way.
pub(super) type Reply = (Caller, Answer);

impl Server {
    /// A broker with the streams of a workspace, `queues` queues of work and `inboxes` inboxes.
    pub(super) fn new(
        options: &Options,
        seed: u64,
        queues: usize,
        inboxes: usize,
    ) -> Result<Self, Violation> {
        let workspace = WorkspaceId::parse("w1")?;
        let names = BTreeMap::from([
            (Plane::Work, planes::work_stream(&workspace)?),
            (Plane::Inbox, planes::inbox_stream(&workspace)?),
            (Plane::Receipts, planes::receipts_stream()?),
            (Plane::Letters, planes::dead_letters_stream()?),
        ]);
        let work = planes::work_stream(&workspace)?;
        let mut saboteur = Saboteur::new(options.fault, seed, work);
        let mut windows = BTreeMap::new();
        for spec in planes::workspace_streams(&workspace)? {
            let plane = names.iter().find(|(_, name)| **name == spec.name);
            if let Some((&plane, _)) = plane {
                windows.insert(plane, spec.dedupe_window);
            }
            saboteur.declare(spec)?;
        }
        let desk = |number: usize| -> Result<Desk, Violation> {
            let (plane, text) = match number < queues {
                true => (Plane::Work, format!("vak.work.w1.q{number}.task")),
                false => (Plane::Inbox, format!("vak.agent.w1.a{number}.inbox")),
            };
            let subject = Subject::parse(&text)?;
            let stream = names.get(&plane).cloned();
            let stream = stream.ok_or_else(|| Violation::new("set-up", "a plane has no stream"))?;
            let spec = ConsumerSpec {
                stream,
                name: ConsumerName::parse(&format!("q{number}"))?,
                filter: Filter::from(&subject),
                lease: LEASE,
            };
            let parked = VecDeque::new();
            Ok(Desk { plane, subject, spec, consumer: None, parked, alarm: None })
        };
        Ok(Self {
            saboteur,
            ledger: Ledger::new(&windows, LEASE, queues, inboxes),
            queues: (0..queues + inboxes).map(desk).collect::<Result<_, _>>()?,
            names,
            by_consumer: BTreeMap::new(),
            touched: Vec::new(),
            changed: Vec::new(),
            latest: Timestamp::from_unix_ns(0),
        })
    }

    pub(super) fn desks(&self) -> &[Desk] {
        &self.queues
    }

    /// Does what a caller asks; the answers to it and to those who waited go into `replies`.
    pub(super) fn apply(
        &mut self,
        caller: Caller,
        command: Command,
        machine: Timestamp,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Violation> {
        let command = match command {
            Command::Last { subject } => {
                replies.push((caller, Answer::Last(self.saboteur.last(&subject)?)));
                return Ok(());
            }
            Command::Leave => {
                let same = |p: &Caller| (p.agent, p.life) == (caller.agent, caller.life);
                self.queues.iter_mut().for_each(|desk| desk.parked.retain(|other| !same(other)));
                return Ok(());
            }
            other => other,
        };
        // Whoever discards or removes does not tell the broker the time.
        let now = match command {
            Command::Discard { .. } | Command::Remove { .. } => self.unmet(),
            _ => self.meet(machine),
        };
        let answer = match command {
            Command::Append { frame, expect } => self.append(frame, expect, now)?,
            Command::Claim { queue } => {
                self.park(queue, caller)?;
                return self.serve(queue, now, replies);
            }
            Command::Settle { lease, verdict } => {
                let taken =
                    self.saboteur.settle(lease.consumer, lease.token, &verdict, now.machine);
                let plane = self.plane_of(lease.queue);
                self.ledger.settled(plane, lease, &verdict, taken.is_ok(), now.counted)?;
                self.serve(lease.queue, now, replies)?;
                taken.map_or_else(|error| Answer::Refused(error.kind()), |()| Answer::Settled)
            }
            Command::Extend { lease } => {
                let taken = self.saboteur.extend(lease.consumer, lease.token, now.machine);
                let plane = self.plane_of(lease.queue);
                self.ledger.extended(plane, lease, taken.is_ok(), now.counted)?;
                self.serve(lease.queue, now, replies)?;
                taken.map_or_else(|error| Answer::Refused(error.kind()), Answer::Extended)
            }
            Command::Count { plane } => {
                self.count(plane, now)?;
                Answer::Done
            }
            Command::AppendAll { frames } => self.append_all(frames, now)?,
            Command::Discard { plane, seq } => self.discard(plane, seq)?,
            Command::Pause { queue, until } => self.pause(queue, until, now, replies)?,
            Command::Remove { queue } => self.remove(queue, now, replies)?,
            Command::Last { .. } | Command::Leave => return Ok(()),
        };
        replies.push((caller, answer));
        self.serve_touched(now, replies)
    }

    /// The time has come at which the broker wants to look at `queue`.
    pub(super) fn look(
        &mut self,
        queue: usize,
        machine: Timestamp,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Violation> {
        let now = self.meet(machine);
        if let Some(consumer) = self.queues.get(queue).and_then(|desk| desk.consumer) {
            self.saboteur.tick(consumer, now.machine);
        }
        self.serve(queue, now, replies)
    }

    /// The machine's clock went back.
    pub(super) fn stepped_back(&mut self, now: Timestamp) {
        let keys: Vec<ConsumerKey> = self.by_consumer.keys().copied().collect();
        self.saboteur.stepped_back(&keys, now);
    }

    /// The time that counts when the machine's clock shows `machine`.
    pub(super) fn time(&self, machine: Timestamp) -> Timestamp {
        machine.max(self.latest)
    }

    /// Queues whose alarm may have changed since the last call.
    pub(super) fn take_changed(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.changed)
    }

    /// Holds the receipts against the books: every chain anew, from its beginning.
    pub(super) fn audit_receipts(&self) -> Result<(), Violation> {
        let name = self.names.get(&Plane::Receipts);
        let stored = name.map_or(Ok(Vec::new()), |name| self.saboteur.read_all(name))?;
        self.ledger.audited(Plane::Receipts, &stored)
    }

    /// Holds all that is stored against the books, but for the receipts.
    pub(super) fn audit(&mut self, machine: Timestamp) -> Result<(), Violation> {
        let now = self.meet(machine);
        for (&plane, name) in self.names.iter().filter(|(plane, _)| **plane != Plane::Receipts) {
            self.ledger.audited(plane, &self.saboteur.read_all(name)?)?;
        }
        self.count(Plane::Work, now)?;
        self.count(Plane::Inbox, now)
    }

    const fn unmet(&self) -> Now {
        Now { machine: self.latest, counted: self.latest }
    }

    fn meet(&mut self, machine: Timestamp) -> Now {
        self.latest = self.latest.max(machine);
        Now { machine, counted: self.latest }
    }

    fn append(&mut self, frame: Frame, expect: Expect, now: Now) -> Result<Answer, Violation> {
        let touched = &mut self.touched;
        let answer = self
            .saboteur
            .append(frame.clone(), expect, now.machine, |consumer| touched.push(consumer));
        if let Some(queue) = self.queue_of(&frame.subject) {
            let plane = self.plane_of(queue);
            self.ledger.task_stored((plane, queue), &frame, &answer, now.counted)?;
        } else {
            let is_letter = frame.subject.as_str().starts_with("vak.dlq.");
            let plane = if is_letter { Plane::Letters } else { Plane::Receipts };
            let stored = match (&answer, self.names.get(&plane)) {
                (Ok(receipt), Some(name)) => self.saboteur.read_one(name, receipt.seq)?,
                _ => None,
            };
            self.ledger.record_stored(
                plane,
                (&frame, expect),
                &answer,
                stored.as_ref(),
                now.counted,
            )?;
        }
        Ok(answer.map_or_else(|error| Answer::Refused(error.kind()), Answer::Stored))
    }

    fn append_all(&mut self, frames: Vec<Frame>, now: Now) -> Result<Answer, Violation> {
        let touched = &mut self.touched;
        let answer = self
            .saboteur
            .append_all(frames.clone(), now.machine, |consumer| touched.push(consumer));
        let placed: Vec<(usize, Frame)> = frames
            .into_iter()
            .map(|frame| (self.queue_of(&frame.subject).unwrap_or(usize::MAX), frame))
            .collect();
        let plane = placed.first().map_or(Plane::Work, |(queue, _)| self.plane_of(*queue));
        self.ledger.batch_stored(plane, &placed, &answer, now.counted)?;
        Ok(answer.map_or_else(|error| Answer::Refused(error.kind()), Answer::StoredAll))
    }

    fn queue_of(&self, subject: &Subject) -> Option<usize> {
        self.queues.iter().position(|desk| desk.subject == *subject)
    }

    /// Lets a caller wait at a queue, whose consumer comes with the first one.
    fn park(&mut self, queue: usize, caller: Caller) -> Result<(), Violation> {
        let Some(desk) = self.queues.get_mut(queue) else { return Ok(()) };
        if desk.consumer.is_none() {
            let consumer = self.saboteur.consume(desk.spec.clone())?;
            desk.consumer = Some(consumer);
            self.by_consumer.insert(consumer, queue);
        }
        desk.parked.retain(|other| other.agent != caller.agent);
        desk.parked.push_back(caller);
        Ok(())
    }

    fn serve_touched(&mut self, now: Now, replies: &mut Vec<Reply>) -> Result<(), Violation> {
        let touched = std::mem::take(&mut self.touched);
        for consumer in &touched {
            if let Some(&queue) = self.by_consumer.get(consumer) {
                self.serve(queue, now, replies)?;
            }
        }
        self.touched = touched;
        self.touched.clear();
        Ok(())
    }

    /// Hands out what is ready to those who wait.
    fn serve(&mut self, queue: usize, now: Now, replies: &mut Vec<Reply>) -> Result<(), Violation> {
        let Some(desk) = self.queues.get_mut(queue) else { return Ok(()) };
        let Some(consumer) = desk.consumer else { return Ok(()) };
        desk.alarm = None;
        self.changed.push(queue);
        while let Some(&caller) = desk.parked.front() {
            let claim = self.saboteur.claim(consumer, now.machine);
            let lease = |token| Lease { queue, consumer, token };
            let claimed = claim.as_ref().map(|claim| (lease(claim.token), claim));
            self.ledger.claimed(desk.plane, queue, claimed, now.counted)?;
            let Some(claim) = claim else {
                desk.alarm = self.saboteur.next_deadline(consumer);
                return self.ledger.deadline(desk.plane, queue, desk.alarm);
            };
            desk.parked.pop_front();
            replies.push((caller, Answer::Claimed { lease: lease(claim.token), claim }));
        }
        Ok(())
    }

    fn plane_of(&self, queue: usize) -> Plane {
        self.queues.get(queue).map_or(Plane::Work, |desk| desk.plane)
    }
}

/// How long a task belongs to the worker that got it.
pub(super) const LEASE: Duration = Duration::from_secs(10);
