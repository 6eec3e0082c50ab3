//! The model of a bucket, and what its watches may tell.

use std::{collections::BTreeMap, time::Duration};

use bus_core::{Change, KeyState, Revision, WatchItem};

/// A bucket.
#[derive(Debug, Default)]
pub(super) struct BucketModel {
    pub(super) values: BTreeMap<u8, Value>,
    /// Every value that was put: its key and text, by revision.
    pub(super) written: BTreeMap<Revision, (u8, String)>,
    /// A revision of each key that is not its newest.
    pub(super) stale: BTreeMap<u8, Revision>,
}

/// A value.
#[derive(Debug, Clone)]
pub(super) struct Value {
    pub(super) text: String,
    pub(super) revision: Revision,
    pub(super) end: Option<Duration>,
}

/// Whether a key holds its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    There,
    Gone,
    /// Its time is over by less than a second.
    Either,
}

impl BucketModel {
    pub(super) fn presence(&self, key: u8, now: Duration) -> Presence {
        match self.values.get(&key).map(|value| value.end) {
            None => Presence::Gone,
            Some(None) => Presence::There,
            Some(Some(end)) if now < end => Presence::There,
            Some(Some(end)) if now <= end + SLACK => Presence::Either,
            Some(Some(_)) => Presence::Gone,
        }
    }

    pub(super) fn put(&mut self, key: u8, value: Value) {
        self.written.insert(value.revision, (key, value.text.clone()));
        if let Some(before) = self.values.insert(key, value) {
            self.stale.insert(key, before.revision);
        }
    }

    pub(super) fn remove(&mut self, key: u8) {
        if let Some(before) = self.values.remove(&key) {
            self.stale.insert(key, before.revision);
        }
    }

    pub(super) fn newest(&self) -> Revision {
        self.written.last_key_value().map_or(Revision::START, |(revision, _)| *revision)
    }
}

/// What a reader of a watch knows.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) values: BTreeMap<u8, String>,
    pub(super) last: Revision,
    pub(super) is_current: bool,
    /// Keys not named again since a resync.
    unnamed: Option<Vec<u8>>,
}

impl Reader {
    /// Applies an item, and says what is wrong with it.
    pub(super) fn apply(&mut self, item: WatchItem, model: &BucketModel) -> Result<(), String> {
        match item {
            WatchItem::Current => {
                self.is_current = true;
                for key in self.unnamed.take().unwrap_or_default() {
                    self.values.remove(&key);
                }
                Ok(())
            }
            WatchItem::Resync => {
                self.unnamed = Some(self.values.keys().copied().collect());
                self.last = Revision::START;
                self.is_current = false;
                Ok(())
            }
            WatchItem::Changed(change) => self.change(&change, model),
        }
    }

    fn change(&mut self, change: &Change, model: &BucketModel) -> Result<(), String> {
        let text = change.key.as_str();
        let key = KEYS.iter().position(|key| *key == text);
        let key = key.and_then(|key| u8::try_from(key).ok());
        let key = key.ok_or_else(|| format!("a watch tells of {text}, which nobody wrote"))?;
        if change.revision <= self.last {
            return Err(format!("a watch tells of {change:?} after {:?}", self.last));
        }
        self.last = change.revision;
        if let Some(unnamed) = &mut self.unnamed {
            unnamed.retain(|other| *other != key);
        }
        match &change.state {
            KeyState::Value(value) => {
                let value = String::from_utf8_lossy(value).into_owned();
                let told = Some((key, value.clone()));
                if model.written.get(&change.revision).cloned() != told {
                    return Err(format!("a watch tells of {change:?}, which nobody wrote"));
                }
                self.values.insert(key, value);
            }
            KeyState::Deleted | KeyState::Expired => drop(self.values.remove(&key)),
        }
        Ok(())
    }

    /// Fails unless a reader that is told everything knows what the bucket holds.
    pub(super) fn compare(&self, model: &BucketModel, now: Duration) -> Result<(), String> {
        for (key, name) in (0_u8..).zip(KEYS) {
            let known = self.values.get(&key);
            let held = model.values.get(&key).map(|value| &value.text);
            let is_right = match model.presence(key, now) {
                Presence::There => known == held,
                Presence::Gone => known.is_none(),
                Presence::Either => known.is_none() || known == held,
            };
            if !is_right {
                return Err(format!("a reader knows {known:?} under {name}: it holds {held:?}"));
            }
        }
        Ok(())
    }
}

/// The keys of the bucket.
pub(super) const KEYS: [&str; 5] = ["a", "a.b", "a.c", "d", "e"];
/// How late an engine may notice that a value is over.
const SLACK: Duration = Duration::from_secs(1);
