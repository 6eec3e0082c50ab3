//! The calls under way on a connection: whom to wake, and the answers that came for them.

use std::{
    collections::{VecDeque, hash_map::RandomState},
    hash::BuildHasher,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use async_nats::Message;
use data_encoding::HEXLOWER;
use tokio::sync::Notify;

/// The calls under way.
///
/// Each has a seat from its beginning to its end. All of them are woken at news; a timer or a
/// subscription to news for each would cost more than the call.
#[derive(Debug, Default)]
pub(super) struct Calls {
    room: Mutex<Room>,
    none: Notify,
    /// Makes the secrets: nobody who has seen some of them can tell the next one.
    keys: RandomState,
}

#[derive(Debug, Default)]
struct Room {
    seats: Vec<Seat>,
    free: Vec<u32>,
    /// How many calls there were.
    count: u64,
}

#[derive(Debug, Default)]
struct Seat {
    /// Whose it is; 0: nobody's.
    secret: u64,
    waker: Option<Waker>,
    /// How many answers may still come.
    awaited: usize,
    /// Those that came and were not taken. Nearly every call has one, and that one is held apart.
    first: Option<Message>,
    more: VecDeque<Message>,
}

/// A call's seat, left when this is dropped.
#[derive(Debug)]
pub(super) struct Seated<'a> {
    calls: &'a Calls,
    token: Token,
}

/// Names a call: the last level of the subject for its answer begins with this. Of several answers
/// each has a mark of its own behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    place: u32,
    secret: u64,
}

impl Calls {
    /// Gives a call a seat that expects so many answers; what comes beyond is dropped.
    pub(super) fn enter(&self, answers: usize) -> Seated<'_> {
        let mut room = self.room();
        room.count += 1;
        let secret = self.keys.hash_one(room.count).max(1);
        let place = room.free.pop().unwrap_or_else(|| {
            room.seats.push(Seat::default());
            // More than four thousand million calls at once have no memory.
            u32::try_from(room.seats.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(seat) = room.seat(place) {
            (seat.secret, seat.awaited) = (secret, answers);
        }
        Seated { calls: self, token: Token { place, secret } }
    }

    /// Gives an answer to the call that `token` names, if it still expects one.
    pub(super) fn answer(&self, token: Token, answer: Message) {
        let waker = {
            let mut room = self.room();
            match room.seat(token.place) {
                Some(seat) if seat.secret == token.secret && seat.awaited > 0 => {
                    seat.put(answer);
                    seat.waker.take()
                }
                _ => return,
            }
        };
        if let Some(waker) = waker {
            rouse(waker);
        }
    }

    /// Lets every call look at what has happened.
    pub(super) fn wake(&self) {
        let wakers: Vec<_> =
            self.room().seats.iter_mut().filter_map(|seat| seat.waker.take()).collect();
        wakers.into_iter().for_each(rouse);
    }

    /// Waits until none is under way.
    pub(super) async fn over(&self) {
        loop {
            let none = self.none.notified();
            if self.room().is_empty() {
                return;
            }
            none.await;
        }
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room {
    fn seat(&mut self, place: u32) -> Option<&mut Seat> {
        self.seats.get_mut(usize::try_from(place).ok()?)
    }

    fn is_empty(&self) -> bool {
        self.seats.len() == self.free.len()
    }
}

impl Seated<'_> {
    /// What names this call.
    pub(super) fn token(&self) -> Token {
        self.token
    }

    /// The call's next answer.
    pub(super) fn poll_answer(&self, context: &Context<'_>) -> Poll<Message> {
        let mut room = self.calls.room();
        let Some(seat) = room.seat(self.token.place) else { return Poll::Pending };
        match seat.first.take().or_else(|| seat.more.pop_front()) {
            Some(answer) => Poll::Ready(answer),
            None => {
                seat.wakes(context.waker());
                Poll::Pending
            }
        }
    }

    /// What happens from now on wakes the call.
    pub(super) fn wakes(&self, context: &Context<'_>) {
        if let Some(seat) = self.calls.room().seat(self.token.place) {
            seat.wakes(context.waker());
        }
    }
}

impl Seat {
    fn put(&mut self, answer: Message) {
        self.awaited -= 1;
        if self.first.is_none() && self.more.is_empty() {
            self.first = Some(answer);
        } else {
            self.more.push_back(answer);
        }
    }

    fn wakes(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(held) => held.clone_from(waker),
            None => self.waker = Some(waker.clone()),
        }
    }
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        let mut room = self.calls.room();
        let left = room.seat(self.token.place).map(std::mem::take);
        room.free.push(self.token.place);
        let is_empty = room.is_empty();
        if is_empty && room.seats.len() > KEPT {
            (room.seats, room.free) = (Vec::new(), Vec::new());
        }
        drop(room);
        // What is dropped may wake others.
        drop(left);
        if is_empty {
            self.calls.none.notify_waiters();
        }
    }
}

impl Token {
    /// How long it is as text.
    pub(super) const LEN: usize = 2 * Self::BYTES;
    const BYTES: usize = size_of::<u32>() + size_of::<u64>();

    pub(super) fn read(text: &str) -> Option<Self> {
        let (token, mark) = text.split_at_checked(Self::LEN)?;
        if !mark.is_empty() && !mark.starts_with(MARK) {
            return None;
        }
        let mut bytes = [0; Self::BYTES];
        HEXLOWER.decode_mut(token.as_bytes(), &mut bytes).ok()?;
        let (place, secret) = bytes.split_first_chunk()?;
        let place = u32::from_be_bytes(*place);
        let secret = u64::from_be_bytes(*secret.first_chunk()?);
        // A seat that is free has no secret.
        (secret != 0).then_some(Self { place, secret })
    }

    pub(super) fn write(self, text: &mut String) {
        HEXLOWER.encode_append(&self.place.to_be_bytes(), text);
        HEXLOWER.encode_append(&self.secret.to_be_bytes(), text);
    }
}

/// Wakes who waits. The waker is a stranger's, and this runs in the client's own task: a panic of
/// his would end the connection of everybody.
pub(crate) fn rouse(waker: Waker) {
    if catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err() {
        tracing::error!("a task could not be woken: its waker panics");
    }
}

/// Between a token and a mark.
pub(super) const MARK: char = '-';
/// How many seats are kept while nobody is there.
const KEPT: usize = 1024;

#[cfg(test)]
mod tests;
