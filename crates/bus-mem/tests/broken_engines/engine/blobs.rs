//! The engine with a fault as a store of blobs.

use std::sync::Arc;

use bus_core::{Blob, BlobBody, BlobInfo, Blobs, BoxFuture, Result};
use bus_envelope::EventHash;
use bus_mem::InMemoryBus;
use bus_subjects::{BucketKey, BucketName};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};

use super::Broken;
use crate::fault::Fault;

impl Broken {
    /// Stores what came so far after every half piece.
    async fn show_early(
        &self,
        bucket: BucketName,
        key: BucketKey,
        mut body: BlobBody,
    ) -> Result<BlobInfo> {
        let mut all = BytesMut::new();
        let inner = &self.inner;
        let mut info =
            inner.put_blob(bucket.clone(), key.clone(), all.clone().freeze().into()).await?;
        while let Some(part) = body.next().await {
            all.extend_from_slice(&part?);
            if all.len() < info.bytes as usize + PIECE / 2 {
                continue;
            }
            let so_far = all.clone().freeze().into();
            info = inner.put_blob(bucket.clone(), key.clone(), so_far).await?;
        }
        inner.put_blob(bucket, key, all.freeze().into()).await
    }

    async fn put_blob_wrongly(
        &self,
        bucket: BucketName,
        key: BucketKey,
        mut body: BlobBody,
    ) -> Result<BlobInfo> {
        match self.fault {
            Fault::ShowsBlobsEarly => self.show_early(bucket, key, body).await,
            Fault::DigestsPartByPart => {
                let (mut all, mut sizes) = (BytesMut::new(), Vec::new());
                while let Some(part) = body.next().await {
                    let part = part?;
                    sizes.extend(part.len().to_le_bytes());
                    all.extend_from_slice(&part);
                }
                let info = self.inner.put_blob(bucket, key, all.freeze().into()).await?;
                Ok(BlobInfo { digest: EventHash::of(&sizes), ..info })
            }
            Fault::DropsEmptyBlobs => {
                let info = self.inner.put_blob(bucket.clone(), key.clone(), body).await?;
                if info.bytes == 0 {
                    self.inner.delete_blob(bucket, key).await?;
                }
                Ok(info)
            }
            _ => self.answer(self.inner.put_blob(bucket, key, body)).await,
        }
    }

    async fn get_blob_wrongly(&self, bucket: BucketName, key: BucketKey) -> Result<Option<Blob>> {
        let place = (bucket.clone(), key.clone());
        let Some(blob) = self.answer(self.inner.get_blob(bucket, key)).await? else {
            let digest = EventHash::of(b"ghost");
            let ghost = BlobInfo { key: place.1, bytes: 0, digest };
            let ghost = Blob { info: ghost, body: Bytes::new().into() };
            return Ok(self.has(Fault::SeesGhosts).then_some(ghost));
        };
        let Blob { info, body } = blob;
        let body = match self.fault {
            Fault::DamagesBlobs => BlobBody::new(body.map(|part| part.map(|part| damaged(&part)))),
            Fault::ReadsWhatIsThereNow => now_there(Arc::clone(&self.inner), place),
            _ => body,
        };
        Ok(Some(Blob { info, body }))
    }
}

impl Blobs for Broken {
    fn put_blob(
        &self,
        bucket: BucketName,
        key: BucketKey,
        body: BlobBody,
    ) -> BoxFuture<'_, Result<BlobInfo>> {
        Box::pin(self.put_blob_wrongly(bucket, key, body))
    }

    fn get_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Blob>>> {
        Box::pin(self.get_blob_wrongly(bucket, key))
    }

    fn delete_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            if self.has(Fault::DeletesNothing) {
                return Ok(true);
            }
            self.answer(self.inner.delete_blob(bucket, key)).await
        })
    }

    fn list_blobs(&self, bucket: BucketName) -> BoxFuture<'_, Result<Vec<BlobInfo>>> {
        Box::pin(async move {
            let mut blobs = self.answer(self.inner.list_blobs(bucket)).await?;
            if self.has(Fault::ListsBackwards) {
                blobs.reverse();
            }
            Ok(blobs)
        })
    }
}

const PIECE: usize = BlobInfo::PIECE_BYTES;

/// The part with its last bit changed.
fn damaged(part: &Bytes) -> Bytes {
    let mut part = BytesMut::from(part.as_ref());
    if let Some(last) = part.last_mut() {
        *last ^= 1;
    }
    part.freeze()
}

/// Asks for the blob anew before every part.
fn now_there(bus: Arc<InMemoryBus>, place: (BucketName, BucketKey)) -> BlobBody {
    BlobBody::new(stream::unfold((bus, place, 0), |(bus, place, at)| async move {
        let blob = bus.get_blob(place.0.clone(), place.1.clone()).await.ok().flatten()?;
        let part = Box::pin(blob.body.skip(at)).next().await?;
        Some((part, (bus, place, at + 1)))
    }))
}
