//! An engine behind a policy: what the policy does not allow never reaches it.

use std::{sync::Arc, time::Duration};

use bus_subjects::{AclPolicy, Address, BucketKey, BucketName, Filter, StreamName, Subject};
use bytes::Bytes;

use crate::{
    BoxFuture, Buckets, Bus, ConsumerSpec, Deliveries, Engine, Entry, Error, ErrorKind, Expect,
    ExpectRevision, Frame, Lag, Overflow, Promises, Receipt, Replay, Result, Revision, Seq, Stored,
    StreamSpec, Subscription,
};

/// One identity's view of an engine.
///
/// Administration and buckets are asked under the subjects a NATS server uses for them:
/// `$JS.API.STREAM.CREATE.<stream>` to declare, `$JS.API.STREAM.INFO.<stream>` for the lag,
/// `$JS.API.STREAM.MSG.GET.<stream>` to replay, `$KV.<bucket>.<key>` to write (publish) or read
/// (subscribe) a bucket. Who may append tasks, dead letters or evidence to a subject may also read
/// what is stored there, to go on from it and to know its own messages again, unless the policy
/// denies to hear it.
/// The wrapper forwards everything else; its place in a stack does not matter, because it only ever
/// refuses. Closing it closes the connection it guards: give every identity one of its own.
pub struct Guarded {
    inner: Arc<dyn Engine>,
    policy: AclPolicy,
}

impl Guarded {
    /// Puts `policy` before `inner`.
    pub fn new(inner: Arc<dyn Engine>, policy: AclPolicy) -> Self {
        Self { inner, policy }
    }

    fn may_publish(&self, op: &'static str, subject: &Subject) -> Result<()> {
        if self.policy.can_publish(subject) {
            return Ok(());
        }
        Err(denied(op, "publish", subject))
    }

    fn may_subscribe(&self, op: &'static str, filter: &Filter) -> Result<()> {
        if self.policy.can_subscribe(filter) {
            return Ok(());
        }
        Err(denied(op, "subscribe", filter))
    }

    /// Whether stored messages of `subject` may be seen: by who may subscribe to it, and by who
    /// may append tasks, dead letters or evidence to it and is not denied to hear them. A mailbox
    /// is its owner's alone.
    fn may_read(&self, subject: &Subject) -> bool {
        if self.policy.can_subscribe(&Filter::from(subject)) {
            return true;
        }
        let is_denied = self.policy.subscribe.deny.iter().any(|deny| deny.matches(subject));
        let is_shared = Address::parse(subject).is_ok_and(|address| {
            let is_own = matches!(address, Address::DeadLetter { .. } | Address::Task { .. });
            address.is_evidence() || is_own
        });
        is_shared && !is_denied && self.policy.can_publish(subject)
    }

    fn may_administer(&self, op: &'static str, verb: &str, stream: &StreamName) -> Result<()> {
        self.may_publish(op, &Subject::parse(&format!("$JS.API.STREAM.{verb}.{stream}"))?)
    }

    fn may_write(&self, op: &'static str, bucket: &BucketName, key: &BucketKey) -> Result<()> {
        self.may_publish(op, &Subject::parse(&format!("$KV.{bucket}.{key}"))?)
    }
}

impl std::fmt::Debug for Guarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guarded").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// The refusal every executor of a policy answers with.
pub(crate) fn denied(
    op: &'static str,
    right: &'static str,
    subject: impl std::fmt::Display,
) -> Error {
    let detail = format!("the policy of this identity does not allow to {right} here");
    Error::new(ErrorKind::Denied, op, detail).at(subject)
}

impl Bus for Guarded {
    fn publish(&self, frame: Frame) -> BoxFuture<'_, Result<()>> {
        match self.may_publish("publish", &frame.subject) {
            Ok(()) => self.inner.publish(frame),
            Err(error) => refuse(error),
        }
    }

    fn subscribe(&self, filter: Filter, overflow: Overflow) -> BoxFuture<'_, Result<Subscription>> {
        match self.may_subscribe("subscribe", &filter) {
            Ok(()) => self.inner.subscribe(filter, overflow),
            Err(error) => refuse(error),
        }
    }

    fn request(&self, frame: Frame, wait: Duration) -> BoxFuture<'_, Result<Frame>> {
        match self.may_publish("request", &frame.subject) {
            Ok(()) => self.inner.request(frame, wait),
            Err(error) => refuse(error),
        }
    }

    fn declare(&self, stream: StreamSpec) -> BoxFuture<'_, Result<()>> {
        match self.may_administer("declare", "CREATE", &stream.name) {
            Ok(()) => self.inner.declare(stream),
            Err(error) => refuse(error),
        }
    }

    fn append(&self, frame: Frame, expect: Expect) -> BoxFuture<'_, Result<Receipt>> {
        match self.may_publish("append", &frame.subject) {
            Ok(()) => self.inner.append(frame, expect),
            Err(error) => refuse(error),
        }
    }

    fn last(&self, subject: Subject) -> BoxFuture<'_, Result<Option<Stored>>> {
        if self.may_read(&subject) {
            return self.inner.last(subject);
        }
        refuse(denied("last", "read", &subject))
    }

    fn read(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<Option<Stored>>> {
        Box::pin(async move {
            match self.inner.read(stream, seq).await? {
                Some(stored) if !self.may_read(&stored.frame.subject) => {
                    Err(denied("read", "read", &stored.frame.subject))
                }
                stored => Ok(stored),
            }
        })
    }

    fn consume(&self, consumer: ConsumerSpec) -> BoxFuture<'_, Result<Deliveries>> {
        match self.may_subscribe("consume", &consumer.filter) {
            Ok(()) => self.inner.consume(consumer),
            Err(error) => refuse(error),
        }
    }

    fn replay(&self, stream: StreamName, from: Seq) -> BoxFuture<'_, Result<Replay>> {
        match self.may_administer("replay", "MSG.GET", &stream) {
            Ok(()) => self.inner.replay(stream, from),
            Err(error) => refuse(error),
        }
    }

    fn lag(&self, stream: StreamName) -> BoxFuture<'_, Result<Lag>> {
        match self.may_administer("lag", "INFO", &stream) {
            Ok(()) => self.inner.lag(stream),
            Err(error) => refuse(error),
        }
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        self.inner.close()
    }
}

impl Buckets for Guarded {
    fn get(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Entry>>> {
        let filter = Filter::parse(&format!("$KV.{bucket}.{key}")).map_err(Error::from);
        match filter.and_then(|filter| self.may_subscribe("get", &filter)) {
            Ok(()) => self.inner.get(bucket, key),
            Err(error) => refuse(error),
        }
    }

    fn put(
        &self,
        bucket: BucketName,
        key: BucketKey,
        value: Bytes,
        expect: ExpectRevision,
    ) -> BoxFuture<'_, Result<Revision>> {
        match self.may_write("put", &bucket, &key) {
            Ok(()) => self.inner.put(bucket, key, value, expect),
            Err(error) => refuse(error),
        }
    }

    fn delete(
        &self,
        bucket: BucketName,
        key: BucketKey,
        expect: ExpectRevision,
    ) -> BoxFuture<'_, Result<()>> {
        match self.may_write("delete", &bucket, &key) {
            Ok(()) => self.inner.delete(bucket, key, expect),
            Err(error) => refuse(error),
        }
    }
}

impl Engine for Guarded {
    fn promises(&self) -> Promises {
        self.inner.promises()
    }
}

fn refuse<'a, T: Send + 'a>(error: Error) -> BoxFuture<'a, Result<T>> {
    Box::pin(std::future::ready(Err(error)))
}
