//! The consumers of a stream: how they come, go and are found.

use bus_core::{ConsumerSpec, Error, ErrorKind, Result, Retention};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, Filter};

use super::{Consumer, Member, Stream};
use crate::core::index::literal;

impl Stream {
    /// Joins or creates a consumer; returns its index and its number, `number` for a new one. A
    /// new one gets everything that is stored and matches, and tokens behind `token`.
    pub(crate) fn consume(
        &mut self,
        spec: ConsumerSpec,
        consumers_max: usize,
        (number, token): (u64, u64),
    ) -> Result<(usize, u64)> {
        let refuse = |kind, why: String| Err(Error::new(kind, "consume", why).at(&spec.name));
        if let Some((index, consumer)) = self.named(&spec.name) {
            if *consumer.spec() == spec {
                return Ok((index, consumer.number()));
            }
            let why = "the consumer exists with another filter or lease";
            return refuse(ErrorKind::Conflict, why.to_owned());
        }
        if spec.lease.is_zero() {
            return refuse(ErrorKind::Invalid, "a lease must last longer than nothing".to_owned());
        }
        if !self.spec.filters.iter().any(|filter| filter.overlaps(&spec.filter)) {
            let why = format!("the stream keeps no subject of {}", spec.filter);
            return refuse(ErrorKind::Invalid, why);
        }
        if self.spec.retention == Retention::WorkQueue
            && let Some(other) = self.overlapping(&spec.filter)
        {
            let (name, filter) = (&other.name, &other.filter);
            let why = format!("the filter overlaps {filter} of the consumer {name}");
            return refuse(ErrorKind::Conflict, why);
        }
        if self.names.len() >= consumers_max {
            return refuse(ErrorKind::Full, format!("{consumers_max} consumers exist already"));
        }
        let consumer = Consumer::new(spec, (number, token), &self.subjects);
        Ok((self.insert(consumer), number))
    }

    /// Removes a consumer and returns it with its index; its leases are over.
    pub(crate) fn remove_consumer(&mut self, name: &ConsumerName) -> Option<(usize, Consumer)> {
        let index = self.names.remove(name)?;
        let Member { consumer, route } = self.consumers.get_mut(index)?.take()?;
        self.routes.remove(route);
        self.free.push(index);
        Some((index, consumer))
    }

    /// Hands out nothing of a consumer before `until`; returns its index and number.
    pub(crate) fn pause(
        &mut self,
        name: &ConsumerName,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<(usize, u64)> {
        let index = *self.names.get(name)?;
        let consumer = &mut self.consumers.get_mut(index)?.as_mut()?.consumer;
        consumer.pause(until, now);
        Some((index, consumer.number()))
    }

    /// Takes back leases of a consumer that ran out and wakes what rested until `now`.
    pub(crate) fn tick(&mut self, index: usize, number: u64, now: Timestamp) {
        let Self { consumers, subjects, log, .. } = self;
        if let Some(Some(member)) = consumers.get_mut(index)
            && member.consumer.number() == number
        {
            member.consumer.tick(subjects, log, now);
        }
    }

    #[inline]
    pub(crate) fn consumer(&self, index: usize, number: u64) -> Option<&Consumer> {
        let member = self.consumers.get(index)?.as_ref()?;
        Some(&member.consumer).filter(|consumer| consumer.number() == number)
    }

    #[inline]
    pub(crate) fn consumer_mut(&mut self, index: usize, number: u64) -> Option<&mut Consumer> {
        let member = self.consumers.get_mut(index)?.as_mut()?;
        Some(&mut member.consumer).filter(|consumer| consumer.number() == number)
    }

    /// How many messages of a consumer could be claimed, at least.
    pub(crate) fn ready(&self, index: usize, number: u64) -> usize {
        self.consumer(index, number).map_or(0, |consumer| consumer.ready(&self.log))
    }

    /// Whether there is a consumer of this name.
    pub(crate) fn has_consumer(&self, name: &ConsumerName) -> bool {
        self.names.contains_key(name)
    }

    /// The number of the consumer at an index.
    pub(crate) fn number_at(&self, index: usize) -> Option<u64> {
        Some(self.consumers.get(index)?.as_ref()?.consumer.number())
    }

    fn named(&self, name: &ConsumerName) -> Option<(usize, &Consumer)> {
        let index = *self.names.get(name)?;
        Some((index, &self.consumers.get(index)?.as_ref()?.consumer))
    }

    /// A consumer that could read what `filter` reads.
    fn overlapping(&self, filter: &Filter) -> Option<&ConsumerSpec> {
        if let Some(subject) = literal(filter) {
            // One subject: who overlaps is who matches, which the table knows.
            let index = **self.routes.matches(&subject).first()?;
            return Some(self.consumers.get(index)?.as_ref()?.consumer.spec());
        }
        let mut others = self.consumers.iter().flatten().map(|other| other.consumer.spec());
        others.find(|other| other.filter.overlaps(filter))
    }

    pub(super) fn insert(&mut self, consumer: Consumer) -> usize {
        let spec = consumer.spec();
        let index = self.free.pop().unwrap_or(self.consumers.len());
        self.names.insert(spec.name.clone(), index);
        let route = self.routes.insert(spec.filter.clone(), index);
        let member = Some(Member { consumer, route });
        match self.consumers.get_mut(index) {
            Some(free) => *free = member,
            None => self.consumers.push(member),
        }
        index
    }
}
