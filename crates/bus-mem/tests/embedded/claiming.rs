//! Members that wait: exactly as many wake as there are messages, and no wake-up is lost.

use std::{cell::Cell, time::Duration};

use bus_core::{Bus, Verdict};

use super::{LEASE, append, bell, member, pass, queue, settle_down, take};

#[tokio::test(start_paused = true)]
async fn three_messages_wake_three_of_a_thousand_members() {
    let bus = queue().await;
    let bell = bell();
    let mut members = Vec::new();
    for _ in 0..1000 {
        let mut member = member(&bus).await;
        bell.waits(&mut member);
        members.push(member);
    }
    for id in ["1", "2", "3"] {
        append(&bus, id).await.unwrap();
    }
    settle_down().await;
    assert_eq!(bell.rings(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ran_out_wakes_one_of_a_thousand_members() {
    let bus = queue().await;
    append(&bus, "1").await.unwrap();
    let mut worker = member(&bus).await;
    drop(take(&mut worker).await);
    let bell = bell();
    let mut members = Vec::new();
    for _ in 0..1000 {
        let mut member = member(&bus).await;
        bell.waits(&mut member);
        members.push(member);
    }
    pass(LEASE).await;
    assert_eq!(bell.rings(), 1);
    let again = bell.claims(&mut members[0]);
    assert_eq!(again.attempt, 2);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_dropped_after_it_was_called_passes_the_call_on() {
    let bus = queue().await;
    let (mut first, mut second) = (member(&bus).await, member(&bus).await);
    let (bell_1, bell_2) = (bell(), bell());
    bell_1.waits(&mut first);
    bell_2.waits(&mut second);
    append(&bus, "1").await.unwrap();
    assert_eq!((bell_1.rings(), bell_2.rings()), (1, 0));
    drop(first);
    assert_eq!(bell_2.rings(), 1);
    assert_eq!(bell_2.claims(&mut second).attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_turned_to_something_else_passes_its_call_on() {
    // Its `next` was dropped, but it lives on: a worker in a `select!` that was told to pause.
    let bus = queue().await;
    let (mut first, mut second) = (member(&bus).await, member(&bus).await);
    let (bell_1, bell_2) = (bell(), bell());
    bell_1.waits(&mut first);
    bell_2.waits(&mut second);
    append(&bus, "1").await.unwrap();
    assert_eq!((bell_1.rings(), bell_2.rings()), (1, 0));
    pass(Duration::from_millis(10)).await;
    assert_eq!(bell_2.rings(), 1);
    assert_eq!(bell_2.claims(&mut second).attempt, 1);
    bell_1.waits(&mut first);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_came_too_late_leaves_the_member_in_line() {
    let bus = queue().await;
    let (mut first, mut second) = (member(&bus).await, member(&bus).await);
    let (bell_1, bell_2) = (bell(), bell());
    bell_1.waits(&mut first);
    append(&bus, "1").await.unwrap();
    bell_2.claims(&mut second).settle(Verdict::Ack).await.unwrap();
    bell_1.waits(&mut first);
    append(&bus, "2").await.unwrap();
    assert_eq!(bell_1.rings(), 2);
    assert_eq!(bell_1.claims(&mut first).attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn polling_again_keeps_the_place_in_line() {
    let bus = queue().await;
    let (mut first, mut second) = (member(&bus).await, member(&bus).await);
    let (bell_1, bell_2) = (bell(), bell());
    bell_1.waits(&mut first);
    bell_2.waits(&mut second);
    bell_1.waits(&mut first);
    append(&bus, "1").await.unwrap();
    assert_eq!((bell_1.rings(), bell_2.rings()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_next_claims_nothing() {
    let bus = queue().await;
    let mut first = member(&bus).await;
    bell().waits(&mut first);
    append(&bus, "1").await.unwrap();
    let mut second = member(&bus).await;
    assert_eq!(take(&mut second).await.attempt, 1);
}

#[tokio::test]
async fn a_member_that_always_finds_work_lets_its_siblings_work() {
    let bus = queue().await;
    for n in 0..1000 {
        append(&bus, &n.to_string()).await.unwrap();
    }
    let left = Cell::new(1000);
    let work = async || {
        let mut member = member(&bus).await;
        let mut done = 0;
        while let Some(delivery) = member.next().await {
            delivery.unwrap().settle(Verdict::Ack).await.unwrap();
            done += 1;
            left.set(left.get() - 1);
            if left.get() == 0 {
                bus.close().await.unwrap();
            }
        }
        done
    };
    let (first, second) = tokio::join!(work(), work());
    assert_eq!(first + second, 1000);
    assert!(first > 0 && second > 0, "{first} and {second}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_task_is_done_exactly_once_by_many_members() {
    const TASKS: usize = 5_000;
    let bus = queue().await;
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let bus = bus.clone();
        workers.spawn(async move {
            let mut member = member(&bus).await;
            let mut done = Vec::new();
            while let Some(delivery) = member.next().await {
                let delivery = delivery.unwrap();
                done.push(delivery.frame.id.as_str().parse::<usize>().unwrap());
                delivery.settle(Verdict::Ack).await.unwrap();
                if done.last() == Some(&(TASKS - 1)) {
                    break;
                }
            }
            done
        });
    }
    for n in 0..TASKS {
        append(&bus, &n.to_string()).await.unwrap();
    }
    let limit = Duration::from_secs(60);
    let mut done =
        tokio::time::timeout(limit, workers.join_next()).await.unwrap().unwrap().unwrap();
    // One found the last task; whatever the others still hold is settled before they see the end.
    let lag = async || bus.lag(super::coder().stream).await.unwrap();
    while lag().await.pending + lag().await.in_flight > 0 {
        tokio::task::yield_now().await;
    }
    bus.close().await.unwrap();
    while let Some(worker) = workers.join_next().await {
        done.extend(worker.unwrap());
    }
    done.sort_unstable();
    assert_eq!(done, (0..TASKS).collect::<Vec<_>>());
}
