//! Blobs on a disk that fails: what was answered reads verified, nothing else is left.

use std::path::PathBuf;

use bus_core::{BlobBody, Blobs};
use bus_subjects::{BucketKey, BucketName};
use bytes::Bytes;

use super::{
    world::{bus_on, bus_with},
    *,
};
use crate::{DiskBus, DiskOptions, files::faulty::Fault};

/// What is under each key.
pub(crate) type Content = BTreeMap<&'static str, Vec<u8>>;

/// What a test did to the blobs: the content that was answered, and what it may be instead.
#[derive(Default)]
struct Done {
    answered: Content,
    asked: Content,
}

fn bucket() -> BucketName {
    BucketName::parse("b").unwrap()
}

fn key(name: &str) -> BucketKey {
    BucketKey::parse(name).unwrap()
}

/// Three pieces, the last one shorter.
fn content(of: u8) -> Vec<u8> {
    (0..150_000_u32).map(|at| of ^ (at % 251) as u8).collect()
}

pub(crate) async fn put(bus: &DiskBus, name: &str, content: &[u8]) -> Result<()> {
    let body = BlobBody::from(Bytes::copy_from_slice(content));
    bus.put_blob(bucket(), key(name), body).await.map(drop)
}

/// What a reader gets, and the error in the place of what it does not.
async fn read(bus: &DiskBus, name: &str) -> Option<(Vec<u8>, Result<()>)> {
    let mut blob = bus.get_blob(bucket(), key(name)).await.unwrap()?;
    let mut got = Vec::new();
    while let Some(piece) = blob.body.next().await {
        match piece {
            Ok(piece) => got.extend_from_slice(&piece),
            Err(error) => return Some((got, Err(error))),
        }
    }
    Some((got, Ok(())))
}

pub(crate) async fn all(bus: &DiskBus) -> Content {
    let mut found = Content::new();
    for name in ["one", "two"] {
        if let Some((content, ended)) = read(bus, name).await {
            ended.unwrap();
            found.insert(name, content);
        }
    }
    found
}

/// Puts, replaces and deletes until something fails.
async fn change(files: &FaultyFiles, done: &mut Done) -> Result<()> {
    let (bus, _said) = bus_on(files, SIZES)?;
    for (name, of) in [("one", Some(1)), ("two", Some(2)), ("one", Some(3)), ("two", None)] {
        match of {
            Some(of) => {
                done.asked.insert(name, content(of));
                put(&bus, name, &content(of)).await?;
            }
            None => {
                done.asked.remove(name);
                bus.delete_blob(bucket(), key(name)).await?;
            }
        }
        done.answered = done.asked.clone();
    }
    Ok(())
}

fn blob_files(files: &FaultyFiles) -> Vec<PathBuf> {
    let blobs = Path::new(DIR).join("blobs");
    files.paths().into_iter().filter(|path| path.starts_with(&blobs)).collect()
}

#[tokio::test]
async fn a_stop_at_any_step_loses_no_blob_and_leaves_no_other_file() {
    let whole = FaultyFiles::default();
    change(&whole, &mut Done::default()).await.unwrap();
    for step in 0..whole.steps() + 2 {
        for (bytes, keep) in [
            (0, Keep::Synced),
            (70_000, Keep::All),
            (70_000, Keep::LastWrite),
            (1_000, Keep::Some(step)),
            (usize::MAX, Keep::Some(step + 1_000)),
        ] {
            let (files, mut done) = (FaultyFiles::default(), Done::default());
            files.set(Fault::StopAt { step, bytes });
            // It stops somewhere; where does not matter.
            let _stopped = change(&files, &mut done).await;
            let left = files.restarted(keep);
            let (bus, _said) = bus_on(&left, SIZES).unwrap();
            let found = all(&bus).await;
            let is_known = found == done.answered || found == done.asked;
            assert!(is_known, "step {step}, {keep:?}: {:?}", found.keys());
            assert_eq!(blob_files(&left).len(), found.len(), "step {step}, {keep:?}");
        }
    }
}

#[tokio::test]
async fn in_the_weaker_mode_no_file_goes_before_the_journal_says_so_for_good() {
    let files = FaultyFiles::default();
    let (bus, _said) = bus_on(&files, SIZES).unwrap();
    put(&bus, "one", &content(1)).await.unwrap();
    put(&bus, "two", &content(2)).await.unwrap();
    bus.shut_down().await.unwrap();
    let sync = Sync::Interval(std::time::Duration::from_secs(3600));
    let options = DiskOptions { sync, ..DiskOptions::new(DIR) };
    let (bus, _said) = bus_with(&files, options, SIZES).unwrap();
    put(&bus, "one", &content(3)).await.unwrap();
    bus.delete_blob(bucket(), key("two")).await.unwrap();
    for keep in [Keep::Names, Keep::Synced, Keep::LastWrite, Keep::All] {
        let (left, _said) = bus_on(&files.restarted(keep), SIZES).unwrap();
        let found = all(&left).await;
        let one = &found["one"];
        assert!(*one == content(1) || *one == content(3), "{keep:?}");
    }
    bus.shut_down().await.unwrap();
    assert_eq!(blob_files(&files).len(), 1);
}

/// A blob of three pieces, whose file `change` changes, and what a reader gets of it then.
async fn read_after(change: impl FnOnce(&mut Vec<u8>)) -> (Vec<u8>, Result<()>) {
    let files = FaultyFiles::default();
    let (bus, _said) = bus_on(&files, SIZES).unwrap();
    put(&bus, "one", &content(1)).await.unwrap();
    files.damage(&blob_files(&files)[0], change);
    read(&bus, "one").await.unwrap()
}

#[tokio::test]
async fn nothing_of_a_damaged_piece_reaches_the_reader() {
    for (piece, byte) in [(0, 0), (0, 65_535), (1, 65_536), (1, 100_000), (2, 149_999)] {
        let (got, ended) = read_after(|file| file[byte] ^= 0x10).await;
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Corrupt, "byte {byte}");
        assert_eq!(got, content(1)[..piece * 65_536], "byte {byte}");
    }
}

#[tokio::test]
async fn a_damaged_hash_of_a_piece_is_seen_before_anything_is_read() {
    for byte in [150_000, 150_031, 150_032, 150_095] {
        let (got, ended) = read_after(|file| file[byte] ^= 1).await;
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Corrupt, "byte {byte}");
        assert!(got.is_empty(), "byte {byte}");
    }
}

#[tokio::test]
async fn a_file_that_was_cut_is_corrupt() {
    for left in [0, 65_536, 149_999, 150_000, 150_095] {
        let (got, ended) = read_after(|file| file.truncate(left)).await;
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Corrupt, "{left} bytes");
        assert!(got.is_empty(), "{left} bytes");
    }
}

#[tokio::test]
async fn a_blob_that_could_not_be_written_takes_no_room() {
    let files = FaultyFiles::default();
    let (bus, _said) = bus_on(&files, SIZES).unwrap();
    put(&bus, "one", &content(1)).await.unwrap();
    files.set(Fault::NoWrite);
    let failed = put(&bus, "two", &content(2)).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unavailable);
    assert_eq!(blob_files(&files).len(), 1);
    assert_eq!(all(&bus).await, Content::from([("one", content(1))]));
}
