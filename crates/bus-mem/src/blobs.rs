//! Blobs of the embedded engine: pieces come in without the lock, and go out verified.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bus_core::{Blob, BlobBody, BlobInfo, BlobPieces, Blobs, BoxFuture, Error, Result};
use bus_subjects::{BucketKey, BucketName};
use bytes::Bytes;
use futures_core::Stream;
use tokio::task::coop::consume_budget;

use crate::{InMemoryBus, bus::Connection, core::StoredBlob};

impl Blobs for InMemoryBus {
    fn put_blob(
        &self,
        bucket: BucketName,
        key: BucketKey,
        body: BlobBody,
    ) -> BoxFuture<'_, Result<BlobInfo>> {
        Box::pin(async move {
            let place = format!("{bucket}/{key}");
            let put = put(self.connection(), bucket, key, body).await;
            put.map_err(|error: Error| error.at(place))
        })
    }

    fn get_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Blob>>> {
        Box::pin(async move {
            self.connection().check_open("get blob")?;
            let blob = self.connection().blobs().get(&bucket, &key);
            consume_budget().await;
            Ok(blob.map(read))
        })
    }

    fn delete_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            self.connection().check_open("delete blob")?;
            // The pieces are freed when the lock is free again.
            let removed = self.connection().blobs().remove(&bucket, &key);
            Ok(removed.is_some())
        })
    }

    fn list_blobs(&self, bucket: BucketName) -> BoxFuture<'_, Result<Vec<BlobInfo>>> {
        Box::pin(async move {
            let connection = self.connection();
            let mut listed: Vec<BlobInfo> = Vec::new();
            loop {
                connection.check_open("list blobs")?;
                let after = listed.last().map(|info| &info.key);
                let batch = connection.blobs().list(&bucket, after, LISTED_AT_ONCE);
                if batch.is_empty() {
                    return Ok(listed);
                }
                listed.extend(batch);
                consume_budget().await;
            }
        })
    }
}

async fn put(
    connection: &Connection,
    bucket: BucketName,
    key: BucketKey,
    body: BlobBody,
) -> Result<BlobInfo> {
    connection.check_open("put blob")?;
    let mut upload = connection.blobs().begin()?;
    let mut pieces = BlobPieces::new(body);
    while let Some(piece) = pieces.next().await {
        upload.add(piece?)?;
        connection.check_open("put blob")?;
    }
    connection.check_open("put blob")?;
    let info = pieces.info(key);
    // What it replaces is freed when the lock is free again.
    let _replaced = connection.blobs().finish(bucket, info.clone(), upload);
    Ok(info)
}

fn read(blob: Arc<StoredBlob>) -> Blob {
    let (info, leaves) = (blob.info().clone(), Arc::clone(blob.leaves()));
    let body = BlobBody::verified(info.clone(), leaves, Pieces { blob, next: 0 });
    Blob { info, body }
}

/// The pieces as stored; they stay until the reader is done.
struct Pieces {
    blob: Arc<StoredBlob>,
    next: usize,
}

impl Stream for Pieces {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let piece = self.blob.pieces().get(self.next).cloned();
        self.next += 1;
        Poll::Ready(piece.map(Ok))
    }
}

/// How many blobs are listed under one lock.
const LISTED_AT_ONCE: usize = 256;

#[cfg(test)]
mod tests {
    use bus_core::{BlobPiece, ErrorKind};
    use bus_envelope::tree::{MerkleTree, leaf_hash};

    use super::*;

    /// Puts two pieces, the second of which was damaged after it was hashed, into the store.
    fn with_damage() -> InMemoryBus {
        let bus = InMemoryBus::new();
        let mut upload = bus.connection().blobs().begin().unwrap();
        let good = vec![1; BlobInfo::PIECE_BYTES];
        let mut tree = MerkleTree::new();
        for (stored, hashed) in [(good.clone(), good), (vec![9; 9], vec![2; 9])] {
            let leaf = leaf_hash(&hashed);
            tree.append_leaf(leaf);
            upload.add(BlobPiece { bytes: stored.into(), leaf }).unwrap();
        }
        let bytes = BlobInfo::PIECE_BYTES as u64 + 9;
        let info = BlobInfo { key: key(), bytes, digest: tree.root() };
        bus.connection().blobs().finish(bucket(), info, upload);
        bus
    }

    fn bucket() -> BucketName {
        BucketName::parse("b").unwrap()
    }

    fn key() -> BucketKey {
        BucketKey::parse("k").unwrap()
    }

    #[tokio::test]
    async fn a_damaged_piece_is_corrupt_and_never_reaches_the_reader() {
        let bus = with_damage();
        let mut blob = bus.get_blob(bucket(), key()).await.unwrap().unwrap();
        assert!(blob.body.next().await.unwrap().is_ok());
        assert_eq!(blob.body.next().await.unwrap().unwrap_err().kind(), ErrorKind::Corrupt);
        assert!(blob.body.next().await.is_none());
    }
}
