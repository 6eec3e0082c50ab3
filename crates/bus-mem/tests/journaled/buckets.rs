//! Buckets of a bus with a journal.

use bus_core::{Buckets as _, ExpectRevision, Put, Revision, WatchItem};
use bus_mem::journal::Statement;
use bus_subjects::{BucketKey, BucketName};

use super::*;

fn bucket() -> BucketName {
    BucketName::parse("b").unwrap()
}

fn key() -> BucketKey {
    BucketKey::parse("k").unwrap()
}

#[tokio::test]
async fn a_value_is_shown_when_it_is_safe() {
    let (bus, journal) = queue().await;
    let mut put = bus.put(bucket(), key(), Put::new("v"));
    assert!(poll(&mut put).is_pending());
    let mut got = bus.get(bucket(), key());
    assert!(poll(&mut got).is_pending());
    journal.settle();
    assert_eq!(put.await.unwrap(), Revision(1));
    assert_eq!(got.await.unwrap().unwrap().value, "v");
}

#[tokio::test]
async fn a_deletion_is_answered_when_it_is_safe() {
    let (bus, journal) = queue().await;
    drop(poll(&mut bus.put(bucket(), key(), Put::new("v"))));
    let mut deleted = bus.delete(bucket(), key(), ExpectRevision::Any);
    assert!(poll(&mut deleted).is_pending());
    journal.settle();
    deleted.await.unwrap();
    let last = journal.changes().pop();
    assert!(matches!(last, Some(Statement::Ended { revision: 2, expired: false, .. })));
}

#[tokio::test]
async fn a_watch_tells_what_is_safe() {
    let (bus, journal) = queue().await;
    let mut watch = bus.watch(bucket(), filter(">"), Revision::START).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap(), WatchItem::Current);
    drop(poll(&mut bus.put(bucket(), key(), Put::new("v"))));
    assert!(poll(&mut Box::pin(watch.next())).is_pending());
    assert!(poll(&mut Box::pin(watch.next())).is_pending());
    journal.settle();
    let told = watch.next().await.unwrap().unwrap();
    assert!(matches!(told, WatchItem::Changed(change) if change.revision == Revision(1)));
}

#[tokio::test]
async fn a_watch_of_what_could_not_be_kept_says_so_and_ends() {
    let (bus, journal) = queue().await;
    let mut watch = bus.watch(bucket(), filter(">"), Revision::START).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap(), WatchItem::Current);
    drop(poll(&mut bus.put(bucket(), key(), Put::new("v"))));
    assert!(poll(&mut Box::pin(watch.next())).is_pending());
    journal.fail();
    let told = watch.next().await.unwrap();
    assert_eq!(told.unwrap_err().kind(), bus_core::ErrorKind::Unavailable);
    assert!(watch.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_end_by_time_is_kept_as_one() {
    let journal = MemoryJournal::holding(Vec::new(), Durability::Synced);
    let origin = bus_envelope::Timestamp::from_unix_ns(1_800_000_000_000_000_000);
    let clock = Arc::new(bus_core::TokioClock::starting_at(origin));
    let (image, kept) = (image_of(&[]), Arc::clone(&journal));
    let bus = InMemoryBus::journaled(clock, Limits::default(), kept, image, 1);
    let ttl = Some(Duration::from_secs(1));
    drop(poll(&mut bus.put(bucket(), key(), Put { ttl, ..Put::new("v") })));
    tokio::time::advance(Duration::from_secs(2)).await;
    // Any write looks at the time.
    let other = BucketKey::parse("other").unwrap();
    drop(poll(&mut bus.put(bucket(), other, Put::new("v"))));
    let ended =
        |change: &Statement| matches!(change, Statement::Ended { revision: 2, expired: true, .. });
    assert!(journal.changes().iter().any(ended));
}
