//! Placed messages: from the server's consumer onto the board, all of them before anything is
//! picked.
//!
//! One engine at a time fetches them, and puts those of one key there in their order. So a message
//! of a key that is on the board has all before it there, or done.

use std::{collections::BTreeMap, sync::Arc};

use async_nats::Message;
use bus_core::{Error, ErrorKind, Result};
use futures_util::{StreamExt, stream};

use super::{
    super::{
        board::{Fetch, MayFetch},
        consumer::PLACED_WAIT,
        pull::Pulls,
        store::get,
    },
    A_TICK, Clerk, Duration, Entry, Fetched, Instant, OP, Place, decode_stored, placed_name,
    placed_patterns,
};
use crate::{api::GetRequest, codec::PLACED};

impl Clerk {
    /// Puts every placed message on the board that is not there.
    pub(super) async fn fetch_placed(&mut self) -> Result<()> {
        if self.placed.is_none() && self.newest_placed().await? == 0 {
            self.must_fetch = false;
            return Ok(());
        }
        let (mut placed, begun) = match self.placed.take() {
            Some(placed) => (placed, self.begin_fetch().await),
            None => {
                let (joined, begun) = tokio::join!(self.join_placed(), self.begin_fetch());
                (joined?, begun)
            }
        };
        let fetched = match begun {
            Ok(true) => {
                // What rings from now on was not fetched.
                self.must_fetch = false;
                self.fetch_from(&mut placed).await
            }
            Ok(false) => {
                // Whoever is at it puts them on the board; its last word is heard.
                self.placed = Some(placed);
                return Ok(());
            }
            Err(error) => Err(error),
        };
        if fetched.is_ok() {
            self.end_fetch().await;
        }
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

    /// Takes the right to fetch, or renews it; false when another engine has it.
    async fn begin_fetch(&self) -> Result<bool> {
        let now = self.desk.now();
        if self.desk.state().may_pull_until.is_some_and(|until| until > Instant::now()) {
            return Ok(true);
        }
        let known = self.desk.state().fetch.clone();
        let (revision, fetch) =
            known.map_or((0, None), |(revision, fetch)| (revision, Some(fetch)));
        // None that was heard of lasts longer, whatever it says of itself.
        let fetch = fetch.filter(|fetch| fetch.until <= now.plus(FETCH_LEASE * 2));
        if let MayFetch::NotBefore(_) = Fetch::may(fetch.as_ref(), &self.engine, now) {
            return Ok(false);
        }
        let own = Fetch { by: self.engine.clone(), until: now.plus(FETCH_LEASE) };
        let begun = Instant::now();
        let Some(revision) = self.desk.board.write_fetch(OP, &own, revision).await? else {
            return Ok(false);
        };
        let mut state = self.desk.state();
        state.fetch = Some((revision, own));
        state.may_pull_until = Some(begun + PULL_WITHIN);
        Ok(true)
    }

    /// Lets others fetch, when everything that was fetched here is on the board. Nobody waits for
    /// that: when it gets lost, they wait until this engine's time is over.
    pub(super) async fn end_fetch(&self) {
        let known = {
            let mut state = self.desk.state();
            state.may_pull_until = None;
            state.fetch.clone().filter(|(_, fetch)| fetch.by == self.engine)
        };
        let Some((revision, _)) = known.filter(|_| self.fetched.is_done(Instant::now())) else {
            return;
        };
        if let Err(error) = self.desk.board.free_fetch(revision).await {
            tracing::debug!(%error, "others fetch a little later");
        }
    }

    /// A message rings before it is stored, and is stored before the server's consumer knows of
    /// it. So what the consumer has is held against the stream.
    async fn fetch_from(&mut self, placed: &mut Pulls) -> Result<()> {
        for _ in 0..TRIES {
            // Some may be left of an earlier time.
            self.board_fetched().await?;
            if !self.begin_fetch().await? {
                self.must_fetch = true;
                return Ok(());
            }
            let given_out_again = Instant::now() + PLACED_WAIT;
            let mut got = Vec::new();
            let (taken, newest) =
                tokio::join!(placed.take(AT_ONCE, &mut got), self.newest_placed());
            let is_full = got.len() == AT_ONCE;
            let seqs = got.iter().filter_map(|message| Place::read(message.reply.as_ref()?));
            let up_to = seqs.map(|place| place.seq).max().unwrap_or_default();
            let again_by = Some(Instant::now() + PLACED_WAIT + AGAIN_WITHIN);
            self.fetched = Fetched { messages: got, until: Some(given_out_again), again_by };
            self.board_fetched().await?;
            self.fetched_up_to = self.fetched_up_to.max(up_to);
            taken?;
            let newest = newest?;
            if is_full {
                continue;
            }
            // What others fetched comes to the board by them.
            if self.fetched_up_to >= newest || self.given_out().await? >= newest {
                self.fetched_up_to = self.fetched_up_to.max(newest);
                return Ok(());
            }
            tokio::time::sleep(A_TICK).await;
        }
        // It is tried again with whatever comes next.
        self.must_fetch = true;
        Ok(())
    }

    /// Puts on the board what was fetched: those of one key one after the other.
    async fn board_fetched(&mut self) -> Result<()> {
        self.fetched.give_up(Instant::now())?;
        let mut lines: BTreeMap<(String, usize), Vec<Message>> = BTreeMap::new();
        for (at, message) in self.fetched.messages.iter().enumerate() {
            let key = message.subject.strip_prefix(PLACED).and_then(|rest| rest.split('.').nth(1));
            let line = match key {
                Some(key) if key != NO_KEY => (key.to_owned(), 0),
                _ => (String::new(), at),
            };
            lines.entry(line).or_default().push(message.clone());
        }
        let until = self.fetched.until;
        let boarding = lines.into_values().map(|line| self.board_line(line, until));
        let mut boarding = stream::iter(boarding).buffer_unordered(UNDER_WAY);
        let mut failed: Result<()> = Ok(());
        while let Some(boarded) = boarding.next().await {
            failed = failed.and(boarded);
        }
        drop(boarding);
        failed?;
        // Some may not have come there in time.
        self.fetched.give_up(Instant::now())?;
        self.fetched = Fetched::default();
        Ok(())
    }

    /// What the server has given out again by then is left to whoever gets it.
    async fn board_line(&self, line: Vec<Message>, until: Option<Instant>) -> Result<()> {
        for message in line {
            if until.is_some_and(|until| until <= Instant::now()) {
                break;
            }
            self.board_placed(message).await?;
        }
        Ok(())
    }

    /// The position of the newest placed message of this consumer; 0 when there is none.
    pub(super) async fn newest_placed(&self) -> Result<u64> {
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
        if self.desk.state().view.has(seq) {
            self.desk.keep_from_server(&origin).await;
            return Ok(());
        }
        let headers = message.headers.unwrap_or_default();
        match decode_stored(&message.subject, &headers, message.payload) {
            Ok(frame) => {
                let entry = Entry::fresh((seq, stored), origin, frame.placement.as_deref());
                self.to_board((entry, &frame)).await
            }
            Err(error) => {
                tracing::warn!(%error, seq, "a message that is no frame is left in its stream");
                self.desk.keep_from_server(&origin).await;
                Ok(())
            }
        }
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

impl Fetched {
    /// Gives up what the server gives out again: it comes once more, and may be on the board by
    /// somebody else.
    ///
    /// # Errors
    /// `Unavailable` until the server has done so: a pull before brings what stands after it.
    fn give_up(&mut self, now: Instant) -> Result<()> {
        if self.until.is_none_or(|until| until > now) {
            return Ok(());
        }
        self.messages.clear();
        if self.again_by.is_some_and(|again_by| again_by > now) {
            let why = "what was fetched is given out again by the server first";
            return Err(Error::new(ErrorKind::Unavailable, OP, why));
        }
        *self = Self::default();
        Ok(())
    }

    /// Whether all of it is on the board, or with the server again.
    fn is_done(&self, now: Instant) -> bool {
        self.messages.is_empty() && self.again_by.is_none_or(|again_by| again_by <= now)
    }
}

/// How late the server may give out again what it is due to.
const AGAIN_WITHIN: Duration = Duration::from_secs(1);
/// How often what the consumer has is held against the stream.
const TRIES: u32 = 100;
/// How many are fetched at once: their bodies are read and left.
const AT_ONCE: usize = 256;
/// How many are written to the board at once.
const UNDER_WAY: usize = 64;
/// Where no key stands.
const NO_KEY: &str = "_";
/// How long after it took the right an engine may still ask.
const PULL_WITHIN: Duration = Duration::from_secs(2);
/// When the right of an engine that went is over. What it fetched at the last moment is given out
/// again before that, so whoever is next gets it first.
const FETCH_LEASE: Duration = PLACED_WAIT.saturating_add(Duration::from_secs(5));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_pulled_until_the_server_has_given_again_what_came_to_no_board() {
        let begun = Instant::now();
        let (until, again_by) = (begun + PLACED_WAIT, begun + PLACED_WAIT + AGAIN_WITHIN);
        let mut fetched =
            Fetched { messages: Vec::new(), until: Some(until), again_by: Some(again_by) };
        fetched.give_up(begun).unwrap();
        let early = fetched.give_up(until).unwrap_err();
        assert_eq!(early.kind(), ErrorKind::Unavailable, "{early}");
        assert!(!fetched.is_done(until));
        assert!(fetched.is_done(again_by));
        fetched.give_up(again_by).unwrap();
        fetched.give_up(again_by).unwrap();
    }
}
