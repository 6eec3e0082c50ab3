//! Blobs, asked of the server.

use std::sync::Arc;

use bus_core::{Blob, BlobBody, BlobInfo, Blobs, BoxFuture, Result};
use bus_subjects::{BucketKey, BucketName};

use super::{blob, core::Repeat, link::LinkBus, settle::odd};
use crate::wire::{Answer, Call};

impl Blobs for LinkBus {
    fn put_blob(
        &self,
        bucket: BucketName,
        key: BucketKey,
        body: BlobBody,
    ) -> BoxFuture<'_, Result<BlobInfo>> {
        Box::pin(blob::upload(Arc::clone(&self.shared), bucket, key, body))
    }

    fn get_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Blob>>> {
        Box::pin(blob::download(Arc::clone(&self.shared), bucket, key))
    }

    fn delete_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<bool>> {
        let (bucket, key) = (bucket.as_str().to_owned(), key.as_str().to_owned());
        Box::pin(self.was_there("delete blob", Call::DeleteBlob { bucket, key }))
    }

    fn list_blobs(&self, bucket: BucketName) -> BoxFuture<'_, Result<Vec<BlobInfo>>> {
        Box::pin(async move {
            let call = Call::ListBlobs { bucket: bucket.as_str().to_owned() };
            match self.say("list blobs", call, Repeat::Always).await? {
                (Answer::Blobs(all), _) => all.iter().map(|info| info.parse()).collect(),
                _ => Err(odd("list blobs")),
            }
        })
    }
}
