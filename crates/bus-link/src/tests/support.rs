//! A server over the in-memory engine, clients of it, and words for common steps.

use std::{sync::Arc, time::Duration};

use bus_core::{
    Bus as _, ConsumerSpec, Engine, Expect, Frame, FrameId, Identity, Receipt, Result, Retention,
    StreamSpec, TokioClock,
};
use bus_envelope::Timestamp;
use bus_mem::InMemoryBus;
use bus_subjects::{ConsumerName, Filter, Role, StreamName, Subject};
use tokio::io::{AsyncWriteExt as _, DuplexStream};

use super::common::{People, Pipes};
use crate::{
    Admission, Control, LinkBus, LinkLimits, LinkOptions, LinkServer,
    wire::{
        Challenge, HELLO_BYTES_MAX, Message, Packet, Response, ToClient, ToServer, Versions,
        read_message,
    },
};

/// A workspace with an engine that outlives its servers.
pub(super) struct Site {
    pub(super) people: People,
    pub(super) engine: Arc<InMemoryBus>,
    pub(super) admission: Admission,
    pub(super) pipes: Pipes,
    pub(super) limits: LinkLimits,
}

impl Site {
    /// With a server whose clients may do everything.
    pub(super) fn open() -> Self {
        Self::with(People::open_admission, LinkLimits::default())
    }

    pub(super) fn with(admission: fn(&People) -> Admission, limits: LinkLimits) -> Self {
        let origin = Timestamp::from_unix_ns(1_800_000_000_000_000_000);
        let clock = Arc::new(TokioClock::starting_at(origin));
        let people = People::new(clock.clone());
        let engine = Arc::new(InMemoryBus::with_limits(clock, bus_mem::Limits::default()));
        let admission = admission(&people);
        let site = Self { people, engine, admission, pipes: Pipes::cuttable(), limits };
        site.start();
        site
    }

    /// A new server, in place of the one that was there, which goes without a word.
    pub(super) fn start(&self) {
        self.start_with(None);
    }

    /// As [`Site::start`], with a host.
    pub(super) fn start_with(&self, host: Option<Arc<dyn Control>>) {
        let engine: Arc<dyn Engine> = Arc::new(self.engine.connect());
        let mut server = LinkServer::unbound(engine, self.admission.clone(), self.limits).unwrap();
        if let Some(host) = host {
            server = server.control(host);
        }
        drop(self.pipes.lead_to(Some(server)));
    }

    /// The server goes without a word.
    pub(super) fn kill(&self) {
        drop(self.pipes.lead_to(None));
    }

    /// A stream to the server, as strangers get it.
    pub(super) fn pipe(&self) -> DuplexStream {
        self.pipes.pipe().unwrap()
    }

    pub(super) fn identity(&self, agent: &str) -> Identity {
        self.people.identity(agent, vec![Role::Worker])
    }

    pub(super) async fn client(&self, agent: &str) -> LinkBus {
        self.try_client(self.identity(agent)).await.unwrap()
    }

    pub(super) async fn try_client(&self, identity: Identity) -> Result<LinkBus> {
        LinkBus::dial(Arc::new(self.pipes.clone()), identity, LinkOptions::default()).await
    }
}

/// A client that speaks the bytes of the protocol, and reads only when it is told to.
pub(super) struct Raw(pub(super) DuplexStream);

impl Raw {
    /// One that was let in.
    pub(super) async fn admitted(site: &Site, agent: &str) -> Self {
        let (identity, mut stream) = (site.identity(agent), site.pipe());
        let bytes = read_message(&mut stream, HELLO_BYTES_MAX).await.unwrap().unwrap();
        let challenge = Challenge::decode(&bytes).unwrap();
        let versions = Versions::OURS;
        let signature = identity.key().sign(&challenge.to_sign(versions));
        let token = identity.certificate().token().to_owned();
        let mut raw = Self(stream);
        raw.send_bytes(&Response { versions, signature, token }.encode()).await;
        let _welcome = read_message(&mut raw.0, 1 << 20).await.unwrap().unwrap();
        raw
    }

    /// Sends `bytes` as a message; false when the server has hung up.
    pub(super) async fn send_bytes(&mut self, bytes: &[u8]) -> bool {
        let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
        self.0.write_all(&length).await.is_ok() && self.0.write_all(bytes).await.is_ok()
    }

    pub(super) async fn send(&mut self, words: &ToServer) {
        self.0.write_all(Packet::new(words).unwrap().as_bytes()).await.unwrap();
    }

    pub(super) async fn send_packet(&mut self, packet: &Packet) {
        self.0.write_all(packet.as_bytes()).await.unwrap();
    }

    /// The next message; `None` when the server has hung up.
    pub(super) async fn next(&mut self) -> Option<Message<ToClient>> {
        let bytes = read_message(&mut self.0, 64 << 20).await.ok()??;
        Some(Message::decode(bytes).unwrap())
    }
}

pub(super) fn subject(text: &str) -> Subject {
    Subject::parse(text).unwrap()
}

pub(super) fn task(id: &str) -> Frame {
    Frame::new(subject("vak.work.w1.coder.task"), FrameId::parse(id).unwrap(), id.to_owned())
}

pub(super) fn event(id: &str) -> Frame {
    Frame::new(subject("vak.events.w1.s1.tokens"), FrameId::parse(id).unwrap(), id.to_owned())
}

pub(super) fn stream() -> StreamName {
    StreamName::parse("VAK_WORK_w1").unwrap()
}

pub(super) fn coders() -> ConsumerSpec {
    ConsumerSpec {
        stream: stream(),
        name: ConsumerName::parse("coder").unwrap(),
        filter: Filter::parse("vak.work.w1.coder.task").unwrap(),
        lease: Duration::from_secs(30),
    }
}

pub(super) async fn declare(bus: &LinkBus) {
    let filters = vec![Filter::parse("vak.work.w1.>").unwrap()];
    bus.declare(StreamSpec::new(stream(), filters, Retention::WorkQueue)).await.unwrap();
}

pub(super) async fn append(bus: &LinkBus, id: &str) -> Receipt {
    bus.append(task(id), Expect::Any).await.unwrap()
}

/// What is stored, by its text.
pub(super) async fn stored(bus: &dyn Engine) -> Vec<String> {
    let mut replay = bus.replay(stream(), Filter::all(), bus_core::Seq(0)).await.unwrap();
    let mut all = Vec::new();
    while let Some(stored) = replay.next().await {
        all.push(String::from_utf8(stored.unwrap().frame.body.to_vec()).unwrap());
    }
    all
}

/// Gives every other task the time to come to rest.
pub(super) async fn settle_down() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}
