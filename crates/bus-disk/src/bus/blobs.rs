//! Blobs: files of the directory, not of the embedded bus.

use std::sync::Arc;

use bus_core::{Blob, BlobBody, BlobInfo, BlobPieces, Blobs, BoxFuture, Error, ErrorKind, Result};
use bus_subjects::{BucketKey, BucketName};

use crate::{DiskBus, blobs};

impl Blobs for DiskBus {
    fn put_blob(
        &self,
        bucket: BucketName,
        key: BucketKey,
        body: BlobBody,
    ) -> BoxFuture<'_, Result<BlobInfo>> {
        Box::pin(async move {
            let place = format!("{bucket}/{key}");
            self.put(bucket, key, body).await.map_err(|error: Error| error.at(place))
        })
    }

    fn get_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Blob>>> {
        Box::pin(async move {
            let files = &self.0.core.blobs;
            let mut before = None;
            loop {
                self.check_open("get blob")?;
                let (found, position) = files.get(&bucket, &key);
                files.safe(position).await?;
                let Some(found) = found else { return Ok(None) };
                if let Some(blob) = blobs::read(files, found.clone()).await? {
                    return Ok(Some(blob));
                }
                // Replaced or deleted between the two looks, or else it is lost.
                if before.as_ref() == Some(&found) {
                    let why = format!("its file {:016x} is missing", found.file);
                    return Err(Error::new(ErrorKind::Corrupt, "get blob", why).at(&key));
                }
                before = Some(found);
            }
        })
    }

    fn delete_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            self.check_open("delete blob")?;
            let files = &self.0.core.blobs;
            files.admit("delete blob", true)?;
            let (removed, position) = files.remove(&bucket, &key);
            files.safe(position).await?;
            files.discard_left();
            Ok(removed)
        })
    }

    fn list_blobs(&self, bucket: BucketName) -> BoxFuture<'_, Result<Vec<BlobInfo>>> {
        Box::pin(async move {
            self.check_open("list blobs")?;
            let (listed, position) = self.0.core.blobs.list(&bucket);
            self.0.core.blobs.safe(position).await?;
            Ok(listed)
        })
    }
}

impl DiskBus {
    async fn put(&self, bucket: BucketName, key: BucketKey, body: BlobBody) -> Result<BlobInfo> {
        self.check_open("put blob")?;
        let files = &self.0.core.blobs;
        files.admit("put blob", false)?;
        let mut upload = blobs::Upload::begin(Arc::clone(files)).await?;
        let mut pieces = BlobPieces::new(body);
        while let Some(piece) = pieces.next().await {
            upload.add(piece?).await?;
            self.check_open("put blob")?;
        }
        let info = pieces.info(key);
        let stored = upload.finish(info.clone()).await?;
        files
            .admit("put blob", false)
            .and_then(|()| self.check_open("put blob"))
            .inspect_err(|_| files.discard(&stored))?;
        let position = files.store(bucket, stored);
        files.safe(position).await?;
        files.discard_left();
        Ok(info)
    }
}
