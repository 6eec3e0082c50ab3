//! The law of what survives of buckets.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bus_core::{Durability, ExpectRevision, Put, Revision, WatchItem};
use bus_subjects::{BucketKey, BucketName};
use proptest::{collection::vec, prelude::*};

use super::{
    super::{BucketCursor, BucketStore, Progress},
    at, filter,
    kept::{Kept, image},
};
use crate::{Limits, journal::Statement};

const BUCKETS: [&str; 2] = ["one", "two"];

#[derive(Debug, Clone)]
enum Op {
    Put { bucket: usize, key: u8, ttl_ms: Option<u64>, is_new: bool },
    Delete { bucket: usize, key: u8 },
    Get { bucket: usize, key: u8 },
    Watch { bucket: usize, after: u64 },
    Sweep,
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let place = || (0..BUCKETS.len(), 0..6_u8);
    let ttl = proptest::option::weighted(0.4, 1_u64..10_000);
    prop_oneof![
        6 => (place(), ttl, any::<bool>()).prop_map(|((bucket, key), ttl_ms, is_new)| {
            Op::Put { bucket, key, ttl_ms, is_new }
        }),
        3 => place().prop_map(|(bucket, key)| Op::Delete { bucket, key }),
        2 => place().prop_map(|(bucket, key)| Op::Get { bucket, key }),
        2 => (0..BUCKETS.len(), 0..40_u64).prop_map(|(bucket, after)| Op::Watch { bucket, after }),
        1 => Just(Op::Sweep),
        2 => (0..5_000_u64).prop_map(Op::Pass),
    ]
}

struct World {
    store: BucketStore,
    now: u64,
}

fn bucket(index: usize) -> BucketName {
    BucketName::parse(BUCKETS[index]).unwrap()
}

fn key(key: u8) -> BucketKey {
    BucketKey::parse(&format!("k{key}")).unwrap()
}

/// Limits under which a bucket remembers few ends.
fn forgetful() -> Limits {
    Limits { tombstones_per_bucket_max: 2, ..Limits::default() }
}

impl World {
    fn begin(journal: &Arc<Kept>, limits: Limits) -> Self {
        let mut store = BucketStore::new(limits);
        store.keep(Arc::clone(journal) as _);
        Self { store, now: 0 }
    }

    fn again(&self, statements: &[Statement], limits: Limits) -> Self {
        let mut image = crate::core::Image::new(limits);
        statements.iter().for_each(|statement| image.apply(statement.change()).unwrap());
        let (_, store) = image.restore(limits, Durability::Memory, 1);
        Self { store, now: self.now }
    }

    fn run(&mut self, op: &Op) -> String {
        let now = at(self.now);
        match op {
            Op::Put { bucket: of, key: k, ttl_ms, is_new } => {
                let expect = if *is_new { ExpectRevision::Absent } else { ExpectRevision::Any };
                let ttl = ttl_ms.map(Duration::from_millis);
                let put = Put { expect, ttl, ..Put::new(format!("{}", self.now)) };
                let put = self.store.put(&bucket(*of), &key(*k), put, now);
                format!("{:?}", put.map_err(|error| error.kind()))
            }
            Op::Delete { bucket: of, key: k } => {
                let gone = self.store.delete(&bucket(*of), &key(*k), ExpectRevision::Any, now);
                format!("{:?}", gone.map_err(|error| error.kind()))
            }
            Op::Get { bucket: of, key: k } => {
                format!("{:?}", self.store.get(&bucket(*of), &key(*k), now))
            }
            Op::Watch { bucket: of, after } => format!("{:?}", self.watch(*of, *after)),
            Op::Sweep => self.store.sweep(now).to_string(),
            Op::Pass(ms) => {
                self.now += ms;
                String::new()
            }
        }
    }

    /// What a watch behind `after` is told.
    fn watch(&mut self, of: usize, after: u64) -> VecDeque<WatchItem> {
        let watch = self.store.watch(bucket(of), filter(">"), Revision(after)).unwrap();
        let mut items = VecDeque::new();
        while self.store.read(watch, at(self.now), &mut items) != Progress::Waits {}
        self.store.unwatch(watch);
        items
    }

    fn look(&mut self) -> String {
        let all = (0..BUCKETS.len()).map(|of| format!("{:?}", self.watch(of, 0)));
        all.collect()
    }
}

fn go_on(mut before: World, mut after: World, ops: &[Op]) -> Result<(), TestCaseError> {
    prop_assert_eq!(before.look(), after.look());
    for op in ops {
        prop_assert_eq!(before.run(op), after.run(op), "{:?}", op);
        prop_assert_eq!(before.look(), after.look(), "{:?}", op);
    }
    Ok(())
}

proptest! {
    #[test]
    fn all_changes_make_the_buckets_anew(
        ops in vec(op(), 1..120),
        later in vec(op(), 1..40),
        is_forgetful in any::<bool>(),
    ) {
        let limits = if is_forgetful { forgetful() } else { Limits::default() };
        let journal = Kept::new();
        let mut world = World::begin(&journal, limits);
        ops.iter().for_each(|op| drop(world.run(op)));
        let again = world.again(&journal.since(0), limits);
        go_on(world, again, &later)?;
    }

    #[test]
    fn a_picture_and_the_changes_since_make_the_buckets_anew(
        ops in vec(op(), 1..80),
        meanwhile in vec((op(), any::<bool>()), 1..80),
        later in vec(op(), 1..40),
    ) {
        let journal = Kept::new();
        let mut world = World::begin(&journal, Limits::default());
        ops.iter().for_each(|op| drop(world.run(op)));
        let begun = journal.len();
        let statements = picture(&mut world, &meanwhile);
        let statements = [statements, journal.since(begun)].concat();
        let again = world.again(&statements, Limits::default());
        go_on(world, again, &later)?;
    }

    /// Ends that are forgotten while a picture is taken are told of as lost, not in silence.
    #[test]
    fn whoever_mirrors_a_forgetful_bucket_ends_with_what_it_holds(
        ops in vec(op(), 1..80),
        meanwhile in vec((op(), any::<bool>()), 1..80),
        after in 0..60_u64,
    ) {
        let journal = Kept::new();
        let mut world = World::begin(&journal, forgetful());
        ops.iter().for_each(|op| drop(world.run(op)));
        let begun = journal.len();
        let statements = picture(&mut world, &meanwhile);
        let statements = [statements, journal.since(begun)].concat();
        let mut again = world.again(&statements, forgetful());
        for of in 0..BUCKETS.len() {
            let told = again.watch(of, after);
            // Either everything comes anew, or no change is missing.
            if told.front() != Some(&WatchItem::Resync) {
                prop_assert_eq!(told, world.watch(of, after));
            }
        }
    }
}

/// Takes a picture while `meanwhile` goes on.
fn picture(world: &mut World, meanwhile: &[(Op, bool)]) -> Vec<Statement> {
    let (mut cursor, mut statements) = (BucketCursor::default(), Vec::new());
    let mut goes_on = true;
    for (op, has_piece) in meanwhile {
        if *has_piece && goes_on {
            goes_on = world.store.picture(&mut cursor, at(world.now), &mut statements);
        }
        world.run(op);
    }
    while goes_on {
        goes_on = world.store.picture(&mut cursor, at(world.now), &mut statements);
    }
    statements
}

#[test]
fn an_image_of_nothing_is_an_empty_store() {
    let (_, store) = image(&[]).restore(Limits::default(), Durability::Memory, 1);
    assert!(store.get(&bucket(0), &key(0), at(0)).is_none());
}
