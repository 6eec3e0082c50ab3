//! D6: live messages are sealed at once and vouched for a little later, by one signature for many.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use bus_core::{
    CheckpointPolicy, Checkpointed, Endpoint, ErrorKind, EventFeed, Frame, FrameId, Identity,
    Incoming, LiveCheckpoint, Opened, Outcome, Overflow, Standing,
};
use bus_envelope::{ChainScope, ChainVerdict, ChainVerifier, Draft, WireForm};
use bus_stories::{Fault, Flaky, Op, Stage};
use bus_subjects::{Address, Filter, Role, Subject};
use futures_util::FutureExt;
use tokio::task::unconstrained;

const EVENTS: &str = "vak.events.";

/// A worker whose live messages are vouched for every `events`, and after a second.
fn vouching(stage: &Stage, name: &str, events: u16) -> Endpoint {
    with_policy(stage, stage.certified(name, Role::Worker).unwrap(), events)
}

fn with_policy(stage: &Stage, identity: Identity, events: u16) -> Endpoint {
    let mut parts = stage.parts(identity);
    parts.checkpoints = Some(CheckpointPolicy::new(events, Duration::from_secs(1)).unwrap());
    Endpoint::new(parts).unwrap()
}

async fn listen(stage: &Stage) -> EventFeed {
    let viewer = stage.agent("viewer", Role::Observer).unwrap();
    let overflow = Overflow::DropOldest { capacity: NonZeroUsize::new(4096).unwrap() };
    viewer.subscribe(Filter::parse("vak.events.w1.s1.>").unwrap(), overflow).await.unwrap()
}

fn token(stage: &Stage, text: &str) -> Draft {
    Draft::new(stage.tokens().subject(), "vak.token", text.to_owned())
}

async fn say(stage: &Stage, worker: &Endpoint, texts: &[&str]) {
    for text in texts {
        worker.publish(token(stage, text)).await.unwrap();
    }
}

/// What a feed holds now.
#[derive(Default)]
struct Heard {
    messages: Vec<Opened>,
    checkpoints: Vec<Checkpointed>,
    refused: Vec<ErrorKind>,
}

impl Heard {
    fn now(feed: &mut EventFeed) -> Self {
        let mut heard = Self::default();
        // However much there is, in one go.
        while let Some(Some(item)) = unconstrained(feed.next()).now_or_never() {
            match item {
                Incoming::Message(opened) => heard.messages.push(*opened),
                Incoming::Checkpoint(checkpoint) => heard.checkpoints.push(*checkpoint),
                Incoming::Refused(error) => heard.refused.push(error.kind()),
                Incoming::Gap { missed } => unreachable!("{missed} missed"),
            }
        }
        heard
    }

    fn standings(&self) -> Vec<Standing> {
        self.messages.iter().map(|opened| opened.standing).collect()
    }

    /// How many messages each checkpoint vouches for.
    fn vouched(&self) -> Vec<usize> {
        self.checkpoints.iter().map(|checkpoint| checkpoint.vouching.vouched.len()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_follows_when_enough_messages_wait_for_it() {
    let stage = Stage::new().await.unwrap();
    let (worker, mut feed) = (vouching(&stage, "coder-1", 3), listen(&stage).await);
    say(&stage, &worker, &["a", "b", "c", "d"]).await;

    let heard = Heard::now(&mut feed);

    assert_eq!(heard.standings(), [Standing::Sealed; 4]);
    assert_eq!(heard.vouched(), [3]);
    let checkpoint = &heard.checkpoints[0];
    assert_eq!(checkpoint.opened.standing, Standing::Signed);
    assert!(heard.messages[..3].iter().all(|opened| checkpoint.vouches_for(&opened.hash)));
}

#[tokio::test(start_paused = true)]
async fn messages_and_checkpoints_are_one_chain() {
    for wire in [WireForm::Binary, WireForm::Json, WireForm::Compact] {
        let stage = Stage::new().await.unwrap();
        let mut parts = stage.parts(stage.certified("coder-1", Role::Worker).unwrap());
        parts.checkpoints = Some(CheckpointPolicy::new(2, Duration::from_secs(1)).unwrap());
        parts.wire = wire;
        let (worker, mut feed) = (Endpoint::new(parts).unwrap(), listen(&stage).await);
        say(&stage, &worker, &["a", "b", "c", "d", "e"]).await;
        let mut chain = None;
        let mut verdicts = Vec::new();
        while let Some(Some(item)) = feed.next().now_or_never() {
            let envelope = match item {
                Incoming::Message(opened) => opened.envelope,
                Incoming::Checkpoint(checkpoint) => checkpoint.opened.envelope,
                other => unreachable!("{other:?}"),
            };
            let scope = ChainScope::incarnation_of(&envelope);
            let window = NonZeroUsize::new(64).unwrap();
            let chain = chain.get_or_insert_with(|| ChainVerifier::new(scope, window));
            verdicts.push(chain.feed(&envelope));
        }
        assert_eq!(verdicts, [ChainVerdict::Linked; 7], "{wire:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_messages_before_a_silence_are_vouched_for_in_time() {
    let stage = Stage::new().await.unwrap();
    let (worker, mut feed) = (vouching(&stage, "coder-1", 64), listen(&stage).await);
    let start = tokio::time::Instant::now();
    let keeper = worker.keep_vouching();
    let story = async {
        say(&stage, &worker, &["a", "b"]).await;
        for _ in 0..2 {
            assert!(matches!(feed.next().await, Some(Incoming::Message(_))));
        }
        let Some(Incoming::Checkpoint(checkpoint)) = feed.next().await else { unreachable!() };
        checkpoint.vouching.vouched.len()
    };
    let vouched = tokio::select! {
        () = keeper => unreachable!("it never ends"),
        vouched = story => vouched,
    };
    assert_eq!((vouched, start.elapsed()), (2, Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_was_there_before_the_first_message_is_woken_by_it() {
    let stage = Stage::new().await.unwrap();
    let (worker, mut feed) = (vouching(&stage, "coder-1", 64), listen(&stage).await);
    let keepers = async { tokio::join!(worker.keep_vouching(), worker.keep_vouching()) };
    let story = async {
        // The keepers have looked and found nothing.
        tokio::task::yield_now().await;
        for _ in 0..3 {
            say(&stage, &worker, &["a"]).await;
            assert!(matches!(feed.next().await, Some(Incoming::Message(_))));
            assert!(matches!(feed.next().await, Some(Incoming::Checkpoint(_))));
        }
    };
    tokio::select! {
        biased;
        _ = keepers => unreachable!("they never end"),
        () = story => {}
    }
    assert_eq!(worker.next_vouching(), None);
}

#[tokio::test(start_paused = true)]
async fn a_busy_subject_needs_no_keeper() {
    let stage = Stage::new().await.unwrap();
    let (worker, mut feed) = (vouching(&stage, "coder-1", 64), listen(&stage).await);
    say(&stage, &worker, &["a"]).await;
    tokio::time::advance(Duration::from_secs(2)).await;
    say(&stage, &worker, &["b"]).await;
    assert_eq!(Heard::now(&mut feed).vouched(), [2]);
}

#[tokio::test(start_paused = true)]
async fn finishing_vouches_for_what_is_left_and_for_nothing_twice() {
    let stage = Stage::new().await.unwrap();
    let (worker, mut feed) = (vouching(&stage, "coder-1", 64), listen(&stage).await);
    say(&stage, &worker, &["a", "b"]).await;
    let subject = stage.tokens().subject();
    assert_eq!(worker.finish_live(&subject).await.unwrap(), 2);
    assert_eq!(worker.finish_live(&subject).await.unwrap(), 0);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(worker.vouch_due(stage.clock.now()).await.unwrap(), 0);
    assert_eq!(Heard::now(&mut feed).vouched(), [2]);
}

#[tokio::test(start_paused = true)]
async fn closing_an_endpoint_vouches_on_every_subject_first() {
    let stage = Stage::new().await.unwrap();
    let bus = bus_mem::InMemoryBus::with_clock(Arc::clone(&stage.clock));
    let mut parts = stage.parts(stage.certified("coder-1", Role::Worker).unwrap());
    parts.engine = Arc::new(bus.connect());
    parts.checkpoints = Some(CheckpointPolicy::default());
    let worker = Endpoint::new(parts).unwrap();
    let mut parts = stage.parts(stage.certified("viewer", Role::Observer).unwrap());
    parts.engine = Arc::new(bus.connect());
    let overflow = Overflow::DropOldest { capacity: NonZeroUsize::new(64).unwrap() };
    let filter = Filter::parse("vak.events.w1.s1.>").unwrap();
    let mut feed = Endpoint::new(parts).unwrap().subscribe(filter, overflow).await.unwrap();
    let terminal =
        Address::Terminal { workspace: stage.workspace.clone(), session: stage.session.clone() };
    worker.publish(token(&stage, "a")).await.unwrap();
    worker.publish(Draft::new(terminal.subject(), "vak.terminal.stdout", "b")).await.unwrap();

    worker.close().await.unwrap();

    assert_eq!(Heard::now(&mut feed).vouched(), [1, 1]);
    let closed = worker.publish(token(&stage, "late")).await.unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn without_a_policy_there_are_no_checkpoints() {
    let stage = Stage::new().await.unwrap();
    let (worker, mut feed) = (stage.agent("coder-1", Role::Worker).unwrap(), listen(&stage).await);
    say(&stage, &worker, &["a", "b"]).await;
    assert_eq!(worker.next_vouching(), None);
    assert_eq!(worker.finish_live(&stage.tokens().subject()).await.unwrap(), 0);
    let heard = Heard::now(&mut feed);
    assert_eq!((heard.standings(), heard.vouched()), (vec![Standing::Sealed; 2], vec![]));
}

fn telemetry(stage: &Stage) -> Subject {
    let (workspace, session) = (stage.workspace.clone(), stage.session.clone());
    Address::Telemetry { workspace, session }.subject()
}

#[tokio::test(start_paused = true)]
async fn the_newest_sample_is_signed_itself_and_no_checkpoint_takes_its_place() {
    let stage = Stage::new().await.unwrap();
    let worker = vouching(&stage, "coder-1", 1);
    let viewer = stage.agent("viewer", Role::Observer).unwrap();
    let overflow = Overflow::Latest { subjects: NonZeroUsize::new(16).unwrap() };
    let filter = Filter::from(&telemetry(&stage));
    let mut feed = viewer.subscribe(filter, overflow).await.unwrap();
    for text in ["1", "2", "3"] {
        worker.publish(Draft::new(telemetry(&stage), "vak.sample", text)).await.unwrap();
    }
    worker.finish_live(&telemetry(&stage)).await.unwrap();
    let heard = Heard::now(&mut feed);
    assert_eq!((heard.standings(), heard.vouched()), (vec![Standing::Signed], vec![]));
    assert_eq!(heard.messages[0].payload, "3");
}

/// A live message that somebody with the workspace's secret makes in another agent's name, life
/// and place.
async fn forge(stage: &Stage, of: &Opened, text: &str) -> Frame {
    use bus_crypto::{FreshNonce, SystemEntropy};
    use bus_envelope::{Seal, wire};
    let mut envelope = of.envelope.clone();
    envelope.id = format!("{}-forged", envelope.id);
    let life = envelope.lineage.incarnation.to_string();
    let key = stage.keyring.sealing_key("w1", &life).unwrap();
    let nonce = FreshNonce::draw(&SystemEntropy::new(), &mut [0; 0]).unwrap();
    let (key_id, algorithm) = (key.key_id().to_owned(), key.algorithm().name().to_owned());
    envelope.seal = Some(Seal { key_id, algorithm, nonce: *nonce.as_bytes() });
    let mut data = text.as_bytes().to_vec();
    key.seal_fresh(nonce, &envelope.aad(), &mut data).unwrap();
    envelope.payload = data.into();
    let (headers, body) = wire::encode(WireForm::Binary, &envelope);
    let id = FrameId::parse(&envelope.id).unwrap();
    Frame { headers, ..Frame::new(envelope.subject, id, body) }
}

#[tokio::test(start_paused = true)]
async fn a_forged_message_before_its_checkpoint_is_contradicted_by_it() {
    let stage = Stage::new().await.unwrap();
    let (worker, mut feed) = (vouching(&stage, "coder-1", 64), listen(&stage).await);
    say(&stage, &worker, &["a", "b"]).await;
    let honest = Heard::now(&mut feed).messages;
    stage.engine.publish(forge(&stage, &honest[1], "evil").await).await.unwrap();
    let forged = Heard::now(&mut feed).messages;
    assert_eq!(forged[0].standing, Standing::Sealed, "it cannot be told apart yet");

    worker.finish_live(&stage.tokens().subject()).await.unwrap();

    let checkpoint = Heard::now(&mut feed).checkpoints.remove(0);
    let hashes: Vec<_> = honest.iter().map(|opened| opened.hash).collect();
    assert_eq!(checkpoint.vouching.vouched, hashes);
    assert_eq!(checkpoint.vouching.contradicted, [forged[0].hash]);
}

#[tokio::test(start_paused = true)]
async fn a_forged_message_after_its_checkpoint_is_refused() {
    let stage = Stage::new().await.unwrap();
    let (worker, mut feed) = (vouching(&stage, "coder-1", 64), listen(&stage).await);
    say(&stage, &worker, &["a"]).await;
    worker.finish_live(&stage.tokens().subject()).await.unwrap();
    let honest = Heard::now(&mut feed).messages;
    stage.engine.publish(forge(&stage, &honest[0], "evil").await).await.unwrap();
    assert_eq!(Heard::now(&mut feed).refused, [ErrorKind::Corrupt]);
}

#[tokio::test(start_paused = true)]
async fn a_forged_message_in_the_place_of_the_checkpoint_is_refused() {
    let stage = Stage::new().await.unwrap();
    let (worker, mut feed) = (vouching(&stage, "coder-1", 64), listen(&stage).await);
    say(&stage, &worker, &["a"]).await;
    worker.finish_live(&stage.tokens().subject()).await.unwrap();
    let mut place = Heard::now(&mut feed).checkpoints.remove(0).opened;
    place.envelope.event_type = "vak.token".to_owned();
    place.envelope.signature = None;
    stage.engine.publish(forge(&stage, &place, "evil").await).await.unwrap();
    assert_eq!(Heard::now(&mut feed).refused, [ErrorKind::Corrupt]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_comes_after_its_checkpoint_is_vouched_for_at_once() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let (worker, mut feed) = (vouching(&stage, "coder-1", 64), listen(&stage).await);
    // The first one is lost on its way and comes late, from a network that repeats.
    flaky.fail(Op::Publish, EVENTS, Fault::LostBefore, 1);
    worker.publish(token(&stage, "a")).await.unwrap_err();
    say(&stage, &worker, &["b"]).await;
    worker.finish_live(&stage.tokens().subject()).await.unwrap();
    let heard = Heard::now(&mut feed);
    assert_eq!((heard.vouched(), heard.checkpoints[0].vouching.unheard), (vec![1], 1));

    let late = published(&flaky).remove(0);
    stage.engine.publish(late).await.unwrap();

    assert_eq!(Heard::now(&mut feed).standings(), [Standing::Vouched]);
}

fn published(flaky: &Flaky) -> Vec<Frame> {
    let calls = flaky.calls().into_iter().filter(|call| call.op == Op::Publish);
    calls.filter_map(|call| call.frame).collect()
}

#[tokio::test(start_paused = true)]
async fn who_is_not_on_the_roster_vouches_for_nothing() {
    let stage = Stage::new().await.unwrap();
    let mut feed = listen(&stage).await;
    // Certified by the account, but never admitted.
    let entropy = bus_crypto::SystemEntropy::new();
    let issue = stage.issue("stranger", Role::Worker).unwrap();
    let identity = Identity::issue(stage.account(), &issue, &entropy).unwrap();
    let stranger = with_policy(&stage, identity, 2);
    say(&stage, &stranger, &["a", "b"]).await;
    let heard = Heard::now(&mut feed);
    assert_eq!((heard.vouched(), heard.refused), (vec![], vec![ErrorKind::Denied]));
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_nobody_signed_is_refused() {
    let stage = Stage::new().await.unwrap();
    let (worker, mut feed) = (stage.agent("coder-1", Role::Worker).unwrap(), listen(&stage).await);
    let hash = worker.publish(token(&stage, "a")).await.unwrap();
    let payload = LiveCheckpoint::payload([&hash]);
    let unsigned = Draft::new(stage.tokens().subject(), LiveCheckpoint::EVENT_TYPE, payload);
    worker.publish(unsigned).await.unwrap();
    let heard = Heard::now(&mut feed);
    assert_eq!((heard.vouched(), heard.refused), (vec![], vec![ErrorKind::Corrupt]));
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_was_certainly_not_sent_is_made_again() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let (worker, mut feed) = (vouching(&stage, "coder-1", 64), listen(&stage).await);
    say(&stage, &worker, &["a", "b"]).await;
    flaky.fail(Op::Publish, EVENTS, Fault::Refused(ErrorKind::Unavailable), 1);
    let failed = worker.finish_live(&stage.tokens().subject()).await.unwrap_err();
    assert_eq!(failed.outcome(), Outcome::NotDone);

    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(worker.vouch_due(stage.clock.now()).await.unwrap(), 2);

    let heard = Heard::now(&mut feed);
    assert_eq!(heard.vouched(), [2]);
    assert_eq!(heard.checkpoints[0].opened.envelope.lineage.seq_num, 3);
}

#[tokio::test(start_paused = true)]
async fn the_checkpoint_after_one_that_may_be_lost_vouches_for_it_too() {
    for (fault, heard_of_both) in [(Fault::LostBefore, vec![2]), (Fault::LostAfter, vec![2, 0])] {
        let (stage, flaky) = Stage::flaky().await.unwrap();
        let (worker, mut feed) = (vouching(&stage, "coder-1", 64), listen(&stage).await);
        say(&stage, &worker, &["a", "b"]).await;
        flaky.fail(Op::Publish, EVENTS, fault, 1);
        let subject = stage.tokens().subject();
        assert_eq!(worker.finish_live(&subject).await.unwrap_err().outcome(), Outcome::Unknown);

        assert_eq!(worker.finish_live(&subject).await.unwrap(), 3);

        let heard = Heard::now(&mut feed);
        assert_eq!(heard.vouched(), heard_of_both, "{fault:?}");
        assert_eq!(heard.refused, []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_fails_while_publishing_is_no_failure_of_the_message() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let (worker, mut feed) = (vouching(&stage, "coder-1", 2), listen(&stage).await);
    say(&stage, &worker, &["a"]).await;
    // The second message goes through, its checkpoint does not.
    flaky.fail(Op::Publish, EVENTS, Fault::SlowBefore(Duration::ZERO), 1);
    flaky.fail(Op::Publish, EVENTS, Fault::Refused(ErrorKind::Unavailable), 1);
    say(&stage, &worker, &["b"]).await;
    assert_eq!(Heard::now(&mut feed).vouched(), [0; 0]);
    say(&stage, &worker, &["c"]).await;
    assert_eq!(Heard::now(&mut feed).vouched(), [3]);
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_is_dropped_half_way_is_due_all_the_same() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let (worker, mut feed) = (vouching(&stage, "coder-1", 64), listen(&stage).await);
    say(&stage, &worker, &["a"]).await;
    tokio::time::advance(Duration::from_secs(2)).await;
    flaky.fail(Op::Publish, EVENTS, Fault::StuckAfter, 1);
    let due = worker.vouch_due(stage.clock.now());
    assert!(tokio::time::timeout(Duration::from_secs(1), due).await.is_err());

    assert!(worker.next_vouching().is_some());
    assert_eq!(worker.vouch_due(stage.clock.now()).await.unwrap(), 2);
    assert_eq!(Heard::now(&mut feed).refused, []);
}

#[tokio::test(start_paused = true)]
async fn one_signature_stands_for_sixty_four_messages() {
    let stage = Stage::new().await.unwrap();
    let mut parts = stage.parts(stage.certified("coder-1", Role::Worker).unwrap());
    parts.checkpoints = Some(CheckpointPolicy::default());
    let (worker, mut feed) = (Endpoint::new(parts).unwrap(), listen(&stage).await);
    for n in 0..640 {
        worker.publish(token(&stage, &n.to_string())).await.unwrap();
    }
    let heard = Heard::now(&mut feed);
    assert_eq!(heard.vouched(), [64; 10]);
    let signed = heard.messages.iter().filter(|opened| opened.envelope.signature.is_some());
    assert_eq!(signed.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_published_where_messages_are_stored() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let refused = boss.publish(bus_stories::task(&stage, "x")).await.unwrap_err();
    assert_eq!((refused.kind(), flaky.calls().len()), (ErrorKind::Invalid, 0));
}
