//! Placed messages: from the server's consumer onto the board, all of them before anything is
//! picked.

use std::sync::Arc;

use async_nats::Message;
use bus_core::{ErrorKind, Result};
use futures_util::{StreamExt, stream};

use super::{
    super::{pull::Pulls, store::get},
    A_TICK, Clerk, Entry, OP, Place, decode_stored, placed_name, placed_patterns,
};
use crate::api::GetRequest;

impl Clerk {
    /// Puts every placed message on the board that is not there.
    pub(super) async fn fetch_placed(&mut self) -> Result<()> {
        if self.placed.is_none() && !self.has_placed().await? {
            self.must_fetch = false;
            return Ok(());
        }
        let mut placed = match self.placed.take() {
            Some(placed) => placed,
            None => self.join_placed().await?,
        };
        // What rings from now on was not fetched.
        self.must_fetch = false;
        let fetched = self.fetch_from(&mut placed).await;
        match &fetched {
            // Made anew at the next bell, if the consumer is still there.
            Err(error) if error.kind() == ErrorKind::NotFound => self.must_fetch = true,
            Err(_) => {
                self.must_fetch = true;
                self.placed = Some(placed);
            }
            Ok(()) => self.placed = Some(placed),
        }
        fetched
    }

    /// A message rings before it is stored, and is stored before the server's consumer knows of
    /// it. So what the consumer has is held against the stream.
    async fn fetch_from(&mut self, placed: &mut Pulls) -> Result<()> {
        for _ in 0..TRIES {
            let mut got = Vec::new();
            let (taken, newest) =
                tokio::join!(placed.take(AT_ONCE, &mut got), self.newest_placed());
            let is_full = got.len() == AT_ONCE;
            let seqs = got.iter().filter_map(|message| Place::read(message.reply.as_ref()?));
            let up_to = seqs.map(|place| place.seq).max().unwrap_or_default();
            let boarding = got.into_iter().map(|message| self.board_placed(message));
            let mut boarding = stream::iter(boarding).buffer_unordered(UNDER_WAY);
            while let Some(boarded) = boarding.next().await {
                boarded?;
            }
            drop(boarding);
            self.fetched_up_to = self.fetched_up_to.max(up_to);
            taken?;
            let newest = newest?;
            if is_full {
                continue;
            }
            // What others fetched comes to the board by them.
            if self.fetched_up_to >= newest || self.given_out().await? >= newest {
                return Ok(());
            }
            tokio::time::sleep(A_TICK).await;
        }
        // It is tried again with whatever comes next.
        self.must_fetch = true;
        Ok(())
    }

    /// The position of the newest placed message of this consumer.
    async fn newest_placed(&self) -> Result<u64> {
        let mut newest = 0;
        for pattern in placed_patterns(&self.desk.spec, &self.desk.stream) {
            let wanted = GetRequest { last_by_subj: Some(pattern), ..GetRequest::default() };
            let found = get(&self.desk.api, OP, self.desk.spec.stream.as_str(), &wanted).await?;
            newest = found.first().map_or(newest, |raw| newest.max(raw.seq));
        }
        Ok(newest)
    }

    /// Up to where the server's consumer has given out placed messages, to any engine.
    async fn given_out(&self) -> Result<u64> {
        let info = self.desk.consumers.info_placed(OP, &self.desk.spec).await?;
        Ok(info.delivered.stream_seq)
    }

    async fn board_placed(&self, message: Message) -> Result<()> {
        let Some(origin) = message.reply.as_ref().map(|reply| reply.as_str().to_owned()) else {
            return Ok(());
        };
        let Some(Place { seq, stored, .. }) = Place::read(&origin) else { return Ok(()) };
        let headers = message.headers.unwrap_or_default();
        match decode_stored(&message.subject, &headers, message.payload) {
            Ok(frame) => {
                let entry = Entry::fresh((seq, stored), origin, frame.placement.as_deref());
                self.to_board(entry).await
            }
            Err(error) => {
                tracing::warn!(%error, seq, "a message that is no frame is left in its stream");
                self.desk.keep_from_server(&origin).await;
                Ok(())
            }
        }
    }

    /// Whether the stream holds any placed message of this consumer.
    async fn has_placed(&self) -> Result<bool> {
        for pattern in placed_patterns(&self.desk.spec, &self.desk.stream) {
            let wanted =
                GetRequest { seq: Some(1), next_by_subj: Some(pattern), ..GetRequest::default() };
            let stream = self.desk.spec.stream.as_str();
            if !get(&self.desk.api, OP, stream, &wanted).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn join_placed(&self) -> Result<Pulls> {
        self.desk
            .consumers
            .join_placed((&self.desk.spec, &self.desk.made), &self.desk.stream)
            .await?;
        let name = placed_name(&self.desk.spec.name);
        let connection = Arc::clone(self.desk.api.connection());
        Pulls::open(connection, (self.desk.spec.stream.as_str(), &name)).await
    }
}

/// How often what the consumer has is held against the stream.
const TRIES: u32 = 100;
/// How many are fetched at once: their bodies are read and left.
const AT_ONCE: usize = 256;
/// How many are written to the board at once.
const UNDER_WAY: usize = 64;
