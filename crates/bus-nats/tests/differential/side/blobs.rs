//! Blobs: written whole or not at all.

use bus_core::{Blob, BlobBody, BlobInfo, Error, ErrorKind, Result};
use bus_subjects::BucketKey;
use bytes::Bytes;
use futures_util::stream;

use super::{Side, parsed, stored::told};
use crate::operation::Operation;

impl Side {
    pub(super) async fn play_large(&mut self, operation: &Operation) -> String {
        let bucket = self.bucket();
        match operation {
            Operation::PutBlob { key, size, breaks } => {
                let body = body(self.steps, *size, *breaks);
                let put = self.engine.put_blob(bucket, name(*key), body).await;
                told(put, |info| shown(&info))
            }
            Operation::GetBlob { key } => {
                let got = self.engine.get_blob(bucket, name(*key)).await;
                match got {
                    Ok(Some(blob)) => read(blob).await,
                    got => told(got, |_| "nothing".to_owned()),
                }
            }
            Operation::DeleteBlob { key } => {
                let deleted = self.engine.delete_blob(bucket, name(*key)).await;
                told(deleted, |was_there| format!("was there: {was_there}"))
            }
            Operation::ListBlobs => {
                let listed = self.engine.list_blobs(bucket).await;
                told(listed, |all| all.iter().map(shown).collect::<Vec<_>>().join("\n"))
            }
            other => format!("{other:?} is nothing large"),
        }
    }
}

/// A body of the step's own, in parts of odd sizes; one that breaks ends with an error.
fn body(step: u64, size: u8, breaks: bool) -> BlobBody {
    let bytes = [0, 1, BlobInfo::PIECE_BYTES, BlobInfo::PIECE_BYTES + 1, 150_000, 300_000];
    let bytes: Vec<u8> =
        (0..bytes[usize::from(size)]).map(|at| at.wrapping_mul(31).to_le_bytes()[0]).collect();
    let mut parts: Vec<Result<Bytes>> =
        bytes.chunks(10_007).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
    parts.push(Ok(Bytes::from(format!("of step {step}"))));
    if breaks {
        parts.push(Err(Error::new(ErrorKind::Corrupt, "body", "it broke off")));
    }
    BlobBody::new(stream::iter(parts))
}

async fn read(mut blob: Blob) -> String {
    let (mut bytes, mut sum) = (0, 0_u64);
    while let Some(part) = blob.body.next().await {
        match part {
            Ok(part) => {
                bytes += part.len();
                sum = part.iter().fold(sum, |sum, byte| {
                    sum.wrapping_mul(1_000_003).wrapping_add(u64::from(*byte))
                });
            }
            Err(error) => return super::seen(&error),
        }
    }
    format!("{}: {bytes} bytes of sum {sum:x}", shown(&blob.info))
}

fn shown(info: &BlobInfo) -> String {
    format!("{} {} {:?}", info.key, info.bytes, info.digest)
}

fn name(key: u8) -> BucketKey {
    parsed(BucketKey::parse(["blob", "blob.a", "other"][usize::from(key)]))
}
