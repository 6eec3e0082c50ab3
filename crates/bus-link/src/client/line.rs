//! One connection to a server, from the welcome to its end.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bus_core::{Durability, Error, ErrorKind, Identity, Result};
use bus_subjects::AclPolicy;
use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWriteExt as _, BufReader, split},
    sync::{Semaphore, mpsc, oneshot, watch},
    task::unconstrained,
    time::timeout,
};

use super::{dial::LinkStream, feed::Feed, inbox::Event, member::Seat};
use crate::{
    LinkOptions,
    outgoing::Outgoing,
    task::start,
    wire::{
        Answer, Call, Challenge, Fault, HELLO_BYTES_MAX, Item, MESSAGE_BYTES_MAX, Message, Packet,
        Response, SERVER_ID_BYTES, ToClient, ToServer, Versions, Welcome, read_message,
    },
};

/// A connection that the server has let in.
pub(crate) struct Line {
    /// Which life of which server is at the other end.
    pub(crate) server: [u8; SERVER_ID_BYTES],
    pub(crate) durability: Durability,
    pub(crate) policy: AclPolicy,
    pub(crate) out: Arc<Outgoing>,
    /// As many as the server has open at one time.
    calls: Semaphore,
    state: Mutex<State>,
    is_broken: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    last_id: u64,
    slots: HashMap<u64, Slot>,
    is_broken: bool,
}

/// Who waits for what comes under an id.
struct Slot {
    answer: Option<oneshot::Sender<Answered>>,
    sink: Option<Sink>,
}

/// Where the items of a stream go.
#[derive(Clone)]
pub(crate) enum Sink {
    Feed(Arc<Feed>),
    Member(Arc<Seat>),
    Inbox(mpsc::UnboundedSender<Event>),
}

/// What a server answers, and what travels with it.
pub(crate) type Answered = std::result::Result<(Answer, Vec<Bytes>), Fault>;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The server never got it.
    NotSent,
    /// The connection broke before the answer came.
    Unknown,
    /// It cannot be sent at all.
    Refused(Error),
}

/// Something that is open on a line; dropping it ends it there.
pub(crate) struct Opened {
    pub(crate) line: Arc<Line>,
    pub(crate) id: u64,
}

impl Line {
    /// Proves to the server at the other end of `stream` who we are, and begins the connection.
    /// The task that runs it ends when the connection does.
    ///
    /// # Errors
    /// `Denied`, `Unsupported` (another version), `Full`: the server's word; `Corrupt`: it is no
    /// server of ours; `Unavailable`: it went away.
    pub(crate) async fn begin(
        mut stream: Box<dyn LinkStream>,
        identity: &Identity,
        options: &LinkOptions,
    ) -> Result<(Arc<Self>, impl Future<Output = Option<Fault>> + Send + use<>)> {
        let greeting = greet(&mut stream, identity);
        let late = |_| Error::new(ErrorKind::Unavailable, "connect", "the server does not answer");
        let (server, welcomed) = timeout(options.handshake_max, greeting).await.map_err(late)??;
        let line = Arc::new(Self {
            server,
            durability: welcomed.durability()?,
            policy: welcomed.policy,
            // What is asked waits; only what ends things is sent whatever waits.
            out: Arc::new(Outgoing::new(options.outgoing_bytes, usize::MAX)),
            calls: Semaphore::new(welcomed.calls_max.min(1 << 16) as usize),
            state: Mutex::default(),
            is_broken: watch::Sender::new(false),
        });
        Ok((Arc::clone(&line), line.run(stream)))
    }

    /// Reads and writes until the connection ends; returns why the server ended it.
    async fn run(self: Arc<Self>, stream: Box<dyn LinkStream>) -> Option<Fault> {
        let (reader, mut writer) = split(stream);
        let out = Arc::clone(&self.out);
        let writing = start(async move { out.write_to(&mut writer, STALL_MAX).await });
        let read = self.listen(reader).await;
        self.out.abort();
        let slots = {
            let mut state = self.lock();
            state.is_broken = true;
            std::mem::take(&mut state.slots)
        };
        self.calls.close();
        drop(slots);
        self.is_broken.send_replace(true);
        let _ended = writing.await;
        match read {
            Ok(why) => why,
            Err(error) => {
                tracing::debug!(%error, "the connection to the server broke");
                None
            }
        }
    }

    async fn listen(&self, reader: impl AsyncRead + Unpin) -> Result<Option<Fault>> {
        let mut reader = BufReader::with_capacity(READ_BYTES, reader);
        while let Some(bytes) = read_message(&mut reader, MESSAGE_BYTES_MAX).await? {
            let Message { words, parts } = Message::<ToClient>::decode(bytes)?;
            match words {
                ToClient::Answer { id, answer } => self.answered(id, answer, parts),
                ToClient::Item { id, item } => self.item(id, item, parts)?,
                ToClient::End { id, why } => {
                    let slot = self.lock().slots.remove(&id);
                    if let Some(sink) = slot.and_then(|slot| slot.sink) {
                        sink.end(why);
                    }
                }
                ToClient::Closing { why } => return Ok(why),
            }
        }
        Ok(None)
    }

    fn answered(&self, id: u64, answer: std::result::Result<Answer, Fault>, parts: Vec<Bytes>) {
        let mut state = self.lock();
        let Some(slot) = state.slots.get_mut(&id) else { return };
        let waiting = slot.answer.take();
        if slot.sink.is_none() || answer.is_err() {
            state.slots.remove(&id);
        }
        drop(state);
        if let Some(waiting) = waiting {
            // Whoever asked may have gone.
            let _gone = waiting.send(answer.map(|answer| (answer, parts)));
        }
    }

    fn item(&self, id: u64, item: Item, parts: Vec<Bytes>) -> Result<()> {
        let sink = self.lock().slots.get(&id).and_then(|slot| slot.sink.clone());
        match (sink, item) {
            (Some(Sink::Feed(feed)), item) => feed.take_in(item, &parts),
            (Some(Sink::Member(seat)), Item::Deliveries { round, deliveries }) => {
                seat.take_in(self, id, round, &deliveries, &parts)
            }
            (Some(Sink::Inbox(inbox)), item) => {
                // Whoever listened may have gone.
                let _gone = inbox.send(Event::Item(item, parts));
                Ok(())
            }
            // Deliveries that nobody takes are given back.
            (None, Item::Deliveries { deliveries, .. }) => {
                self.give_back(deliveries.iter().map(|delivery| delivery.id));
                Ok(())
            }
            (None | Some(Sink::Member(_)), _) => Ok(()),
        }
    }

    /// Asks the server; the answer comes to the receiver, and the items of a stream to `sink`.
    ///
    /// # Errors
    /// `NotSent`: the connection has ended before; `Refused`: it is too large.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        call: Call,
        write: impl FnOnce(Packet) -> Result<Packet>,
        sink: Option<Sink>,
    ) -> std::result::Result<(Opened, oneshot::Receiver<Answered>), Lost> {
        let (answer, answered) = oneshot::channel();
        let slot = Slot { answer: Some(answer), sink };
        let opened = {
            let mut state = self.lock();
            if state.is_broken {
                return Err(Lost::NotSent);
            }
            state.last_id += 1;
            let id = state.last_id;
            state.slots.insert(id, slot);
            Opened { line: Arc::clone(self), id }
        };
        let packet = Packet::new(&ToServer::Call { id: opened.id, call }).and_then(write);
        self.in_turn(packet).await?;
        Ok((opened, answered))
    }

    /// Asks the server and waits for the answer.
    ///
    /// # Errors
    /// What is known of it.
    pub(crate) async fn call(
        self: &Arc<Self>,
        call: Call,
        write: impl FnOnce(Packet) -> Result<Packet>,
    ) -> std::result::Result<Answered, Lost> {
        // What came first goes first: the budget of a task must not turn the order round.
        let permit = unconstrained(self.calls.acquire()).await;
        let _permit = permit.map_err(|_| Lost::NotSent)?;
        let (opened, answered) = self.ask(call, write, None).await?;
        let answered = answered.await.map_err(|_| Lost::Unknown);
        drop(opened);
        answered
    }

    /// Sends what nobody answers, in its turn.
    ///
    /// # Errors
    /// `NotSent` or `Refused`.
    pub(crate) async fn send(&self, packet: Result<Packet>) -> std::result::Result<(), Lost> {
        self.in_turn(packet).await
    }

    async fn in_turn(&self, packet: Result<Packet>) -> std::result::Result<(), Lost> {
        let packet = packet.map_err(Lost::Refused)?;
        // The budget of a task must not turn the order round.
        unconstrained(self.out.push_in_turn(packet)).await.map_err(|_| Lost::NotSent)
    }

    /// Tells the server something short, whatever waits.
    pub(crate) fn tell(&self, words: &ToServer) {
        if let Ok(packet) = Packet::new(words) {
            // When the connection has ended, so has what this is about.
            let _gone = self.out.push(packet);
        }
    }

    /// Gives deliveries back that nobody has seen.
    pub(crate) fn give_back(&self, deliveries: impl Iterator<Item = u64>) {
        let release = |id| (id, crate::wire::WireVerdict::Release(Duration::ZERO));
        let verdicts: Vec<_> = deliveries.map(release).collect();
        if verdicts.is_empty() {
            return;
        }
        let id = {
            let mut state = self.lock();
            state.last_id += 1;
            state.last_id
        };
        self.tell(&ToServer::Call { id, call: Call::Settle(verdicts) });
    }

    /// Waits until the connection has ended. Cancel safe.
    pub(crate) async fn broken(&self) {
        // The sender is ours.
        let mut broken = self.is_broken.subscribe();
        let _ended = broken.wait_for(|is_broken| *is_broken).await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink {
    fn end(self, why: Option<Fault>) {
        match self {
            Self::Feed(feed) => feed.end(),
            Self::Member(seat) => seat.end(why.map(|why| why.into_error("next"))),
            Self::Inbox(inbox) => {
                let _gone = inbox.send(Event::End(why));
            }
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let slot = self.line.lock().slots.remove(&self.id);
        if slot.is_some_and(|slot| slot.sink.is_some()) {
            self.line.tell(&ToServer::End { id: self.id });
        }
    }
}

/// The client's side of the handshake.
async fn greet(
    stream: &mut Box<dyn LinkStream>,
    identity: &Identity,
) -> Result<([u8; SERVER_ID_BYTES], crate::wire::Welcomed)> {
    let gone = || Error::new(ErrorKind::Unavailable, "connect", "the server went away");
    let challenge = read_message(stream, HELLO_BYTES_MAX).await?.ok_or_else(gone)?;
    let challenge = Challenge::decode(&challenge)?;
    let versions = Versions::OURS;
    versions.common(challenge.versions, "connect")?;
    let signature = identity.key().sign(&challenge.to_sign(versions));
    let token = identity.certificate().token().to_owned();
    let response = Response { versions, signature, token }.encode();
    let mut bytes = (response.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&response);
    let sending = async {
        stream.write_all(&bytes).await?;
        stream.flush().await
    };
    sending.await.map_err(|why| gone().because(why))?;
    let welcome = read_message(stream, WELCOME_BYTES_MAX).await?.ok_or_else(gone)?;
    match Message::<Welcome>::decode(welcome)?.words {
        Welcome::In(welcomed) => Ok((challenge.server, welcomed)),
        Welcome::Refused(fault) => Err(fault.into_error("connect")),
    }
}

/// The room for what is read ahead.
const READ_BYTES: usize = 64 << 10;

/// The most bytes of a welcome, in which the policy is.
const WELCOME_BYTES_MAX: usize = 1 << 20;

/// How long the server may refuse to read.
const STALL_MAX: Duration = Duration::from_secs(60);
