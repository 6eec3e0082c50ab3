//! A member of a consumer: it asks for deliveries only while somebody waits for them.

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bus_core::Seq;
use bus_core::{Claiming, Delivery, Error, ErrorKind, Frame, Result, packed::unpack_frame};
use bus_envelope::Timestamp;
use bus_subjects::StreamName;
use bytes::Bytes;
use futures_core::Stream;

use super::{
    core::Core,
    line::{Line, Opened, Sink},
    link::Shared,
    settle::LinkSettle,
};
use crate::{
    task::Task,
    wire::{Call, SERVER_ID_BYTES, ToServer, WireDelivery},
};

/// What the connection and the member share.
pub(crate) struct Seat(Mutex<State>);

#[derive(Default)]
struct State {
    /// Where the member has joined.
    place: Option<(Arc<Line>, u64)>,
    /// How many deliveries somebody waits for now.
    wanted: Option<u32>,
    /// Counts the calls that waited; the server answers each once.
    round: u32,
    claimed: VecDeque<Claimed>,
    end: Option<End>,
    waker: Option<Waker>,
}

/// What the server has claimed for us.
struct Claimed {
    frame: Frame,
    place: (Seq, Timestamp),
    delivery: WireDelivery,
    server: [u8; SERVER_ID_BYTES],
}

enum End {
    /// The error that is told first.
    Failed(Error),
    Told,
}

/// The member as the caller holds it.
pub(crate) struct Member {
    seat: Arc<Seat>,
    stream: StreamName,
    /// The engine's side of what came from one server.
    settle: Option<Arc<LinkSettle>>,
    _keeper: Task,
    shared: Arc<Shared>,
}

impl Member {
    /// Joins as `call` says.
    ///
    /// # Errors
    /// Those of `consume`.
    pub(crate) async fn join(shared: Arc<Shared>, stream: StreamName, call: Call) -> Result<Self> {
        let seat = Arc::new(Seat(Mutex::default()));
        let sink = || Sink::Member(Arc::clone(&seat));
        let patience = Some(shared.core.options.patience);
        let (opened, _) = shared.core.open("consume", call.clone(), sink, patience).await?;
        seat.sit(&opened);
        let keeping = keep(Arc::clone(&shared.core), Arc::clone(&seat), call, opened);
        Ok(Self { seat, stream, settle: None, _keeper: Task::spawn(keeping), shared })
    }

    fn delivery(&mut self, claimed: Claimed) -> Delivery {
        let Claimed { frame, place, delivery, server } = claimed;
        let settle = match self.settle.take() {
            Some(settle) if settle.server == server => settle,
            _ => {
                let (shared, stream) = (Arc::clone(&self.shared), self.stream.clone());
                Arc::new(LinkSettle { shared, server, stream })
            }
        };
        self.settle = Some(Arc::clone(&settle));
        let WireDelivery { id, attempt, lease, .. } = delivery;
        Delivery::new(frame, place, (attempt, lease), (settle, id))
    }

    fn poll_claimed(
        &mut self,
        cx: &Context<'_>,
        max: NonZeroUsize,
    ) -> Poll<Option<Result<Vec<Delivery>>>> {
        let mut state = self.seat.lock();
        if !state.claimed.is_empty() {
            let count = state.claimed.len().min(max.get());
            let claimed: Vec<_> = state.claimed.drain(..count).collect();
            state.stop_waiting();
            state.give_back();
            drop(state);
            let deliveries = claimed.into_iter().map(|claimed| self.delivery(claimed)).collect();
            return Poll::Ready(Some(Ok(deliveries)));
        }
        match state.end.replace(End::Told) {
            Some(End::Failed(error)) => return Poll::Ready(Some(Err(error))),
            Some(End::Told) => return Poll::Ready(None),
            None => state.end = None,
        }
        state.waker = Some(cx.waker().clone());
        let wanted = max.get().min(Frame::BATCH_MAX) as u32;
        if state.wanted != Some(wanted) {
            state.wanted = Some(wanted);
            state.ask();
        }
        Poll::Pending
    }
}

/// Joins again whenever the connection broke.
async fn keep(core: Arc<Core>, seat: Arc<Seat>, call: Call, mut opened: Opened) {
    loop {
        opened.line.broken().await;
        if core.is_closed() {
            return seat.end(None);
        }
        let sink = || Sink::Member(Arc::clone(&seat));
        match core.open("consume", call.clone(), sink, None).await {
            Ok((again, _)) => opened = again,
            Err(error) if error.kind() == ErrorKind::Closed => return seat.end(None),
            Err(error) => return seat.end(Some(error)),
        }
        seat.sit(&opened);
    }
}

impl Seat {
    /// The server has claimed for this member. What nobody waits for any more is given back.
    ///
    /// # Errors
    /// `Corrupt` when it is not what it should be.
    pub(crate) fn take_in(
        &self,
        line: &Line,
        id: u64,
        round: u32,
        deliveries: &[WireDelivery],
        parts: &[Bytes],
    ) -> Result<()> {
        if deliveries.len() != parts.len() {
            let why = "deliveries came with another number of frames";
            return Err(Error::new(ErrorKind::Corrupt, "next", why));
        }
        let mut claimed = VecDeque::with_capacity(deliveries.len());
        for (delivery, part) in deliveries.iter().zip(parts) {
            let (frame, place) = (unpack_frame(part)?, delivery.place.parse()?);
            claimed.push_back(Claimed { frame, place, delivery: *delivery, server: line.server });
        }
        let mut state = self.lock();
        let is_wanted = state.wanted.is_some() && state.claimed.is_empty();
        if !is_wanted {
            drop(state);
            line.give_back(deliveries.iter().map(|delivery| delivery.id));
            return Ok(());
        }
        if round != state.round {
            // An earlier call has its answer late, which will do: the later one is called off.
            line.tell(&ToServer::Unwant { id });
        }
        state.claimed = claimed;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Nothing more will come, after `error` if there is one.
    pub(crate) fn end(&self, error: Option<Error>) {
        let mut state = self.lock();
        if state.end.is_none() {
            state.end = Some(error.map_or(End::Told, End::Failed));
        }
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The member has joined here; who waits goes on waiting.
    fn sit(&self, opened: &Opened) {
        let mut state = self.lock();
        state.place = Some((Arc::clone(&opened.line), opened.id));
        if state.wanted.is_some() && state.claimed.is_empty() {
            state.ask();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn ask(&mut self) {
        let Some(max) = self.wanted else { return };
        self.round = self.round.wrapping_add(1);
        if let Some((line, id)) = &self.place {
            line.tell(&ToServer::Want { id: *id, round: self.round, max });
        }
    }

    fn stop_waiting(&mut self) {
        self.wanted = None;
        self.waker = None;
    }

    /// Gives back what was claimed and that nobody took.
    fn give_back(&mut self) {
        let unseen = std::mem::take(&mut self.claimed);
        if let Some((line, _)) = &self.place {
            // Those of another server went with it.
            let ours = unseen.iter().filter(|claimed| claimed.server == line.server);
            line.give_back(ours.map(|claimed| claimed.delivery.id));
        }
    }
}

impl Stream for Member {
    type Item = Result<Delivery>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.poll_claimed(cx, NonZeroUsize::MIN);
        polled.map(|next| {
            next.and_then(|claimed| claimed.map(|claimed| claimed.into_iter().next()).transpose())
        })
    }
}

impl Claiming for Member {
    fn poll_many(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        max: NonZeroUsize,
    ) -> Poll<Option<Result<Vec<Delivery>>>> {
        self.poll_claimed(cx, max)
    }

    fn give_up(self: Pin<&mut Self>) {
        let mut state = self.seat.lock();
        if state.wanted.is_some() {
            if let Some((line, id)) = &state.place {
                line.tell(&ToServer::Unwant { id: *id });
            }
            state.stop_waiting();
            state.give_back();
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = self.seat.lock();
        state.stop_waiting();
        state.give_back();
        // The keeper holds the seat until it has ended, and a line must not be kept alive by it.
        state.place = None;
    }
}
