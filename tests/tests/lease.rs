//! C12: tasks that take longer than their lease, connections that break, and workers that stop.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bus_core::{ErrorKind, Failure, Handled, Stop, TaskEvent};
use bus_stories::{Doing, Fault, Op, Ran, Scripted, Stage, Told, slow, words, work};

#[tokio::test(start_paused = true)]
async fn a_task_of_ten_leases_is_started_once_and_completed_once() {
    let stage = Stage::new().await.unwrap();
    stage.fill(&["long"]).await.unwrap();
    let (handler, counts) = slow(Duration::from_secs(300));
    let (stop, events) = (Stop::default(), Mutex::new(Vec::new()));
    let (one, two) = (stage.worker("coder-1").unwrap(), stage.worker("coder-2").unwrap());
    let report = |event| {
        events.lock().unwrap().push(event);
        stop.drain.cancel();
    };
    // The second worker waits for work all the time and would take the task if it could.
    let (first, second) =
        tokio::join!(one.run(&handler, &stop, report), two.run(&handler, &stop, report));
    first.and(second).unwrap();

    let events = events.into_inner().unwrap();
    assert!(matches!(&events[..], [TaskEvent::Completed { attempt: 1, .. }]), "{events:?}");
    assert_eq!(counts.starts.load(Ordering::Relaxed), 1);
    assert_eq!(counts.ends.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_loses_its_lease_tells_the_handler_and_reports_no_success() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    stage.fill(&["long"]).await.unwrap();
    flaky.fail(Op::Extend, "vak.work.", Fault::Refused(ErrorKind::LeaseLost), 1);
    let told_to_stop = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&told_to_stop);
    let handler = Doing(move |told: Told| -> Ran {
        let counted = Arc::clone(&counted);
        Box::pin(async move {
            told.cancel.cancelled().await;
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(Handled)
        })
    });

    let events = work(&stage.worker("coder-1").unwrap(), &handler, |_| true).await.unwrap();

    let [TaskEvent::Unsettled { error, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(error.kind(), ErrorKind::LeaseLost);
    assert_eq!(told_to_stop.load(Ordering::Relaxed), 1);
    let settled = flaky.calls().iter().filter(|call| call.op == Op::Settle).count();
    assert_eq!(settled, 0, "a verdict without a lease");
}

/// How a task of two leases ends for its worker when extending it fails so `times` times.
async fn two_leases_with(fault: Fault, times: u32) -> TaskEvent {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    stage.fill(&["long"]).await.unwrap();
    flaky.fail(Op::Extend, "vak.work.", fault, times);
    let (handler, _) = slow(Duration::from_secs(60));
    work(&stage.worker("coder-1").unwrap(), &handler, |_| true).await.unwrap().pop().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_cut_for_a_moment_costs_no_lease() {
    for fault in [Fault::LostBefore, Fault::LostAfter, Fault::Refused(ErrorKind::Unavailable)] {
        let end = two_leases_with(fault, 3).await;
        assert!(matches!(end, TaskEvent::Completed { attempt: 1, .. }), "{fault:?}: {end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_stays_cut_costs_the_lease() {
    let end = two_leases_with(Fault::LostBefore, u32::MAX).await;
    let TaskEvent::Unsettled { error, .. } = end else { panic!("{end:?}") };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_is_never_answered_does_not_hold_up_the_work() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    stage.fill(&["long"]).await.unwrap();
    flaky.fail(Op::Extend, "vak.work.", Fault::StuckAfter, 1);
    let start = tokio::time::Instant::now();
    let (handler, _) = slow(Duration::from_secs(20));

    let events = work(&stage.worker("coder-1").unwrap(), &handler, |_| true).await.unwrap();

    assert_eq!(words(&events), ["completed"]);
    assert_eq!(start.elapsed().as_secs(), 20);
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_is_never_answered_ends_the_work_before_the_lease_is_over() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    stage.fill(&["long"]).await.unwrap();
    flaky.fail(Op::Extend, "vak.work.", Fault::StuckAfter, 1);
    let start = tokio::time::Instant::now();
    let (ended, cancelled) = (Arc::new(Mutex::new(None)), start);
    let noted = Arc::clone(&ended);
    let handler = Doing(move |told: Told| -> Ran {
        let noted = Arc::clone(&noted);
        Box::pin(async move {
            told.cancel.cancelled().await;
            *noted.lock().unwrap() = Some(cancelled.elapsed());
            Ok(Handled)
        })
    });

    let events = work(&stage.worker("coder-1").unwrap(), &handler, |_| true).await.unwrap();

    let [TaskEvent::Unsettled { error, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(error.kind(), ErrorKind::LeaseLost);
    assert!(ended.lock().unwrap().unwrap() < Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_blocks_its_thread_over_the_lease_gives_no_verdict() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    stage.fill(&["blocks"]).await.unwrap();
    let handler = Doing(|_: Told| -> Ran {
        Box::pin(async {
            // Nobody gets to extend the lease meanwhile: the clock runs while this is polled.
            let mut hour = std::pin::pin!(tokio::time::advance(Duration::from_secs(3600)));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let _moved = hour.as_mut().poll(&mut context);
            Ok(Handled)
        })
    });

    let events = work(&stage.worker("coder-1").unwrap(), &handler, |_| true).await.unwrap();

    let [TaskEvent::Unsettled { error, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(error.kind(), ErrorKind::LeaseLost);
    assert!(flaky.calls().iter().all(|call| call.op != Op::Settle), "a verdict without a lease");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_worker_hands_its_task_back_without_using_up_an_attempt() {
    let stage = Stage::new().await.unwrap();
    stage.fill(&["long"]).await.unwrap();
    let (handler, counts) = slow(Duration::from_secs(300));
    let (stop, worker) = (Stop::default(), stage.worker("coder-1").unwrap());
    let events = Mutex::new(Vec::new());
    let after_a_while = async {
        tokio::time::advance(Duration::from_secs(10)).await;
        stop.now.cancel();
    };
    let (ended, ()) = tokio::join!(
        worker.run(&handler, &stop, |event| events.lock().unwrap().push(event)),
        after_a_while
    );
    ended.unwrap();
    assert_eq!(words(&events.into_inner().unwrap()), ["released"]);
    assert_eq!(counts.ends.load(Ordering::Relaxed), 0);

    let next =
        work(&stage.worker("coder-2").unwrap(), &Scripted::failing(0), |_| true).await.unwrap();
    assert!(matches!(next[..], [TaskEvent::Completed { attempt: 1, .. }]), "{next:?}");
}

/// How a task ends whose handler ends so after it was told to stop.
async fn stopped_with(result: Result<Handled, Failure>) -> TaskEvent {
    let stage = Stage::new().await.unwrap();
    stage.fill(&["long"]).await.unwrap();
    let stop = Stop::default();
    let now = stop.now.clone();
    let handler = Doing(move |told: Told| -> Ran {
        let result = result.clone();
        now.cancel();
        Box::pin(async move {
            told.cancel.cancelled().await;
            result
        })
    });
    let end = Mutex::new(None);
    let worker = stage.worker("coder-1").unwrap();
    worker.run(&handler, &stop, |event| *end.lock().unwrap() = Some(event)).await.unwrap();
    end.into_inner().unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_finishes_in_the_moment_after_a_stop_counts() {
    let end = stopped_with(Ok(Handled)).await;
    assert!(matches!(end, TaskEvent::Completed { attempt: 1, .. }), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_in_the_moment_after_a_stop_uses_up_no_attempt() {
    let killed = Failure::Failed { reason: "killed by signal 15".to_owned() };
    let end = stopped_with(Err(killed)).await;
    assert!(matches!(end, TaskEvent::Released { .. }), "{end:?}");
}
