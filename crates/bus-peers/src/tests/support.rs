//! A bus with a clock that stands still, its instances, and its journal read back.

use std::{
    marker::PhantomData,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use bus_core::Clock;
use bus_crypto::{CryptoError, Entropy, SystemEntropy};
use bus_envelope::Timestamp;
use bus_evidence::{JsonlItem, JsonlReader};

use crate::{
    BusEnvelope, BusError, BusPayload, CallerIdentity, Inbox, InboxItem, InboxMiss, InstanceMeta,
    InstanceSecret, JournalRecord, PeerBus, PeerOptions, PeerTarget, Posted,
};

/// A clock that stands until it is moved.
#[derive(Debug)]
pub(super) struct HandClock(AtomicI64);

impl HandClock {
    pub(super) fn new() -> Arc<Self> {
        let start = Timestamp::parse("2026-05-01T12:00:00.000000000Z").unwrap();
        Arc::new(Self(AtomicI64::new(i64::try_from(start.unix_ns()).unwrap())))
    }

    pub(super) fn pass(&self, time: Duration) {
        self.0.fetch_add(i64::try_from(time.as_nanos()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ns(i128::from(self.0.load(Ordering::SeqCst)))
    }

    fn coarse(&self) -> Timestamp {
        self.now()
    }
}

/// Randomness whose draws of four bytes, of which ids are made, are given.
#[derive(Debug)]
pub(super) struct Loaded(pub(super) Mutex<Vec<u32>>);

impl Entropy for Loaded {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), CryptoError> {
        if bytes.len() == 4 {
            let mut draws = self.0.lock().unwrap();
            let draw = if draws.len() > 1 { draws.remove(0) } else { draws[0] };
            bytes.copy_from_slice(&draw.to_be_bytes());
            return Ok(());
        }
        SystemEntropy::new().fill(bytes)
    }
}

/// A registered instance and its secret.
pub(super) struct Peer {
    pub(super) id: String,
    pub(super) meta: InstanceMeta,
    pub(super) secret: InstanceSecret,
}

/// A bus of one form, alone.
pub(super) struct Staged<F> {
    pub(super) logs: tempfile::TempDir,
    pub(super) clock: Arc<HandClock>,
    pub(super) bus: PeerBus,
    pub(super) form: PhantomData<F>,
}

/// How a bus is made.
pub(super) trait Form {
    fn make(logs: &Path, options: PeerOptions) -> PeerBus;
}

/// A bus that lives in its process.
pub(super) struct Local;

pub(super) type Stage = Staged<Local>;

impl Form for Local {
    fn make(logs: &Path, options: PeerOptions) -> PeerBus {
        PeerBus::with(logs, options)
    }
}

impl<F: Form> Staged<F> {
    pub(super) fn new() -> Self {
        Self::with(PeerOptions::default())
    }

    pub(super) fn with(options: PeerOptions) -> Self {
        let (logs, clock) = (tempfile::tempdir().unwrap(), HandClock::new());
        let options = PeerOptions { clock: clock.clone(), ..options };
        let bus = F::make(logs.path(), options);
        Self { logs, clock, bus, form: PhantomData }
    }

    pub(super) async fn peer(&self, definition: &str) -> Peer {
        let (meta, secret) = self.bus.registry().register(definition, None).await.unwrap();
        Peer { id: meta.instance_id.clone(), meta, secret }
    }

    pub(super) async fn inbox(&self, peer: &Peer) -> Inbox {
        self.bus.subscribe(&peer.id, &peer.secret).await.unwrap()
    }

    pub(super) async fn send(
        &self,
        from: &Peer,
        to: &PeerTarget,
        text: &str,
    ) -> Result<Arc<Posted>, BusError> {
        let identity = CallerIdentity::instance(&from.id);
        self.bus.publish(&from.secret, identity, to, chat(text), None).await
    }

    /// The lines of the journal, whatever day they are of.
    pub(super) fn journal(&self) -> Vec<JournalRecord> {
        journal(self.logs.path())
    }

    pub(super) fn envelopes(&self) -> Vec<BusEnvelope> {
        let records = self.journal().into_iter();
        records
            .filter_map(|record| match record {
                JournalRecord::Envelope { envelope, .. } => Some(envelope),
                JournalRecord::InboxMiss(_) => None,
            })
            .collect()
    }

    pub(super) fn misses(&self) -> Vec<InboxMiss> {
        let records = self.journal().into_iter();
        records
            .filter_map(|record| match record {
                JournalRecord::InboxMiss(miss) => Some(miss),
                JournalRecord::Envelope { .. } => None,
            })
            .collect()
    }
}

pub(super) fn journal(logs: &Path) -> Vec<JournalRecord> {
    let Ok(entries) = std::fs::read_dir(logs.join("bus")) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "jsonl"));
    files.sort();
    let items = files.iter().flat_map(|file| JsonlReader::open(file).unwrap());
    items
        .filter_map(|item| match item.unwrap() {
            JsonlItem::Record { bytes, .. } => Some(JournalRecord::parse(&bytes).unwrap()),
            JsonlItem::Torn { .. } => None,
        })
        .collect()
}

pub(super) fn chat(text: &str) -> BusPayload {
    BusPayload::ChatText { text: text.to_owned() }
}

pub(super) fn definition(id: &str) -> PeerTarget {
    PeerTarget::Definition(id.to_owned())
}

pub(super) fn instance(peer: &Peer) -> PeerTarget {
    PeerTarget::Instance(peer.id.clone())
}

/// What is in an inbox now, without waiting for more.
pub(super) fn unread(inbox: &mut Inbox) -> Vec<InboxItem> {
    let mut items = Vec::new();
    while let Some(Some(item)) = now(inbox) {
        items.push(item);
    }
    items
}

/// What an inbox says at once: nothing when it waits, the end as `Some(None)`.
pub(super) fn now(inbox: &mut Inbox) -> Option<Option<InboxItem>> {
    use futures_core::Stream as _;
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(inbox).poll_next(&mut cx) {
        std::task::Poll::Ready(item) => Some(item),
        std::task::Poll::Pending => None,
    }
}

pub(super) fn texts(items: &[InboxItem]) -> Vec<String> {
    let text = |item: &InboxItem| match item {
        InboxItem::Envelope(posted) => posted.payload.text().to_owned(),
        InboxItem::Lagged(missed) => format!("lagged {missed}"),
    };
    items.iter().map(text).collect()
}

/// Runs beside the test.
#[expect(clippy::disallowed_methods, reason = "tests run publishers and readers side by side")]
pub(super) fn spawned<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(task)
}

/// Lets the tasks beside the test do what they have to do.
pub(super) async fn others_turn() {
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
}
