//! C27: answers that are lost, records that cannot be stored, lives that end in between.

use bus_core::{ErrorKind, Outcome, Revocation};
use bus_stories::{Fault, Op};

use super::*;

const RECEIPTS: &str = "vak.receipts.";

/// What `times` lost answers of the append lead to, and what a second use finds.
async fn lost(fault: Fault, times: u32) -> (Result<Used, NotUsed>, &'static str, usize) {
    let (scene, flaky) = Scene::flaky().await;
    let asked = scene.allowed().await;
    flaky.fail(Op::Append, RECEIPTS, fault, times);
    let first = scene.take(&asked).await;
    let second = scene.take(&asked).await.map_or_else(|refused| refused.code(), |_| "used");
    (first, second, scene.records().await.len())
}

#[tokio::test(start_paused = true)]
async fn a_use_whose_answer_is_lost_is_one_use() {
    // Three times the same bytes are sent; what is stored is found where it stands after that.
    for times in 1..=3 {
        let (first, second, records) = lost(Fault::LostAfter, times).await;
        first.unwrap();
        assert_eq!((second, records), ("decision-consumed", 1), "{times}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_use_that_is_lost_on_the_way_is_sent_again() {
    for times in 1..=2 {
        let (first, second, records) = lost(Fault::LostBefore, times).await;
        first.unwrap();
        assert_eq!((second, records), ("decision-consumed", 1), "{times}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_use_of_which_nothing_is_known_says_so_and_can_be_tried_again() {
    let (first, second, records) = lost(Fault::LostBefore, 3).await;
    let told = first.unwrap_err();
    assert_eq!(told.code(), "outcome-unknown");
    assert!(matches!(told, NotUsed::Failed(error) if error.outcome() == Outcome::Unknown));
    assert_eq!((second, records), ("used", 1));
}

#[tokio::test(start_paused = true)]
async fn a_use_that_is_stored_and_cannot_be_looked_for_says_that_nothing_is_known() {
    let (scene, flaky) = Scene::flaky().await;
    let asked = scene.allowed().await;
    flaky.fail(Op::Append, RECEIPTS, Fault::LostAfter, 3);
    // The first look is before the append, the second one after it.
    flaky.fail(Op::Replay, "", Fault::SlowBefore(Duration::ZERO), 1);
    flaky.fail(Op::Replay, "", Fault::Refused(ErrorKind::Unavailable), 1);
    assert_eq!(code(scene.take(&asked).await), "outcome-unknown");
    assert_eq!(code(scene.take(&asked).await), "decision-consumed");
}

#[tokio::test(start_paused = true)]
async fn a_use_that_could_not_be_stored_can_be_tried_again() {
    let (scene, flaky) = Scene::flaky().await;
    let asked = scene.allowed().await;
    flaky.fail(Op::Append, RECEIPTS, Fault::Refused(ErrorKind::Full), 1);
    assert_eq!(code(scene.take(&asked).await), "storage-unavailable");
    assert!(scene.records().await.is_empty());
    scene.take(&asked).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_use_without_a_word_from_the_receipts_is_none() {
    let (scene, flaky) = Scene::flaky().await;
    let asked = scene.allowed().await;
    flaky.fail(Op::Replay, "", Fault::Refused(ErrorKind::Unavailable), 1);
    assert_eq!(code(scene.take(&asked).await), "storage-unavailable");
    assert!(scene.records().await.is_empty());
    scene.take(&asked).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_life_that_ends_after_the_use_was_stored_has_used_it() {
    let (scene, flaky) = Scene::flaky().await;
    let asked = scene.allowed().await;
    flaky.fail(Op::Append, RECEIPTS, Fault::StuckAfter, 1);
    tokio::select! {
        done = scene.take(&asked) => panic!("it did not die: {done:?}"),
        () = flaky.stuck() => {}
    }
    // The verdict is under the dead process's lease; what was done with it is known all the same.
    let next_life = scene.another();
    assert_eq!(code(take(&next_life, &asked, None).await), "decision-consumed");
    tokio::time::advance(LEASE).await;
    assert_eq!(code(take(&next_life, &asked, None).await), "decision-consumed");
    assert_eq!((scene.records().await.len(), scene.waiting().await), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_use_under_a_key_that_was_revoked_since_is_the_one_use() {
    let (scene, flaky) = Scene::flaky().await;
    let asked = scene.allowed().await;
    flaky.fail(Op::Append, RECEIPTS, Fault::StuckAfter, 1);
    tokio::select! {
        done = scene.take(&asked) => panic!("it did not die: {done:?}"),
        () = flaky.stuck() => {}
    }
    let known = scene.known(&asked).await;
    let (stage, now) = (&scene.stage, scene.stage.clock.now());
    let certificate = scene.worker.identity().certificate();
    stage.roster.revoke(&Revocation::of(certificate, now)).unwrap();
    let again = stage.agent("coder-1", Role::Worker).unwrap();
    let desk = Approvals::new(again, LEASE);
    tokio::time::advance(LEASE).await;
    assert_eq!(code(take(&desk, &asked, None).await), "decision-consumed");
    let ask = desk.ask(ACTION, TARGET, None).unwrap();
    assert_eq!(code(desk.consume(&known, &ask).await), "decision-consumed");
    assert_eq!(stage.stored(planes::receipts_stream().unwrap()).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_life_that_ends_before_the_use_was_stored_leaves_it_to_the_next() {
    let (scene, flaky) = Scene::flaky().await;
    let asked = scene.allowed().await;
    flaky.fail(Op::Replay, "", Fault::StuckAfter, 1);
    tokio::select! {
        done = scene.take(&asked) => panic!("it did not die: {done:?}"),
        () = flaky.stuck() => {}
    }
    let next_life = scene.another();
    take(&next_life, &asked, Some(scene.in_a_minute())).await.unwrap();
    assert_eq!(scene.records().await, ["vak.approval.consumed"]);
}

#[tokio::test(start_paused = true)]
async fn a_use_that_cannot_be_read_here_stops_the_next_one() {
    let scene = Scene::new().await;
    let asked = scene.allowed().await;
    scene.take(&asked).await.unwrap();
    scene.answer(&asked, "yes").await;
    let known = scene.known(&asked).await;

    // A process whose keys are newer than that record, and the older ones gone.
    let mut parts = scene.stage.parts(again(&scene.worker));
    let keyring = bus_crypto::Keyring::new();
    let secret = bus_crypto::WorkspaceSecret::generate(&bus_crypto::SystemEntropy::new());
    keyring.add_secret("w1", "v2", secret.unwrap()).unwrap();
    parts.keyring = Arc::new(keyring);
    let desk = Approvals::new(Endpoint::new(parts).unwrap(), LEASE);
    let ask = desk.ask(ACTION, TARGET, None).unwrap();
    let refused = desk.consume(&known, &ask).await.unwrap_err();
    assert_eq!(refused.code(), "storage-unavailable");
    assert!(matches!(refused, NotUsed::Failed(error) if error.kind() == ErrorKind::UnknownKey));
    assert_eq!(scene.records().await.len(), 1);
}
