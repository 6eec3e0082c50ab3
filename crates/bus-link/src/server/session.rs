//! One connection that was let in: what it asks is done in order, what it holds ends with it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use bus_core::{BlobInfo, Engine, Error, ErrorKind, Result, packed::unpack_frame};
use bus_crypto::PublicKey;
use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::{
    io::{AsyncRead, BufReader},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::timeout,
};

use super::{
    calls::Reply,
    door::Door,
    held::Held,
    streams::{Demand, Handle},
};
use crate::{
    LinkLimits,
    outgoing::Outgoing,
    task::start,
    wire::{
        Answer, Call, Fault, Item, MESSAGE_BYTES_MAX, Message, Packet, ToClient, ToServer,
        read_message,
    },
};

/// What one client has at this server.
pub(super) struct Session {
    /// The engine behind the client's policy.
    pub(super) engine: Arc<dyn Engine>,
    pub(super) door: Door,
    pub(super) out: Arc<Outgoing>,
    pub(super) held: Arc<Held>,
    /// The client's key: deliveries are its own, whatever the connection.
    pub(super) owner: PublicKey,
    pub(super) limits: LinkLimits,
    streams: Mutex<HashMap<u64, Handle>>,
    calls: AtomicU32,
    /// For the bytes of calls that are not answered yet.
    room: Arc<Semaphore>,
    /// Set when subscriptions are to end after what they hold.
    pub(super) is_ending: watch::Sender<bool>,
    /// A copy is held by all that has to end before the connection does.
    working: Mutex<Option<mpsc::Sender<()>>>,
    workers: tokio::sync::Mutex<mpsc::Receiver<()>>,
}

impl Session {
    pub(super) fn new(
        (engine, door): (Arc<dyn Engine>, Door),
        out: Arc<Outgoing>,
        held: Arc<Held>,
        owner: PublicKey,
        limits: LinkLimits,
    ) -> Self {
        let (working, workers) = mpsc::channel(1);
        Self {
            engine,
            door,
            out,
            held,
            owner,
            limits,
            streams: Mutex::default(),
            calls: AtomicU32::new(0),
            room: Arc::new(Semaphore::new(ROOM_UNITS as usize)),
            is_ending: watch::Sender::new(false),
            working: Mutex::new(Some(working)),
            workers: tokio::sync::Mutex::new(workers),
        }
    }

    /// Does what the client says until it says goodbye or goes away.
    ///
    /// # Errors
    /// `Corrupt`: it does not speak as it should; `Unavailable`: the connection failed.
    pub(super) async fn listen(self: &Arc<Self>, stream: impl AsyncRead + Unpin) -> Result<()> {
        let mut stream = BufReader::with_capacity(READ_BYTES, stream);
        loop {
            // Who does not take in what he asked for, is not listened to.
            self.out.room().await?;
            let Some(bytes) = read_message(&mut stream, MESSAGE_BYTES_MAX).await? else {
                let why = "the client went away";
                return Err(Error::new(ErrorKind::Unavailable, "read", why));
            };
            let Message { words, parts } = Message::<ToServer>::decode(bytes)?;
            let room = match &words {
                ToServer::Bye => return Ok(()),
                ToServer::Publish => {
                    self.publish(&Message::<()>::one_part(parts)?).await?;
                    continue;
                }
                // Its answer may be among what comes next.
                ToServer::Call { call: Call::Request { .. }, .. } => None,
                ToServer::Call { .. } => self.room_for(&parts).await,
                _ => None,
            };
            self.hear(words, parts, room)?;
        }
    }

    /// Waits until what is being done leaves room for these.
    async fn room_for(&self, parts: &[Bytes]) -> Option<OwnedSemaphorePermit> {
        let bytes: usize = parts.iter().map(Bytes::len).sum();
        // A message is smaller than the room there is in all; the semaphore is never closed.
        let units = u32::try_from(bytes / ROOM_UNIT + 1).unwrap_or(u32::MAX).min(ROOM_UNITS);
        Arc::clone(&self.room).acquire_many_owned(units).await.ok()
    }

    fn hear(
        self: &Arc<Self>,
        words: ToServer,
        parts: Vec<Bytes>,
        room: Option<OwnedSemaphorePermit>,
    ) -> Result<()> {
        match words {
            ToServer::Call { id, call } => self.call(id, call, parts, room)?,
            ToServer::Credit { id, items } => {
                if let Some(Handle::Paced { credit, .. }) = self.streams().get(&id) {
                    let items = items as usize;
                    // More than any client needs, and less than a semaphore can count.
                    if credit.available_permits().saturating_add(items) > CREDIT_MAX {
                        return Err(rude("a client asks for more than a stream may send at once"));
                    }
                    credit.add_permits(items);
                }
            }
            ToServer::Want { id, round, max } => self.demand(id, |demand| {
                *demand = Demand { round, max };
            }),
            ToServer::Unwant { id } => self.demand(id, |demand| demand.max = 0),
            ToServer::Part { id } => {
                let part = Message::<()>::one_part(parts)?;
                if part.len() > BlobInfo::PIECE_BYTES {
                    return Err(rude("a part of an upload is larger than a piece"));
                }
                if let Some(Handle::Upload(upload)) = self.streams().get(&id) {
                    match upload.try_send(Some(part)) {
                        Err(mpsc::error::TrySendError::Full(_)) => {
                            return Err(rude("a client sends more parts than it may"));
                        }
                        // The engine has given the upload up, and the client will hear of it.
                        Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
                    }
                }
            }
            ToServer::Whole { id } => {
                if let Some(Handle::Upload(upload)) = self.streams().remove(&id) {
                    // One place more is kept for this mark than a client may fill.
                    let _given_up = upload.try_send(None);
                }
            }
            ToServer::End { id } => drop(self.streams().remove(&id)),
            // Both were seen to before.
            ToServer::Publish | ToServer::Bye => {}
        }
        Ok(())
    }

    fn demand(&self, id: u64, change: impl FnOnce(&mut Demand)) {
        if let Some(Handle::Member { demand, .. }) = self.streams().get(&id) {
            demand.send_modify(change);
        }
    }

    /// Begins a call in the order in which it came; what takes longer goes on beside the others.
    ///
    /// The engine is asked within this call, so that appends are stored in the order in which they
    /// were sent, though their answers may come in another.
    fn call(
        self: &Arc<Self>,
        id: u64,
        call: Call,
        parts: Vec<Bytes>,
        room: Option<OwnedSemaphorePermit>,
    ) -> Result<()> {
        if self.calls.fetch_add(1, Ordering::Relaxed) >= self.limits.calls_max {
            self.calls.fetch_sub(1, Ordering::Relaxed);
            let why = "too many calls of this connection are open";
            return self.answer(id, Err(Error::new(ErrorKind::Full, "call", why)));
        }
        let session = Arc::clone(self);
        // Nobody waits at the end for an answer that another client may never give.
        let working = self.working().filter(|_| !matches!(call, Call::Request { .. }));
        let mut work = Box::pin(async move {
            let outcome = session.perform(id, call, parts).await;
            session.calls.fetch_sub(1, Ordering::Relaxed);
            if let Some(outcome) = outcome.transpose() {
                // When the connection has ended there is nobody to hear it.
                let _nobody = session.answer(id, outcome);
            }
            drop((working, room));
        });
        if tokio::task::unconstrained(&mut work).now_or_never().is_none() {
            start(work);
        }
        Ok(())
    }

    /// A live frame: the client has looked at its size and its right, so what fails here is either
    /// its fault or the end of the engine. No engine lets a publisher wait for subscribers.
    async fn publish(&self, packed: &Bytes) -> Result<()> {
        if let Err(error) = self.engine.publish(unpack_frame(packed)?).await {
            tracing::warn!(%error, "a live frame was refused");
        }
        Ok(())
    }

    /// Sends what became of a call.
    ///
    /// # Errors
    /// `Unavailable`: the connection has ended.
    pub(super) fn answer(&self, id: u64, outcome: Result<Reply>) -> Result<()> {
        let packet = match outcome {
            Ok(reply) => reply.into_packet(id),
            Err(error) => Err(error),
        };
        let packet = packet.or_else(|error| {
            Packet::new(&ToClient::Answer { id, answer: Err(Fault::from(&error)) })
        })?;
        self.out.push(packet)
    }

    /// Sends the next item of a stream.
    ///
    /// # Errors
    /// `Unavailable`: the connection has ended.
    pub(super) fn item(&self, id: u64, item: Item) -> Result<()> {
        self.out.push(Packet::new(&ToClient::Item { id, item })?)
    }

    /// Tells that a stream has ended, and forgets it.
    pub(super) fn end_stream(&self, id: u64, why: Option<&Error>) {
        self.streams().remove(&id);
        let why = why.map(Fault::from);
        if let Ok(packet) = Packet::new(&ToClient::End { id, why }) {
            let _nobody = self.out.push(packet);
        }
    }

    /// Opens a stream: `begin` starts it and returns what ends it.
    ///
    /// # Errors
    /// `Full` when the client has too many.
    pub(super) fn open(&self, id: u64, begin: impl FnOnce() -> Handle) -> Result<()> {
        let mut streams = self.streams();
        if streams.len() >= self.limits.streams_max {
            let why = "too many streams of this connection are open";
            return Err(Error::new(ErrorKind::Full, "open", why));
        }
        streams.insert(id, begin());
        Ok(())
    }

    pub(super) fn forget(&self, id: u64) {
        self.streams().remove(&id);
    }

    /// A mark that something is to be done before the connection ends.
    pub(super) fn working(&self) -> Option<mpsc::Sender<()>> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets what was begun come to its end, and the subscriptions after what they hold.
    pub(super) async fn farewell(&self, why: Option<&Error>) {
        self.working.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.streams().retain(|_, handle| matches!(handle, Handle::Feed { .. }));
        self.is_ending.send_replace(true);
        let mut workers = self.workers.lock().await;
        let _late = timeout(self.limits.farewell_max, workers.recv()).await;
        let closing = Packet::new(&ToClient::Closing { why: why.map(Fault::from) });
        if let Ok(packet) = closing {
            let _nobody = self.out.push(packet);
        }
        self.out.close();
    }

    /// Ends what a client has open whose right has ended: it gets nothing more but the reason.
    pub(super) fn revoke(&self) {
        self.streams().clear();
    }

    /// Ends what is left, and gives back what the client cannot have seen.
    pub(super) async fn bury(&self) {
        self.out.abort();
        self.streams().clear();
        self.held.give_back(self.out.unwritten(), self.owner).await;
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<u64, Handle>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reply {
    fn into_packet(self, id: u64) -> Result<Packet> {
        let (answer, part): (Answer, _) = self.into_parts();
        let packet = Packet::new(&ToClient::Answer { id, answer: Ok(answer) })?;
        match part {
            Some(part) => packet.with(|out| part.write(out)),
            None => Ok(packet),
        }
    }
}

fn rude(why: &'static str) -> Error {
    Error::new(ErrorKind::Corrupt, "read", why)
}

/// The room for what is read ahead of one connection.
const READ_BYTES: usize = 16 << 10;

/// The most items that a client may have asked for and not got.
const CREDIT_MAX: usize = 1 << 16;

/// In which units the bytes of calls are counted.
const ROOM_UNIT: usize = 1 << 10;

/// How many of them one connection may have open: 64 MiB, twice what a message has.
const ROOM_UNITS: u32 = 64 << 10;
