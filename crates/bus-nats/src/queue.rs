//! The queue: plain messages by the server's own consumers, everything out of the ordinary on a
//! board.
//!
//! A consumer of the bus is a durable pull consumer of the server. As long as all goes well a task
//! takes one pull and one acknowledgement. What the server's consumer has no idea of stands on a
//! board that all engines share: what was handed back, what failed and rests, what lost its lease,
//! and what has a priority, a time or a key.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use bus_core::{ConsumerSpec, ConsumerState, Deliveries, Error, ErrorKind, Lag, Result};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, StreamName};

use self::{
    board::BoardPlace,
    clerk::Clerk,
    consumer::Consumers,
    desk::{Desk, End},
    member::Member,
    store::Board,
};
use crate::{api::Api, profile::Profile, streams::Streams};

mod ack;
mod board;
mod clerk;
mod consumer;
mod desk;
mod discard;
mod follow;
mod lag;
mod make;
mod member;
pub(crate) mod pattern;
mod pull;
mod record;
mod settle;
mod store;

#[expect(clippy::disallowed_methods, reason = "an engine starts the tasks of its consumers")]
fn start(clerk: Clerk) {
    tokio::spawn(clerk.run());
}

/// The consumers of this connection.
pub(crate) struct Queues {
    api: Api,
    streams: Arc<Streams>,
    profile: Profile,
    consumers: Consumers,
    desks: Mutex<HashMap<(StreamName, ConsumerName), Weak<Desk>>>,
}

impl Queues {
    pub(crate) fn new(api: Api, streams: Arc<Streams>, profile: Profile) -> Self {
        let consumers = Consumers::new(api.clone());
        Self { api, streams, profile, consumers, desks: Mutex::default() }
    }

    /// Makes the board.
    ///
    /// # Errors
    /// `Denied` where another account keeps it; those of a call.
    pub(crate) async fn make_board(&self, op: &'static str) -> Result<()> {
        make::declare(&self.api, self.profile, op).await
    }

    /// Joins a consumer, making it when it is not there.
    ///
    /// # Errors
    /// As `Bus::consume`.
    pub(crate) async fn consume(&self, spec: ConsumerSpec) -> Result<Deliveries> {
        const OP: &str = "consume";
        self.api.connection().check_open(OP)?;
        if spec.lease.is_zero() {
            let why = "a lease of nothing is over before it begins";
            return Err(Error::new(ErrorKind::Invalid, OP, why).at(&spec.name));
        }
        let stream = self.streams.named(OP, &spec.stream).await?;
        let made = self.consumers.join(&spec, &stream).await?;
        if let Some(member) = self.join_desk(&spec, &made) {
            return Ok(Deliveries::of_claims(member));
        }
        make::prepare(&self.api, self.profile, OP).await;
        let desk = Arc::new(Desk::new((spec, stream, made), self.api.clone(), self.profile));
        let clerk = Clerk::new(Arc::clone(&desk)).await?;
        let (member, clerk) = {
            let mut desks = self.desks();
            desks.retain(|_, desk| desk.strong_count() > 0);
            // Somebody may have been quicker; then the new clerk has nothing to do.
            match desks
                .get(&desk.key())
                .and_then(Weak::upgrade)
                .and_then(|there| there.join(&desk.made))
            {
                Some(member) => (member, None),
                None => {
                    desks.insert(desk.key(), Arc::downgrade(&desk));
                    desk.state().members += 1;
                    (Member::new(desk), Some(clerk))
                }
            }
        };
        if let Some(clerk) = clerk {
            start(clerk);
        }
        Ok(Deliveries::of_claims(member))
    }

    fn join_desk(&self, spec: &ConsumerSpec, made: &str) -> Option<Member> {
        let key = (spec.stream.clone(), spec.name.clone());
        self.desks().get(&key).and_then(Weak::upgrade)?.join(made)
    }

    /// Every consumer of `stream`.
    ///
    /// # Errors
    /// As `Bus::consumers`.
    pub(crate) async fn consumers(&self, stream: StreamName) -> Result<Vec<ConsumerState>> {
        let stream = self.streams.named("consumers", &stream).await?;
        lag::consumers(&self.api, &self.consumers, &stream).await
    }

    /// How much work waits in `stream`.
    ///
    /// # Errors
    /// As `Bus::lag`.
    pub(crate) async fn lag(&self, stream: StreamName) -> Result<Lag> {
        let (spec, info) = self.streams.info("lag", &stream).await?;
        lag::of_stream(&self.api, &self.consumers, (&spec, &info)).await
    }

    /// Hands out nothing of a consumer before `until`.
    ///
    /// # Errors
    /// As `Bus::pause`.
    pub(crate) async fn pause(
        &self,
        stream: StreamName,
        name: ConsumerName,
        until: Option<Timestamp>,
    ) -> Result<()> {
        const OP: &str = "pause";
        self.streams.named(OP, &stream).await?;
        let info = self.consumers.info(OP, &stream, &name).await?;
        let Some((_, made)) = info.spec(&stream) else {
            return Err(Error::new(ErrorKind::NotFound, OP, "there is no such consumer").at(&name));
        };
        let until = until.filter(|&until| until > self.api.connection().now());
        let place = BoardPlace::new(&stream, &name, &made);
        let board = Board::new(place, self.api.clone(), self.profile);
        if until.is_some() {
            // The board first: who claims from it looks there.
            board.write_pause(OP, until).await?;
            self.note_pause(&stream, &name, until);
            self.consumers.pause(OP, (&stream, &name), until).await
        } else {
            self.consumers.pause(OP, (&stream, &name), None).await?;
            board.write_pause(OP, None).await?;
            self.note_pause(&stream, &name, None);
            Ok(())
        }
    }

    fn note_pause(&self, stream: &StreamName, name: &ConsumerName, until: Option<Timestamp>) {
        let key = (stream.clone(), name.clone());
        if let Some(desk) = self.desks().get(&key).and_then(Weak::upgrade) {
            desk.state().paused_until = until;
            desk.wake.notify_one();
        }
    }

    /// Removes a consumer with what the board holds of it, and says whether there was one.
    ///
    /// # Errors
    /// As `Bus::remove_consumer`.
    pub(crate) async fn remove_consumer(
        &self,
        stream: StreamName,
        name: ConsumerName,
    ) -> Result<bool> {
        const OP: &str = "remove consumer";
        self.streams.named(OP, &stream).await?;
        let was_there = self.consumers.remove(OP, (&stream, &name)).await?;
        // Of whichever making: all of them go.
        self.clear_board(OP, BoardPlace::new(&stream, &name, "")).await?;
        let desk = self.desks().remove(&(stream, name)).and_then(|desk| desk.upgrade());
        if let Some(desk) = desk {
            desk.end(End::Gone);
        }
        Ok(was_there)
    }

    /// Hands back what nobody took, and ends all members.
    pub(crate) async fn close(&self) {
        let desks: Vec<_> = self.desks().drain().filter_map(|(_, desk)| desk.upgrade()).collect();
        for desk in &desks {
            desk.end(End::Closed);
        }
        for desk in desks {
            // The clerk's own calls are bounded in time.
            let mut done = desk.done.subscribe();
            let _done = done.wait_for(|&done| done).await;
        }
    }

    fn desks(&self) -> std::sync::MutexGuard<'_, HashMap<(StreamName, ConsumerName), Weak<Desk>>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
