//! The answer to a subscription: server-sent events for as long as the instance lives.

use std::{
    collections::{HashSet, VecDeque},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use axum::{
    http::HeaderName,
    response::{
        IntoResponse as _, Response,
        sse::{Event, Sse},
    },
};
use bus_peers::{BusEnvelope, Inbox, InboxItem, Posted, SharedBus};
use futures_util::stream::{self, Stream};
use serde_json::json;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::resume::{self, Missed};

/// Answers with what comes into `inbox`; first with what came after the event `last`, as far as the
/// journal has it.
pub(super) fn answer(bus: &SharedBus, inbox: Inbox, last: Option<String>) -> Response {
    let mut ticks = interval(KEEP_ALIVE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let listener = Listener {
        bus: Arc::clone(bus),
        inbox,
        ticks,
        last,
        replayed: HashSet::new(),
        ready: VecDeque::new(),
    };
    Sse::new(events(listener)).into_response()
}

/// One connection that listens.
struct Listener {
    bus: SharedBus,
    inbox: Inbox,
    ticks: Interval,
    /// The last event that its client saw on another connection, until that is looked for.
    last: Option<String>,
    /// Messages that were sent from the journal, and may be in the inbox as well.
    replayed: HashSet<String>,
    /// What is sent before anything else.
    ready: VecDeque<Event>,
}

fn events(listener: Listener) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(listener, async |mut listener| {
        let event = listener.next().await?;
        Some((Ok(event), listener))
    })
}

impl Listener {
    /// The next event; none when the instance is gone and everything was sent.
    async fn next(&mut self) -> Option<Event> {
        if let Some(last) = self.last.take() {
            self.resume(last).await;
        }
        loop {
            let item = tokio::select! {
                // First, for one that always has something to read lives as well.
                biased;
                _tick = self.ticks.tick() => {
                    // Its connection lives, and so does it. What is gone is read to the end first.
                    let _live = self.inbox.renew();
                    return Some(Event::default().comment(""));
                }
                Some(event) = async { self.ready.pop_front() } => return Some(event),
                item = self.inbox.recv() => item?,
            };
            match item {
                InboxItem::Lagged(missed) => return Some(self.lagged(missed)),
                InboxItem::Envelope(posted) => {
                    if !self.replayed.remove(&posted.message_id) {
                        return Some(of(&posted));
                    }
                }
            }
        }
    }

    fn lagged(&self, missed: u64) -> Event {
        let told = json!({
            "instance_id": self.inbox.instance_id(),
            "subscription_id": self.inbox.subscription_id(),
            "missed": missed,
            "durable_log": self.bus.log_path().display().to_string(),
        });
        Event::default().event("lagged").data(told.to_string())
    }

    /// Has what came since the event `last` sent first, and says whether that is all.
    async fn resume(&mut self, last: String) {
        let path = self.bus.log_path();
        let instance = self.inbox.instance_id().to_owned();
        let Missed { envelopes, is_whole, .. } = resume::since(path, instance, last.clone()).await;
        let told = json!({
            "last_event_id": last,
            "replayed": envelopes.len(),
            "complete": is_whole,
        });
        self.ready.push_back(Event::default().event("resumed").data(told.to_string()));
        for envelope in envelopes {
            // What was written as JSON is read as it, and written again.
            let Ok(text) = serde_json::to_string(&envelope) else { continue };
            let BusEnvelope { message_id, .. } = envelope;
            self.ready.push_back(Event::default().id(&message_id).data(text));
            self.replayed.insert(message_id);
        }
    }
}

/// A message as an event; its JSON has no line feed in it.
fn of(posted: &Posted) -> Event {
    let text = String::from_utf8_lossy(posted.json());
    Event::default().id(&posted.message_id).data(text)
}

/// What a client that comes again saw last.
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How often a listener is sent something, so that both ends notice when the other is gone.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use bus_core::{Clock as _, SystemClock, TokioClock};
    use bus_peers::{BusPayload, CallerIdentity, PeerBus, PeerOptions, PeerTarget};

    use super::*;

    #[tokio::test]
    async fn a_listener_that_always_has_something_to_read_keeps_its_lease() {
        let logs = tempfile::tempdir().unwrap();
        let clock = Arc::new(TokioClock::starting_at(SystemClock::new().now()));
        let options = PeerOptions { clock, ..PeerOptions::default() };
        let bus = Arc::new(PeerBus::with(logs.path(), options));
        let (meta, secret) = bus.registry().register("worker", None).await.unwrap();
        let inbox = bus.subscribe(&meta.instance_id, &secret).await.unwrap();
        for _ in 0..32 {
            let from = CallerIdentity::instance(&meta.instance_id);
            let to = PeerTarget::Instance(meta.instance_id.clone());
            let payload = BusPayload::ChatText { text: "x".to_owned() };
            bus.publish(&secret, from, &to, payload, None).await.unwrap();
        }
        let (last, ready, replayed) = (None, VecDeque::new(), HashSet::new());
        let ticks = interval(KEEP_ALIVE);
        let mut listener = Listener { bus: bus.clone(), inbox, ticks, last, replayed, ready };
        tokio::time::pause();
        for _ in 0..8 {
            tokio::time::advance(KEEP_ALIVE * 2).await;
            for _ in 0..2 {
                assert!(listener.next().await.is_some());
            }
        }
        assert!(bus.registry().resolve_instance(&meta.instance_id).await.is_ok());
    }
}
