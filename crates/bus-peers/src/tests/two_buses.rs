//! Two buses over one engine: one registry, and messages from one to the other.

use std::{path::Path, sync::Arc, time::Duration};

use bus_core::Outcome;
use bus_envelope::Draft;
use bus_subjects::{BucketName, Filter, Role, Subject, WorkspaceId};

use super::{
    over_engine::House,
    support::{HandClock, Peer, chat, definition, instance, journal, spawned, texts, unread},
};
use crate::{
    BusError, CallerIdentity, DeliveryState, Inbox, InboxItem, JournalRecord, PeerBus, PeerOptions,
    PeerTarget, Posted, Recipient,
};

struct Two {
    house: House,
    clock: Arc<HandClock>,
    logs: [tempfile::TempDir; 2],
    here: PeerBus,
    there: PeerBus,
}

impl Two {
    async fn new() -> Self {
        Self::with(64).await
    }

    async fn with(inbox_max: usize) -> Self {
        let clock = HandClock::new();
        let house = House::new(clock.clone());
        let logs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let options = || PeerOptions { clock: clock.clone(), inbox_max, ..PeerOptions::default() };
        let here = house.bus("gate-1", logs[0].path(), options()).await;
        let there = house.bus("gate-2", logs[1].path(), options()).await;
        Self { house, clock, logs, here, there }
    }

    fn logs(&self) -> [&Path; 2] {
        [self.logs[0].path(), self.logs[1].path()]
    }
}

async fn peer(bus: &PeerBus, definition: &str) -> Peer {
    let (meta, secret) = bus.registry().register(definition, None).await.unwrap();
    Peer { id: meta.instance_id.clone(), meta, secret }
}

async fn send(
    bus: &PeerBus,
    from: &Peer,
    to: &PeerTarget,
    text: &str,
) -> Result<Arc<Posted>, BusError> {
    let identity = CallerIdentity::instance(&from.id);
    bus.publish(&from.secret, identity, to, chat(text), None).await
}

async fn listening(bus: &PeerBus, peer: &Peer) -> Inbox {
    bus.subscribe(&peer.id, &peer.secret).await.unwrap()
}

/// Waits until `bus` knows what the registry holds, which its watch tells.
async fn knows(bus: &PeerBus, is_so: impl Fn(&[crate::LiveInstance]) -> bool) {
    for _ in 0..100_000 {
        if is_so(&bus.registry().live().await.unwrap()) {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it was never so");
}

#[tokio::test]
async fn an_instance_is_known_at_every_bus() {
    let two = Two::new().await;
    let coder = peer(&two.there, "coder").await;
    knows(&two.here, |live| live.iter().any(|live| live.meta == coder.meta)).await;
    let found = two.here.registry().resolve_instance(&coder.id).await.unwrap();
    assert_eq!(found.meta, coder.meta);
}

#[tokio::test]
async fn a_message_reaches_who_listens_at_another_bus() {
    let two = Two::new().await;
    let (chief, coder) = (peer(&two.here, "chief").await, peer(&two.there, "coder").await);
    let mut inbox = listening(&two.there, &coder).await;
    knows(&two.here, |live| live.iter().any(|live| !live.holders.is_empty())).await;
    let sent = send(&two.here, &chief, &definition("coder"), "hello").await.unwrap();
    assert_eq!(inbox.recv().await, Some(InboxItem::Envelope(Arc::clone(&sent))));
    let both = Recipient { instance_id: Some(coder.id), definition_id: Some("coder".into()) };
    assert_eq!((&sent.to, sent.delivery_state), (&both, DeliveryState::Delivered));
    assert_eq!(sent.from.definition_id.as_deref(), Some("chief"));
}

#[tokio::test]
async fn the_journal_of_the_senders_bus_has_the_record() {
    let two = Two::new().await;
    let (chief, coder) = (peer(&two.here, "chief").await, peer(&two.there, "coder").await);
    let _inbox = listening(&two.there, &coder).await;
    knows(&two.here, |live| live.iter().any(|live| !live.holders.is_empty())).await;
    let sent = send(&two.here, &chief, &instance(&coder), "hello").await.unwrap();
    let [here, there] = two.logs().map(journal);
    let envelope = sent.envelope().clone();
    assert_eq!(here, [JournalRecord::Envelope { envelope, losses_unrecorded: false }]);
    assert_eq!(there, []);
}

#[tokio::test]
async fn an_instance_that_was_registered_a_moment_ago_sends_from_any_bus() {
    let two = Two::new().await;
    let coder = peer(&two.here, "coder").await;
    let mut inbox = listening(&two.here, &coder).await;
    // No turn of the runtime lies between: the watch has told nothing yet.
    let chief = peer(&two.there, "chief").await;
    send(&two.here, &chief, &definition("coder"), "hello").await.unwrap();
    assert_eq!(texts(&unread(&mut inbox)), ["hello"]);
}

#[tokio::test]
async fn listeners_at_both_buses_get_it() {
    let two = Two::new().await;
    let (chief, coder) = (peer(&two.here, "chief").await, peer(&two.there, "coder").await);
    let (mut far, mut near) =
        (listening(&two.there, &coder).await, listening(&two.here, &coder).await);
    knows(&two.here, |live| live.iter().any(|live| !live.holders.is_empty())).await;
    send(&two.here, &chief, &definition("coder"), "hello").await.unwrap();
    assert_eq!(
        (texts(&unread(&mut far)), texts(&unread(&mut near))),
        (vec!["hello".to_owned()], vec!["hello".to_owned()])
    );
}

#[tokio::test]
async fn who_stopped_listening_elsewhere_is_no_subscriber() {
    let two = Two::new().await;
    let (chief, coder) = (peer(&two.here, "chief").await, peer(&two.there, "coder").await);
    let inbox = listening(&two.there, &coder).await;
    knows(&two.here, |live| live.iter().any(|live| !live.holders.is_empty())).await;
    // The registry still says that it listens.
    drop(inbox);
    let refused = send(&two.here, &chief, &instance(&coder), "hello").await.unwrap_err();
    assert_eq!(refused, BusError::NoSubscriber { instance_id: coder.id });
    let [here, _] = two.logs().map(journal);
    let [JournalRecord::Envelope { envelope, .. }] = &here[..] else { panic!("{here:?}") };
    assert_eq!(envelope.delivery_state, DeliveryState::Dropped);
}

#[tokio::test]
async fn a_bus_that_crashed_hides_no_instance_that_listens() {
    let two = Two::new().await;
    let (chief, older) = (peer(&two.here, "chief").await, peer(&two.there, "coder").await);
    let mut inbox = listening(&two.there, &older).await;
    let logs = tempfile::tempdir().unwrap();
    let options = PeerOptions { clock: two.clock.clone(), ..PeerOptions::default() };
    let (crashed, serving) = two.house.unserved("gate-3", logs.path(), options).await;
    let newer = peer(&crashed, "coder").await;
    std::mem::forget(listening(&crashed, &newer).await);
    drop((crashed, serving));
    knows(&two.here, |live| live.iter().filter(|live| !live.holders.is_empty()).count() == 2).await;
    send(&two.here, &chief, &definition("coder"), "hello").await.unwrap();
    assert_eq!(texts(&unread(&mut inbox)), ["hello"]);
}

#[tokio::test]
async fn a_registration_that_ends_at_one_bus_ends_at_all() {
    let two = Two::new().await;
    let coder = peer(&two.there, "coder").await;
    let mut inbox = listening(&two.there, &coder).await;
    assert_eq!(two.here.deregister(&coder.id, &coder.secret).await, Ok(true));
    assert_eq!(inbox.recv().await, None);
    let gone = two.there.registry().resolve_instance(&coder.id).await;
    assert_eq!(gone, Err(BusError::InstanceGone { instance_id: coder.id }));
}

#[tokio::test]
async fn another_instances_secret_opens_nothing_at_another_bus() {
    let two = Two::new().await;
    let (coder, chief) = (peer(&two.there, "coder").await, peer(&two.there, "chief").await);
    let wrong = BusError::WrongSecret { instance_id: coder.id.clone() };
    assert_eq!(two.here.deregister(&coder.id, &chief.secret).await, Err(wrong.clone()));
    assert_eq!(two.here.heartbeat(&coder.id, &chief.secret).await, Err(wrong.clone()));
    assert_eq!(two.here.subscribe(&coder.id, &chief.secret).await.unwrap_err(), wrong);
    let from = CallerIdentity::instance(&coder.id);
    let sent = two.here.publish(&chief.secret, from, &definition("x"), chat("a"), None).await;
    assert_eq!(sent, Err(BusError::UnregisteredSender { instance_id: coder.id }));
}

#[tokio::test]
async fn what_gave_way_at_another_bus_is_recorded_there() {
    let two = Two::with(1).await;
    let (chief, coder) = (peer(&two.here, "chief").await, peer(&two.there, "coder").await);
    let mut inbox = listening(&two.there, &coder).await;
    knows(&two.here, |live| live.iter().any(|live| !live.holders.is_empty())).await;
    for text in ["1", "2"] {
        send(&two.here, &chief, &definition("coder"), text).await.unwrap();
    }
    assert_eq!(texts(&unread(&mut inbox)), ["lagged 1", "2"]);
    let [_, there] = two.logs().map(journal);
    assert!(matches!(&there[..], [JournalRecord::InboxMiss(miss)] if miss.missed_total == 1));
}

#[tokio::test]
async fn losses_that_another_bus_cannot_record_are_told_in_the_senders_record() {
    let two = Two::with(1).await;
    let (chief, coder) = (peer(&two.here, "chief").await, peer(&two.there, "coder").await);
    let _wedged = listening(&two.there, &coder).await;
    knows(&two.here, |live| live.iter().any(|live| !live.holders.is_empty())).await;
    std::fs::write(two.logs[1].path().join("bus"), "in the way").unwrap();
    for text in ["1", "2"] {
        send(&two.here, &chief, &definition("coder"), text).await.unwrap();
    }
    let [here, _] = two.logs().map(journal);
    let losses = |record: &JournalRecord| {
        matches!(record, JournalRecord::Envelope { losses_unrecorded: true, .. })
    };
    assert_eq!(here.iter().map(losses).collect::<Vec<_>>(), [false, true]);
}

#[tokio::test]
async fn ids_and_numbers_are_given_out_once_over_all_buses() {
    let two = Two::new().await;
    let mut seen = std::collections::HashSet::new();
    for _ in 0..100 {
        for bus in [&two.here, &two.there] {
            let coder = peer(bus, "coder").await;
            assert!(seen.insert(coder.id.clone()) && seen.insert(coder.meta.seq.to_string()));
            bus.deregister(&coder.id, &coder.secret).await.unwrap();
        }
    }
    assert_eq!(seen.len(), 400);
}

#[tokio::test]
async fn a_lease_ends_in_the_bucket_too() {
    let two = Two::new().await;
    let coder = peer(&two.there, "coder").await;
    two.clock.pass(Duration::from_secs(92));
    let bucket = BucketName::peers(&WorkspaceId::parse("w1").unwrap());
    let found = two.here.registry().resolve_instance(&coder.id).await;
    assert_eq!(found, Err(BusError::InstanceGone { instance_id: coder.id.clone() }));
    let key = crate::shared::key_of(&coder.id);
    assert_eq!(two.house.engine.get(bucket, key).await.unwrap(), None);
}

#[tokio::test]
async fn an_orchestrator_that_is_no_bus_hands_nothing_in() {
    let two = Two::new().await;
    let coder = peer(&two.there, "coder").await;
    let mut inbox = listening(&two.there, &coder).await;
    let (chief, near) = (peer(&two.here, "chief").await, peer(&two.here, "coder").await);
    let _near = listening(&two.here, &near).await;
    let sent = send(&two.here, &chief, &instance(&near), "real").await.unwrap();
    let words = |text: &str, message_id: &str| {
        let mut envelope = sent.envelope().clone();
        (envelope.payload, envelope.message_id) = (chat(text), message_id.to_owned());
        let handed = serde_json::json!({ "instance_id": coder.id, "envelope": envelope });
        serde_json::to_vec(&handed).unwrap()
    };
    let subject = || Subject::parse("vak.call.w1.peers.gate-2").unwrap();
    let draft = |payload: Vec<u8>| Draft::new(subject(), "vak.peers.deliver", payload);
    let forger = two.house.agent("forger", &[Role::Orchestrator], "peers");
    let wait = Duration::from_millis(200);
    let refused = forger.ask(draft(words("forged", "m1")), wait).await.unwrap_err();
    assert_eq!(refused.outcome(), Outcome::Unknown);
    // What one that is a bus asks after that is taken in, and nothing else.
    let gate = two.house.agent("gate-9", &[Role::Worker, Role::Orchestrator], "peers");
    gate.ask(draft(words("real", "m2")), Duration::from_secs(10)).await.unwrap();
    assert_eq!(texts(&unread(&mut inbox)), ["real"]);
}

#[tokio::test]
async fn a_message_that_is_handed_in_twice_is_taken_in_once() {
    let two = Two::new().await;
    let coder = peer(&two.there, "coder").await;
    let mut inbox = listening(&two.there, &coder).await;
    let (chief, near) = (peer(&two.here, "chief").await, peer(&two.here, "coder").await);
    let _near = listening(&two.here, &near).await;
    let sent = send(&two.here, &chief, &instance(&near), "once").await.unwrap();
    let handed = serde_json::json!({ "instance_id": coder.id, "envelope": sent.envelope() });
    let gate = two.house.agent("gate-9", &[Role::Worker, Role::Orchestrator], "peers");
    for _ in 0..2 {
        let subject = Subject::parse("vak.call.w1.peers.gate-2").unwrap();
        let payload = serde_json::to_vec(&handed).unwrap();
        let draft = Draft::new(subject, "vak.peers.deliver", payload);
        gate.ask(draft, Duration::from_secs(10)).await.unwrap();
    }
    assert_eq!(texts(&unread(&mut inbox)), ["once"]);
}

#[tokio::test]
async fn a_bus_that_does_not_answer_leaves_it_open_whether_it_delivered() {
    let two = Two::new().await;
    let chief = peer(&two.here, "chief").await;
    let logs = tempfile::tempdir().unwrap();
    let options = PeerOptions { clock: two.clock.clone(), ..PeerOptions::default() };
    // It hears calls and nobody answers them.
    let (stuck, _serving) = two.house.unserved("gate-3", logs.path(), options).await;
    let coder = peer(&stuck, "coder").await;
    let _inbox = listening(&stuck, &coder).await;
    knows(&two.here, |live| live.iter().any(|live| !live.holders.is_empty())).await;
    let failed = send(&two.here, &chief, &definition("coder"), "hello").await.unwrap_err();
    assert_eq!((failed.code(), failed.outcome()), ("unavailable", Outcome::Unknown));
    let [here, _] = two.logs().map(journal);
    let [JournalRecord::Envelope { envelope, .. }] = &here[..] else { panic!("{here:?}") };
    assert_eq!(envelope.delivery_state, DeliveryState::Dropped);
}

#[tokio::test]
async fn what_buses_say_to_each_other_is_sealed() {
    let two = Two::new().await;
    let (chief, coder) = (peer(&two.here, "chief").await, peer(&two.there, "coder").await);
    let _inbox = listening(&two.there, &coder).await;
    knows(&two.here, |live| live.iter().any(|live| !live.holders.is_empty())).await;
    let everything = Filter::parse("vak.call.>").unwrap();
    let capacity = std::num::NonZeroUsize::new(16).unwrap();
    let overflow = bus_core::Overflow::DropOldest { capacity };
    let mut frames = two.house.engine.subscribe(everything, overflow).await.unwrap();
    let listening = spawned(async move { frames.next().await });
    send(&two.here, &chief, &definition("coder"), "the secret word").await.unwrap();
    let Some(bus_core::FeedItem::Frame(frame)) = listening.await.unwrap() else { panic!("none") };
    let text = String::from_utf8_lossy(&frame.body).into_owned();
    assert!(!text.contains("secret word") && !text.contains(&coder.id));
}
