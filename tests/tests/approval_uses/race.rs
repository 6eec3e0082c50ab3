//! C27: of any number of uses at once exactly one succeeds.

use tokio::task::JoinSet;

use super::*;

/// How many processes try at once.
const PROCESSES: usize = 16;

/// `PROCESSES` processes of one agent use one approval at once, `rounds` times.
pub(super) async fn race(scene: &Scene, rounds: usize) {
    for round in 0..rounds {
        let asked = scene.allowed().await;
        let known = scene.known(&asked).await;
        let mut processes = JoinSet::new();
        for _ in 0..PROCESSES {
            let (desk, known) = (scene.another(), known.clone());
            processes.spawn(async move {
                let ask = desk.ask(ACTION, TARGET, None)?;
                desk.consume(&known, &ask).await
            });
        }
        let results = processes.join_all().await;
        let used = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(used, 1, "round {round}: {results:?}");
        for refused in results.into_iter().filter(Result::is_err) {
            assert_eq!(code(refused), "decision-consumed", "round {round}");
        }
    }
    let records = scene.records().await;
    assert_eq!(records, vec!["vak.approval.consumed"; rounds]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixteen_uses_at_once_exactly_one_succeeds() {
    // Two hundred rounds; a scene's records are read anew by each call.
    for _ in 0..20 {
        race(&Scene::new().await, 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_use_after_the_window_for_ids_is_refused_as_consumed() {
    let scene = Scene::new().await;
    let days = Duration::from_secs(7 * 24 * 3600);
    let long = request().valid_for(days).unwrap();
    let asked = scene.desk.request(None, &long).await.unwrap();
    scene.answer(&asked, "yes").await;
    scene.take(&asked).await.unwrap();
    tokio::time::advance(Duration::from_secs(25 * 3600)).await;
    assert_eq!(code(scene.take(&asked).await), "decision-consumed");
    // The verdict is sent again by then, as nobody knows its id any more.
    scene.answer(&asked, "yes").await;
    assert_eq!(scene.waiting().await, 1);
    assert_eq!(code(scene.take(&asked).await), "decision-consumed");
    assert_eq!(scene.records().await, ["vak.approval.consumed"]);
}

#[tokio::test(start_paused = true)]
async fn receipts_of_tasks_and_uses_stand_in_one_chain() {
    let scene = Scene::new().await;
    let record = |n: u32| {
        let subject = scene.stage.receipts().subject();
        bus_envelope::Draft::new(subject, "vak.receipt.completed", format!("{n}"))
    };
    for n in 0..3 {
        scene.worker.record(record(n)).await.unwrap();
        let asked = scene.allowed().await;
        scene.take(&asked).await.unwrap();
    }
    let frames = scene.stage.stored(planes::receipts_stream().unwrap()).await.unwrap();
    let envelopes: Vec<_> =
        frames.iter().map(|frame| scene.otto.open(frame).unwrap().envelope).collect();
    for (n, pair) in envelopes.windows(2).enumerate() {
        assert_eq!(pair[1].lineage.prev_event_hash, pair[0].compute_hash(), "record {n}");
        assert_eq!(pair[1].lineage.seq_num, pair[0].lineage.seq_num + 1);
    }
    assert_eq!(envelopes.len(), 6);
}
