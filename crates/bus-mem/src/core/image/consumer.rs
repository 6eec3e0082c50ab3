//! What survives of one consumer.

use std::collections::{BTreeMap, BTreeSet};

use bus_core::{ConsumerSpec, Placement, Result};
use bus_envelope::Timestamp;
use bus_subjects::TableKey;

use super::{Image, Standing, stream::Kept, unheard_of};
use crate::core::consumer::Consumer;

/// A consumer by what it has not handed out yet; what it has is with the messages.
#[derive(Debug)]
pub(super) struct ConsumerImage {
    /// The number of its stream.
    pub(super) stream: usize,
    pub(super) spec: ConsumerSpec,
    route: TableKey,
    /// Everything that is stored from here on is fresh at first.
    from: u64,
    /// Whether it looked at what was stored when it came.
    has_looked: bool,
    /// What was never handed out.
    pub(super) fresh: BTreeSet<u64>,
    /// The last token that is known.
    pub(super) token: u64,
    pub(super) paused_until: Option<Timestamp>,
}

impl Image {
    pub(super) fn make_consumer(
        &mut self,
        number: u64,
        stream: u32,
        spec: &ConsumerSpec,
    ) -> Result<()> {
        self.consumers_made = self.consumers_made.max(number + 1);
        let index = stream as usize;
        let of_stream = self.streams.get_mut(index).ok_or_else(|| unheard_of(stream))?;
        if self.consumers.contains_key(&number) {
            return Ok(());
        }
        let route = of_stream.table.insert(spec.filter.clone(), number);
        of_stream.forget_routes();
        let consumer = ConsumerImage {
            stream: index,
            spec: spec.clone(),
            route,
            from: 0,
            has_looked: false,
            fresh: BTreeSet::new(),
            token: 0,
            paused_until: None,
        };
        self.consumers.insert(number, consumer);
        Ok(())
    }

    pub(super) fn remove_consumer(&mut self, number: u64) {
        self.consumers_made = self.consumers_made.max(number + 1);
        let Some(gone) = self.consumers.remove(&number) else { return };
        if let Some(stream) = self.streams.get_mut(gone.stream) {
            stream.table.remove(gone.route);
            stream.forget_routes();
        }
    }

    pub(super) fn pause(&mut self, number: u64, until: Option<Timestamp>) {
        if let Some(consumer) = self.consumers.get_mut(&number) {
            consumer.paused_until = until;
        }
    }

    pub(super) fn consumer_is_at(&mut self, number: u64, from: u64, fresh: &[u64], token: u64) {
        if let Some(consumer) = self.consumers.get_mut(&number) {
            consumer.from = consumer.from.max(from);
            consumer.fresh.extend(fresh);
            consumer.token = consumer.token.max(token);
        }
    }

    /// A consumer handed a message out, or is through with it.
    pub(super) fn stand(&mut self, number: u64, seq: u64, standing: Option<Standing>) {
        let Self { streams, consumers, latest, .. } = self;
        let Some(consumer) = consumers.get_mut(&number) else { return };
        let Some(stream) = streams.get_mut(consumer.stream) else { return };
        consumer.look(number, &stream.messages);
        consumer.fresh.remove(&seq);
        if let Some(Standing::Leased { token, deadline, .. }) = standing {
            consumer.token = consumer.token.max(token);
            let lease_ns = i128::try_from(consumer.spec.lease.as_nanos()).unwrap_or(i128::MAX);
            let granted = deadline.unix_ns().saturating_sub(lease_ns);
            *latest = (*latest).max(Timestamp::from_unix_ns(granted));
        }
        let Some(kept) = stream.messages.get_mut(&seq) else { return };
        let at = kept.standings.iter().position(|(other, _)| *other == number);
        match (at.and_then(|at| kept.standings.get_mut(at)), standing) {
            (Some(place), Some(standing)) => place.1 = standing,
            (None, Some(standing)) => {
                // Mostly the only one.
                kept.standings.reserve_exact(1);
                kept.standings.push((number, standing));
            }
            (_, None) => kept.standings.retain(|(other, _)| *other != number),
        }
    }
}

impl ConsumerImage {
    /// A message was stored that it reads.
    pub(super) fn is_stored(&mut self, seq: u64) {
        if self.has_looked && seq >= self.from {
            self.fresh.insert(seq);
        }
    }

    /// Looks at what is stored, once: as late as possible, because a picture says later from
    /// where on.
    pub(super) fn look(&mut self, number: u64, messages: &BTreeMap<u64, Kept>) {
        if std::mem::replace(&mut self.has_looked, true) {
            return;
        }
        let filter = &self.spec.filter;
        for (&seq, kept) in messages.range(self.from..) {
            if !kept.stands_for(number) && filter.matches(&kept.frame.subject) {
                self.fresh.insert(seq);
            }
        }
    }
}

impl Standing {
    /// Puts a message that was handed out to where it stands.
    pub(super) fn restore(
        self,
        consumer: &mut Consumer,
        seq: u64,
        placement: Option<&Placement>,
        now: Timestamp,
    ) {
        match self {
            Self::Leased { token, attempt, since, deadline } => {
                consumer.restore_lease(seq, placement, (token, attempt), (since, deadline));
            }
            Self::Waits { attempt, since, handed_back } => {
                consumer.restore_waiting(seq, placement, (attempt, since, handed_back), now);
            }
        }
    }
}
