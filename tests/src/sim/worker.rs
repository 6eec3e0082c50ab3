//! How workers do tasks: receipt before the verdict, dead letter before the original goes.

use std::time::Duration;

use bus_core::{Decision, ErrorKind, Expect, Failure, Frame, FrameId, RetryPolicy, Seq, Verdict};
use bus_envelope::{ChainHead, ChainScope, Draft, Stamp, TraceContext, wire::compact};
use bus_mem::core::Message;
use bus_subjects::{AgentId, Subject, WorkspaceId};
use uuid::Uuid;

use super::{
    Violation,
    agent::{Fate, Job, State, Timer},
    command::{Answer, Command},
    letter::Letter,
    server::LEASE,
    task::Task,
    world::World,
};

impl World {
    /// A worker got its task.
    pub(super) fn start_job(&mut self, agent: usize, job: Job) -> Result<(), Violation> {
        let task = Task::parse(&job.message().frame.body);
        if RetryPolicy::default().is_spent(job.claim.attempt) {
            return self.bury(agent, job);
        }
        let lease = millis(LEASE);
        let (fate, work) = match (task.is_poison, self.is_calm, self.random.below(1000)) {
            (true, ..) => (Fate::Hopeless, self.random.between(10, 500)),
            (_, true, 0..30) => (Fate::Failure, self.random.between(10, 500)),
            (_, true, _) => (Fate::Success, self.random.between(10, 500)),
            (.., 0..120) => (Fate::Failure, self.random.between(10, 6_000)),
            (.., 120..170) => (Fate::HandBack, self.random.between(10, 6_000)),
            (.., 170..200) => (Fate::Crash, self.random.between(10, 9_000)),
            // Works longer than its lease and does not care, or does and extends it.
            (.., 200..240) => (Fate::Success, self.random.between(lease, 3 * lease)),
            (.., 240..300) => {
                self.after(agent, Duration::from_millis(lease / 2), Timer::Extend);
                (Fate::Success, self.random.between(lease, 2 * lease))
            }
            _ => (Fate::Success, self.random.between(10, 6_000)),
        };
        self.agent_mut(agent).state = State::Working { job, fate };
        self.after(agent, Duration::from_millis(work), Timer::Finish);
        Ok(())
    }

    /// The work has come to what it should come to.
    pub(super) fn finish_job(&mut self, agent: usize) -> Result<(), Violation> {
        let State::Working { job, fate } = self.agent_mut(agent).state.clone() else {
            return Ok(());
        };
        let session = Task::parse(&job.message().frame.body).session;
        self.live.publish(usize::try_from(session).unwrap_or(0) % LIVE_SESSIONS)?;
        let failure = match fate {
            Fate::Success => return self.read_head(agent, job),
            Fate::Crash => {
                self.crash(agent);
                return Ok(());
            }
            Fate::HandBack => Failure::Interrupted,
            Fate::Hopeless => Failure::Hopeless { reason: "poison".to_owned() },
            Fate::Failure => Failure::Failed { reason: "it broke".to_owned() },
        };
        let random = self.random.bits();
        let verdict = match RetryPolicy::default().decide(job.claim.attempt, failure, random) {
            Decision::Retry { after } => Verdict::Retry { after },
            Decision::Release => {
                let after = if self.random.chance(500) { 0 } else { self.random.below(3_000) };
                Verdict::Release { after: Duration::from_millis(after) }
            }
            Decision::DeadLetter { .. } => return self.bury(agent, job),
        };
        self.settle(agent, &job, verdict);
        Ok(())
    }

    /// Half of the lease is over.
    pub(super) fn extend_lease(&mut self, agent: usize) {
        if let State::Working { job, .. } = &self.agent_mut(agent).state {
            let lease = job.lease;
            self.send(agent, Command::Extend { lease });
            self.after(agent, LEASE / 2, Timer::Extend);
        }
    }

    /// A worker got the answer to its call.
    pub(super) fn worker_answered(
        &mut self,
        agent: usize,
        answer: Answer,
    ) -> Result<(), Violation> {
        match (self.agent_mut(agent).state.clone(), answer) {
            (State::Reading { job }, Answer::Last(head)) => self.record(agent, job, head.as_ref()),
            (State::Recording { job }, Answer::Stored(_)) => {
                self.settle(agent, &job, Verdict::Ack);
                Ok(())
            }
            (State::Recording { job }, Answer::Refused(ErrorKind::Conflict)) => {
                self.tally.races += 1;
                self.read_head(agent, job)
            }
            (State::Burying { job }, Answer::Stored(_)) => {
                self.settle(agent, &job, Verdict::Reject { reason: "given up".to_owned() });
                Ok(())
            }
            (State::Settling, Answer::Settled | Answer::Refused(ErrorKind::LeaseLost)) => {
                self.agent_mut(agent).state = State::Idle;
                let rest = self.random.below(50);
                self.after(agent, Duration::from_millis(rest), Timer::Turn);
                Ok(())
            }
            // It works on: whether its lease is good shows when it gives its verdict.
            (State::Working { .. }, Answer::Extended(_) | Answer::Refused(_)) => Ok(()),
            (State::Idle, Answer::Refused(ErrorKind::NotFound)) => {
                self.after(agent, Duration::from_millis(500), Timer::Turn);
                Ok(())
            }
            (state, answer) => {
                let what = format!("agent {agent} got `{answer}` while {state:?}");
                Err(Violation::new("an answer fits its question", what))
            }
        }
    }

    fn read_head(&mut self, agent: usize, job: Job) -> Result<(), Violation> {
        let subject = receipts_of(&job)?;
        self.agent_mut(agent).state = State::Reading { job };
        self.send(agent, Command::Last { subject });
        Ok(())
    }

    /// Stores the receipt behind `head`.
    fn record(&mut self, agent: usize, job: Job, head: Option<&Message>) -> Result<(), Violation> {
        let (subject, workspace) = (receipts_of(&job)?, WorkspaceId::parse("w1")?);
        let (at, after) = match head {
            Some(head) => (head.seq, ChainHead::of(&compact::decode_shared(&head.frame.body)?)),
            None => {
                let subject = subject.clone();
                let scope = ChainScope::Subject { workspace: workspace.clone(), subject };
                (Seq(0), ChainHead::genesis(&scope))
            }
        };
        let id = format!("{}.receipt", job.message().frame.id);
        let [high, low] = [self.random.bits() | 1, self.random.bits()];
        let trace_id = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
        let trace = TraceContext::new(trace_id, high.to_be_bytes(), 1);
        let trace = trace.map_err(|error| Violation::new("set-up", error.to_string()))?;
        let stamp = Stamp {
            id: id.clone(),
            time: self.machine_time(),
            trace,
            workspace,
            agent: AgentId::parse(&format!("a{agent}"))?,
            incarnation: Uuid::from_u64_pair(agent as u64, u64::from(self.agent_mut(agent).life)),
            head: after,
        };
        let draft = Draft::new(subject.clone(), "vak.receipt", "done").id(id.clone());
        let body = compact::encode(&draft.stamp(stamp)?);
        let frame = Frame::new(subject, FrameId::parse(&id)?, body);
        self.agent_mut(agent).state = State::Recording { job };
        self.send(agent, Command::Append { frame, expect: Expect::LastOfSubject(at) });
        Ok(())
    }

    /// Stores the dead letter; the original goes afterwards.
    fn bury(&mut self, agent: usize, job: Job) -> Result<(), Violation> {
        let message = job.message();
        let letter = Letter::about(job.plane, message);
        let subject = Subject::parse(&format!("vak.dlq.w1.a{agent}.failed"))?;
        let frame = Frame::new(subject, letter.frame_id(message)?, letter.body());
        self.agent_mut(agent).state = State::Burying { job };
        self.send(agent, Command::Append { frame, expect: Expect::Any });
        Ok(())
    }

    fn settle(&mut self, agent: usize, job: &Job, verdict: Verdict) {
        self.agent_mut(agent).state = State::Settling;
        self.send(agent, Command::Settle { lease: job.lease, verdict });
    }
}

/// Sessions of which live events are told.
pub(super) const LIVE_SESSIONS: usize = 20;

/// Where the receipt of a task goes: its session's subject, whoever does it.
fn receipts_of(job: &Job) -> Result<Subject, Violation> {
    let session = Task::parse(&job.message().frame.body).session;
    Ok(Subject::parse(&format!("vak.receipts.w1.s{session}.completed"))?)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
