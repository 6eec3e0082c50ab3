//! What the host of a daemon refuses, whoever asks.

use std::path::Path;

use bus_disk::DiskOptions;

use super::*;

/// A host with a bus, and the directory that both are in.
fn host() -> (tempfile::TempDir, Host) {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let bus = DiskBus::open(DiskOptions::new(home.join("bus"))).unwrap();
    let host = Host::new(Some(&bus), home);
    (dir, host)
}

async fn backup(host: &Host, dir: &Path) -> Result<String> {
    host.control(BACKUP.to_owned(), dir.display().to_string()).await
}

#[tokio::test]
async fn a_second_backup_waits_for_its_turn_elsewhere() {
    let (dir, host) = host();
    let making = host.making.lock().await;
    let error = backup(&host, &dir.path().join("b")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    drop(making);
    backup(&host, &dir.path().join("b")).await.unwrap();
}

#[tokio::test]
async fn a_directory_that_the_client_did_not_check_is_checked_here() {
    let (dir, host) = host();
    for place in [dir.path().join("home/bus/b"), PathBuf::from("../b")] {
        let error = backup(&host, &place).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
}

#[tokio::test]
async fn a_verb_that_is_no_backup_is_unsupported() {
    let (_dir, host) = host();
    let error = host.control("format".to_owned(), String::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}
