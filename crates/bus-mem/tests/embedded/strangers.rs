//! Wakers and values of strangers, which may do anything as they are dropped: never under a lock.

use std::{
    pin::pin,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Wake, Waker},
    time::Duration,
};

use bus_core::{Buckets, ErrorKind, Frame, Put, Watch};
use bus_mem::InMemoryBus;
use bytes::Bytes;
use tokio::{runtime::Handle, task::coop::unconstrained};

use super::{
    bell,
    buckets::{bucket, key, waits, watch},
};

/// Ends a watch as it is dropped.
struct Holder(#[expect(dead_code, reason = "it is here to be dropped")] Mutex<Watch>);

impl Wake for Holder {
    fn wake(self: Arc<Self>) {}
}

impl AsRef<[u8]> for Holder {
    fn as_ref(&self) -> &[u8] {
        &TOO_LARGE
    }
}

static TOO_LARGE: [u8; Frame::BYTES_MAX + 1] = [0; Frame::BYTES_MAX + 1];

/// Does `work` on a thread of its own, which must come to its end.
fn ends(work: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        work();
        done.send(()).unwrap();
    });
    assert_eq!(wait.recv_timeout(Duration::from_secs(10)), Ok(()), "it waits for itself");
}

/// A watch that waits with a waker which nobody else holds, and which ends another watch.
async fn waits_with_a_holder(bus: &InMemoryBus) -> Watch {
    let mut waiting = watch(bus, "k").await;
    let holder = Holder(Mutex::new(watch(bus, "l").await));
    let waker = Waker::from(Arc::new(holder));
    let next = pin!(unconstrained(waiting.next())).poll(&mut Context::from_waker(&waker));
    assert!(next.is_pending());
    waiting
}

#[tokio::test]
async fn a_waker_may_end_a_watch_as_its_own_ends() {
    let bus = InMemoryBus::new();
    let waiting = waits_with_a_holder(&bus).await;
    // The thread has the bus as well: should it wait for ever, nobody here waits with it.
    ends(move || drop((waiting, bus)));
}

#[tokio::test]
async fn a_waker_may_end_a_watch_as_another_takes_its_place() {
    let bus = InMemoryBus::new();
    let mut waiting = waits_with_a_holder(&bus).await;
    ends(move || {
        waits(&bell(), &mut waiting);
        drop(bus);
    });
}

#[tokio::test]
async fn a_value_that_is_too_large_may_end_a_watch_as_it_is_dropped() {
    let bus = InMemoryBus::new();
    let value = Bytes::from_owner(Holder(Mutex::new(watch(&bus, "k").await)));
    let runtime = Handle::current();
    ends(move || {
        let put = bus.put(bucket(), key("k"), Put::new(value));
        assert_eq!(runtime.block_on(put).unwrap_err().kind(), ErrorKind::TooLarge);
    });
}
