//! Backups that are damaged, incomplete or not what they seem: named, and never used.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use bus_core::{Error, ErrorKind};
use bus_crypto::{
    NkeyKind, SigningKey, SystemEntropy,
    jwt::{Permissions, SubjectPermission},
};
use bus_nats::{
    NatsAuth, NatsBus, NatsOptions,
    server::{Authorization, NkeyUser, ServerConfig},
    verify_backup,
};
use bus_testserver::TestServer;
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::place::{Place, files, noise};

/// A backup of a filled place.
async fn backed_up() -> (Place, PathBuf) {
    let place = Place::filled().await;
    place.back_up().await;
    let dir = place.path("backup");
    (place, dir)
}

fn refusal(dir: &Path, kind: ErrorKind, what: &str) -> Error {
    let error = verify_backup(dir).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(what), "{error}: {what}");
    error
}

fn flip(file: &Path, at: usize, bit: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 1 << bit;
    fs::write(file, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_flipped_bit_is_found_before_anything_is_restored() {
    let (place, dir) = backed_up().await;
    let again = Place::empty().await;
    for file in files(&dir) {
        let bytes = fs::read(&file).unwrap().len();
        for at in [0, 1, bytes / 3, bytes / 2, bytes - 2, bytes - 1] {
            let bit = at % 8;
            flip(&file, at, bit);
            let refused = again.restore(&place).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}: {file:?} {at}");
            assert!(refused.to_string().contains(file.to_str().unwrap()), "{refused}");
            flip(&file, at, bit);
        }
    }
    assert_eq!(again.streams().await, [""; 0]);
    again.restore(&place).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_missing_cut_or_added_is_named() {
    let (_place, dir) = backed_up().await;
    for file in files(&dir.join("streams")) {
        let bytes = fs::read(&file).unwrap();
        let name = file.to_str().unwrap();
        fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
        refusal(&dir, ErrorKind::Corrupt, name);
        fs::write(&file, [&bytes[..], b"x"].concat()).unwrap();
        refusal(&dir, ErrorKind::Corrupt, name);
        fs::remove_file(&file).unwrap();
        refusal(&dir, ErrorKind::Corrupt, &format!("{name} is missing"));
        fs::write(&file, bytes).unwrap();
    }
    for added in ["more", "streams/0099-MORE.snap"] {
        fs::write(dir.join(added), "x").unwrap();
        refusal(&dir, ErrorKind::Corrupt, added);
        fs::remove_file(dir.join(added)).unwrap();
    }
    verify_backup(&dir).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_a_backup_is_not_followed() {
    let (place, dir) = backed_up().await;
    let file = files(&dir.join("streams")).remove(0);
    let away = place.path("away");
    fs::rename(&file, &away).unwrap();
    symlink(&away, &file).unwrap();
    refusal(&dir, ErrorKind::Corrupt, "is no plain file");
    fs::remove_file(&file).unwrap();
    fs::rename(&away, &file).unwrap();
    fs::rename(dir.join("streams"), &away).unwrap();
    symlink(&away, dir.join("streams")).unwrap();
    refusal(&dir, ErrorKind::Corrupt, "is no plain file");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_not_made_through_a_link() {
    let place = Place::filled().await;
    let (dir, away) = (place.path("backup"), place.path("away"));
    fs::create_dir(&away).unwrap();
    symlink(&away, &dir).unwrap();
    place.bus.backup(&dir, &mut |_| ()).await.unwrap_err();
    assert_eq!(files(&away), [""; 0].map(PathBuf::from));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_without_a_manifest_is_no_backup() {
    let (place, dir) = backed_up().await;
    fs::remove_file(dir.join("manifest")).unwrap();
    refusal(&dir, ErrorKind::NotFound, "is no backup");
    let again = Place::empty().await;
    let refused = again.restore(&place).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    refusal(&place.path("nowhere"), ErrorKind::NotFound, "is no directory");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_backup_is_none() {
    let place = Place::filled().await;
    place.put_blob("more", noise(4 << 20)).await;
    let dir = place.path("backup");
    let (sender, begun) = oneshot::channel();
    let mut sender = Some(sender);
    let mut told = |step: bus_nats::BackupStep<'_>| {
        // In the middle of the largest stream, when others are written already.
        if step.stream == "VKB_STATE" {
            let _once = sender.take().map(|sender| sender.send(()));
        }
    };
    tokio::select! {
        biased;
        begun = begun => begun.unwrap(),
        ended = place.bus.backup(&dir, &mut told) => panic!("it ended: {ended:?}"),
    }
    refusal(&dir, ErrorKind::NotFound, "is no directory");
    place.back_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_meanwhile_leaves_no_backup() {
    let mut place = Place::filled().await;
    place.put_blob("more", noise(4 << 20)).await;
    let dir = place.path("backup");
    fs::create_dir(&dir).unwrap();
    let Place { bus, server, .. } = &mut place;
    let mut told = |step: bus_nats::BackupStep<'_>| {
        if step.stream == "VKB_STATE" {
            server.kill();
        }
    };
    let failed = bus.backup(&dir, &mut told).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unavailable, "{failed}");
    assert!(!failed.to_string().contains("is left"), "{failed}");
    // It was there before, and is as empty as it was.
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_may_not_answer_the_chunks_is_refused_and_leaves_nothing() {
    let user = SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap();
    let publish =
        SubjectPermission { deny: vec!["$JS.SNAPSHOT.ACK.>".to_owned()], ..Default::default() };
    let permissions = Some(Permissions { publish, ..Permissions::default() });
    let users = vec![NkeyUser { key: *user.public(), permissions }];
    let authorization = Authorization::Nkeys(users);
    let server = TestServer::start_with(ServerConfig { authorization, ..ServerConfig::default() });
    let auth = NatsAuth::Nkey(std::sync::Arc::new(user));
    let options = NatsOptions { auth, ..NatsOptions::new(server.url()) };
    let bus = NatsBus::open(options).await.unwrap();
    // More than the server sends ahead.
    let body = bytes::Bytes::from(noise(12 << 20));
    let key = bus_subjects::BucketKey::parse("b").unwrap();
    bus_core::Blobs::put_blob(&bus, crate::place::bucket(), key, body.into()).await.unwrap();
    let home = TempDir::new().unwrap();
    let dir = home.path().join("backup");
    let refused = bus.backup(&dir, &mut |_| ()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
    assert!(!dir.exists());
}

/// A place whose server finds one bit of the blobs' stream flipped when it reads it again, so many
/// bytes behind the beginning of one of its messages.
async fn damaged(message: usize, at: usize) -> Place {
    let mut place = Place::filled().await;
    // It reads from the disk again what it had in memory.
    place.server.restart().unwrap();
    place.bus = crate::place::connect(&place.server).await;
    let is_block = |path: &PathBuf| path.ends_with("VKB_STATE/msgs/1.blk");
    let block = files(place.server.home()).into_iter().find(is_block).unwrap();
    let bytes = fs::read(&block).unwrap();
    let begin = (0..message).fold(0, |begin, _| {
        // Each begins with its length, of which one bit is a mark.
        let length: [u8; 4] = bytes[begin..begin + 4].try_into().unwrap();
        begin + (u32::from_le_bytes(length) & 0x7fff_ffff) as usize
    });
    flip(&block, begin + at, 3);
    place
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_on_the_server_makes_no_backup() {
    // The length of the first message, and the content of the first piece of a blob: the server
    // leaves out all behind the one, and that piece alone, and says nothing of either.
    for at in [3, 30_000] {
        let place = damaged(0, at).await;
        let dir = place.path("backup");
        let refused = place.bus.backup(&dir, &mut |_| ()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
        let told = refused.to_string();
        assert!(told.contains("VKB_STATE") && told.contains("leaves out"), "{told}");
        assert!(!dir.exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_threw_away_as_damaged_makes_no_backup() {
    let place = damaged(3, 3).await;
    let dir = place.path("backup");
    place.bus.backup(&dir, &mut |_| ()).await.unwrap_err();
    // Now it knows, and what it says that it holds is what is left.
    let refused = place.bus.backup(&dir, &mut |_| ()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    assert!(refused.to_string().contains("threw them away"), "{refused}");
}
