//! Buckets of the embedded engine: each call one look under the lock.

use std::sync::Arc;

use bus_core::{BoxFuture, Buckets, Entry, ExpectRevision, Put, Result, Revision, Watch};
use bus_subjects::{BucketKey, BucketName, Filter};
use bytes::Bytes;
use tokio::task::coop::consume_budget;

use crate::{InMemoryBus, core::BucketStore, watch::Watcher};

impl Buckets for InMemoryBus {
    fn get(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Entry>>> {
        Box::pin(async move {
            let connection = self.connection();
            connection.check_open("get")?;
            let (entry, position) =
                connection.state().with(|store, now| store.get(&bucket, &key, now));
            consume_budget().await;
            connection.safety().told(position, Ok(entry)).await
        })
    }

    fn put(
        &self,
        bucket: BucketName,
        key: BucketKey,
        mut put: Put,
    ) -> BoxFuture<'_, Result<Revision>> {
        Box::pin(async move {
            let connection = self.connection();
            connection.check_open("put")?;
            BucketStore::check_put(&bucket, &key, &put)?;
            // A copy, so that a few bytes never keep the large buffer they are a part of, and that
            // nothing of the caller's is dropped under the lock.
            put.value = Bytes::copy_from_slice(&put.value);
            connection.safety().admit("put", RECORD_BYTES + put.value.len(), false)?;
            let (written, position) =
                connection.state().with(|store, now| store.put(&bucket, &key, put, now));
            let revision = connection.safety().told(position, written).await?;
            // Who writes on and on must let those run who watch on the same thread.
            consume_budget().await;
            Ok(revision)
        })
    }

    fn delete(
        &self,
        bucket: BucketName,
        key: BucketKey,
        expect: ExpectRevision,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let connection = self.connection();
            connection.check_open("delete")?;
            let state = connection.state();
            connection.safety().admit("delete", RECORD_BYTES, true)?;
            let (deleted, position) =
                state.with(|store, now| store.delete(&bucket, &key, expect, now));
            connection.safety().told(position, deleted).await?;
            consume_budget().await;
            Ok(())
        })
    }

    fn watch(
        &self,
        bucket: BucketName,
        keys: Filter,
        after: Revision,
    ) -> BoxFuture<'_, Result<Watch>> {
        Box::pin(async move {
            self.connection().check_open("watch")?;
            let connection = Arc::clone(self.connection());
            Ok(Watch::new(Watcher::open(connection, bucket, keys, after)?))
        })
    }
}

/// What a change takes in a journal beside its value, about.
const RECORD_BYTES: usize = 512;
