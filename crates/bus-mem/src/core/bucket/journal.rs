//! What the buckets say to their journal.

use bus_core::KeyState;
use bus_envelope::Timestamp;
use bus_subjects::{BucketKey, BucketName};

use super::BucketStore;
use crate::journal::Change;

impl BucketStore {
    pub(super) fn record(
        &mut self,
        (bucket, key): (&BucketName, &BucketKey),
        state: &KeyState,
        (revision, end): (u64, Option<Timestamp>),
        time: Timestamp,
    ) {
        let ended = |expired| Change::Ended { bucket, key, revision, time, expired };
        self.recorder.record(match state {
            KeyState::Value(value) => Change::Put { bucket, key, revision, time, end, value },
            KeyState::Deleted => ended(false),
            KeyState::Expired => ended(true),
        });
    }
}
