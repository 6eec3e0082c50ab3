//! Backups tried out on a server of their own.

use std::{fs, path::Path};

use bus_core::ErrorKind;
use bus_nats::{try_backup, verify_backup};
use bus_testserver::options;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::place::{Place, files};

#[tokio::test(flavor = "multi_thread")]
async fn a_good_backup_becomes_what_it_was_on_a_server_of_its_own() {
    let place = Place::filled().await;
    let made = place.back_up().await;
    let scratch = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    let mut told = |step: bus_nats::BackupStep<'_>| seen.push((step.number, step.streams));
    let options = options(scratch.path());
    let tried = try_backup(&place.path("backup"), options, &mut told).await.unwrap();
    assert_eq!(tried, made);
    seen.dedup();
    assert_eq!(seen, [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]);
}

/// Puts the manifest in order after a change of its files or words: who does that on purpose leaves
/// no hash behind that tells of it.
fn forge(dir: &Path, change: impl Fn(&mut String)) {
    let manifest = dir.join("manifest");
    let text = fs::read_to_string(&manifest).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let count = lines.len() - 3;
    lines.pop();
    for (line, file) in lines.iter_mut().skip(2).zip(files(&dir.join("streams"))) {
        let bytes = fs::read(file).unwrap();
        let mut entry: serde_json::Value = serde_json::from_str(line).unwrap();
        entry["bytes"] = bytes.len().into();
        entry["sha256"] = HEXLOWER.encode(&Sha256::digest(&bytes)).into();
        *line = entry.to_string();
    }
    let mut body = lines.join("\n") + "\n";
    change(&mut body);
    let hash = HEXLOWER.encode(&Sha256::digest(&body));
    fs::write(manifest, format!("{body}end {count} {hash}\n")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_hash_tells_of_the_server_finds() {
    let place = Place::filled().await;
    place.back_up().await;
    let dir = place.path("backup");
    let file = files(&dir.join("streams")).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    forge(&dir, |_| ());
    verify_backup(&dir).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let found = try_backup(&dir, options(scratch.path()), &mut |_| ()).await.unwrap_err();
    assert_eq!(found.kind(), ErrorKind::Corrupt, "{found}");
    assert!(found.to_string().contains("restore failed"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_becomes_another_than_the_manifest_says_is_told() {
    let place = Place::filled().await;
    place.back_up().await;
    let dir = place.path("backup");
    forge(&dir, |text| *text = text.replacen("\"messages\":20", "\"messages\":21", 1));
    verify_backup(&dir).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let found = try_backup(&dir, options(scratch.path()), &mut |_| ()).await.unwrap_err();
    assert!(found.to_string().contains("messages is 20, was 21"), "{found}");
    let again = Place::empty().await;
    let found = again.restore(&place).await.unwrap_err();
    assert!(found.to_string().contains("messages is 20, was 21"), "{found}");
}
