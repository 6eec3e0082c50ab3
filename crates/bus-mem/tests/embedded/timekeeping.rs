//! Time passes for whoever waits, in any runtime, and costs nothing when nobody does.

use std::time::Duration;

use bus_core::{Bus, Verdict};
use bus_mem::InMemoryBus;
use tokio::runtime::{Builder, Handle};

use super::{LEASE, append, bell, coder, declare, member, pass, queue, settle_down, take};

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(start_paused = true)]
async fn a_waiting_member_gets_a_resting_task_at_its_time() {
    let bus = queue().await;
    append(&bus, "1").await.unwrap();
    let mut worker = member(&bus).await;
    let started = tokio::time::Instant::now();
    let after = Duration::from_secs(5);
    take(&mut worker).await.settle(Verdict::Retry { after }).await.unwrap();
    assert_eq!(take(&mut worker).await.attempt, 2);
    assert_eq!(started.elapsed().as_millis(), 5_000);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_comes_up_while_members_wait_is_kept() {
    let bus = queue().await;
    let (mut first, mut second) = (member(&bus).await, member(&bus).await);
    let bell = bell();
    bell.waits(&mut second);
    append(&bus, "1").await.unwrap();
    let task = take(&mut first).await;
    bell.waits(&mut second);
    // The timekeeper sleeps until the lease ends, which is later than what comes now.
    settle_down().await;
    let rings = bell.rings();
    task.settle(Verdict::Retry { after: Duration::from_secs(1) }).await.unwrap();
    pass(Duration::from_millis(999)).await;
    assert_eq!(bell.rings(), rings);
    pass(Duration::from_millis(1)).await;
    assert_eq!(bell.rings(), rings + 1);
}

#[tokio::test(start_paused = true)]
async fn there_is_no_timekeeper_while_nobody_waits() {
    let bus = queue().await;
    append(&bus, "1").await.unwrap();
    let mut worker = member(&bus).await;
    let task = take(&mut worker).await;
    assert_eq!(tasks(), 0, "a lease alone needs none");
    bell().waits(&mut worker);
    assert_eq!(tasks(), 1);
    task.settle(Verdict::Ack).await.unwrap();
    drop(worker);
    pass(LEASE).await;
    assert_eq!(tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_timekeeper_ends_with_its_bus() {
    let bus = queue().await;
    append(&bus, "1").await.unwrap();
    let mut worker = member(&bus).await;
    let task = take(&mut worker).await;
    bell().waits(&mut worker);
    settle_down().await;
    assert_eq!(tasks(), 1);
    drop((worker, task, bus));
    settle_down().await;
    assert_eq!(tasks(), 0);
}

#[test]
fn a_lease_runs_out_although_the_runtime_that_watched_it_ended() {
    let start = || Builder::new_current_thread().enable_time().build().unwrap();
    let bus = InMemoryBus::new();
    let mut spec = coder();
    spec.lease = Duration::from_millis(50);
    let (first, second) = (start(), start());
    let mut worker = first.block_on(async {
        declare(&bus, "WORK", "vak.work.w1.*.task").await;
        append(&bus, "1").await.unwrap();
        let mut worker = bus.consume(spec.clone()).await.unwrap();
        drop(take(&mut worker).await);
        bell().waits(&mut worker);
        settle_down().await;
        worker
    });
    let mut waiting = tokio::task::JoinSet::new();
    second.block_on(async {
        waiting.spawn(async move { worker.next().await.unwrap().unwrap().attempt });
        settle_down().await;
    });
    drop(first);
    // The limit looks at the task from outside: polling the worker itself would claim.
    let done = second.block_on(async {
        let limit = Duration::from_secs(20);
        tokio::time::timeout(limit, waiting.join_next()).await.expect("the lease ran out")
    });
    assert_eq!(done.unwrap().unwrap(), 2);
}
