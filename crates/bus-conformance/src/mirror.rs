//! What a reader of a watch knows: the items applied one by one, and what they said on the way.

use std::collections::BTreeMap;

use bus_core::{Buckets, Change, KeyState, Revision, Watch, WatchItem};
use bus_subjects::{BucketKey, BucketName, Filter};

use crate::{
    check::{CaseResult, Failure, equal},
    context::Context,
};

/// The items of a watch, applied as they come.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    /// The keys that hold a value, with it.
    pub(crate) values: BTreeMap<String, String>,
    /// The last revision seen since the beginning or the last resync: a watch goes on behind it.
    pub(crate) last: Revision,
    /// How often the watch said that everything was told.
    pub(crate) currents: usize,
    /// Keys not named again since a resync began.
    unnamed: Option<Vec<String>>,
}

impl Mirror {
    /// Whether `key` holds a value and no resync is still going on, in which keys that are gone
    /// may still stand here.
    pub(crate) fn knows(&self, key: &str) -> bool {
        self.unnamed.is_none() && self.values.contains_key(key)
    }

    pub(crate) fn apply(&mut self, item: WatchItem) {
        match item {
            WatchItem::Changed(Change { key, revision, state }) => {
                self.last = self.last.max(revision);
                let key = key.as_str().to_owned();
                if let Some(unnamed) = &mut self.unnamed {
                    unnamed.retain(|other| *other != key);
                }
                match state {
                    KeyState::Value(value) => {
                        self.values.insert(key, String::from_utf8_lossy(&value).into_owned());
                    }
                    KeyState::Deleted | KeyState::Expired => drop(self.values.remove(&key)),
                }
            }
            WatchItem::Resync => {
                self.unnamed = Some(self.values.keys().cloned().collect());
                self.last = Revision::START;
            }
            WatchItem::Current => {
                self.currents += 1;
                for key in self.unnamed.take().unwrap_or_default() {
                    self.values.remove(&key);
                }
            }
        }
    }
}

/// Watches.
impl Context {
    /// Watches everything in `bucket` that was written after `after`.
    pub(crate) async fn watch(&self, bucket: &BucketName, after: Revision) -> CaseResult<Watch> {
        Ok(self.bus.watch(bucket.clone(), Filter::all(), after).await?)
    }

    pub(crate) async fn see_item(&self, watch: &mut Watch) -> CaseResult<WatchItem> {
        let item = self.wait("a watch", watch.next()).await?;
        Ok(item.ok_or_else(|| Failure::new("the watch ended"))??)
    }

    /// The next change; the mark that everything was told may stand before it.
    pub(crate) async fn see(&self, watch: &mut Watch) -> CaseResult<(String, KeyState)> {
        loop {
            match self.see_item(watch).await? {
                WatchItem::Changed(change) => {
                    return Ok((change.key.as_str().to_owned(), change.state));
                }
                WatchItem::Current => {}
                WatchItem::Resync => return Err(Failure::new("a resync, though nothing was lost")),
            }
        }
    }

    /// Reads up to the next mark that everything was told.
    pub(crate) async fn see_current(&self, watch: &mut Watch, mirror: &mut Mirror) -> CaseResult {
        loop {
            let item = self.see_item(watch).await?;
            let is_current = item == WatchItem::Current;
            mirror.apply(item);
            if is_current {
                return Ok(());
            }
        }
    }

    pub(crate) async fn sees_nothing(&self, watch: &mut Watch) -> CaseResult {
        self.nothing("a watch", watch.next()).await
    }

    /// Fails unless the bucket holds exactly what the mirror says, among `keys`.
    pub(crate) async fn mirrors(
        &self,
        mirror: &Mirror,
        bucket: &BucketName,
        keys: &[&str],
    ) -> CaseResult {
        let mut held = BTreeMap::new();
        for key in keys {
            let entry = self.bus.get(bucket.clone(), BucketKey::parse(key)?).await?;
            if let Some(entry) = entry {
                held.insert((*key).to_owned(), String::from_utf8_lossy(&entry.value).into_owned());
            }
        }
        equal("what a reader of the watch knows", &mirror.values, &held)
    }
}

/// The state of a key that holds `value`.
pub(crate) fn value(value: &str) -> KeyState {
    KeyState::Value(value.to_owned().into())
}

/// Puts `put` under `key`, which must be taken.
pub(crate) async fn put(
    bus: &(impl Buckets + ?Sized),
    bucket: &BucketName,
    key: &str,
    put: bus_core::Put,
) -> CaseResult<Revision> {
    Ok(bus.put(bucket.clone(), BucketKey::parse(key)?, put).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_dropped_in_a_resync_goes_on_within_it() {
        let mut mirror = Mirror::default();
        let change = |key: &str, revision| {
            let (key, revision) = (BucketKey::parse(key).unwrap(), Revision(revision));
            WatchItem::Changed(Change { key, revision, state: value("v") })
        };
        for item in [change("a", 9), WatchItem::Current, WatchItem::Resync, change("b", 2)] {
            mirror.apply(item);
        }
        assert_eq!(mirror.last, Revision(2), "the bucket was made anew");
    }
}
