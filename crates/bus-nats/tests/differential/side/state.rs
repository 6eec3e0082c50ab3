//! Buckets: written, read and watched.

use std::fmt::Write;

use bus_core::{BucketMirror, ExpectRevision, Put, Result, Revision, Watch};
use bus_subjects::{BucketKey, Filter};
use tokio::time::{Instant, timeout, timeout_at};

use super::{AT_ONCE, LEASE, SOON, Side, parsed, seen, stored::told};
use crate::operation::{Known, Operation};

impl Side {
    pub(super) async fn play_kept(&mut self, operation: &Operation, other: Option<&str>) -> String {
        match operation {
            Operation::Put { key, known, ends } => {
                let (name, expect) = (name(*key), self.expected(*key, *known));
                let put = Put::new(format!("v{}", self.steps)).expect(expect);
                let put = if *ends { put.ttl(LEASE) } else { put };
                match self.engine.put(self.bucket(), name, put).await {
                    Ok(revision) => {
                        let all = self.revisions.values().flatten();
                        let is_later = all.max().is_none_or(|newest| *newest < revision);
                        self.revisions.entry(*key).or_default().push(revision);
                        format!("put, later than all before: {is_later}")
                    }
                    Err(error) => seen(&error),
                }
            }
            Operation::Delete { key, known } => {
                let expect = self.expected(*key, *known);
                let deleted = self.engine.delete(self.bucket(), name(*key), expect).await;
                told(deleted, |()| "deleted".to_owned())
            }
            Operation::Get { key } => {
                let got = self.engine.get(self.bucket(), name(*key)).await;
                told(got, |entry| match entry {
                    None => "nothing".to_owned(),
                    Some(entry) => {
                        let written = self.revisions.get(key).into_iter().flatten();
                        let place = written.take_while(|one| **one != entry.revision).count();
                        format!("{:?} of put {place}", entry.value)
                    }
                })
            }
            Operation::OpenWatch { watch, key } => {
                let keys =
                    key.map_or(Filter::all(), |key| parsed(Filter::parse(name(key).as_str())));
                self.open(*watch, keys, BucketMirror::new(), Revision::START).await
            }
            Operation::ReadWatch { watch } => match self.watches.get_mut(watch) {
                None => "no watch".to_owned(),
                Some((watch, _, mirror)) => read(watch, mirror, other).await,
            },
            Operation::ResumeWatch { watch } => match self.watches.remove(watch) {
                Some((_, keys, mirror)) if mirror.is_current() => {
                    let seen = mirror.seen();
                    self.open(*watch, keys, mirror, seen).await
                }
                _ => "no watch to go on with".to_owned(),
            },
            other => format!("{other:?} is nothing kept"),
        }
    }

    fn expected(&self, key: u8, known: Known) -> ExpectRevision {
        let written = self.revisions.get(&key).map_or(&[][..], Vec::as_slice);
        match (known, written) {
            (Known::Absent, _) => ExpectRevision::Absent,
            (Known::Newest, [.., newest]) => ExpectRevision::Exactly(*newest),
            (Known::Stale, [.., stale, _]) => ExpectRevision::Exactly(*stale),
            _ => ExpectRevision::Any,
        }
    }

    async fn open(
        &mut self,
        watch: u8,
        keys: Filter,
        mirror: BucketMirror,
        after: Revision,
    ) -> String {
        let opened = self.engine.watch(self.bucket(), keys.clone(), after).await;
        told(opened, |opened| {
            self.watches.insert(watch, (opened, keys, mirror));
            "a watch".to_owned()
        })
    }
}

/// Reads what is there; beside another engine, until it shows the same.
async fn read(watch: &mut Watch, mirror: &mut BucketMirror, other: Option<&str>) -> String {
    let end = Instant::now() + SOON;
    while other.is_none_or(|other| shown(mirror) != other) {
        let next = match other {
            None => timeout(AT_ONCE, watch.next()).await.ok(),
            Some(_) => timeout_at(end, watch.next()).await.ok(),
        };
        match next {
            None => break,
            Some(None) => return "the end".to_owned(),
            Some(Some(Ok(item))) => drop(mirror.apply(item)),
            Some(Some(Err(error))) => return seen(&error),
        }
    }
    shown(mirror)
}

fn shown(mirror: &BucketMirror) -> String {
    let mut all = format!("current {}", mirror.is_current());
    for (key, entry) in mirror.iter() {
        let _infallible = write!(all, "\n{key} {:?}", entry.value);
    }
    all
}

fn name(key: u8) -> BucketKey {
    let made: Result<_, _> = BucketKey::parse(["a", "b", "a.b", "a.b.c", "d"][usize::from(key)]);
    parsed(made)
}
