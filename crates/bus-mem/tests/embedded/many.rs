//! Several at once: claiming what is ready, settling what was done, and what a coarse clock may do.

use std::{num::NonZeroUsize, pin::pin, sync::Arc, task::Context, time::Duration};

use bus_core::{
    Bus, Clock, Deliveries, Delivery, ErrorKind, Retention, StreamSpec, TokioClock, Verdict,
    settle_all,
};
use bus_envelope::Timestamp;
use bus_mem::InMemoryBus;
use bus_subjects::Filter;
use tokio::task::coop::{has_budget_remaining, unconstrained};

use super::{LEASE, append, bell, coder, member, pass, queue, take};

fn up_to(max: usize) -> NonZeroUsize {
    NonZeroUsize::new(max).unwrap()
}

async fn claim(member: &mut Deliveries, max: usize) -> Vec<Delivery> {
    member.next_many(up_to(max)).await.unwrap().unwrap()
}

fn ids(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| delivery.frame.id.as_str()).collect()
}

async fn fill(bus: &InMemoryBus, ids: &[&str]) {
    for id in ids {
        append(bus, id).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn next_many_claims_what_is_ready_and_not_more_than_asked() {
    let bus = queue().await;
    fill(&bus, &["1", "2", "3"]).await;
    let mut worker = member(&bus).await;
    let first = claim(&mut worker, 2).await;
    assert_eq!(ids(&first), ["1", "2"]);
    let rest = claim(&mut worker, 2).await;
    assert_eq!(ids(&rest), ["3"]);
    assert_eq!(bus.lag(coder().stream).await.unwrap().in_flight, 3);
}

#[tokio::test(start_paused = true)]
async fn next_many_waits_for_the_first_message() {
    let bus = queue().await;
    let mut worker = member(&bus).await;
    let appending = async {
        super::settle_down().await;
        append(&bus, "1").await.unwrap();
    };
    let (claimed, ()) = tokio::join!(claim(&mut worker, 9), appending);
    assert_eq!(ids(&claimed), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_next_many_claims_nothing() {
    let bus = queue().await;
    let (mut worker, bell) = (member(&bus).await, bell());
    let waker = Arc::clone(&bell).into();
    let asked =
        pin!(unconstrained(worker.next_many(up_to(4)))).poll(&mut Context::from_waker(&waker));
    assert!(asked.is_pending());
    fill(&bus, &["1", "2"]).await;
    assert_eq!(bus.lag(coder().stream).await.unwrap().in_flight, 0);
    assert_eq!(bell.rings(), 0, "nobody waits for the answer any more");
}

#[tokio::test(start_paused = true)]
async fn next_many_ends_with_its_consumer() {
    let bus = queue().await;
    let mut worker = member(&bus).await;
    bus.remove_consumer(coder().stream, coder().name).await.unwrap();
    let told = worker.next_many(up_to(4)).await.unwrap();
    assert_eq!(told.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(worker.next_many(up_to(4)).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_claimed_batch_counts_as_its_messages() {
    let bus = queue().await;
    let many: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    for id in &many {
        append(&bus, id).await.unwrap();
    }
    let mut worker = member(&bus).await;
    tokio::task::yield_now().await;
    assert!(has_budget_remaining());
    assert_eq!(claim(&mut worker, 200).await.len(), 200);
    assert!(!has_budget_remaining());
}

#[tokio::test(start_paused = true)]
async fn one_refused_verdict_stops_none_of_the_others() {
    let bus = queue().await;
    append(&bus, "0").await.unwrap();
    let mut worker = member(&bus).await;
    let lost = take(&mut worker).await;
    assert!(bus.discard(coder().stream, lost.seq).await.unwrap());
    fill(&bus, &["1", "2"]).await;
    let (mut held, after) = (claim(&mut worker, 2).await, Duration::from_secs(5));
    let (second, first) = (held.pop().unwrap(), held.pop().unwrap());
    let answers = settle_all(vec![
        (first, Verdict::Ack),
        (lost, Verdict::Ack),
        (second, Verdict::Retry { after }),
    ])
    .await;
    let kinds: Vec<_> = answers.iter().map(|a| a.as_ref().err().map(|e| e.kind())).collect();
    assert_eq!(kinds, [None, Some(ErrorKind::LeaseLost), None]);
    let again = take(&mut worker).await;
    assert_eq!((again.frame.id.as_str(), again.attempt), ("2", 2));
}

#[tokio::test(start_paused = true)]
async fn verdicts_of_several_members_are_given_together() {
    let bus = queue().await;
    fill(&bus, &["1", "2", "3"]).await;
    let (mut one, mut other) = (member(&bus).await, member(&bus).await);
    let held = [take(&mut one).await, take(&mut other).await, take(&mut one).await];
    let answers = settle_all(held.map(|held| (held, Verdict::Ack)).into()).await;
    assert!(answers.len() == 3 && answers.iter().all(Result::is_ok));
    assert_eq!(bus.lag(coder().stream).await.unwrap(), bus_core::Lag::default());
}

#[tokio::test(start_paused = true)]
async fn verdicts_after_the_close_are_refused_one_by_one() {
    let bus = queue().await;
    fill(&bus, &["1", "2"]).await;
    let held = claim(&mut member(&bus).await, 2).await;
    bus.close().await.unwrap();
    let verdicts = held.into_iter().map(|held| (held, Verdict::Ack)).collect();
    let answers = settle_all(verdicts).await;
    let kinds: Vec<_> = answers.iter().map(|a| a.as_ref().unwrap_err().kind()).collect();
    assert_eq!(kinds, [ErrorKind::Closed, ErrorKind::Closed]);
}

/// Tokio's clock, whose coarse time is a tick behind.
struct Ticking(TokioClock);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn coarse(&self) -> Timestamp {
        Timestamp::from_unix_ns(self.0.now().unix_ns() - 10_000_000)
    }
}

async fn ticking_queue() -> InMemoryBus {
    let origin = Timestamp::from_unix_ns(1_800_000_000_000_000_000);
    let bus = InMemoryBus::with_clock(Arc::new(Ticking(TokioClock::starting_at(origin))));
    let filters = vec![Filter::parse("vak.work.w1.*.task").unwrap()];
    let spec = StreamSpec::new(coder().stream, filters, Retention::WorkQueue);
    bus.declare(spec).await.unwrap();
    bus
}

#[tokio::test(start_paused = true)]
async fn a_coarse_clock_takes_no_verdict_of_a_lease_that_somebody_else_has() {
    let bus = ticking_queue().await;
    append(&bus, "1").await.unwrap();
    let (mut slow, mut quick) = (member(&bus).await, member(&bus).await);
    let late = take(&mut slow).await;
    pass(LEASE).await;
    let held = take(&mut quick).await;
    assert_eq!(held.attempt, 2);
    assert_eq!(late.settle(Verdict::Ack).await.unwrap_err().kind(), ErrorKind::LeaseLost);
    held.settle(Verdict::Ack).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_coarse_clock_refuses_a_verdict_that_is_later_than_a_tick() {
    let bus = ticking_queue().await;
    append(&bus, "1").await.unwrap();
    let late = take(&mut member(&bus).await).await;
    pass(LEASE + Duration::from_millis(10)).await;
    assert_eq!(late.settle(Verdict::Ack).await.unwrap_err().kind(), ErrorKind::LeaseLost);
}

#[tokio::test(start_paused = true)]
async fn a_rest_begins_at_the_exact_time() {
    let bus = ticking_queue().await;
    append(&bus, "1").await.unwrap();
    let (mut worker, bell) = (member(&bus).await, bell());
    let after = Duration::from_millis(20);
    take(&mut worker).await.settle(Verdict::Retry { after }).await.unwrap();
    pass(Duration::from_millis(19)).await;
    bell.waits(&mut worker);
    pass(Duration::from_millis(1)).await;
    assert_eq!(bell.claims(&mut worker).attempt, 2);
}
