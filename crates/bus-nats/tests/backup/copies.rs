//! Streams of three copies that come back.

use bus_core::{Bus as _, Retention};
use bus_nats::{NatsBus, NatsOptions, Profile};
use bus_testserver::TestCluster;

use crate::place::{append, declare, stored};

async fn connect(cluster: &TestCluster) -> NatsBus {
    let servers = cluster.urls();
    let options = NatsOptions { servers, profile: Profile::Replicated, ..NatsOptions::new("") };
    NatsBus::open(options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_with_copies_know_the_ids_at_the_end_of_a_restore() {
    let (here, there) = (TestCluster::start(), TestCluster::start());
    let (from, into) = (connect(&here).await, connect(&there).await);
    declare(&from, "RECORDS", Retention::AppendOnly).await;
    for n in 0..50 {
        append(&from, "records.one", &format!("r{n}")).await.unwrap();
    }
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("backup");
    from.backup(&dir, &mut |_| ()).await.unwrap();
    assert!(into.restore(&dir, &mut |_| ()).await.unwrap().knows_ids);
    let repeated = append(&into, "records.one", "r3").await.unwrap();
    assert_eq!((repeated.seq.0, repeated.duplicate), (4, true));
    assert_eq!(stored(&into, "RECORDS").await.len(), 50);
    // With as many copies as it had.
    declare(&into, "RECORDS", Retention::AppendOnly).await;
    into.close().await.unwrap();
}
