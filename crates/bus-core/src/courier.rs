//! Who carries what waits in the outboxes at home to the hub, in order and once.

mod ask;
mod carry;
mod refuse;
mod room;

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use bus_subjects::{AddressKind, AgentId, ConsumerName, StreamName};
use tokio_util::sync::CancellationToken;

use self::room::Rooms;
use crate::{
    ConsumerSpec, Deliveries, Endpoint, Engine, Error, ErrorKind, Receipt, Result, planes,
    redrive::jittered,
};

/// Carries the records of all outboxes of a workspace from an engine at home to a hub's.
///
/// It takes them in the order in which they were stored. Each must be signed by the agent whose
/// outbox it stands in, whose certificate is not revoked and who may publish where it goes: the
/// courier may publish more than its customers, and lends that to nobody. What the hub has stored
/// is written down ([`RecordState`](crate::RecordState)) before it leaves the outbox, so that a
/// courier that is killed in between finds it and does not carry it again. What the hub refuses for
/// good, or must not be carried, becomes a dead letter at home.
///
/// What was sent and not answered is sent again, the same bytes under the same id: the hub stores
/// it once, as long as the answer stays away for less than the time in which the hub knows ids
/// again (ten minutes for work queues and mailboxes). Beyond that a task may be stored twice.
///
/// There is one courier at a time: it begins by taking over the leases of an earlier one, which
/// then ends with `Conflict`.
#[derive(Clone)]
pub struct Courier {
    home: Endpoint,
    hub: Arc<dyn Engine>,
}

/// What a courier tells of its way.
#[derive(Debug)]
pub enum CourierEvent {
    /// A record is stored at the hub, and that is written down.
    Carried {
        /// Its id.
        id: String,
        /// Whose it is.
        agent: AgentId,
        /// The hub's word.
        receipt: Receipt,
    },
    /// A record is not carried: its dead letter is stored at home, and its state is written down.
    Refused {
        /// Its id.
        id: String,
        /// Why.
        reason: String,
    },
    /// The hub or the engine at home does not do now what is asked; it is tried again.
    Delayed {
        /// Why.
        error: Error,
        /// When.
        after: Duration,
    },
}

impl Courier {
    /// The longest rest between two tries: 5 s.
    pub const REST_MAX: Duration = Duration::from_secs(5);

    /// A courier that acts as `home`, which reads the outboxes, writes states and stores dead
    /// letters at the engine there, to the engine `hub`.
    #[must_use]
    pub fn new(home: Endpoint, hub: Arc<dyn Engine>) -> Self {
        Self { home, hub }
    }

    /// Carries until it is stopped or the engine at home is closed.
    ///
    /// Told to stop it waits five seconds for an answer of the hub that is under way, writes that
    /// down and hands the rest back. Dropped it leaves what it held to its leases, or to the next
    /// courier; nothing is lost.
    ///
    /// # Errors
    /// `NotFound` when there are no outboxes at home; `Conflict` when another courier took over;
    /// `Denied` when this agent may not do its work, its certificate has ended, or the hub does not
    /// let it in any more; `Closed` when the hub's engine was closed.
    pub async fn run(
        &self,
        stop: &CancellationToken,
        mut report: impl FnMut(CourierEvent) + Send,
    ) -> Result<()> {
        let rooms = Rooms::default();
        let mut shift = Shift { courier: self, stop, report: &mut report, rests: 0, rooms };
        while !stop.is_cancelled() {
            match shift.work().await {
                Ok(()) => break,
                Err(error) if is_final(&error) => return Err(error),
                Err(error) => shift.rest(error).await,
            }
        }
        Ok(())
    }

    /// Joins the outboxes' one consumer anew, so that everything that waits comes again in order,
    /// whoever held it.
    async fn join(&self) -> Result<Deliveries> {
        let workspace = self.home.workspace();
        let stream: StreamName = planes::outbox_stream(workspace)?;
        let (name, filter) =
            (ConsumerName::parse("courier")?, AddressKind::Outbox.filter(Some(workspace)));
        self.home.engine().remove_consumer(stream.clone(), name.clone()).await?;
        self.home.consume(ConsumerSpec { stream, name, filter, lease: LEASE }).await
    }
}

impl std::fmt::Debug for Courier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Courier").field("home", &self.home).finish_non_exhaustive()
    }
}

/// A courier at work.
struct Shift<'a> {
    courier: &'a Courier,
    stop: &'a CancellationToken,
    report: &'a mut (dyn FnMut(CourierEvent) + Send),
    /// How often it had to rest since something went well.
    rests: u32,
    /// Where the hub has no room, and who waits for it.
    rooms: Rooms,
}

impl Shift<'_> {
    /// Takes what waits and carries it until it is stopped or something fails.
    async fn work(&mut self) -> Result<()> {
        // Whoever joins has everything back at once, in its order.
        self.rooms.clear();
        let mut waiting = self.courier.join().await?;
        loop {
            let taken = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ok(()),
                taken = waiting.next_many(RUN_MAX) => taken,
            };
            match taken {
                None => return Ok(()),
                Some(Ok(held)) => match self.carry(held).await {
                    Ok(()) => {}
                    // Its leases ran out, or were taken: the consumer tells which.
                    Err(error) if error.kind() == ErrorKind::LeaseLost => {
                        let asked = tokio::time::timeout(TOLD_MAX, waiting.next_many(RUN_MAX));
                        return match asked.await {
                            Ok(Some(Err(gone))) => Err(taken_over(gone)),
                            _ => Err(error),
                        };
                    }
                    Err(error) => return Err(error),
                },
                Some(Err(error)) => return Err(taken_over(error)),
            }
        }
    }

    /// Rests longer and longer, unless it is stopped.
    async fn rest(&mut self, error: Error) {
        if self.stop.is_cancelled() {
            tracing::info!(%error, "the courier was stopped before it could try again");
            return;
        }
        let after = rest(self.rests, self.random());
        self.rests = self.rests.saturating_add(1);
        tracing::info!(%error, ?after, "the courier rests");
        (self.report)(CourierEvent::Delayed { error, after });
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(after) => {}
        }
    }

    /// Jitter only; a failing random source means none.
    fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        match self.courier.home.entropy().fill(&mut bytes) {
            Ok(()) => u64::from_le_bytes(bytes),
            Err(_) => 100,
        }
    }
}

/// What an error of the consumer says: it is gone when another courier made its own.
fn taken_over(error: Error) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return error;
    }
    let detail = "another courier took over the outboxes of this workspace";
    Error::new(ErrorKind::Conflict, "carry", detail).because(error)
}

/// Whether an error that ended a shift ends the courier: it would come again for ever.
fn is_final(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Denied
            | ErrorKind::Invalid
            | ErrorKind::NotFound
            | ErrorKind::Conflict
            | ErrorKind::Unsupported
            | ErrorKind::Closed
    )
}

/// How long the rest after `rests` others is.
fn rest(rests: u32, random: u64) -> Duration {
    const REST_MIN: Duration = Duration::from_millis(200);
    let rest = REST_MIN.saturating_mul(1 << rests.min(16));
    jittered(rest.min(Courier::REST_MAX), random).clamp(REST_MIN, Courier::REST_MAX)
}

/// How many records it holds at once.
const RUN_MAX: NonZeroUsize = NonZeroUsize::new(100).unwrap();

/// How long it waits to be told why its leases are lost.
const TOLD_MAX: Duration = Duration::from_secs(1);

/// How long it holds them unless extended, which it does every third of it.
const LEASE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_from_a_fifth_of_a_second_to_five_seconds() {
        let rests = [0, 1, 2, 3, 4, 5, 99].map(|rests| rest(rests, 100).as_millis());
        assert_eq!(rests, [200, 400, 800, 1600, 3200, 5000, 5000]);
        for random in [0, 200] {
            assert!((0..20).all(|rests| rest(rests, random) <= Courier::REST_MAX));
        }
    }

    #[test]
    fn an_error_that_may_pass_ends_no_courier() {
        for kind in [ErrorKind::Unavailable, ErrorKind::Timeout, ErrorKind::LeaseLost] {
            assert!(!is_final(&Error::new(kind, "carry", "x")), "{kind:?}");
        }
        assert!(is_final(&Error::new(ErrorKind::Denied, "carry", "x")));
    }
}
