//! What a recorder stores: each event once, by whoever may, over deaths and lost answers.

use std::time::Duration;

use bus_core::{Endpoint, ErrorKind, Identity, Standing, Stop};
use bus_crypto::{NkeyKind, SigningKey, SystemEntropy};
use bus_envelope::{Draft, wire::compact};
use bus_runner::{
    Batch, BatchItem, History, PastItem, Recorder, RecordingKind, RecordingKinds, RecordingPolicy,
    Window,
};
use bus_stories::{Fault, Op};
use bus_subjects::Role;
use tokio::time::timeout;

use crate::{
    batches, envelope, flaky_stage, pass, recorded, recorder, recorder_of, recording, say, shown,
    speaker, stage, terminal, try_recording, viewer,
};

#[tokio::test(start_paused = true)]
async fn a_recorded_event_is_as_good_as_a_heard_one() {
    let stage = stage().await;
    recorded(&stage, &["one", "two"]).await;

    let observer = stage.agent("obs", Role::Observer).unwrap();
    let history = History::new(observer, stage.session.clone());
    let past = history.last(RecordingKinds::ALL, Window::default()).await.unwrap();

    let standings: Vec<_> = past
        .items
        .iter()
        .filter_map(|item| match item {
            PastItem::Message(opened) => Some((&opened.payload[..], opened.standing)),
            _ => None,
        })
        .collect();
    let vouched = Standing::Vouched;
    assert_eq!(standings, [(&b"one"[..], vouched), (&b"two"[..], vouched)]);
}

#[tokio::test(start_paused = true)]
async fn a_forged_event_in_a_recording_is_refused() {
    let stage = stage().await;
    recorded(&stage, &["one"]).await;
    let kept = batches(&stage).await;
    let keeper = recorder_of(&stage, "rec");
    let opened = keeper.open(kept.first().unwrap()).unwrap();
    let items = Batch::decode(&opened.payload).unwrap();
    let Some(BatchItem::Envelope(bytes)) = items.first() else { panic!("{items:?}") };
    let mut forged = compact::decode(bytes).unwrap();
    forged.payload = [&forged.payload[..], b"!"].concat().into();
    let mut batch = Batch::new();
    let _taken = batch.push(&forged);
    let subject = opened.envelope.subject;
    keeper.send(Draft::new(subject, Batch::EVENT_TYPE, batch.encode())).await.unwrap();

    let mut viewer = viewer(&stage, Window::default()).await;

    let seen = shown(&mut viewer, 2).await;
    assert_eq!(seen.first().unwrap(), ":one");
    assert!(seen.last().unwrap().starts_with("refused: "), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn tokens_and_terminal_are_recorded_each_in_its_place() {
    let stage = stage().await;
    let ann = speaker(&stage, "ann");
    let recorder = recorder(&stage, RecordingPolicy::default()).await;
    recording(recorder, async {
        say(&ann, &stage.tokens().subject(), "token").await;
        say(&ann, &terminal(&stage), "chunk").await;
    })
    .await;

    let kept = batches(&stage).await;
    let mut places: Vec<_> = kept.iter().map(|frame| frame.subject.as_str()).collect();
    places.sort_unstable();
    assert_eq!(places, ["vak.history.w1.terminal.s1", "vak.history.w1.tokens.s1"]);
    let ids: Vec<_> = kept.iter().map(|frame| frame.id.as_str()).collect();
    assert!(ids.contains(&"s1.tokens.1") && ids.contains(&"s1.terminal.1"), "{ids:?}");
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_died_goes_on_and_stores_nothing_twice() {
    let stage = stage().await;
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    let first = recorder(&stage, RecordingPolicy::default()).await;
    let stop = Stop::default();
    tokio::select! {
        _ended = first.run(&stop) => panic!("nobody has ended it"),
        () = async {
            say(&ann, &place, "stored").await;
            pass(RecordingPolicy::FLUSH * 2).await;
            say(&ann, &place, "lost with it").await;
        } => {}
    }
    recorded(&stage, &["after"]).await;

    let numbers: Vec<_> = batches(&stage)
        .await
        .iter()
        .map(|frame| envelope(frame).extensions.get("batch").cloned().unwrap())
        .collect();
    assert_eq!(numbers, ["1", "2"]);
    let mut viewer = viewer(&stage, Window::default()).await;
    assert_eq!(shown(&mut viewer, 2).await, [":stored", ":after"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_answer_is_lost_is_stored_once() {
    let (stage, flaky) = flaky_stage().await;
    flaky.fail(Op::Append, "vak.history", Fault::LostAfter, 5);

    let recorded = recorded(&stage, &["one", "two"]).await;

    assert_eq!((recorded.batches, batches(&stage).await.len()), (1, 1));
    let mut viewer = viewer(&stage, Window::default()).await;
    assert_eq!(shown(&mut viewer, 2).await, [":one", ":two"]);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_away_for_a_while_is_waited_for() {
    let (stage, flaky) = flaky_stage().await;
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    flaky.fail(Op::Append, "vak.history", Fault::Refused(ErrorKind::Unavailable), 20);
    let recorder = recorder(&stage, RecordingPolicy::default()).await;

    let recorded = recording(recorder, async {
        say(&ann, &place, "one").await;
        pass(RecordingPolicy::FLUSH * 60).await;
        say(&ann, &place, "two").await;
    })
    .await;

    assert_eq!((recorded.missed, recorded.events), (0, 2));
    let mut viewer = viewer(&stage, Window::default()).await;
    assert_eq!(shown(&mut viewer, 2).await, [":one", ":two"]);
}

#[tokio::test(start_paused = true)]
async fn a_recorder_gives_up_an_engine_that_stays_away_at_the_end() {
    let (stage, flaky) = flaky_stage().await;
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    flaky.fail(Op::Append, "vak.history", Fault::Refused(ErrorKind::Unavailable), u32::MAX);
    let recorder = recorder(&stage, RecordingPolicy::default()).await;

    let ended = try_recording(recorder, say(&ann, &place, "one")).await;

    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_newer_recorder_takes_over_and_the_older_one_ends() {
    let stage = stage().await;
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    let start = async |name| {
        let endpoint = recorder_of(&stage, name);
        pass(RecordingPolicy::FLUSH).await;
        let policy = RecordingPolicy::default();
        Recorder::start(endpoint, stage.session.clone(), policy).await.unwrap()
    };
    let (older, newer) = (start("older").await, start("newer").await);
    let stop = Stop::default();
    let (older, newer, ()) = tokio::join!(older.run(&stop), newer.run(&stop), async {
        for text in ["one", "two", "three"] {
            say(&ann, &place, text).await;
            pass(RecordingPolicy::FLUSH * 2).await;
        }
        stop.drain.cancel();
    });

    assert_eq!(older.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(newer.unwrap().events, 3);
    let mut viewer = viewer(&stage, Window::default()).await;
    assert_eq!(shown(&mut viewer, 3).await, [":one", ":two", ":three"]);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_hear_may_not_read() {
    let stage = stage().await;
    recorded(&stage, &["one"]).await;
    for role in [Role::Worker, Role::View] {
        let stranger = stage.agent("stranger", role).unwrap();
        let history = History::new(stranger, stage.session.clone());
        let refused = history.last(RecordingKinds::ALL, Window::default()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{role}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_may_not_hear_or_keep_records_nothing() {
    let stage = stage().await;
    let (session, policy) = (stage.session.clone(), RecordingPolicy::default());
    let keeper = stage.agent("keeper", Role::Keeper).unwrap();
    let deaf = Recorder::start(keeper, session.clone(), policy).await.unwrap_err();
    assert_eq!(deaf.kind(), ErrorKind::Denied);

    let observer = stage.agent("observer", Role::Observer).unwrap();
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    let recorder = Recorder::start(observer, session, policy).await.unwrap();
    let ended = try_recording(recorder, say(&ann, &place, "one")).await;
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Denied);
    assert!(batches(&stage).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_batch_by_a_keeper_of_another_account_is_refused() {
    let stage = stage().await;
    let other = SigningKey::generate(NkeyKind::Account, &SystemEntropy::new()).unwrap();
    let issue = stage.issue("rec", Role::Keeper).unwrap();
    let identity = Identity::issue(&other, &issue, &SystemEntropy::new()).unwrap();
    let mut parts = stage.parts(identity);
    // Nobody stands before the engine: only who reads can tell.
    parts.engine = stage.engine.clone();
    let mallory = Endpoint::new(parts).unwrap();
    let subject = RecordingKind::Terminal.kept(&stage.workspace, &stage.session).unwrap();
    let mut batch = Batch::new();
    assert!(batch.gap(7));
    mallory.send(Draft::new(subject, Batch::EVENT_TYPE, batch.encode())).await.unwrap();

    let mut viewer = viewer(&stage, Window::default()).await;

    let seen = shown(&mut viewer, 1).await;
    assert!(seen.first().unwrap().starts_with("refused: "), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_is_told_to_stop_at_once_waits_for_no_answer() {
    let (stage, flaky) = flaky_stage().await;
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    flaky.fail(Op::Append, "vak.history", Fault::StuckAfter, 1);
    let recorder = recorder(&stage, RecordingPolicy::default()).await;
    let stop = Stop::default();
    let ended = tokio::join!(timeout(Duration::from_secs(60), recorder.run(&stop)), async {
        say(&ann, &place, "one").await;
        pass(RecordingPolicy::FLUSH * 2).await;
        stop.drain.cancel();
        stop.now.cancel();
    });
    let error = ended.0.expect("it ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
}
