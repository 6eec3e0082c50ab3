//! How a broker is made anew from what survived.

use bus_core::{Durability, StreamSpec};
use bus_envelope::Timestamp;

use super::{Broker, ConsumerKey, StreamKey};
use crate::{
    Limits,
    core::{dedupe::DigestKey, stream::Stream},
};

impl Broker {
    /// A broker that never goes back before `latest`, that made `consumers` before, and whose new
    /// leases get tokens behind `token`.
    pub(crate) fn restored(
        (limits, durability): (Limits, Durability),
        latest: Timestamp,
        (consumers, token): (u64, u64),
    ) -> Self {
        Self { latest, consumers, token, ..Self::new(limits, durability) }
    }

    /// Adds a stream that was there before, and is still empty.
    pub(crate) fn restore_stream(&mut self, spec: StreamSpec, key: DigestKey) -> &mut Stream {
        let index = self.streams.len();
        self.names.insert(spec.name.clone(), index);
        for filter in &spec.filters {
            self.table.insert(filter.clone(), index);
        }
        self.routes.clear();
        self.streams.push_mut(Stream::new(spec, key))
    }

    /// Every consumer that there is.
    pub(crate) fn consumer_keys(&self) -> impl Iterator<Item = ConsumerKey> + '_ {
        self.streams.iter().enumerate().flat_map(|(at, stream)| {
            let of_stream = stream.consumer_numbers();
            of_stream.map(move |(index, number)| ConsumerKey {
                stream: StreamKey(at),
                index,
                number,
            })
        })
    }
}
