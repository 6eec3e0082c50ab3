//! What lies between agents and broker: delays, losses, copies; order is kept per connection.

use std::time::Duration;

use super::{
    command::{Answer, Command},
    server::{Caller, Reply},
    world::{Event, World},
};

impl World {
    /// Makes a call and goes on until it is answered.
    pub(super) fn send(&mut self, agent: usize, command: Command) {
        let wait = match command {
            Command::Claim { .. } => CLAIM_WAIT,
            _ => CALL_WAIT,
        };
        let sender = self.agent_mut(agent);
        sender.calls += 1;
        let (call, life) = (sender.calls, sender.life);
        sender.pending = Some((call, command.clone()));
        self.transmit(Caller { agent, life, call }, command);
        self.after(agent, wait, super::agent::Timer::Timeout(call));
    }

    /// The answer did not come: asks again, the same under the same number.
    pub(super) fn repeat(&mut self, agent: usize, call: u64) {
        let sender = self.agent_mut(agent);
        let life = sender.life;
        let Some((pending, command)) = sender.pending.clone() else { return };
        if pending == call {
            self.tally.repeats += 1;
            self.transmit(Caller { agent, life, call }, command);
            self.after(agent, CALL_WAIT, super::agent::Timer::Timeout(call));
        }
    }

    /// Puts a call on its way: it may be lost, or come twice when that must do no harm.
    pub(super) fn transmit(&mut self, caller: Caller, command: Command) {
        let is_goodbye = matches!(command, Command::Leave);
        if !self.is_calm && !is_goodbye && self.random.chance(LOST) {
            self.tally.lost += 1;
            return;
        }
        let may_come_twice = matches!(
            command,
            Command::Append { .. } | Command::AppendAll { .. } | Command::Settle { .. }
        );
        if may_come_twice && !self.is_calm && self.random.chance(COPIED) {
            self.tally.copies += 1;
            let at = self.arrival(caller.agent, true);
            self.schedule(at, Event::ToBroker(caller, command.clone()));
        }
        let at = self.arrival(caller.agent, true);
        self.schedule(at, Event::ToBroker(caller, command));
    }

    /// Puts answers on their way.
    pub(super) fn reply(&mut self, replies: &mut Vec<Reply>) {
        for (caller, answer) in replies.drain(..) {
            self.reply_one(caller, answer);
        }
    }

    fn reply_one(&mut self, caller: Caller, answer: Answer) {
        if !self.is_calm && self.random.chance(LOST) {
            self.tally.lost += 1;
            return;
        }
        let at = self.arrival(caller.agent, false);
        self.schedule(at, Event::ToAgent(caller, answer));
    }

    /// When something sent now arrives: never before what was sent earlier on the same connection.
    fn arrival(&mut self, agent: usize, to_broker: bool) -> u64 {
        let micros = match self.random.below(1000) {
            _ if self.is_calm => self.random.between(50, 2_000),
            0..5 => self.random.between(1_000_000, 15_000_000),
            5..50 => self.random.between(100_000, 2_000_000),
            _ => self.random.between(100, 40_000),
        };
        let at = self.now.saturating_add(micros * 1_000);
        let agent = self.agent_mut(agent);
        let floor = if to_broker { &mut agent.to_broker } else { &mut agent.from_broker };
        *floor = at.max(*floor + 1);
        *floor
    }
}

/// How long an agent waits before it asks again.
const CALL_WAIT: Duration = Duration::from_secs(5);
/// Waiting for work is no fault; an answer that was lost is asked for again all the same.
const CLAIM_WAIT: Duration = Duration::from_secs(120);
/// In a thousand.
const LOST: u64 = 10;
const COPIED: u64 = 10;
