//! A call under way: its end, its limit, what is told to it.

use std::task::Waker;

use tokio::time::advance;

use super::*;

async fn over(mut limit: Limit) {
    poll_fn(|context| limit.poll(context)).await;
}

fn look(limit: &mut Limit) -> Poll<()> {
    limit.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test(start_paused = true)]
async fn a_short_wait_ends_by_itself_in_time() {
    for wait in [Duration::ZERO, Duration::from_millis(7), NEAR] {
        let begun = Instant::now();
        over(Limit::new(wait)).await;
        let took = begun.elapsed();
        assert!(took >= wait && took <= wait + Duration::from_millis(1), "{wait:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_has_a_timer_only_when_its_end_is_near() {
    let wait = Duration::from_secs(60);
    let (begun, mut limit) = (Instant::now(), Limit::new(wait));
    while begun.elapsed() < wait - NEAR {
        assert!(look(&mut limit).is_pending());
        assert!(limit.timer.is_none());
        advance(ROUSED_EVERY).await;
    }
    assert!(look(&mut limit).is_pending() && limit.timer.is_some());
    over(limit).await;
    let took = begun.elapsed();
    assert!(took >= wait && took <= wait + Duration::from_millis(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_all_time_never_ends() {
    let mut limit = Limit::new(Duration::MAX);
    for _ in 0..3 {
        assert!(look(&mut limit).is_pending());
        advance(Duration::from_secs(3600)).await;
    }
    assert!(limit.timer.is_none());
}
