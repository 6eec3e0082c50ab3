//! How a consumer is filled with what survived.

use std::collections::BTreeMap;

use bus_core::{ConsumerSpec, OrderKey, Placement, Priority};
use bus_envelope::Timestamp;

use super::{Arrival, Consumer, Departed, Lanes, Lease, Leases, OrderKeys, Waiting};

impl Consumer {
    /// A consumer that holds nothing; its next token comes after `token`.
    pub(crate) fn restored(
        spec: ConsumerSpec,
        (number, token): (u64, u64),
        paused_until: Option<Timestamp>,
    ) -> Self {
        Self {
            spec,
            number,
            backlog: None,
            lanes: Lanes::default(),
            ranked: BTreeMap::new(),
            delayed: BTreeMap::new(),
            keys: OrderKeys::default(),
            places: BTreeMap::new(),
            leases: Leases::after(token),
            paused_until,
            departed: Departed::default(),
        }
    }

    /// A message is held until `deadline`; it became ready at `since`.
    pub(crate) fn restore_lease(
        &mut self,
        seq: u64,
        placement: Option<&Placement>,
        (token, attempt): (u64, u32),
        (since, deadline): (Timestamp, Timestamp),
    ) {
        let Placement { priority: level, key, .. } = placement.cloned().unwrap_or_default();
        self.hold(seq, key.as_ref());
        self.leases.restore(token, Lease { seq, deadline, since, key, attempt, level });
    }

    /// A message that was handed out before is ready from `since` on.
    pub(crate) fn restore_waiting(
        &mut self,
        seq: u64,
        placement: Option<&Placement>,
        (attempt, since, handed_back): (u32, Timestamp, bool),
        now: Timestamp,
    ) {
        let Placement { priority: level, key, .. } = placement.cloned().unwrap_or_default();
        self.hold(seq, key.as_ref());
        let waiting = Waiting { attempt, level, since, handed_back, key };
        if since > now {
            self.rest_until(seq, waiting, since);
        } else {
            self.stand(seq, waiting);
        }
    }

    /// A message that was stored at `time` waits for its first turn.
    pub(crate) fn restore_fresh(
        &mut self,
        seq: u64,
        placement: Option<&Placement>,
        time: Timestamp,
        now: Timestamp,
    ) {
        match placement {
            None => self.lanes.push(seq, Priority::NORMAL),
            Some(placement) => self.place(seq, placement, time, now),
        }
    }

    /// What was handed out holds its key until it leaves.
    fn hold(&mut self, seq: u64, key: Option<&OrderKey>) {
        if let Some(key) = key
            && self.keys.arrive(key, seq) == Arrival::InLine
        {
            self.keys.start(key);
        }
    }
}
