//! C11 among neighbours: a task that may have taken its worker down runs alone.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bus_core::{Failure, Handled, Handler, Stop};
use bus_stories::{Doing, Ran, Stage, Told, words, work};
use tokio::{sync::Notify, time::Instant};

use super::{ended, fill, gated, nothing_is_left, quick, rest, until, worker, worker_with};

#[tokio::test(start_paused = true)]
async fn a_pill_that_kills_its_worker_among_neighbours_is_given_up_and_they_are_done() {
    let stage = Stage::new().await.unwrap();
    let mut texts = vec!["boom"];
    texts.extend(["good"; 10]);
    stage.fill(&texts).await.unwrap();
    let (died, pills) = (Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
    let (bell, counted) = (Arc::clone(&died), Arc::clone(&pills));
    let handler = Doing(move |told: Told| -> Ran {
        let is_pill = told.text == "boom";
        let (counted, bell) = (Arc::clone(&counted), Arc::clone(&bell));
        Box::pin(async move {
            if is_pill {
                // Its neighbours are in the middle of their work.
                rest(Duration::from_millis(100)).await;
                counted.fetch_add(1, Ordering::Relaxed);
                bell.notify_one();
                std::future::pending::<()>().await;
            }
            rest(Duration::from_secs(1)).await;
            Ok(Handled)
        })
    });
    let (stop, events) = (Stop::default(), Mutex::new(Vec::new()));
    let report = |event| {
        let mut events = events.lock().unwrap();
        events.push(event);
        if ended(&events) == 11 {
            stop.drain.cancel();
        }
    };
    for life in 1.. {
        let worker = worker(&stage, &format!("coder-{life}"), 4);
        tokio::select! {
            ran = worker.run(&handler, &stop, report) => {
                ran.unwrap();
                break;
            }
            () = died.notified() => {}
        }
    }
    assert_eq!(pills.load(Ordering::Relaxed), 4);
    let letters = stage.letters().await.unwrap();
    assert_eq!((letters.len(), letters[0].attempts), (1, 4));
    assert_eq!(letters[0].worker_id.as_deref(), Some("coder-4"));
    nothing_is_left(&stage).await;
}

/// The most tasks that ran at once since the last time.
#[derive(Default)]
struct Most {
    now: AtomicU32,
    most: AtomicU32,
}

/// A handler that takes 10 s, and fails the first attempt if told to.
fn counting(most: &Arc<Most>, fails_first: bool) -> impl Handler + use<> {
    let most = Arc::clone(most);
    Doing(move |told: Told| -> Ran {
        let most = Arc::clone(&most);
        Box::pin(async move {
            let now = most.now.fetch_add(1, Ordering::Relaxed) + 1;
            most.most.fetch_max(now, Ordering::Relaxed);
            rest(Duration::from_secs(10)).await;
            most.now.fetch_sub(1, Ordering::Relaxed);
            if fails_first && told.attempt == 1 {
                return Err(Failure::Failed { reason: "not yet".to_owned() });
            }
            Ok(Handled)
        })
    })
}

#[tokio::test(start_paused = true)]
async fn tasks_whose_worker_died_run_alone_and_then_others_side_by_side_again() {
    let stage = Stage::new().await.unwrap();
    fill(&stage, 3).await;
    let (most, stop) = (Arc::new(Most::default()), Stop::default());
    let first = worker(&stage, "coder-1", 4);
    let handler = counting(&most, false);
    let died = first.run(&handler, &stop, |_| ());
    assert!(tokio::time::timeout(Duration::from_secs(5), died).await.is_err());
    assert_eq!(most.most.load(Ordering::Relaxed), 3);
    tokio::time::advance(Duration::from_secs(30)).await;

    let most = Arc::new(Most::default());
    let second = worker(&stage, "coder-2", 4);
    work(&second, &counting(&most, false), until(3)).await.unwrap();
    assert_eq!(most.most.load(Ordering::Relaxed), 1, "suspects ran beside one another");

    fill(&stage, 3).await;
    work(&second, &counting(&most, false), until(3)).await.unwrap();
    assert_eq!(most.most.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_failed_with_a_verdict_is_no_suspect() {
    let stage = Stage::new().await.unwrap();
    fill(&stage, 3).await;
    let most = Arc::new(Most::default());
    let worker = worker_with(&stage, "coder-1", quick(&stage, 4));
    let start = Instant::now();
    work(&worker, &counting(&most, true), until(3)).await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 20, "the second attempts did not run side by side");
}

#[tokio::test(start_paused = true)]
async fn a_suspect_that_waits_to_be_alone_is_handed_back_at_a_stop() {
    let stage = Stage::new().await.unwrap();
    fill(&stage, 1).await;
    let (most, stop) = (Arc::new(Most::default()), Stop::default());
    let first = worker(&stage, "coder-1", 1);
    let handler = counting(&most, false);
    let died = first.run(&handler, &stop, |_| ());
    assert!(tokio::time::timeout(Duration::from_secs(5), died).await.is_err());
    fill(&stage, 1).await;
    let (handler, full, _gate) = gated(1);
    let events = Mutex::new(Vec::new());
    let story = async {
        // The fresh task runs, and the suspect that became ready beside it waits.
        full.notified().await;
        rest(Duration::from_secs(100)).await;
        assert_eq!(stage.lag().await.unwrap().in_flight, 2);
        stop.now.cancel();
    };
    let second = worker(&stage, "coder-2", 4);
    let report = |event| events.lock().unwrap().push(event);
    let (ran, ()) = tokio::join!(second.run(&handler, &stop, report), story);
    ran.unwrap();
    assert_eq!(words(&events.into_inner().unwrap()), ["released", "released"]);
    assert_eq!(stage.lag().await.unwrap().pending, 2);
}
