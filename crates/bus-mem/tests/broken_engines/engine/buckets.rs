//! The engine with a fault as buckets.

use bus_core::{
    BoxFuture, Buckets, Entry, Error, ErrorKind, ExpectRevision, KeyState, Result, Revision, Watch,
    WatchItem,
};
use bus_subjects::{BucketKey, BucketName, Filter};
use bytes::Bytes;

use super::{Broken, Put};
use crate::{
    fault::Fault,
    streams::{Mapped, Step},
};

impl Buckets for Broken {
    fn get(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Entry>>> {
        Box::pin(async move {
            let bucket = self.bucket(bucket)?;
            let entry = self.answer(self.inner.get(bucket, key)).await?;
            let ghost = || Entry { value: Bytes::from_static(b"ghost"), revision: Revision(1) };
            Ok(if self.has(Fault::SeesGhosts) { entry.or_else(|| Some(ghost())) } else { entry })
        })
    }

    fn put(
        &self,
        bucket: BucketName,
        key: BucketKey,
        mut put: Put,
    ) -> BoxFuture<'_, Result<Revision>> {
        Box::pin(async move {
            let bucket = self.bucket(bucket)?;
            match self.fault {
                Fault::IgnoresExpectations => put.expect = ExpectRevision::Any,
                Fault::NeverExpires => put.ttl = None,
                Fault::KeepsTheEnd => {
                    let ends = &mut self.memory().ends;
                    if let Some(ttl) = put.ttl.or_else(|| ends.get(&key).copied()) {
                        put.ttl = Some(*ends.entry(key.clone()).or_insert(ttl));
                    }
                }
                _ => {}
            }
            let revision = self.answer(self.inner.put(bucket, key, put)).await?;
            Ok(if self.has(Fault::CountsNoRevisions) { Revision(7) } else { revision })
        })
    }

    fn delete(
        &self,
        bucket: BucketName,
        key: BucketKey,
        expect: ExpectRevision,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if self.has(Fault::DeletesNothing) {
                return Ok(());
            }
            let entry = self.inner.get(bucket.clone(), key.clone()).await?;
            if self.has(Fault::RefusesRepeats) && entry.is_none() {
                return Err(Error::new(ErrorKind::NotFound, "delete", "nothing is there"));
            }
            self.answer(self.inner.delete(bucket, key, expect)).await
        })
    }

    fn watch(
        &self,
        bucket: BucketName,
        keys: Filter,
        after: Revision,
    ) -> BoxFuture<'_, Result<Watch>> {
        Box::pin(async move {
            let bucket = self.bucket(bucket)?;
            let keys = if self.has(Fault::IgnoresFilters) { Filter::all() } else { keys };
            let after = if self.has(Fault::WatchBeginsAnew) { Revision::START } else { after };
            let watch = self.answer(self.inner.watch(bucket, keys, after)).await?;
            let (fault, mut is_current, mut count) = (self.fault, false, 0_u64);
            Ok(Watch::new(Mapped(watch, move |item| {
                let is_change = matches!(item, Ok(WatchItem::Changed(_)));
                is_current |= matches!(item, Ok(WatchItem::Current));
                count += u64::from(is_change);
                match fault {
                    Fault::WatchIsNeverCurrent if !is_change => Step::Skip,
                    Fault::WatchBeginsEmpty if is_change && !is_current => Step::Skip,
                    Fault::WatchLosesChanges if is_change && count.is_multiple_of(3) => Step::Skip,
                    Fault::WatchDropsEnds if is_end(&item) => Step::Skip,
                    Fault::MixesUpEnds => Step::Yield(item.map(mixed_up)),
                    _ => Step::Yield(item),
                }
            })))
        })
    }
}

impl Broken {
    fn bucket(&self, bucket: BucketName) -> Result<BucketName> {
        let mixed_up = self.has(Fault::MixesUpNames);
        Ok(if mixed_up { BucketName::parse("ALL_IN_ONE")? } else { bucket })
    }
}

fn is_end(item: &Result<WatchItem>) -> bool {
    matches!(item, Ok(WatchItem::Changed(change)) if !matches!(change.state, KeyState::Value(_)))
}

fn mixed_up(item: WatchItem) -> WatchItem {
    match item {
        WatchItem::Changed(mut change) if change.state == KeyState::Expired => {
            change.state = KeyState::Deleted;
            WatchItem::Changed(change)
        }
        WatchItem::Changed(mut change) if change.state == KeyState::Deleted => {
            change.state = KeyState::Expired;
            WatchItem::Changed(change)
        }
        item => item,
    }
}
