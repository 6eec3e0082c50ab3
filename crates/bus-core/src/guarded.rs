//! An engine behind a policy: what the policy does not allow never reaches it.

mod answers;

use std::{sync::Arc, time::Duration};

use bus_envelope::Timestamp;
use bus_subjects::{
    AclPolicy, Address, BucketKey, BucketName, ConsumerName, Filter, StreamName, Subject,
};

pub use self::answers::Answers;
use crate::{
    Answer, Blob, BlobBody, BlobInfo, Blobs, BoxFuture, Buckets, Bus, ConsumerSpec, ConsumerState,
    Deliveries, Engine, Entry, Error, ErrorKind, Expect, ExpectRevision, Frame, Lag, Overflow,
    Promises, Put, Receipt, Replay, Result, Revision, Seq, Stored, StreamSpec, Subscription, Watch,
};

/// One identity's view of an engine.
///
/// Administration and buckets are asked under the subjects a NATS server uses for them:
/// `$JS.API.STREAM.CREATE.<stream>` to declare, `$JS.API.STREAM.INFO.<stream>` for the lag,
/// `$JS.API.STREAM.MSG.DELETE.<stream>` to discard (and the right to read what is discarded),
/// `$JS.API.CONSUMER.LIST.<stream>` to see its consumers, `$JS.API.CONSUMER.PAUSE.<stream>.<name>`
/// and `$JS.API.CONSUMER.DELETE.<stream>.<name>` for one of them, `$KV.<bucket>.<key>` to write
/// (publish) or read (subscribe) a bucket, and `$O.<bucket>.M.<key>` likewise for blobs. Who may
/// append tasks, dead letters or evidence to a subject may also read what is stored there, to go
/// on from it and to know its own messages again, unless the policy denies to hear it.
///
/// Who heard a call may answer it, once and for two minutes: see [`Answers`]. A frame that is
/// published may ask for answers only where its sender may hear them.
///
/// The wrapper forwards everything else; its place in a stack does not matter, because it only ever
/// refuses. Closing it closes the connection it guards: give every identity one of its own.
pub struct Guarded {
    inner: Arc<dyn Engine>,
    policy: AclPolicy,
    answers: Answers,
}

impl Guarded {
    /// Puts `policy` before `inner`.
    pub fn new(inner: Arc<dyn Engine>, policy: AclPolicy) -> Self {
        Self { inner, policy, answers: Answers::default() }
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

    fn may_steer(
        &self,
        op: &'static str,
        verb: &str,
        stream: &StreamName,
        consumer: &ConsumerName,
    ) -> Result<()> {
        let subject = format!("$JS.API.CONSUMER.{verb}.{stream}.{consumer}");
        self.may_publish(op, &Subject::parse(&subject)?)
    }

    fn may_write(&self, op: &'static str, place: &str) -> Result<()> {
        self.may_publish(op, &Subject::parse(place)?)
    }

    fn may_see(&self, op: &'static str, place: &str) -> Result<()> {
        self.may_subscribe(op, &Filter::parse(place)?)
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
        // An answer that is too large must not use up the right to a better one.
        let checked = frame.check_live("publish");
        match checked.and_then(|()| self.answers.check_publish(&self.policy, &frame)) {
            Ok(()) => self.inner.publish(frame),
            Err(error) => refuse(error),
        }
    }

    fn subscribe(&self, filter: Filter, overflow: Overflow) -> BoxFuture<'_, Result<Subscription>> {
        match self.may_subscribe("subscribe", &filter) {
            Ok(()) => Box::pin(async move {
                let subscription = self.inner.subscribe(filter.clone(), overflow).await?;
                Ok(self.answers.heard_by(&filter, subscription))
            }),
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

    fn append(&self, frame: Frame, expect: Expect) -> Answer<'_, Receipt> {
        match self.may_publish("append", &frame.subject) {
            Ok(()) => self.inner.append(frame, expect),
            Err(error) => Answer::ready(Err(error)),
        }
    }

    fn append_all(&self, frames: Vec<Frame>) -> BoxFuture<'_, Result<Vec<Receipt>>> {
        let mut subjects = frames.iter().map(|frame| &frame.subject);
        match subjects.try_for_each(|subject| self.may_publish("append", subject)) {
            Ok(()) => self.inner.append_all(frames),
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

    fn discard(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            self.may_administer("discard", "MSG.DELETE", &stream)?;
            // A stream may be shared by workspaces: the right to delete in it is not the right to
            // what others keep there.
            match self.inner.read(stream.clone(), seq).await? {
                Some(stored) if !self.may_read(&stored.frame.subject) => {
                    Err(denied("discard", "read", &stored.frame.subject))
                }
                _ => self.inner.discard(stream, seq).await,
            }
        })
    }

    fn consume(&self, consumer: ConsumerSpec) -> BoxFuture<'_, Result<Deliveries>> {
        match self.may_subscribe("consume", &consumer.filter) {
            Ok(()) => self.inner.consume(consumer),
            Err(error) => refuse(error),
        }
    }

    fn consumers(&self, stream: StreamName) -> BoxFuture<'_, Result<Vec<ConsumerState>>> {
        let subject = Subject::parse(&format!("$JS.API.CONSUMER.LIST.{stream}"));
        let asked = subject.map_err(Error::from);
        match asked.and_then(|subject| self.may_publish("consumers", &subject)) {
            Ok(()) => self.inner.consumers(stream),
            Err(error) => refuse(error),
        }
    }

    fn pause(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
        until: Option<Timestamp>,
    ) -> BoxFuture<'_, Result<()>> {
        match self.may_steer("pause", "PAUSE", &stream, &consumer) {
            Ok(()) => self.inner.pause(stream, consumer, until),
            Err(error) => refuse(error),
        }
    }

    fn remove_consumer(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
    ) -> BoxFuture<'_, Result<bool>> {
        match self.may_steer("remove consumer", "DELETE", &stream, &consumer) {
            Ok(()) => self.inner.remove_consumer(stream, consumer),
            Err(error) => refuse(error),
        }
    }

    fn replay(
        &self,
        stream: StreamName,
        filter: Filter,
        from: Seq,
    ) -> BoxFuture<'_, Result<Replay>> {
        match self.may_subscribe("replay", &filter) {
            Ok(()) => self.inner.replay(stream, filter, from),
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
        match self.may_see("get", &format!("$KV.{bucket}.{key}")) {
            Ok(()) => self.inner.get(bucket, key),
            Err(error) => refuse(error),
        }
    }

    fn put(&self, bucket: BucketName, key: BucketKey, put: Put) -> BoxFuture<'_, Result<Revision>> {
        match self.may_write("put", &format!("$KV.{bucket}.{key}")) {
            Ok(()) => self.inner.put(bucket, key, put),
            Err(error) => refuse(error),
        }
    }

    fn delete(
        &self,
        bucket: BucketName,
        key: BucketKey,
        expect: ExpectRevision,
    ) -> BoxFuture<'_, Result<()>> {
        match self.may_write("delete", &format!("$KV.{bucket}.{key}")) {
            Ok(()) => self.inner.delete(bucket, key, expect),
            Err(error) => refuse(error),
        }
    }

    fn watch(
        &self,
        bucket: BucketName,
        keys: Filter,
        after: Revision,
    ) -> BoxFuture<'_, Result<Watch>> {
        match self.may_see("watch", &format!("$KV.{bucket}.{keys}")) {
            Ok(()) => self.inner.watch(bucket, keys, after),
            Err(error) => refuse(error),
        }
    }
}

impl Blobs for Guarded {
    fn put_blob(
        &self,
        bucket: BucketName,
        key: BucketKey,
        body: BlobBody,
    ) -> BoxFuture<'_, Result<BlobInfo>> {
        match self.may_write("put blob", &format!("$O.{bucket}.M.{key}")) {
            Ok(()) => self.inner.put_blob(bucket, key, body),
            Err(error) => refuse(error),
        }
    }

    fn get_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Blob>>> {
        match self.may_see("get blob", &format!("$O.{bucket}.M.{key}")) {
            Ok(()) => self.inner.get_blob(bucket, key),
            Err(error) => refuse(error),
        }
    }

    fn delete_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<bool>> {
        match self.may_write("delete blob", &format!("$O.{bucket}.M.{key}")) {
            Ok(()) => self.inner.delete_blob(bucket, key),
            Err(error) => refuse(error),
        }
    }

    fn list_blobs(&self, bucket: BucketName) -> BoxFuture<'_, Result<Vec<BlobInfo>>> {
        match self.may_see("list blobs", &format!("$O.{bucket}.M.>")) {
            Ok(()) => self.inner.list_blobs(bucket),
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
