//! Where everything of a bucket of blobs lies, and what its manifests say.

use std::collections::BTreeMap;

use bus_core::{BlobInfo, Error, ErrorKind, Result};
use bus_envelope::EventHash;
use bus_subjects::{BucketKey, BucketName};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The names that belong to one bucket.
///
/// Keys stand as they are in subjects: they are levels between single dots, of letters that
/// subjects know, so no two keys share a subject.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    bucket: BucketName,
    stream: String,
}

/// What a key stands for.
#[derive(Debug, Clone)]
pub(super) struct Manifest {
    pub(super) info: BlobInfo,
    /// The upload that holds its pieces.
    pub(super) upload: String,
    /// The position of its first piece; 0 when it is empty.
    pub(super) pieces_at: u64,
    /// The position of the first part of its leaf hashes; 0 when it is empty.
    pub(super) leaves_at: u64,
}

/// A stream for the blobs of one bucket, as the server wants to be asked for it.
#[derive(Serialize)]
pub(super) struct StreamConfig {
    name: String,
    subjects: Vec<String>,
    retention: &'static str,
    storage: &'static str,
    discard: &'static str,
    num_replicas: u64,
    allow_direct: bool,
    allow_rollup_hdrs: bool,
    allow_msg_ttl: bool,
    deny_delete: bool,
    metadata: BTreeMap<&'static str, &'static str>,
}

impl Layout {
    pub(super) fn new(bucket: &BucketName) -> Self {
        Self { bucket: bucket.clone(), stream: format!("VKB_{bucket}") }
    }

    pub(super) fn stream(&self) -> &str {
        &self.stream
    }

    /// The manifest of `key`.
    pub(super) fn manifest(&self, key: &BucketKey) -> String {
        format!("vakblob.{}.m.{key}", self.bucket)
    }

    pub(super) fn all_manifests(&self) -> String {
        format!("vakblob.{}.m.>", self.bucket)
    }

    /// The pieces of an upload.
    pub(super) fn pieces(&self, upload: &str) -> String {
        format!("{}{upload}", self.pieces_prefix())
    }

    pub(super) fn pieces_prefix(&self) -> String {
        format!("vakblob.{}.p.", self.bucket)
    }

    /// The mark that nothing refers to an upload any more.
    pub(super) fn dead(&self, upload: &str) -> String {
        format!("{}{upload}", self.dead_prefix())
    }

    pub(super) fn dead_prefix(&self) -> String {
        format!("vakblob.{}.d.", self.bucket)
    }
}

impl Manifest {
    /// How many pieces it has.
    pub(super) fn pieces(&self) -> u64 {
        self.info.bytes.div_ceil(BlobInfo::PIECE_BYTES as u64)
    }

    pub(super) fn write(&self) -> Result<Bytes> {
        let written = Written {
            key: self.info.key.as_str().to_owned(),
            bytes: self.info.bytes,
            digest: self.info.digest.to_string(),
            upload: self.upload.clone(),
            pieces_at: self.pieces_at,
            leaves_at: self.leaves_at,
        };
        let body = serde_json::to_vec(&written).map_err(|error| {
            Error::new(ErrorKind::Invalid, super::PUT, "its manifest cannot be written")
                .because(error)
        })?;
        Ok(body.into())
    }

    pub(super) fn read(op: &'static str, body: &[u8]) -> Result<Self> {
        let damaged = |why: &'static str| Error::new(ErrorKind::Corrupt, op, why);
        let written: Written = serde_json::from_slice(body)
            .map_err(|error| damaged("its manifest cannot be read").because(error))?;
        if written.bytes > BlobInfo::BYTES_MAX {
            return Err(damaged("its manifest tells of more bytes than a blob can have"));
        }
        let key = BucketKey::parse(&written.key)
            .map_err(|error| damaged("its manifest has no good key").because(error))?;
        let digest = EventHash::parse(&written.digest)
            .map_err(|error| damaged("its manifest has no good digest").because(error))?;
        if !is_upload(&written.upload) {
            return Err(damaged("its manifest has no good upload"));
        }
        Ok(Self {
            info: BlobInfo { key, bytes: written.bytes, digest },
            upload: written.upload,
            pieces_at: written.pieces_at,
            leaves_at: written.leaves_at,
        })
    }
}

impl StreamConfig {
    pub(super) fn new(layout: &Layout, replicas: u64) -> Self {
        Self {
            name: layout.stream.clone(),
            subjects: vec![format!("vakblob.{}.>", layout.bucket)],
            retention: "limits",
            storage: "file",
            discard: "new",
            num_replicas: replicas,
            allow_direct: true,
            allow_rollup_hdrs: true,
            allow_msg_ttl: true,
            deny_delete: true,
            metadata: BTreeMap::from([("vak.blobs", "1")]),
        }
    }
}

/// A manifest as it is stored.
#[derive(Serialize, Deserialize)]
struct Written {
    key: String,
    bytes: u64,
    digest: String,
    upload: String,
    pieces_at: u64,
    leaves_at: u64,
}

/// Whether this is the name of an upload: 32 hexadecimal digits.
pub(super) fn is_upload(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let info = BlobInfo {
            key: BucketKey::parse("a/b.c").unwrap(),
            bytes: 3 * BlobInfo::PIECE_BYTES as u64 + 1,
            digest: EventHash::of(b"x"),
        };
        Manifest { info, upload: "0123456789abcdef".repeat(2), pieces_at: 7, leaves_at: 11 }
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let read = Manifest::read("get blob", &manifest().write().unwrap()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", manifest()));
        assert_eq!(read.pieces(), 4);
    }

    #[test]
    fn a_manifest_cannot_lead_to_another_subject() {
        for upload in ["", "*", "0123456789abcdef.>", &"A".repeat(32), &"*".repeat(32)] {
            let forged = Manifest { upload: upload.to_owned(), ..manifest() };
            let read = Manifest::read("get blob", &forged.write().unwrap());
            assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt, "{upload:?}");
        }
    }

    #[test]
    fn a_manifest_of_more_than_the_largest_blob_is_corrupt() {
        let mut forged = manifest();
        forged.info.bytes = BlobInfo::BYTES_MAX + 1;
        let read = Manifest::read("get blob", &forged.write().unwrap());
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn pieces_manifests_and_marks_never_share_a_subject() {
        let layout = Layout::new(&BucketName::parse("B").unwrap());
        let key = BucketKey::parse("p.x").unwrap();
        assert_eq!(layout.manifest(&key), "vakblob.B.m.p.x");
        assert_eq!(layout.pieces("x"), "vakblob.B.p.x");
        assert_eq!(layout.dead("x"), "vakblob.B.d.x");
    }
}
