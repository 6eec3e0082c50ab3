//! Buckets: those of the embedded bus, which journals them.

use bus_core::{BoxFuture, Buckets, Entry, ExpectRevision, Put, Result, Revision, Watch};
use bus_subjects::{BucketKey, BucketName, Filter};

use crate::DiskBus;

impl Buckets for DiskBus {
    fn get(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Entry>>> {
        self.mem().get(bucket, key)
    }

    fn put(&self, bucket: BucketName, key: BucketKey, put: Put) -> BoxFuture<'_, Result<Revision>> {
        self.mem().put(bucket, key, put)
    }

    fn delete(
        &self,
        bucket: BucketName,
        key: BucketKey,
        expect: ExpectRevision,
    ) -> BoxFuture<'_, Result<()>> {
        self.mem().delete(bucket, key, expect)
    }

    fn watch(
        &self,
        bucket: BucketName,
        keys: Filter,
        after: Revision,
    ) -> BoxFuture<'_, Result<Watch>> {
        self.mem().watch(bucket, keys, after)
    }
}
