//! What a clerk is told: of the board, of placed messages, of the connection.

use std::future::pending;

use bus_core::Result;
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, timeout_at};

use super::{
    super::{
        board::{BoardPart, Fetch, KeyTurn},
        follow::Record,
        record::{Stands, read_pause, read_state},
    },
    Clerk, ConnectionState, Duration, End, Follower, LOOK_EVERY, OP, Rung, SWEEP_EVERY, Told,
};

impl Clerk {
    /// Everything that was told and not taken yet.
    pub(super) fn take_news(&mut self) {
        while let Some(told) = self.follower.as_mut().and_then(Follower::at_hand) {
            self.note_told(told);
        }
        if self.follower.as_ref().is_some_and(|follower| follower.silent_until() <= Instant::now())
        {
            self.note_told(Told::Lost);
        }
        while self.bell.next().now_or_never().flatten().is_some() {
            self.note_bell();
        }
        if self.removals.next().now_or_never().flatten().is_some() {
            self.desk.end(End::Gone);
        }
        self.note_state();
    }

    pub(super) fn note_state(&mut self) {
        let state = *self.states.borrow_and_update();
        match state {
            ConnectionState::Closed => self.desk.end(End::Closed),
            ConnectionState::Denied => self.desk.end(End::Denied),
            _ => {}
        }
        if state.epoch() == self.epoch {
            return;
        }
        self.epoch = state.epoch();
        self.plain.forget_all();
        if let Some(placed) = &mut self.placed {
            placed.forget_all();
        }
        (self.follower, self.opened) = (None, None);
        (self.must_look, self.must_fetch) = (true, true);
    }

    /// A placed message is stored, or will be in a moment.
    pub(super) fn note_bell(&mut self) {
        (self.must_fetch, self.is_fetched_for) = (true, false);
        self.rung = Some(Rung::now());
    }

    pub(super) fn note_told(&mut self, told: Told) {
        match told {
            Told::Record(record) => self.hear(&record),
            Told::Nothing => {}
            Told::Lost => {
                self.follower = None;
                self.must_look = true;
            }
        }
    }

    /// A record of the board changed.
    fn hear(&mut self, record: &Record) {
        let Record { subject, revision, body, .. } = record;
        self.heard = self.heard.max(*revision);
        let mut state = self.desk.state();
        match self.desk.board.place.part(subject) {
            Ok(BoardPart::State(seq)) => match read_state(subject, body) {
                Stands::OnBoard(entry) => state.put(*revision, entry),
                Stands::Nowhere => state.remove(*revision, seq),
                Stands::Discarded => {
                    state.remove(*revision, seq);
                    state.drop_holds_of(seq);
                }
            },
            Ok(BoardPart::Pause) => {
                state.paused_until = read_pause(body);
                // The server forgets who waits when it pauses.
                self.plain.forget_all();
            }
            Ok(BoardPart::Turn(key)) => {
                state.view.put_turn(key, *revision, KeyTurn::from_json(body).ok());
            }
            Ok(BoardPart::Fetch) => {
                let fetch = Fetch::from_json(body).unwrap_or_else(Fetch::nobody);
                if fetch.is_nobody() && self.is_fetched_for {
                    // It began after the last bell and has all that rang.
                    self.must_fetch = false;
                }
                self.is_fetched_for = !fetch.is_nobody() && fetch.by != self.engine;
                if state.fetch.as_ref().is_none_or(|(known, _)| known <= revision) {
                    state.fetch = Some((*revision, fetch));
                }
            }
            Err(_) => {}
        }
        state.view.heard_up_to(*revision);
    }

    /// Hears until everything up to `revision` is known; false when that does not come.
    pub(super) async fn hear_up_to(&mut self, revision: u64) -> Result<bool> {
        let end = Instant::now() + HEARD_WITHIN;
        while self.heard < revision {
            let Some(follower) = &mut self.follower else { return Ok(false) };
            follower.go_on(OP).await?;
            let Ok(told) = timeout_at(end, follower.next()).await else {
                self.must_look = true;
                return Ok(false);
            };
            self.note_told(told);
        }
        Ok(true)
    }

    /// Asks for more news, where that is due.
    pub(super) async fn follow_on(&mut self) {
        let Some(follower) = &mut self.follower else { return };
        if let Err(error) = follower.go_on(OP).await {
            tracing::debug!(%error, "the board is to be followed anew");
            self.follower = None;
            self.must_look = true;
        }
    }

    /// Reads the whole board, and follows it from there on.
    pub(super) async fn look(&mut self) -> Result<()> {
        if self.is_another().await? {
            self.desk.end(End::Gone);
            return Ok(());
        }
        let before = self.desk.state().newest;
        let (mut follower, left) = match self.opened.take() {
            Some(opened) => opened,
            None => self.desk.board.follow(OP).await?,
        };
        let records = follower.read(OP, left).await?;
        let found =
            records.iter().filter_map(|record| match read_state(&record.subject, &record.body) {
                Stands::OnBoard(entry) => Some((record.revision, entry)),
                Stands::Discarded | Stands::Nowhere => None,
            });
        let gone_up_to = gone_up_to(before, &records, self.desk.api.has_copies());
        {
            let mut state = self.desk.state();
            state.view.look(gone_up_to, found.collect());
            (state.paused_until, state.fetch) = (None, None);
        }
        for record in &records {
            self.hear(record);
        }
        let now = Instant::now();
        {
            let mut state = self.desk.state();
            state.newest = state.newest.max(self.heard);
        }
        self.follower = Some(follower);
        (self.must_look, self.must_fetch) = (false, true);
        self.next_look = now + LOOK_EVERY;
        if self.next_sweep <= now {
            self.next_sweep = now + SWEEP_EVERY;
            if !self.sweep().await? {
                // The next look goes on with it.
                self.next_sweep = now;
            }
        }
        Ok(())
    }
}

/// Up to which revision an entry is gone that is not among all `records`, which were asked for when
/// `known` was the newest of all.
fn gone_up_to(known: u64, records: &[Record], may_lag: bool) -> u64 {
    if !may_lag {
        return known;
    }
    // A copy that is behind tells nothing of what it has not heard: that may stand.
    known.min(records.iter().map(|record| record.revision).max().unwrap_or(0))
}

/// What comes next of the board; never, when it is not followed.
pub(super) async fn next_of(follower: Option<&mut Follower>) -> Told {
    match follower {
        Some(follower) => follower.next().await,
        None => pending().await,
    }
}

/// How long an engine's own record may take until it is heard.
const HEARD_WITHIN: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use bus_envelope::Timestamp;
    use bytes::Bytes;

    use super::*;

    #[test]
    fn what_a_copy_that_is_behind_does_not_tell_of_may_stand() {
        let record = |revision| Record {
            subject: String::new(),
            revision,
            stored: Timestamp::from_unix_ns(1),
            is_gone: false,
            body: Bytes::new(),
            left: 0,
        };
        let told = [record(3), record(7)];
        assert_eq!(gone_up_to(9, &told, true), 7);
        assert_eq!(gone_up_to(9, &[], true), 0);
        assert_eq!(gone_up_to(5, &told, true), 5);
        assert_eq!(gone_up_to(9, &told, false), 9);
    }
}
