//! One courier after the other.

use super::*;

#[tokio::test]
async fn a_courier_may_be_a_task_of_its_own() {
    let place = Place::new().await;
    let (courier, stop) = (place.courier(), CancellationToken::new());
    stop.cancel();
    // It compiles.
    let task: std::pin::Pin<Box<dyn Future<Output = Result<()>> + Send>> =
        Box::pin(async move { courier.run(&stop, |_| {}).await });
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_second_courier_takes_over_and_the_first_one_ends() {
    let place = Place::new().await;
    let ids = place.fill(&["a", "b", "c"]).await;
    place.hub.fail(Op::Append, WORK, Fault::StuckAfter, 1);
    let (first, stop) = (place.courier(), CancellationToken::new());
    let later = async {
        place.hub.stuck().await;
        place.drain().await;
    };
    let (ended, ()) = tokio::join!(place.run(&first, &stop), later);
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(place.ids_at_hub().await, ids);
}

#[tokio::test(start_paused = true)]
async fn a_new_courier_does_not_wait_for_the_leases_of_a_killed_one() {
    let place = Place::new().await;
    let ids = place.fill(&["a", "b", "c"]).await;
    place.hub.fail(Op::Append, WORK, Fault::StuckAfter, 1);
    let (first, stop) = (place.courier(), CancellationToken::new());
    tokio::select! {
        ended = place.run(&first, &stop) => ended.unwrap(),
        () = place.hub.stuck() => {}
    }
    place.run_for(Duration::from_secs(1)).await;
    assert_eq!(place.ids_at_hub().await, ids);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_is_away_for_hours_costs_no_lease_and_no_order() {
    let place = Place::new().await;
    let ids = place.fill(&["a", "b", "c"]).await;
    place.hub.fail(Op::Append, WORK, Fault::Refused(ErrorKind::Unavailable), u32::MAX);
    let back = async {
        pass(Duration::from_secs(3 * 3600)).await;
        place.hub.heal();
        tokio::time::Instant::now()
    };
    let (courier, stop) = (place.courier(), CancellationToken::new());
    let (_, back) = tokio::join!(
        async {
            tokio::select! {
                ended = place.run(&courier, &stop) => ended.unwrap(),
                () = place.is_empty() => {}
            }
        },
        back
    );
    assert!(back.elapsed() <= Courier::REST_MAX, "{:?}", back.elapsed());
    assert_eq!(place.ids_at_hub().await, ids);
    let tries = place.hub.appended(WORK).len();
    assert!((2_100..2_700).contains(&tries), "{tries}");
}

#[tokio::test(start_paused = true)]
async fn without_outboxes_at_home_there_is_nothing_to_carry() {
    let (home, _) = Stage::flaky().await.unwrap();
    let hub = Arc::clone(&home.engine);
    let courier = Courier::new(home.agent("courier", Role::Keeper).unwrap(), hub);
    let ended = courier.run(&CancellationToken::new(), |_| {}).await.unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_courier_without_the_right_takes_nothing() {
    let place = Place::new().await;
    place.fill(&["a"]).await;
    let home = place.home.agent("ann", Role::Operator).unwrap();
    let courier = Courier::new(home, Arc::clone(&place.hub) as Arc<dyn Engine>);
    let ended = courier.run(&CancellationToken::new(), |_| {}).await.unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::Denied);
    assert_eq!(place.outbox().counts().await.unwrap().waiting, 1);
}

#[tokio::test(start_paused = true)]
async fn a_closed_home_ends_the_courier_and_a_closed_hub_is_told() {
    let place = Place::new().await;
    place.fill(&["a"]).await;
    place.hub.close().await.unwrap();
    let stop = CancellationToken::new();
    let ended = place.run(&place.courier(), &stop).await.unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::Closed);

    let place = Place::new().await;
    let (courier, close) = (place.courier(), async {
        pass(Duration::from_secs(1)).await;
        place.home.engine.close().await.unwrap();
    });
    let (ended, ()) = tokio::join!(place.run(&courier, &stop), close);
    ended.unwrap();
}
