//! What operators have the broker do: discard, pause, remove, count.

use bus_core::{ErrorKind, Seq};
use bus_envelope::Timestamp;

use super::{
    super::{
        Violation,
        command::{Answer, Plane},
    },
    Now, Reply, Server,
};

impl Server {
    pub(super) fn discard(&mut self, plane: Plane, seq: Seq) -> Result<Answer, Violation> {
        let Some(name) = self.names.get(&plane) else { return Ok(Answer::Done) };
        let touched = &mut self.touched;
        let answer = self.saboteur.discard(name, seq, |consumer| touched.push(consumer));
        self.ledger.discarded(plane, seq, &answer)?;
        Ok(Answer::Done)
    }

    pub(super) fn pause(
        &mut self,
        queue: usize,
        until: Option<Timestamp>,
        now: Now,
        replies: &mut Vec<Reply>,
    ) -> Result<Answer, Violation> {
        let Some(desk) = self.queues.get(queue) else { return Ok(Answer::Done) };
        let answer = self.saboteur.pause(&desk.spec, until, now.machine);
        let exists = desk.consumer.is_some();
        Violation::unless(answer.is_ok() == exists, "what is there can be paused", || {
            format!("q{queue} exists: {exists}, the answer is {answer:?}")
        })?;
        if exists {
            self.ledger.paused(desk.plane, queue, until, now.counted);
            self.serve(queue, now, replies)?;
        }
        Ok(Answer::Done)
    }

    /// Whoever waits learns that the consumer is gone.
    pub(super) fn remove(
        &mut self,
        queue: usize,
        now: Now,
        replies: &mut Vec<Reply>,
    ) -> Result<Answer, Violation> {
        let Some(desk) = self.queues.get_mut(queue) else { return Ok(Answer::Done) };
        let Some(consumer) = desk.consumer.take() else { return Ok(Answer::Done) };
        let names = (&desk.spec.stream, &desk.spec.name);
        let removed = self.saboteur.remove(names, consumer)?;
        Violation::unless(removed == Some(consumer), "what is there can be removed", || {
            format!("q{queue} is {consumer:?}, the answer is {removed:?}")
        })?;
        let gone = || Answer::Refused(ErrorKind::NotFound);
        replies.extend(desk.parked.drain(..).map(|caller| (caller, gone())));
        desk.alarm = None;
        let plane = desk.plane;
        self.by_consumer.remove(&consumer);
        self.ledger.removed(plane, queue, now.counted);
        Ok(Answer::Done)
    }

    pub(super) fn count(&mut self, plane: Plane, now: Now) -> Result<(), Violation> {
        let Some(name) = self.names.get(&plane) else { return Ok(()) };
        let lag = self.saboteur.lag(name, now.machine)?;
        self.ledger.counted(plane, lag, now.counted)?;
        let mut states = self.saboteur.consumers(name, now.machine)?;
        for (queue, desk) in self.queues.iter().enumerate().filter(|(_, d)| d.plane == plane) {
            let at = states.iter().position(|state| state.spec == desk.spec);
            let exists = desk.consumer.is_some();
            Violation::unless(at.is_some() == exists, "consumers are listed", || {
                format!("q{queue} exists: {exists}, it is listed: {}", at.is_some())
            })?;
            if let Some(at) = at {
                let state = states.swap_remove(at);
                self.ledger.consumer_counted((plane, queue), &state, now.counted)?;
            }
        }
        Ok(())
    }
}
