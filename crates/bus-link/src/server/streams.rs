//! What goes on after its call was answered: subscriptions, members, replays, watches, blobs.

use std::{num::NonZeroUsize, sync::Arc};

use bus_core::{
    BlobBody, Change, Deliveries, Delivery, Error, ErrorKind, FeedItem, Frame, KeyState, Replay,
    Result, Revision, Seq, SharedFrame, Subscription, Watch, WatchItem, packed::pack_frame,
};
use bus_subjects::{BucketName, Filter};
use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::sync::{Semaphore, mpsc, watch};

use super::{
    calls::{Reply, place, stream_and_filter},
    session::Session,
};
use crate::{
    task::Task,
    wire::{Answer, Call, Item, Packet, ToClient, WireBlob, WireDelivery, WirePlace, WireState},
};

/// What is open for a client; dropping it ends it.
pub(super) enum Handle {
    /// A subscription.
    Feed { _task: Task },
    /// A member of a consumer, and what the client asks of it.
    Member { demand: Arc<watch::Sender<Demand>>, _task: Task },
    /// A stream that sends as much as the client asked for.
    Paced { credit: Arc<Semaphore>, _task: Task },
    /// A blob that comes in, part by part; `None` ends it.
    Upload(mpsc::Sender<Option<Bytes>>),
}

/// How many deliveries a client waits for, and in which of its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Demand {
    pub(super) round: u32,
    pub(super) max: u32,
}

impl Session {
    /// Opens what `call` asks for, and answers it before the first item.
    ///
    /// # Errors
    /// Those of the engine; `Full` when the client has too many.
    pub(super) async fn open_stream(
        self: &Arc<Self>,
        id: u64,
        call: Call,
    ) -> Result<Option<Reply>> {
        let session = Arc::clone(self);
        match call {
            Call::Subscribe { filter, overflow } => {
                let filter = Filter::parse(&filter)?;
                // The client's own feed has all that it asked for.
                let overflow = overflow.parse(self.limits.feed_frames_max)?;
                let subscription = self.engine.subscribe(filter, overflow).await?;
                self.answer(id, Ok(Reply::done()))?;
                self.open(id, || Handle::Feed {
                    _task: Task::spawn(session.feed(id, subscription)),
                })?;
            }
            Call::Consume(spec) => {
                let deliveries = self.engine.consume(spec.parse()?).await?;
                self.answer(id, Ok(Reply::done()))?;
                let demand = Arc::new(watch::Sender::new(Demand::default()));
                let asked = demand.subscribe();
                self.open(id, || {
                    let _task = Task::spawn(session.member(id, deliveries, asked));
                    Handle::Member { demand, _task }
                })?;
            }
            Call::Replay { stream, filter, from, credit } => {
                let (stream, filter) = stream_and_filter(&stream, &filter)?;
                let replay = self.engine.replay(stream, filter, Seq(from)).await?;
                self.answer(id, Ok(Reply::done()))?;
                self.open_paced(id, credit, |credit| session.replay(id, replay, credit))?;
            }
            Call::Watch { bucket, keys, after, credit } => {
                let (bucket, keys) = (BucketName::parse(&bucket)?, Filter::parse(&keys)?);
                let watch = self.engine.watch(bucket, keys, Revision(after)).await?;
                self.answer(id, Ok(Reply::done()))?;
                self.open_paced(id, credit, |credit| session.watch(id, watch, credit))?;
            }
            Call::GetBlob { bucket, key, credit } => {
                let (bucket, key) = place(&bucket, &key)?;
                let Some(blob) = self.engine.get_blob(bucket, key).await? else {
                    return Ok(Some(Answer::Blob(None).into()));
                };
                let info = Answer::Blob(Some(WireBlob::from(&blob.info)));
                self.answer(id, Ok(info.into()))?;
                self.open_paced(id, credit, |credit| session.blob(id, blob.body, credit))?;
            }
            Call::PutBlob { bucket, key } => {
                let (bucket, key) = place(&bucket, &key)?;
                let (upload, parts) = mpsc::channel(UPLOAD_PARTS as usize + 1);
                self.open(id, || Handle::Upload(upload))?;
                self.item(id, Item::Credit(UPLOAD_PARTS))?;
                let body = self.upload(id, parts);
                let stored = self.engine.put_blob(bucket, key, body).await;
                self.forget(id);
                let info = Answer::Blob(Some(WireBlob::from(&stored?)));
                return Ok(Some(info.into()));
            }
            _ => {}
        }
        Ok(None)
    }

    fn open_paced<F: Future<Output = ()> + Send + 'static>(
        &self,
        id: u64,
        credit: u32,
        run: impl FnOnce(Arc<Semaphore>) -> F,
    ) -> Result<()> {
        // What a client may ask for at once is far below what a semaphore can count.
        let credit = Arc::new(Semaphore::new(credit.min(1 << 16) as usize));
        self.open(id, || {
            let _task = Task::spawn(run(Arc::clone(&credit)));
            Handle::Paced { credit, _task }
        })
    }

    /// Passes on what is heard. While the client does not take it in, it waits at the engine,
    /// which drops the oldest and counts them.
    async fn feed(self: Arc<Self>, id: u64, mut subscription: Subscription) {
        let _working = self.working();
        let mut ending = self.is_ending.subscribe();
        loop {
            if self.out.room().await.is_err() {
                return;
            }
            let item = tokio::select! {
                biased;
                item = subscription.next() => item,
                _ending = ending.wait_for(|is_ending| *is_ending) => break,
            };
            let Some(item) = item else { return self.end_stream(id, None) };
            if self.pass_on(id, item, &mut subscription).is_err() {
                return;
            }
        }
        // What was published before the end is heard: a feed may take some turns to show it.
        let mut turns = 0;
        while turns < LAST_TURNS {
            match tokio::task::unconstrained(subscription.next()).now_or_never() {
                Some(Some(item)) => {
                    let passed = self.pass_on(id, item, &mut subscription);
                    if passed.is_err() || self.out.room().await.is_err() {
                        return;
                    }
                    turns = 0;
                }
                Some(None) => break,
                None => {
                    turns += 1;
                    tokio::task::yield_now().await;
                }
            }
        }
        self.end_stream(id, None);
    }

    /// Sends an item, and the frames that wait behind it.
    fn pass_on(&self, id: u64, item: FeedItem, subscription: &mut Subscription) -> Result<()> {
        let (mut next, mut frames, mut bytes) = (Some(item), Vec::new(), 0);
        while let Some(FeedItem::Frame(frame)) = next {
            bytes += frame.bytes();
            frames.push(frame);
            let is_full = frames.len() >= RUN_FRAMES || bytes >= RUN_BYTES;
            next = if is_full { None } else { subscription.next().now_or_never().flatten() };
        }
        if !frames.is_empty() {
            self.out.push(frames_packet(id, &frames)?)?;
        }
        match next {
            Some(FeedItem::Gap { missed }) => self.item(id, Item::Gap(missed)),
            _ => Ok(()),
        }
    }

    /// Claims for a client only while it waits for deliveries.
    async fn member(
        self: Arc<Self>,
        id: u64,
        mut deliveries: Deliveries,
        mut asked: watch::Receiver<Demand>,
    ) {
        let mut served = None;
        loop {
            let demand = *asked.borrow_and_update();
            let max = NonZeroUsize::new((demand.max as usize).min(Frame::BATCH_MAX));
            let Some(max) = max.filter(|_| served != Some(demand.round)) else {
                if asked.changed().await.is_err() {
                    return;
                }
                continue;
            };
            // What waits to be written is not claimed any further.
            let claiming = async {
                self.out.room().await.ok()?;
                Some(deliveries.next_many(max).await)
            };
            let claimed = tokio::select! {
                biased;
                changed = asked.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                claimed = claiming => claimed,
            };
            match claimed {
                Some(Some(Ok(claims))) => {
                    served = Some(demand.round);
                    if let Err(error) = self.hand_over(id, demand.round, claims).await {
                        return self.end_stream(id, Some(&error));
                    }
                }
                Some(Some(Err(error))) => return self.end_stream(id, Some(&error)),
                Some(None) => return self.end_stream(id, None),
                None => return,
            }
        }
    }

    /// Sends what was claimed; what does not fit into a message is given back.
    ///
    /// # Errors
    /// `TooLarge` when not even one fits: the client waits in vain.
    async fn hand_over(&self, id: u64, round: u32, mut claims: Vec<Delivery>) -> Result<()> {
        let mut bytes = 0;
        let fits = claims.iter().take_while(|delivery| {
            bytes += delivery.frame.bytes() + NAMES_BYTES;
            bytes <= DELIVERIES_BYTES
        });
        let rest = claims.split_off(fits.count().max(1).min(claims.len()));
        let take_in = |delivery: &Delivery| self.held.take_in(delivery, self.owner);
        let mut unseen: Vec<_> = rest.iter().map(take_in).collect();
        let ids: Vec<_> = claims.iter().map(take_in).collect();
        let wire = |(delivery, id): (&Delivery, &u64)| WireDelivery {
            id: *id,
            place: WirePlace::new(delivery.seq, delivery.stored),
            attempt: delivery.attempt,
            lease: delivery.lease,
        };
        let deliveries = claims.iter().zip(&ids).map(wire).collect();
        let item = Item::Deliveries { round, deliveries };
        let mut packet = Packet::new(&ToClient::Item { id, item });
        for delivery in &claims {
            packet = packet.and_then(|packet| packet.with(|out| pack_frame(&delivery.frame, out)));
        }
        let mut outcome = Ok(());
        match packet {
            Ok(packet) => {
                unseen.extend(self.out.push_deliveries(packet, ids).err().unwrap_or_default());
            }
            Err(error) => {
                unseen.extend(ids);
                outcome = Err(error);
            }
        }
        self.held.give_back(unseen, self.owner).await;
        outcome
    }

    async fn replay(self: Arc<Self>, id: u64, mut replay: Replay, credit: Arc<Semaphore>) {
        while let Some(next) = replay.next().await {
            let packet = next.and_then(|stored| {
                let item = Item::Stored(WirePlace::new(stored.seq, stored.time));
                let packet = Packet::new(&ToClient::Item { id, item })?;
                packet.with(|out| pack_frame(&stored.frame, out))
            });
            if !self.send_paced(id, packet, &credit).await {
                return;
            }
        }
        self.end_stream(id, None);
    }

    async fn watch(self: Arc<Self>, id: u64, mut watch: Watch, credit: Arc<Semaphore>) {
        while let Some(next) = watch.next().await {
            let packet = next.and_then(|item| watch_packet(id, item));
            if !self.send_paced(id, packet, &credit).await {
                return;
            }
        }
        self.end_stream(id, None);
    }

    async fn blob(self: Arc<Self>, id: u64, mut body: BlobBody, credit: Arc<Semaphore>) {
        while let Some(next) = body.next().await {
            let packet = next.and_then(|part| {
                let packet = Packet::new(&ToClient::Item { id, item: Item::Part })?;
                packet.with(|out| out.extend_from_slice(&part))
            });
            if !self.send_paced(id, packet, &credit).await {
                return;
            }
        }
        self.end_stream(id, None);
    }

    /// Sends when the client asked for it and there is room; false at the end.
    async fn send_paced(&self, id: u64, packet: Result<Packet>, credit: &Semaphore) -> bool {
        let packet = match packet {
            Ok(packet) => packet,
            Err(error) => {
                self.end_stream(id, Some(&error));
                return false;
            }
        };
        if let Ok(permit) = credit.acquire().await {
            permit.forget();
        }
        self.out.room().await.is_ok() && self.out.push(packet).is_ok()
    }

    /// The parts of a blob as they come in.
    fn upload(self: &Arc<Self>, id: u64, parts: mpsc::Receiver<Option<Bytes>>) -> BlobBody {
        let begun = Some((parts, Arc::clone(self)));
        BlobBody::new(futures_util::stream::unfold(begun, move |state| async move {
            let (mut parts, session) = state?;
            match parts.recv().await {
                Some(Some(part)) => {
                    let _gone = session.item(id, Item::Credit(1));
                    Some((Ok(part), Some((parts, session))))
                }
                Some(None) => None,
                None => {
                    let why = "the upload ended before it was whole";
                    Some((Err(Error::new(ErrorKind::Unavailable, "put blob", why)), None))
                }
            }
        }))
    }
}

fn frames_packet(id: u64, frames: &[SharedFrame]) -> Result<Packet> {
    let mut packet = Packet::new(&ToClient::Item { id, item: Item::Frames })?;
    for frame in frames {
        packet = packet.with(|out| pack_frame(frame, out))?;
    }
    Ok(packet)
}

fn watch_packet(id: u64, item: WatchItem) -> Result<Packet> {
    let (item, value) = match item {
        WatchItem::Current => (Item::Current, None),
        WatchItem::Resync => (Item::Resync, None),
        WatchItem::Changed(Change { key, revision: Revision(revision), state }) => {
            let (state, value) = match state {
                KeyState::Value(value) => (WireState::Value, value),
                KeyState::Deleted => (WireState::Deleted, Bytes::new()),
                KeyState::Expired => (WireState::Expired, Bytes::new()),
            };
            (Item::Changed { key: key.as_str().to_owned(), revision, state }, Some(value))
        }
    };
    let packet = Packet::new(&ToClient::Item { id, item })?;
    match value {
        Some(value) => packet.with(|out| out.extend_from_slice(&value)),
        None => Ok(packet),
    }
}

/// How many parts of an upload may be on their way.
const UPLOAD_PARTS: u32 = 16;

/// How many frames go into one message, and from how many bytes on no more.
const RUN_FRAMES: usize = 128;
const RUN_BYTES: usize = 64 << 10;

/// How often a feed that is to end has its turn before it counts as empty.
const LAST_TURNS: u32 = 256;

/// How many bytes of frames are handed over in one message, or one frame.
const DELIVERIES_BYTES: usize = 4 << 20;

/// What a frame's names and numbers take beside its headers and body, roughly.
const NAMES_BYTES: usize = 1 << 10;
