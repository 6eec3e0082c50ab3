//! What befalls the world: clocks that jump, agents that crash, listeners that are slow.

use super::{
    Violation,
    world::{Event, World},
};

impl World {
    /// The broker's clock jumps: often a little, sometimes by minutes, and also back.
    pub(super) fn jump(&mut self) -> Result<(), Violation> {
        if self.is_calm {
            return Ok(());
        }
        self.tally.jumps += 1;
        let forward = self.random.chance(600);
        let seconds = match (forward, self.random.below(3)) {
            (true, 0) => self.random.between(60, 900),
            (true, _) => self.random.between(1, 20),
            (false, _) => self.random.between(1, 20),
        };
        let by = i64::try_from(seconds * 1_000_000_000).unwrap_or(i64::MAX);
        self.skew = if forward { self.skew + by } else { self.skew - by };
        let way = if forward { "ahead" } else { "back" };
        self.trace.add(format_args!("{} clock {way} {seconds} s", self.clock_text()));
        let now = self.machine_time();
        if !forward {
            self.server.stepped_back(now);
        }
        let mut replies = Vec::new();
        for queue in 0..self.server.desks().len() {
            self.server.look(queue, now, &mut replies)?;
            self.answer(&mut replies);
        }
        self.schedule_within(30, Event::Jump);
        Ok(())
    }

    /// A listener of live events looks; some look ten times as rarely as others.
    pub(super) fn listen(&mut self, listener: usize) -> Result<(), Violation> {
        if self.is_calm {
            return Ok(());
        }
        self.live.listen(listener)?;
        let (heard, missed) = (self.live.heard, self.live.missed);
        let time = self.clock_text();
        self.trace.add(format_args!("{time} listener {listener}: {heard} heard, {missed} missed"));
        let slow = if listener.is_multiple_of(3) { 20 } else { 2 };
        self.schedule_within(slow, Event::Listen { listener });
        Ok(())
    }

    /// Somebody crashes, whatever it is doing.
    pub(super) fn mayhem(&mut self) {
        if self.is_calm {
            return;
        }
        let count = self.agents.len() as u64;
        let victim = usize::try_from(self.random.below(count)).unwrap_or(0);
        self.crash(victim);
        // Each agent once in three minutes or so.
        let mean = 180_000_000_000 / count;
        let at = self.now.saturating_add(self.random.below(2 * mean));
        self.schedule(at, Event::Mayhem);
    }
}
