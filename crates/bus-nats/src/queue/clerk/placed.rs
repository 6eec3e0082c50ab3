//! Placed messages: from the server's consumer onto the board, all of them before anything is
//! picked.

use std::sync::Arc;

use async_nats::Message;
use bus_core::{ErrorKind, Result};
use futures_util::{StreamExt, stream};

use super::{
    super::{pull::Pulls, store::get},
    Clerk, Entry, OP, Place, decode_stored, placed_name, placed_patterns,
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

    async fn fetch_from(&self, placed: &mut Pulls) -> Result<()> {
        loop {
            let mut got = Vec::new();
            let taken = placed.take(AT_ONCE, &mut got).await;
            let is_all = got.len() < AT_ONCE;
            let boarding = got.into_iter().map(|message| self.board_placed(message));
            let mut boarding = stream::iter(boarding).buffer_unordered(UNDER_WAY);
            while let Some(boarded) = boarding.next().await {
                boarded?;
            }
            taken?;
            if is_all {
                return Ok(());
            }
        }
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
        self.desk.consumers.join_placed(&self.desk.spec, &self.desk.stream).await?;
        let name = placed_name(&self.desk.spec.name);
        let connection = Arc::clone(self.desk.api.connection());
        Pulls::open(connection, (self.desk.spec.stream.as_str(), &name)).await
    }
}

/// How many are fetched at once: their bodies are read and left.
const AT_ONCE: usize = 256;
/// How many are written to the board at once.
const UNDER_WAY: usize = 64;
