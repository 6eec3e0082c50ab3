//! Laws of buckets: random writes, expiries and readers against a plain map.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use bus_core::{BucketMirror, ErrorKind, ExpectRevision, Put, Revision, WatchItem};
use bus_subjects::{BucketKey, BucketName, Filter};
use proptest::{collection::vec, prelude::*};

use super::{
    super::{BucketStore, Progress, WatchId},
    at, filter,
};
use crate::Limits;

const KEYS: [&str; 6] = ["a", "b", "c.x", "c.y", "c.z", "d"];

#[derive(Debug, Clone)]
enum Op {
    Put {
        key: usize,
        ttl_ms: Option<u64>,
        expect: Guess,
    },
    Delete {
        key: usize,
        expect: Guess,
    },
    Pass {
        ms: u64,
    },
    /// Lets a reader take so many items.
    Read {
        reader: usize,
        items: usize,
    },
    /// The watch of a reader ends, and another goes on behind what it has seen.
    Reconnect {
        reader: usize,
    },
    /// A reader looks and finds nothing, or waits: the watches are called by what happens then.
    Drain {
        reader: usize,
    },
}

/// What a writer believes about a key.
#[derive(Debug, Clone, Copy)]
enum Guess {
    Nothing,
    Absent,
    Right,
    Wrong,
}

fn op() -> impl Strategy<Value = Op> {
    let guess = || {
        prop_oneof![
            4 => Just(Guess::Nothing),
            1 => Just(Guess::Absent),
            1 => Just(Guess::Right),
            1 => Just(Guess::Wrong),
        ]
    };
    let key = || 0..KEYS.len();
    prop_oneof![
        6 => (key(), proptest::option::of(1_u64..300), guess())
            .prop_map(|(key, ttl_ms, expect)| Op::Put { key, ttl_ms, expect }),
        3 => (key(), guess()).prop_map(|(key, expect)| Op::Delete { key, expect }),
        2 => (0_u64..200).prop_map(|ms| Op::Pass { ms }),
        4 => (0..READERS.len(), 1..4_usize).prop_map(|(reader, items)| Op::Read { reader, items }),
        1 => (0..READERS.len()).prop_map(|reader| Op::Reconnect { reader }),
        1 => (0..READERS.len()).prop_map(|reader| Op::Drain { reader }),
    ]
}

/// What the readers of a run follow.
const READERS: [&str; 4] = [">", "c.*", "a", "*"];

/// A value with its revision and its end.
type Held = (Vec<u8>, u64, Option<u64>);

/// The model: what is there, and until when.
#[derive(Default)]
struct Model {
    now: u64,
    values: BTreeMap<BucketKey, Held>,
    last: u64,
}

impl Model {
    /// The revision of a value that is there now.
    fn revision(&self, key: &BucketKey) -> Option<u64> {
        let (_, revision, end) = self.values.get(key)?;
        end.is_none_or(|end| self.now < end).then_some(*revision)
    }

    fn expect(&self, key: &BucketKey, guess: Guess) -> (ExpectRevision, bool) {
        let current = self.revision(key);
        match guess {
            Guess::Nothing => (ExpectRevision::Any, true),
            Guess::Absent => (ExpectRevision::Absent, current.is_none()),
            Guess::Right => match current {
                Some(current) => (ExpectRevision::Exactly(Revision(current)), true),
                None => (ExpectRevision::Absent, true),
            },
            Guess::Wrong => (ExpectRevision::Exactly(Revision(self.last + 1)), false),
        }
    }

    fn held(&self, by: &Filter) -> BTreeMap<BucketKey, (Vec<u8>, u64)> {
        let there = self
            .values
            .iter()
            .filter(|(key, _)| by.matches_key(key) && self.revision(key).is_some());
        there.map(|(key, (value, revision, _))| (key.clone(), (value.clone(), *revision))).collect()
    }
}

struct Reader {
    keys: Filter,
    watch: WatchId,
    items: VecDeque<WatchItem>,
    mirror: BucketMirror,
    waits: bool,
}

impl Reader {
    /// Takes up to `items_max` items; true when it waits.
    fn take(&mut self, store: &mut BucketStore, now: u64, items_max: usize) -> bool {
        for _ in 0..items_max {
            while self.items.is_empty() {
                if store.read(self.watch, at(now), &mut self.items) == Progress::Waits {
                    self.waits = true;
                    return true;
                }
                self.waits = false;
            }
            let item = self.items.pop_front().unwrap();
            self.mirror.apply(item);
        }
        false
    }

    fn mirrored(&self) -> BTreeMap<BucketKey, (Vec<u8>, u64)> {
        let entries = self.mirror.iter();
        entries.map(|(key, e)| (key.clone(), (e.value.to_vec(), e.revision.0))).collect()
    }
}

fn bucket() -> BucketName {
    BucketName::parse("b").unwrap()
}

struct Run {
    store: BucketStore,
    model: Model,
    readers: Vec<Reader>,
}

impl Run {
    fn new(tombstones_per_bucket_max: usize) -> Self {
        let limits = Limits { tombstones_per_bucket_max, ..Limits::default() };
        let mut store = BucketStore::new(limits);
        let readers = READERS.map(|keys| Reader {
            keys: filter(keys),
            watch: store.watch(bucket(), filter(keys), Revision::START).unwrap(),
            items: VecDeque::new(),
            mirror: BucketMirror::new(),
            waits: false,
        });
        Self { store, model: Model::default(), readers: readers.into() }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Put { key, ttl_ms, expect } => self.put(key, ttl_ms, expect),
            Op::Delete { key, expect } => self.delete(key, expect),
            Op::Pass { ms } => self.model.now += ms,
            Op::Read { reader, items } => {
                self.readers[reader].take(&mut self.store, self.model.now, items);
            }
            Op::Reconnect { reader } => {
                let reader = &mut self.readers[reader];
                self.store.unwatch(reader.watch);
                let (keys, after) = (reader.keys.clone(), reader.mirror.seen());
                reader.watch = self.store.watch(bucket(), keys, after).unwrap();
                (reader.waits, reader.items) = (false, VecDeque::new());
            }
            Op::Drain { reader } => {
                self.readers[reader].take(&mut self.store, self.model.now, usize::MAX);
            }
        }
        for called in self.store.take_called().collect::<Vec<_>>() {
            let reader = self.readers.iter_mut().find(|reader| reader.watch == called).unwrap();
            assert!(std::mem::take(&mut reader.waits), "only those that wait are called, and once");
        }
    }

    fn put(&mut self, key: usize, ttl_ms: Option<u64>, guess: Guess) {
        let (key, model) = (BucketKey::parse(KEYS[key]).unwrap(), &mut self.model);
        let (expect, holds) = model.expect(&key, guess);
        let value = format!("{key} at {}", model.last).into_bytes();
        let put =
            Put { value: value.clone().into(), expect, ttl: ttl_ms.map(Duration::from_millis) };
        let written = self.store.put(&bucket(), &key, put, at(model.now));
        if !holds {
            assert_eq!(written.unwrap_err().kind(), ErrorKind::Conflict);
            return;
        }
        let revision = written.unwrap().0;
        assert!(revision > model.last, "revisions grow");
        model.last = revision;
        let end = ttl_ms.map(|ms| model.now + ms);
        model.values.insert(key, (value, revision, end));
    }

    fn delete(&mut self, key: usize, guess: Guess) {
        let (key, model) = (BucketKey::parse(KEYS[key]).unwrap(), &mut self.model);
        let (expect, holds) = model.expect(&key, guess);
        let deleted = self.store.delete(&bucket(), &key, expect, at(model.now));
        if holds {
            deleted.unwrap();
            model.values.remove(&key);
        } else {
            assert_eq!(deleted.unwrap_err().kind(), ErrorKind::Conflict);
        }
    }

    fn check_values(&self) {
        for key in KEYS.map(|key| BucketKey::parse(key).unwrap()) {
            let entry = self.store.get(&bucket(), &key, at(self.model.now));
            assert_eq!(entry.map(|entry| entry.revision.0), self.model.revision(&key), "{key}");
        }
    }

    /// A reader that waits knows everything, but for what ended and was not swept yet.
    fn check_those_who_wait(&mut self) {
        self.store.sweep(at(self.model.now));
        for called in self.store.take_called().collect::<Vec<_>>() {
            let reader = self.readers.iter_mut().find(|reader| reader.watch == called).unwrap();
            reader.waits = false;
        }
        for reader in self.readers.iter().filter(|reader| reader.waits) {
            assert!(reader.mirror.is_current());
            assert_eq!(reader.mirrored(), self.model.held(&reader.keys), "{}", reader.keys);
        }
    }
}

proptest! {
    /// A bucket agrees with a map, and whoever applies the items of its watch ends with what the
    /// bucket holds: whatever it was slow for, was cut off from, or was forgotten meanwhile.
    #[test]
    fn a_watched_bucket_is_mirrored(
        tombstones_max in 0..4_usize,
        ops in vec(op(), 1..200),
    ) {
        let mut run = Run::new(tombstones_max);
        for op in &ops {
            run.apply(op);
            run.check_values();
            run.check_those_who_wait();
        }
        for reader in 0..READERS.len() {
            run.apply(&Op::Drain { reader });
            run.check_those_who_wait();
            assert!(run.readers[reader].waits);
        }
    }

    /// What a store holds stays within its bytes whatever happens, and is empty again when every
    /// key ended and its end was forgotten.
    #[test]
    fn a_store_counts_its_bytes(
        sizes in vec((0..8_usize, 0..3_usize, 0..600_usize, any::<bool>()), 1..100),
    ) {
        const BYTES_MAX: u64 = 2_000;
        let limits = Limits { bucket_bytes_max: BYTES_MAX, ..Limits::default() };
        let mut store = BucketStore::new(limits);
        let mut values = BTreeMap::new();
        for (key, bucket, bytes, deletes) in sizes {
            let place = (format!("b{bucket}"), format!("k{key}"));
            let (bucket, key) =
                (BucketName::parse(&place.0).unwrap(), BucketKey::parse(&place.1).unwrap());
            if deletes {
                store.delete(&bucket, &key, ExpectRevision::Any, at(0)).unwrap();
                values.remove(&place);
                continue;
            }
            let before = values.insert(place.clone(), bytes);
            let sum: u64 = values.values().map(|bytes| 256 + 2 + *bytes as u64).sum();
            let written = store.put(&bucket, &key, Put::new(vec![0; bytes]), at(0));
            prop_assert_eq!(written.is_ok(), sum <= BYTES_MAX, "{} bytes", sum);
            match (written, before) {
                (Ok(_), _) => {}
                (Err(_), Some(bytes)) => drop(values.insert(place, bytes)),
                (Err(_), None) => drop(values.remove(&place)),
            }
        }
    }
}
