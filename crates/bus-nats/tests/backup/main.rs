//! Backups of real servers: nothing acknowledged is missing, nothing damaged is used, and nothing
//! that is there is touched.
#![cfg(test)]

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use bus_core::{Bus as _, ErrorKind, Retention};
use bus_nats::verify_backup;

use crate::place::{Place, append, connect, declare, files, noise, stored};

mod copies;
mod damage;
mod place;
mod queues;
mod trial;

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_bus_holds_what_was_backed_up_at_the_same_places() {
    let place = Place::filled().await;
    let made = place.back_up().await;
    let again = Place::empty().await;
    let restored = again.restore(&place).await.unwrap();
    assert_eq!(restored.backup, made);
    assert_eq!(again.streams().await, place.streams().await);
    assert_eq!(again.content().await, place.content().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_stream_is_the_one_that_is_declared() {
    let place = Place::filled().await;
    place.back_up().await;
    let again = Place::empty().await;
    again.restore(&place).await.unwrap();
    // A declaration is refused when anything differs.
    declare(&again.bus, "WORK", Retention::WorkQueue).await;
    declare(&again.bus, "RECORDS", Retention::AppendOnly).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_made_under_load_restores_all_that_was_acknowledged_before() {
    let place = Place::filled().await;
    let bus = connect(&place.server).await;
    let (acknowledged, told) = tokio::sync::watch::channel(0);
    let writer = async {
        let mut n = 0;
        // Until nobody listens any more.
        while !acknowledged.is_closed() {
            append(&bus, "records.two", &format!("load{n}")).await.unwrap();
            acknowledged.send_replace(n);
            n += 1;
        }
    };
    let copier = async {
        let mut told = told;
        let before = *told.wait_for(|n| *n >= 50).await.unwrap();
        place.back_up().await;
        // It was written to all the time.
        told.wait_for(|n| *n > before).await.unwrap();
        before
    };
    let ((), before) = tokio::join!(writer, copier);
    let again = Place::empty().await;
    again.restore(&place).await.unwrap();
    let kept: Vec<_> = stored(&again.bus, "RECORDS").await.into_iter().map(|(_, id)| id).collect();
    for n in 0..=before {
        assert!(kept.contains(&format!("load{n}")), "{n} of {before} is missing: {kept:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_larger_than_what_a_server_sends_ahead_is_taken_whole() {
    let place = Place::empty().await;
    for n in 0..5 {
        place.put_blob(&format!("b{n}"), noise(3 << 20)).await;
    }
    let mut most = 0;
    let dir = place.path("backup");
    let made = place.bus.backup(&dir, &mut |step| most = most.max(step.bytes)).await.unwrap();
    assert!(made.bytes > 15 << 20, "{made:?}");
    assert!(most > 14 << 20, "{most}");
    let again = Place::empty().await;
    again.restore(&place).await.unwrap();
    assert_eq!(again.streams().await, place.streams().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tells_of_work_is_taken_after_the_work_and_given_back_before_it() {
    let place = Place::filled().await;
    let (mut taken, mut given) = (Vec::new(), Vec::new());
    let note = |list: &mut Vec<String>, stream: &str| {
        if list.last().is_none_or(|last| last != stream) {
            list.push(stream.to_owned());
        }
    };
    let dir = place.path("backup");
    place.bus.backup(&dir, &mut |step| note(&mut taken, step.stream)).await.unwrap();
    let again = Place::empty().await;
    again.bus.restore(&dir, &mut |step| note(&mut given, step.stream)).await.unwrap();
    let at = |list: &[String], name: &str| list.iter().position(|stream| stream == name).unwrap();
    assert_eq!(taken[0], "WORK", "{taken:?}");
    assert!(at(&taken, "RECORDS") < at(&taken, "KV_STATE"), "{taken:?}");
    assert!(at(&taken, "KV_STATE") < at(&taken, "VKB_STATE"), "{taken:?}");
    given.reverse();
    assert_eq!(taken, given);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_its_owner_reads_a_backup() {
    let place = Place::filled().await;
    place.back_up().await;
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let dir = place.path("backup");
    assert_eq!((mode(&dir), mode(&dir.join("streams"))), (0o700, 0o700));
    for file in files(&dir) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_not_empty_is_left_as_it_is() {
    let place = Place::filled().await;
    let dir = place.path("backup");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("mine"), "mine").unwrap();
    let refused = place.bus.backup(&dir, &mut |_| ()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert_eq!(files(&dir), [dir.join("mine")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_in_memory_is_named_and_left_out() {
    let place = Place::filled().await;
    let raw = async_nats::connect(place.server.url()).await.unwrap();
    let config = async_nats::jetstream::stream::Config {
        name: "BRIEF".to_owned(),
        subjects: vec!["brief".to_owned()],
        storage: async_nats::jetstream::stream::StorageType::Memory,
        ..Default::default()
    };
    async_nats::jetstream::new(raw).create_stream(config).await.unwrap();
    assert_eq!(place.back_up().await.left_out, ["BRIEF"]);
    assert_eq!(verify_backup(&place.path("backup")).unwrap().left_out, ["BRIEF"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_never_touches_what_is_there() {
    let place = Place::filled().await;
    place.back_up().await;
    let other = Place::empty().await;
    declare(&other.bus, "RECORDS", Retention::AppendOnly).await;
    append(&other.bus, "records.mine", "mine").await.unwrap();
    let refused = other.restore(&place).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert!(refused.to_string().contains("nothing was restored"), "{refused}");
    assert_eq!(other.streams().await, ["RECORDS"]);
    assert_eq!(stored(&other.bus, "RECORDS").await, [(1, "mine".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_ends_midway_names_what_it_has_done() {
    let place = Place::filled().await;
    place.back_up().await;
    let other = Place::empty().await;
    // Nobody of this name is there, and its subjects are another's.
    let raw = async_nats::connect(other.server.url()).await.unwrap();
    let config = async_nats::jetstream::stream::Config {
        name: "OTHER".to_owned(),
        subjects: vec!["records.>".to_owned()],
        ..Default::default()
    };
    async_nats::jetstream::new(raw).create_stream(config).await.unwrap();
    let refused = other.restore(&place).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    let told = refused.to_string();
    let done = "left there: VKB_STATE, KV_STATE, UNUSED";
    assert!(told.contains("RECORDS") && told.contains(done), "{told}");
    assert_eq!(other.streams().await, ["KV_STATE", "OTHER", "UNUSED", "VKB_STATE"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_known_again_once_the_restored_server_was_started_again() {
    let place = Place::filled().await;
    place.back_up().await;
    let mut again = Place::empty().await;
    let restored = again.restore(&place).await.unwrap();
    assert!(!restored.knows_ids);
    again.server.restart().unwrap();
    again.bus = connect(&again.server).await;
    let repeated = append(&again.bus, "records.one", "r3").await.unwrap();
    assert!(repeated.duplicate, "{repeated:?}");
    assert_eq!(repeated.seq.0, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_restore_leaves_no_stream_and_can_be_made_again() {
    let place = Place::empty().await;
    place.put_blob("b", noise(2 << 20)).await;
    place.back_up().await;
    let again = Place::empty().await;
    let (sender, begun) = tokio::sync::oneshot::channel();
    let (mut sender, dir) = (Some(sender), place.path("backup"));
    let mut told = |_: bus_nats::BackupStep<'_>| {
        let _once = sender.take().map(|sender| sender.send(()));
    };
    tokio::select! {
        biased;
        begun = begun => begun.unwrap(),
        ended = again.bus.restore(&dir, &mut told) => panic!("it ended: {ended:?}"),
    }
    assert_eq!(again.streams().await, [""; 0]);
    // The server gives up by itself what nobody goes on with.
    let until = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        match again.restore(&place).await {
            Ok(_) => break,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                assert!(tokio::time::Instant::now() < until, "{error}");
            }
        }
    }
    assert_eq!(again.streams().await, ["VKB_STATE"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_bus_makes_no_backup() {
    let place = Place::filled().await;
    place.bus.close().await.unwrap();
    let dir = place.path("backup");
    let refused = place.bus.backup(&dir, &mut |_| ()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed, "{refused}");
    assert!(!dir.exists());
}
