//! Spans that wait to be posted: a bounded queue that nobody waits for, and batches out of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bus_core::{Observer, Span};
use bytes::Bytes;
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::InstrumentationScope,
    resource,
    trace::v1::{self, ResourceSpans, ScopeSpans},
};
use prost::Message;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Resource,
    span::{System, to_proto},
};

/// How many spans wait at most; what comes then is left out.
pub const SPANS_WAITING_MAX: usize = 4096;

/// How many spans are posted together at most.
pub const SPANS_PER_BATCH: usize = 512;

/// How long the first span of a batch waits for others.
const LINGER: Duration = Duration::from_secs(1);

/// Where spans go in. Cloning shares it.
#[derive(Clone)]
pub struct Spans(Arc<Shared>);

/// Where spans come out, as bodies of requests.
pub struct Batches {
    spans: mpsc::Receiver<v1::Span>,
    closing: CancellationToken,
    resource: resource::v1::Resource,
    version: &'static str,
}

/// The body of one `ExportTraceServiceRequest`.
#[derive(Debug, Clone)]
pub struct Batch {
    /// How many spans it holds.
    pub spans: usize,
    /// The request, as protobuf.
    pub body: Bytes,
}

struct Shared {
    spans: mpsc::Sender<v1::Span>,
    closing: CancellationToken,
    dropped: AtomicU64,
    given_up: AtomicU64,
}

/// The observer of endpoints whose messages are of one system.
struct Watch {
    shared: Arc<Shared>,
    system: System,
}

/// A queue of spans, told as those of `resource`.
#[must_use]
pub fn spans(resource: &Resource) -> (Spans, Batches) {
    let (sender, receiver) = mpsc::channel(SPANS_WAITING_MAX);
    let closing = CancellationToken::new();
    let (version, resource) = (resource.version, resource.to_proto());
    let batches = Batches { spans: receiver, closing: closing.clone(), resource, version };
    let shared =
        Shared { spans: sender, closing, dropped: AtomicU64::new(0), given_up: AtomicU64::new(0) };
    (Spans(Arc::new(shared)), batches)
}

impl Spans {
    /// An observer for endpoints whose messages are those of `system`.
    #[must_use]
    pub fn observer(&self, system: System) -> Arc<dyn Observer> {
        Arc::new(Watch { shared: Arc::clone(&self.0), system })
    }

    /// Takes no more: what waits comes out at once, and then no batch any more.
    pub fn close(&self) {
        self.0.closing.cancel();
    }

    /// Whether it takes no more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.closing.is_cancelled()
    }

    /// Waits until it takes no more.
    pub async fn closed(&self) {
        self.0.closing.cancelled().await;
    }

    /// How many spans were left out because too many waited.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    /// Counts the spans of a batch that nobody took and that is not posted again.
    pub fn give_up(&self, batch: &Batch) {
        let spans = u64::try_from(batch.spans).unwrap_or(u64::MAX);
        self.0.given_up.fetch_add(spans, Ordering::Relaxed);
    }

    /// How many spans were given up.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.0.given_up.load(Ordering::Relaxed)
    }
}

impl Observer for Watch {
    fn ended(&self, span: &Span<'_>) {
        // Before anything is made of it, which it would be in vain.
        let Ok(room) = self.shared.spans.try_reserve() else {
            if !self.shared.closing.is_cancelled()
                && self.shared.dropped.fetch_add(1, Ordering::Relaxed) == 0
            {
                tracing::warn!("spans are left out: {SPANS_WAITING_MAX} wait to be exported");
            }
            return;
        };
        room.send(to_proto(span, self.system));
    }
}

impl Batches {
    /// The next batch; `None` once the queue was closed and everything came out. Cancel safe but
    /// for the spans that it has gathered.
    pub async fn next(&mut self) -> Option<Batch> {
        let mut gathered = vec![self.first().await?];
        let until = Instant::now() + LINGER;
        while gathered.len() < SPANS_PER_BATCH && !self.closing.is_cancelled() {
            tokio::select! {
                biased;
                next = timeout_at(until, self.spans.recv()) => match next {
                    Ok(Some(span)) => gathered.push(span),
                    Ok(None) | Err(_) => break,
                },
                () = self.closing.cancelled() => {}
            }
        }
        while gathered.len() < SPANS_PER_BATCH
            && let Ok(span) = self.spans.try_recv()
        {
            gathered.push(span);
        }
        Some(self.encode(gathered))
    }

    async fn first(&mut self) -> Option<v1::Span> {
        tokio::select! {
            biased;
            span = self.spans.recv() => return span,
            () = self.closing.cancelled() => {}
        }
        self.spans.close();
        self.spans.recv().await
    }

    fn encode(&self, gathered: Vec<v1::Span>) -> Batch {
        let scope = InstrumentationScope {
            name: "vakbus".to_owned(),
            version: self.version.to_owned(),
            ..InstrumentationScope::default()
        };
        let spans = gathered.len();
        let scope_spans =
            ScopeSpans { scope: Some(scope), spans: gathered, ..ScopeSpans::default() };
        let told = ResourceSpans {
            resource: Some(self.resource.clone()),
            scope_spans: vec![scope_spans],
            ..ResourceSpans::default()
        };
        let request = ExportTraceServiceRequest { resource_spans: vec![told] };
        Batch { spans, body: Bytes::from(request.encode_to_vec()) }
    }
}

impl std::fmt::Debug for Spans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spans").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").finish_non_exhaustive()
    }
}
