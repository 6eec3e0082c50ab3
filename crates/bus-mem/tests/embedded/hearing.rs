//! Who subscribes and then replays gets what is stored meanwhile, one way or the other.

use std::sync::{Arc, Mutex};

use bus_core::{Bus, Clock, Expect, Result, Retention, Seq, StreamSpec, SystemClock};
use bus_envelope::Timestamp;
use bus_mem::InMemoryBus;
use bus_subjects::{Filter, Subject};
use futures_util::FutureExt;

use super::{TASK, coder, frame, listen};

/// A clock that does something once, as it is asked for the time the next time: that is after a
/// call began, and before it holds the lock.
#[derive(Clone, Default)]
struct Between {
    act: Arc<Mutex<Option<Act>>>,
    clock: SystemClock,
}

type Act = Box<dyn FnOnce() + Send>;

impl Between {
    fn next(&self, act: impl FnOnce() + Send + 'static) {
        *self.act.lock().unwrap() = Some(Box::new(act));
    }
}

impl Clock for Between {
    fn now(&self) -> Timestamp {
        let act = self.act.lock().unwrap().take();
        act.into_iter().for_each(|act| act());
        self.clock.now()
    }

    fn coarse(&self) -> Timestamp {
        self.clock.coarse()
    }
}

/// How many messages somebody hears or reads who comes while `store` stores them.
async fn got_by_who_comes_meanwhile(store: impl AsyncFnOnce(&InMemoryBus)) -> usize {
    let clock = Between::default();
    let bus = InMemoryBus::with_clock(Arc::new(clock.clone()));
    let filters = vec![Filter::from(&Subject::parse(TASK).unwrap())];
    let spec = StreamSpec::new(coder().stream, filters, Retention::Kept);
    bus.declare(spec).await.unwrap();
    let came = Arc::new(Mutex::new(None));
    let (comes, other) = (Arc::clone(&came), bus.clone());
    clock.next(move || {
        let subscription = listen(&other, TASK, 8).now_or_never().unwrap();
        let replay = other.replay(coder().stream, Filter::all(), Seq(0));
        *comes.lock().unwrap() = Some((subscription, replay.now_or_never().unwrap().unwrap()));
    });
    store(&bus).await;
    let (mut subscription, mut replay) = came.lock().unwrap().take().unwrap();
    let mut got = 0;
    while replay.next().await.is_some() {
        got += 1;
    }
    while subscription.next().now_or_never().flatten().is_some() {
        got += 1;
    }
    got
}

#[tokio::test]
async fn who_comes_while_a_frame_is_stored_gets_it_once() {
    let got = got_by_who_comes_meanwhile(async |bus| {
        bus.append(frame(TASK, "1"), Expect::Any).await.unwrap();
    });
    assert_eq!(got.await, 1);
}

#[tokio::test]
async fn who_comes_while_a_batch_is_stored_gets_it_once() {
    let got = got_by_who_comes_meanwhile(async |bus| {
        let batch = vec![frame(TASK, "1"), frame(TASK, "2")];
        let stored: Result<Vec<_>> = bus.append_all(batch).await;
        assert_eq!(stored.unwrap().len(), 2);
    });
    assert_eq!(got.await, 2);
}
