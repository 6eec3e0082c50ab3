//! How tasks are made, and what operators do to the queues.

use std::time::Duration;

use bus_core::{Expect, Frame, FrameId, OrderKey, Placement, Priority, Seq};

use super::{
    Violation,
    agent::Timer,
    command::{Answer, Command, Plane},
    task::Task,
    world::World,
};

impl World {
    /// A producer makes its next task.
    pub(super) fn produce(&mut self, agent: usize) -> Result<(), Violation> {
        if self.is_calm {
            return Ok(());
        }
        if self.random.chance(100) {
            return self.produce_batch(agent);
        }
        let queue = self.any_queue();
        let frame = self.new_task(agent, queue)?;
        self.send(agent, Command::Append { frame, expect: Expect::Any });
        Ok(())
    }

    /// A producer or operator got the answer to its call.
    pub(super) fn maker_answered(&mut self, agent: usize, command: &Command, answer: &Answer) {
        match (command, answer) {
            (Command::Append { frame, .. }, Answer::Stored(receipt)) => {
                let is_inbox = frame.subject.as_str().starts_with("vak.agent.");
                let plane = if is_inbox { Plane::Inbox } else { Plane::Work };
                self.acknowledged.push((plane, receipt.seq));
            }
            (_, Answer::StoredAll(receipts)) => {
                self.acknowledged.extend(receipts.iter().map(|r| (Plane::Work, r.seq)));
            }
            _ => {}
        }
        let pause = match command {
            Command::Append { .. } => self.random.below(2 * self.pace),
            Command::AppendAll { frames } => {
                let pause = self.random.below(2 * self.pace);
                pause.saturating_mul(frames.len() as u64)
            }
            _ => self.random.below(OPERATOR_PACE),
        };
        self.after(agent, Duration::from_nanos(pause), Timer::Turn);
    }

    /// An operator looks and acts.
    pub(super) fn operate(&mut self, agent: usize) {
        if self.is_calm {
            return;
        }
        let plane = if self.random.chance(500) { Plane::Work } else { Plane::Inbox };
        let queue = self.any_queue();
        let command = match self.random.below(1000) {
            0..100 => {
                let until = self.machine_time().plus(self.seconds(1, 20));
                Command::Pause { queue, until: Some(until) }
            }
            100..150 => Command::Pause { queue, until: None },
            150..170 => Command::Remove { queue },
            170..350 => match self.any_acknowledged() {
                Some((plane, seq)) => Command::Discard { plane, seq },
                None => Command::Count { plane },
            },
            _ => Command::Count { plane },
        };
        self.send(agent, command);
    }

    /// Up to twenty tasks for roles at once; now and then one of them stands twice in the batch.
    fn produce_batch(&mut self, agent: usize) -> Result<(), Violation> {
        let mut frames = Vec::new();
        for _ in 0..self.random.between(2, 20) {
            let queue = usize::try_from(self.random.below(self.roles as u64)).unwrap_or(0);
            frames.push(self.new_task(agent, queue)?);
        }
        if self.random.chance(50)
            && let Some(first) = frames.first().cloned()
        {
            frames.push(first);
        }
        self.send(agent, Command::AppendAll { frames });
        Ok(())
    }

    /// One of the last hundred messages that were acknowledged, or any.
    fn any_acknowledged(&mut self) -> Option<(Plane, Seq)> {
        let count = self.acknowledged.len() as u64;
        let recent = if self.random.chance(800) { 100 } else { count };
        let back = self.random.below(recent.min(count)) + 1;
        let at = usize::try_from(count.checked_sub(back)?).ok()?;
        self.acknowledged.get(at).copied()
    }

    /// Where a task stands in line: for most of them as usual.
    fn placement(&mut self) -> Result<Placement, Violation> {
        let mut placement = Placement::default();
        if self.random.chance(200) {
            let key = self.random.below(self.keys);
            placement.key = Some(OrderKey::parse(&format!("k{key}"))?);
        }
        if self.random.chance(100) {
            placement.not_before = Some(self.machine_time().plus(self.seconds(0, 60)));
        }
        if self.random.chance(200) {
            let level = u8::try_from(self.random.below(10)).unwrap_or_default();
            placement.priority = Priority::new(level)?;
        }
        Ok(placement)
    }

    fn seconds(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.random.between(low * 1_000, high * 1_000))
    }

    fn new_task(&mut self, agent: usize, queue: usize) -> Result<Frame, Violation> {
        let session = self.random.below(self.sessions);
        let task = Task { session, is_poison: self.random.chance(20) };
        let maker = self.agent_mut(agent);
        maker.made += 1;
        let id = FrameId::parse(&format!("t{agent}.{}.{}", maker.life, maker.made))?;
        let subject = self.server.desks().get(queue).map(|desk| desk.subject.clone());
        let subject = subject.ok_or_else(|| Violation::new("set-up", "there is no such queue"))?;
        Ok(Frame::new(subject, id, task.body()).placed(self.placement()?))
    }

    /// Most tasks are for roles, some for one agent.
    fn any_queue(&mut self) -> usize {
        let all = self.server.desks().len() as u64;
        let roles = self.roles as u64;
        let queue = match self.random.chance(50) {
            true => self.random.between(roles, all.saturating_sub(1)),
            false => self.random.below(roles),
        };
        usize::try_from(queue).unwrap_or(0)
    }
}

/// The longest time between two acts of one operator, in nanoseconds.
const OPERATOR_PACE: u64 = 4_000_000_000;
