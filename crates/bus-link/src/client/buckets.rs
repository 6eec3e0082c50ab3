//! Buckets, asked of the server.

use std::sync::Arc;

use bus_core::{
    BoxFuture, Buckets, Entry, Error, ErrorKind, ExpectRevision, Put, Result, Revision, Watch,
};
use bus_subjects::{BucketKey, BucketName, Filter};

use super::{core::Repeat, link::LinkBus, settle::odd, watch};
use crate::wire::{Answer, Call, MESSAGE_BYTES_MAX, Message, Packet, WirePut};

impl Buckets for LinkBus {
    fn get(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Entry>>> {
        Box::pin(async move {
            let (bucket, key) = (bucket.as_str().to_owned(), key.as_str().to_owned());
            match self.say("get", Call::Get { bucket, key }, Repeat::Always).await? {
                (Answer::Entry(None), _) => Ok(None),
                (Answer::Entry(Some(revision)), parts) => {
                    let value = Message::<()>::one_part(parts)?;
                    Ok(Some(Entry { value, revision: Revision(revision) }))
                }
                _ => Err(odd("get")),
            }
        })
    }

    fn put(&self, bucket: BucketName, key: BucketKey, put: Put) -> BoxFuture<'_, Result<Revision>> {
        Box::pin(async move {
            if put.value.len() > MESSAGE_BYTES_MAX / 2 {
                let why = "the value is larger than a message to the server may be";
                return Err(Error::new(ErrorKind::TooLarge, "put", why).at(&key));
            }
            let (bucket, key) = (bucket.as_str().to_owned(), key.as_str().to_owned());
            let call = Call::Put { bucket, key, put: WirePut::from(&put) };
            let write = |packet: Packet| packet.with(|out| out.extend_from_slice(&put.value));
            match self.core().call("put", call, write, Repeat::Never).await? {
                (Answer::Revision(revision), _) => Ok(Revision(revision)),
                _ => Err(odd("put")),
            }
        })
    }

    fn delete(
        &self,
        bucket: BucketName,
        key: BucketKey,
        expect: ExpectRevision,
    ) -> BoxFuture<'_, Result<()>> {
        let (bucket, key) = (bucket.as_str().to_owned(), key.as_str().to_owned());
        let call = Call::Delete { bucket, key, expect: expect.into() };
        Box::pin(self.done("delete", call, Repeat::Never))
    }

    fn watch(
        &self,
        bucket: BucketName,
        keys: Filter,
        after: Revision,
    ) -> BoxFuture<'_, Result<Watch>> {
        Box::pin(watch::open(Arc::clone(&self.shared), bucket, keys, after))
    }
}
