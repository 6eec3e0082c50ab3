//! How much waits in each queue, as it was when somebody last looked.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bus_subjects::{ConsumerName, StreamName};

use super::BusMetrics;
use crate::Lag;

/// The queues that were looked at. A look is rare, so a lock is no matter.
#[derive(Debug, Default)]
pub(super) struct Queues(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_name: BTreeMap<(StreamName, Option<ConsumerName>), Lag>,
    left_out: u64,
}

/// One queue as it was when it was last looked at.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct QueueReport {
    /// The stream.
    pub stream: String,
    /// The consumer; `None`: the stream as a whole.
    pub consumer: Option<String>,
    /// Messages that wait, delayed ones included.
    pub pending: u64,
    /// Messages under a lease.
    pub in_flight: u64,
    /// The age of the oldest of both, in milliseconds; `None` when there is none.
    pub oldest_ms: Option<u64>,
}

impl Queues {
    pub(super) fn set(&self, stream: &StreamName, consumer: Option<&ConsumerName>, lag: Lag) {
        let mut table = self.table();
        let key = (stream.clone(), consumer.cloned());
        if !table.by_name.contains_key(&key) && table.by_name.len() >= BusMetrics::QUEUES_MAX {
            table.left_out = table.left_out.saturating_add(1);
            return;
        }
        table.by_name.insert(key, lag);
    }

    /// Forgets the consumers of `stream` that are not among `names`.
    pub(super) fn keep_only(&self, stream: &StreamName, names: &[&ConsumerName]) {
        self.table().by_name.retain(|(of, consumer), _| {
            of != stream || consumer.as_ref().is_none_or(|name| names.contains(&name))
        });
    }

    /// All queues by name, and how often one more was left out.
    pub(super) fn report(&self) -> (Vec<QueueReport>, u64) {
        let table = self.table();
        let report = |((stream, consumer), lag): (&(StreamName, Option<ConsumerName>), &Lag)| {
            let oldest_ms =
                lag.oldest.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
            QueueReport {
                stream: stream.to_string(),
                consumer: consumer.as_ref().map(ToString::to_string),
                pending: lag.pending,
                in_flight: lag.in_flight,
                oldest_ms,
            }
        };
        (table.by_name.iter().map(report).collect(), table.left_out)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
