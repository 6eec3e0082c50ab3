//! Places for connections: those that ask and those that listen take none from each other.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// All places of a door.
#[derive(Debug)]
pub(crate) struct Places {
    asking: Arc<Semaphore>,
    listening: Arc<Semaphore>,
    /// Wakes the one that has waited longest to be told to leave.
    crowded: Notify,
}

/// The place of one connection; free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    /// What is held, and whether it is the place of a listener.
    held: Mutex<(Option<OwnedSemaphorePermit>, bool)>,
    /// Whether something that was sent is not going to be read.
    leaves_unread: AtomicBool,
    /// Whether its next answer is its last.
    is_leaving: AtomicBool,
    /// Whether an answer is being made.
    is_answering: AtomicBool,
    /// Whether the other end has yet to take what is written.
    is_writing: AtomicBool,
}

/// A place of a listener that is kept for one that may become it.
#[derive(Debug)]
pub(crate) struct MayListen(OwnedSemaphorePermit);

impl Places {
    pub(crate) fn new(asking: usize, listening: usize) -> Arc<Self> {
        Arc::new(Self {
            asking: Arc::new(Semaphore::new(asking)),
            listening: Arc::new(Semaphore::new(listening)),
            crowded: Notify::new(),
        })
    }

    /// A place for a connection that asks. When there is none, the connections that are open are
    /// told to leave after the answer that they wait for, one by one: who keeps a connection open
    /// and busy keeps nobody out. Cancel safe.
    pub(crate) async fn enter(self: &Arc<Self>) -> Place {
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.asking).try_acquire_owned() {
                break Some(permit);
            }
            self.crowded.notify_one();
            let acquired = Arc::clone(&self.asking).acquire_owned();
            if let Ok(permit) = timeout(MAKE_ROOM_EVERY, acquired).await {
                // The semaphore is never closed.
                break permit.ok();
            }
        };
        let held = Mutex::new((permit, false));
        let [leaves_unread, is_leaving, is_answering, is_writing] =
            [(); 4].map(|()| AtomicBool::new(false));
        let places = Arc::clone(self);
        Place { places, held, leaves_unread, is_leaving, is_answering, is_writing }
    }
}

impl Place {
    /// Keeps the place of a listener, until it is taken or dropped; none when none is free.
    pub(crate) fn may_listen(&self) -> Option<MayListen> {
        Arc::clone(&self.places.listening).try_acquire_owned().ok().map(MayListen)
    }

    /// Takes the place of a listener instead, and frees its own.
    pub(crate) fn listens(&self, MayListen(permit): MayListen) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = (Some(permit), true);
    }

    /// Waits until another needs this place. Not for one that listens. Cancel safe.
    pub(crate) async fn is_needed(&self) {
        self.places.crowded.notified().await;
        if self.held.lock().unwrap_or_else(PoisonError::into_inner).1 {
            self.places.crowded.notify_one();
            std::future::pending::<()>().await;
        }
    }

    /// Notes whether an answer is being made.
    pub(crate) fn answers(&self, is_so: bool) {
        self.is_answering.store(is_so, Ordering::Relaxed);
    }

    /// Notes whether the other end has yet to take what is written.
    pub(crate) fn writes(&self, is_so: bool) {
        self.is_writing.store(is_so, Ordering::Relaxed);
    }

    /// Whether nothing is owed to the other end, which may have sent a part of a request.
    pub(crate) fn owes_nothing(&self) -> bool {
        !self.is_answering.load(Ordering::Relaxed) && !self.is_writing.load(Ordering::Relaxed)
    }

    /// Notes that its next answer is its last.
    pub(crate) fn leave(&self) {
        self.is_leaving.store(true, Ordering::Relaxed);
    }

    /// Whether its next answer is its last.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Notes that a request was answered before all of it was read.
    pub(crate) fn leave_unread(&self) {
        self.leaves_unread.store(true, Ordering::Relaxed);
    }

    /// Whether something that was sent is not going to be read.
    pub(crate) fn leaves_unread(&self) -> bool {
        self.leaves_unread.load(Ordering::Relaxed)
    }
}

/// How often one more connection is told to leave while another waits for its place.
const MAKE_ROOM_EVERY: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn who_listens_frees_the_place_of_one_that_asks() {
        let places = Places::new(1, 1);
        let first = places.enter().await;
        assert!(places.enter().now_or_never().is_none());
        first.listens(first.may_listen().unwrap());
        let second = places.enter().now_or_never().unwrap();
        assert!(second.may_listen().is_none(), "there is one place to listen");
        drop(first);
        drop(second.may_listen().unwrap());
        assert!(second.may_listen().is_some(), "what was kept and not taken is free again");
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_waits_longest_is_told_to_leave_first() {
        let places = Places::new(2, 1);
        let (first, second) = (places.enter().await, places.enter().await);
        let mut first_is_told = Box::pin(first.is_needed());
        let mut second_is_told = Box::pin(second.is_needed());
        assert!((&mut first_is_told).now_or_never().is_none());
        assert!((&mut second_is_told).now_or_never().is_none());
        let mut third = Box::pin(places.enter());
        assert!((&mut third).now_or_never().is_none());
        first_is_told.await;
        assert!(second_is_told.now_or_never().is_none());
        drop(first);
        let _third = third.await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_listens_is_not_told_to_leave_and_passes_it_on() {
        let places = Places::new(1, 1);
        let listener = places.enter().await;
        let mut listener_told = Box::pin(listener.is_needed());
        assert!((&mut listener_told).now_or_never().is_none());
        listener.listens(listener.may_listen().unwrap());
        let asking = places.enter().await;
        let mut waiting = Box::pin(places.enter());
        assert!((&mut waiting).now_or_never().is_none());
        assert!(listener_told.now_or_never().is_none());
        asking.is_needed().await;
    }
}
