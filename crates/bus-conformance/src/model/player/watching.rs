//! Writing into a bucket, and following it.

use std::time::Duration;

use bus_core::{ErrorKind, ExpectRevision, Put, Revision};
use bus_subjects::BucketKey;

use super::Player;
use crate::{
    check::{CaseResult, Failure, equal, holds, refused},
    model::{
        bucket::{KEYS, Presence, Reader, Value},
        operation::Known,
    },
};

impl Player<'_> {
    /// Reads the key, compares, and returns its revision; settles what only time leaves open.
    pub(super) async fn get(&mut self, key: u8) -> CaseResult<Option<Revision>> {
        let now = self.now();
        let entry = self.context.bus.get(self.bucket_name.clone(), name(key)?).await?;
        let got =
            entry.map(|entry| (String::from_utf8_lossy(&entry.value).into_owned(), entry.revision));
        let held = self.bucket.values.get(&key).map(|value| (value.text.clone(), value.revision));
        let presence = self.bucket.presence(key, now);
        let expected = match (presence, &got) {
            (Presence::There, _) | (Presence::Either, Some(_)) => held,
            (Presence::Gone, _) | (Presence::Either, None) => None,
        };
        equal(&format!("value under key {key}"), &got, &expected)?;
        if got.is_none() {
            self.bucket.remove(key);
        }
        Ok(got.map(|(_, revision)| revision))
    }

    /// What a write says it expects, and whether it must be taken.
    fn expectation(
        &self,
        key: u8,
        newest: Option<Revision>,
        known: Known,
    ) -> (ExpectRevision, bool) {
        let stale = self.bucket.stale.get(&key).copied();
        match (known, newest, stale) {
            (Known::Absent, newest, _) => (ExpectRevision::Absent, newest.is_none()),
            (Known::Newest, Some(newest), _) => (ExpectRevision::Exactly(newest), true),
            (Known::Stale, _, Some(stale)) => (ExpectRevision::Exactly(stale), false),
            _ => (ExpectRevision::Any, true),
        }
    }

    pub(super) async fn put(
        &mut self,
        key: u8,
        known: Known,
        ttl_seconds: Option<u8>,
    ) -> CaseResult {
        let newest = self.get(key).await?;
        let (expect, is_right) = self.expectation(key, newest, known);
        let (now, text) = (self.now(), format!("v{}", self.number()));
        let ttl = ttl_seconds.map(|seconds| Duration::from_secs(u64::from(seconds)));
        let put = Put { ttl, ..Put::new(text.clone()).expect(expect) };
        let written = self.context.bus.put(self.bucket_name.clone(), name(key)?, put).await;
        if !is_right {
            return refused(&format!("a put on {expect:?}"), written, ErrorKind::Conflict);
        }
        let (revision, before) = (written?, self.bucket.newest());
        holds(revision > before, || format!("{revision:?} comes after {before:?}"))?;
        self.bucket.put(key, Value { text, revision, end: ttl.map(|ttl| now + ttl) });
        Ok(())
    }

    pub(super) async fn delete(&mut self, key: u8, known: Known) -> CaseResult {
        let newest = self.get(key).await?;
        let (expect, is_right) = self.expectation(key, newest, known);
        let deleted = self.context.bus.delete(self.bucket_name.clone(), name(key)?, expect).await;
        if !is_right {
            return refused(&format!("a delete on {expect:?}"), deleted, ErrorKind::Conflict);
        }
        deleted?;
        self.bucket.remove(key);
        Ok(())
    }

    pub(super) async fn open_watch(&mut self, watch: u8) -> CaseResult {
        let opened = self.context.watch(&self.bucket_name, Revision::START).await?;
        self.watches.insert(watch, (opened, Reader::default()));
        Ok(())
    }

    /// Reads some items, or all there are and compares then.
    pub(super) async fn read_watch(&mut self, watch: u8, items: Option<u8>) -> CaseResult {
        let now = self.now();
        let Some((watch, reader)) = self.watches.get_mut(&watch) else { return Ok(()) };
        for _ in 0..items.unwrap_or(u8::MAX) {
            let Some(item) = self.context.now_or_nothing(watch.next()).await else { break };
            let item = item.ok_or_else(|| Failure::new("the watch ended"))??;
            reader.apply(item, &self.bucket).map_err(Failure::new)?;
        }
        if items.is_some() {
            return Ok(());
        }
        holds(reader.is_current, || "a watch never said that it is current".to_owned())?;
        reader.compare(&self.bucket, now).map_err(Failure::new)
    }

    /// Drops the watch and goes on behind the last change it told.
    pub(super) async fn resume_watch(&mut self, watch: u8) -> CaseResult {
        let whole = self.watches.remove(&watch).filter(|(_, reader)| reader.is_current);
        let Some((_, mut reader)) = whole else {
            return self.open_watch(watch).await;
        };
        let opened = self.context.watch(&self.bucket_name, reader.last).await?;
        reader.is_current = false;
        self.watches.insert(watch, (opened, reader));
        Ok(())
    }
}

fn name(key: u8) -> CaseResult<BucketKey> {
    let name = KEYS.get(usize::from(key) % KEYS.len()).copied();
    Ok(BucketKey::parse(name.unwrap_or("a"))?)
}
