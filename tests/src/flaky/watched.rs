//! Deliveries whose settlement fails on command.

use std::sync::Arc;

use bus_core::{
    Answer, BoxFuture, Delivery, Error, ErrorKind, Result, Settle, SharedFrame, Verdict,
    settle_each,
};
use bus_subjects::StreamName;

use super::{Call, Op, Shared};

/// The same delivery, its settlement under the script.
pub(super) fn watched(shared: Arc<Shared>, inner: Delivery) -> Delivery {
    let (stream, frame) = (inner.stream().clone(), inner.frame.clone());
    let (place, run) = ((inner.seq, inner.stored), (inner.attempt, inner.lease));
    let of = frame.clone();
    let settle = Watched { shared, stream, frame: of, inner: tokio::sync::Mutex::new(Some(inner)) };
    Delivery::new(frame, place, run, (Arc::new(settle), 0))
}

struct Watched {
    shared: Arc<Shared>,
    stream: StreamName,
    frame: SharedFrame,
    /// The engine's delivery until it is settled; the lock serialises that with extensions.
    inner: tokio::sync::Mutex<Option<Delivery>>,
}

impl Settle for Watched {
    fn stream(&self) -> &StreamName {
        &self.stream
    }

    fn settle(&self, _: u64, verdict: Verdict) -> Answer<'_, ()> {
        let mut call = Call::with(Op::Settle, &self.frame);
        call.verdict = Some(verdict.clone());
        Answer::later(self.shared.play(call, async move {
            match self.inner.lock().await.take() {
                Some(inner) => inner.settle(verdict).await,
                None => Err(Error::new(ErrorKind::LeaseLost, "settle", "it was settled before")),
            }
        }))
    }

    fn settle_all(&self, verdicts: Vec<(u64, Verdict)>) -> BoxFuture<'_, Vec<Result<()>>> {
        Box::pin(settle_each(self, verdicts))
    }

    fn extend(&self, _: u64) -> Answer<'_, ()> {
        let call = Call::with(Op::Extend, &self.frame);
        Answer::later(self.shared.play(call, async move {
            match &*self.inner.lock().await {
                Some(inner) => inner.extend().await,
                None => Err(Error::new(ErrorKind::LeaseLost, "extend", "it was settled before")),
            }
        }))
    }
}
