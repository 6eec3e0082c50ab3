//! How buckets are made anew from what survived.

use std::{collections::HashMap, sync::Arc};

use bus_subjects::BucketName;

use super::{BucketStore, Records};
use crate::Limits;

impl BucketStore {
    /// A store of these buckets, which nobody watches yet.
    pub(crate) fn restored(limits: Limits, buckets: HashMap<BucketName, Records>) -> Self {
        let mut store = Self { buckets, ..Self::new(limits) };
        for records in store.buckets.values() {
            let sizes = records.sizes();
            store.bytes += sizes.bytes;
            store.tombstone_bytes += sizes.tombstone_bytes;
            let end = records.first_end();
            store.ends.extend(end.map(|end| (end, Arc::clone(records.name()))));
        }
        store
    }
}
