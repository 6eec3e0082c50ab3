//! Serving those that wait: from the board and from the server's consumer, by rank.

use async_nats::Message;
use bus_core::{ErrorKind, Result, SharedFrame};
use bus_envelope::Timestamp;
use tokio::time::Instant;

use super::{
    super::{board::Standing, consumer::nonce, settle::board_lease, store::get},
    AFTER_FAULT, Claim, Clerk, End, Entry, FETCH_EVERY, Hold, LOOK_EVERY, OP, PLACED, Pick, Place,
    Pulled, Rank, Step, Way, decode_stored, lease_from,
};
use crate::api::{GetRequest, RawStored};

/// A plain message on its way to a member.
struct Plain {
    rank: Rank,
    frame: SharedFrame,
    hold: Hold,
    deadline: Instant,
}

impl Clerk {
    /// Claims for everybody who waits what is there, and asks for what is not.
    pub(super) async fn serve(&mut self) -> Result<()> {
        while let Some(pulled) = self.plain.at_hand() {
            self.take_pulled(pulled).await?;
        }
        if self.desk.state().waiters.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        if self.next_look <= now {
            self.look().await?;
        }
        if self.must_fetch || (self.placed.is_some() && self.next_fetch <= now) {
            self.next_fetch = now + FETCH_EVERY;
            self.fetch_placed().await?;
        }
        let mut last_try = None;
        while self.wanted() > 0 && !self.is_paused() && self.desk.state().end.is_none() {
            let now = self.desk.now();
            let Some(pick) = self.desk.state().view.first(now) else {
                return self.pull().await;
            };
            if self.may_be_overtaken(&pick) {
                let mut got = Vec::new();
                let taken = self.plain.take(1, &mut got).await;
                let came_none = got.is_empty();
                for message in got {
                    self.take_message(message).await?;
                }
                taken?;
                if !came_none {
                    continue;
                }
            }
            if last_try == Some((pick.entry.seq, pick.revision)) {
                // Somebody else is about to take it, or its turn is not clear: in a moment again.
                self.pause_after_fault = Some(Instant::now() + AFTER_FAULT / 10);
                return Ok(());
            }
            last_try = Some((pick.entry.seq, pick.revision));
            self.claim(pick).await?;
        }
        Ok(())
    }

    fn wanted(&self) -> usize {
        self.desk.state().wanted()
    }

    fn is_paused(&self) -> bool {
        let now = self.desk.now();
        let mut state = self.desk.state();
        if state.paused_until.is_some_and(|until| until <= now) {
            state.paused_until = None;
        }
        state.paused_until.is_some()
    }

    /// Reads the whole board.
    pub(super) async fn look(&mut self) -> Result<()> {
        if self.is_another().await? {
            self.desk.end(End::Gone);
            return Ok(());
        }
        let before = self.desk.state().newest;
        let (found, pause) = tokio::join!(self.desk.board.entries(OP), self.desk.board.pause(OP));
        let (found, pause) = (found?, pause?);
        let mut state = self.desk.state();
        let newest = found.iter().map(|&(revision, _)| revision).max().unwrap_or_default();
        state.view.look(before, found);
        state.newest = state.newest.max(newest);
        state.paused_until = pause;
        (self.must_look, self.must_fetch) = (false, true);
        self.next_look = Instant::now() + LOOK_EVERY;
        Ok(())
    }

    /// Whether the consumer of this desk is no more.
    async fn is_another(&self) -> Result<bool> {
        match self.desk.consumers.joined(&self.desk.spec).await {
            Ok(made) => Ok(made != self.desk.made),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Conflict) => {
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a plain message that was not seen yet may stand before this entry.
    fn may_be_overtaken(&self, pick: &Pick) -> bool {
        // A pull that waits says that there is none.
        self.plain.open_count() == 0
            && !pick.rank.is_in_front()
            && self.seen_up_to.is_none_or(|seen| pick.rank > seen)
    }

    /// Asks the server's consumer for what is wanted.
    async fn pull(&mut self) -> Result<()> {
        self.plain.forget(Instant::now());
        let (wanted, waiters, widest) = {
            let state = self.desk.state();
            (state.wanted(), state.waiters.len(), state.widest())
        };
        if wanted == 0 {
            return Ok(());
        }
        if widest > 1 && self.plain.open_count() == 0 {
            let mut got = Vec::new();
            let taken = self.plain.take(wanted, &mut got).await;
            let came = !got.is_empty();
            self.take_batch(got).await?;
            taken?;
            if came {
                return Ok(());
            }
        }
        let missing = waiters.min(wanted).saturating_sub(self.plain.open_count());
        if missing > 0 {
            self.plain.wait_for(missing, self.desk.pull_wait()).await?;
        }
        Ok(())
    }

    pub(super) async fn take_pulled(&mut self, pulled: Pulled) -> Result<()> {
        match pulled {
            Pulled::Message(message) => self.take_message(message).await,
            Pulled::Nothing => Ok(()),
            Pulled::Gone => {
                let error = bus_core::Error::new(ErrorKind::NotFound, OP, "no such consumer");
                Err(error)
            }
        }
    }

    /// A message that the server's consumer delivered: to a member, or onto the board.
    async fn take_message(&mut self, message: Message) -> Result<()> {
        let Some(plain) = self.sort(message).await? else { return Ok(()) };
        let is_wanted = self.wanted() > 0;
        self.hand_out(vec![plain], is_wanted).await
    }

    /// Messages that were asked for together and are handed over together: a member that looks in
    /// between finds none of them or all.
    async fn take_batch(&mut self, messages: Vec<Message>) -> Result<()> {
        let mut batch = Vec::with_capacity(messages.len());
        let mut failed = Ok(());
        for message in messages {
            match self.sort(message).await {
                Ok(plain) => batch.extend(plain),
                Err(error) => failed = Err(error),
            }
        }
        let is_wanted = !self.desk.state().waiters.is_empty();
        self.hand_out(batch, is_wanted).await?;
        failed
    }

    /// To the members what stands before all that is on the board, and the rest onto the board.
    async fn hand_out(&self, messages: Vec<Plain>, is_wanted: bool) -> Result<()> {
        let mut rest = Vec::new();
        {
            let now = self.desk.now();
            let mut state = self.desk.state();
            let first = state.view.first(now).map(|pick| pick.rank);
            let may_go = is_wanted && state.end.is_none();
            for plain in messages {
                if may_go && first.is_none_or(|first| plain.rank < first) {
                    let Plain { frame, hold, deadline, .. } = plain;
                    state.hand_over((frame, 1), hold, deadline);
                } else {
                    rest.push(plain.hold);
                }
            }
        }
        for hold in rest {
            self.to_board(Entry::fresh((hold.seq, hold.stored), hold.origin, None)).await?;
        }
        Ok(())
    }

    /// What the server's consumer delivered for the first time and may be handed out; everything
    /// else goes where it belongs.
    async fn sort(&mut self, message: Message) -> Result<Option<Plain>> {
        let start = Instant::now();
        let Some(origin) = message.reply.as_ref().map(|reply| reply.as_str().to_owned()) else {
            return Ok(None);
        };
        let Some(place) = Place::read(&origin) else { return Ok(None) };
        let Place { seq, stored, delivered } = place;
        // A server that was killed may have forgotten that it gave out what a member has.
        let (is_held, is_on_board) = {
            let state = self.desk.state();
            (state.held.contains(&seq), state.view.has(seq))
        };
        if is_held || is_on_board {
            if is_on_board {
                self.desk.keep_from_server(&origin).await;
            }
            return Ok(None);
        }
        let headers = message.headers.unwrap_or_default();
        let frame = match decode_stored(&message.subject, &headers, message.payload) {
            Ok(frame) => frame,
            Err(error) => {
                // It stays where it is: nothing that is stored goes without a word of somebody.
                tracing::warn!(%error, seq, "a message that is no frame is left in its stream");
                self.desk.keep_from_server(&origin).await;
                return Ok(None);
            }
        };
        if message.subject.starts_with(PLACED) {
            let entry = Entry::fresh((seq, stored), origin, frame.placement.as_deref());
            return self.to_board(entry).await.map(|()| None);
        }
        if delivered > 1 {
            let entry = Entry::fresh((seq, stored), origin, None);
            let entry = entry.delivered_again(delivered, self.desk.now());
            return self.to_board(entry).await.map(|()| None);
        }
        let rank = Rank::plain(seq, stored);
        self.seen_up_to = self.seen_up_to.max(Some(rank));
        let deadline = lease_from(start, self.desk.spec.lease);
        let step = tokio::sync::Mutex::new(Step { deadline, way: Way::Plain });
        let hold = Hold { seq, stored, origin, step };
        Ok(Some(Plain { rank, frame: frame.into(), hold, deadline }))
    }

    /// Claims an entry of the board, unless somebody is quicker.
    async fn claim(&mut self, pick: Pick) -> Result<()> {
        let Pick { entry: before, revision, .. } = pick;
        if before.key.is_some() && !self.take_turn(&before).await? {
            // The one before it may not be on the board yet.
            self.must_fetch = true;
            return Ok(());
        }
        let (start, now) = (Instant::now(), self.desk.now());
        let nonce = nonce(self.desk.api.connection());
        let Some(entry) = before.claimed(nonce, board_lease(self.desk.spec.lease), now) else {
            return Ok(());
        };
        let wanted = GetRequest { seq: Some(entry.seq), ..GetRequest::default() };
        let (written, stored, pause) = tokio::join!(
            self.desk.board.write_entry(OP, &entry, revision),
            get(&self.desk.api, OP, self.desk.spec.stream.as_str(), &wanted),
            self.desk.board.pause(OP),
        );
        let Some(revision) = written? else { return self.read_again(&before, revision).await };
        self.desk.state().put(revision, entry.clone());
        let claimed = (entry, before, revision);
        match self.finish_claim(&claimed, (stored, pause), now).await {
            Ok(Some(stored)) => {
                let (entry, before, revision) = claimed;
                let deadline = lease_from(start, self.desk.spec.lease);
                self.hand_entry(stored, (entry, before), (revision, deadline))
            }
            Ok(None) => Ok(()),
            Err(error) => {
                // Nobody has it: it does not wait for the end of a lease.
                self.unclaim(&claimed.1, claimed.2).await?;
                Err(error)
            }
        }
    }

    /// What was claimed, when it may be handed out; else it is back on the board or gone.
    async fn finish_claim(
        &self,
        (entry, before, revision): &(Entry, Entry, u64),
        (stored, pause): (Result<Vec<RawStored>>, Result<Option<Timestamp>>),
        now: Timestamp,
    ) -> Result<Option<RawStored>> {
        let Some(stored) = stored?.into_iter().next() else {
            if self.desk.is_stored(OP, entry.seq).await? {
                // A copy of the stream is behind.
                return self.unclaim(before, *revision).await.map(|()| None);
            }
            return self.desk.clear_entry(OP, entry, *revision).await.map(|()| None);
        };
        if let Some(until) = pause?.filter(|&until| until > now) {
            self.desk.state().paused_until = Some(until);
            return self.unclaim(before, *revision).await.map(|()| None);
        }
        if let Some(key) = &entry.key
            && self.desk.board.turn(OP, key).await?.1.is_none_or(|turn| turn.holder != entry.seq)
        {
            return self.unclaim(before, *revision).await.map(|()| None);
        }
        Ok(Some(stored))
    }

    fn hand_entry(
        &self,
        stored: RawStored,
        (entry, before): (Entry, Entry),
        (revision, deadline): (u64, Instant),
    ) -> Result<()> {
        let RawStored { subject, seq, time, headers, body } = stored;
        let frame = decode_stored(&subject, &headers, body)?;
        let (attempt, origin) = (entry.attempt, entry.origin.clone());
        let way = Way::Board(Box::new(Claim { entry, before, revision }));
        let step = tokio::sync::Mutex::new(Step { deadline, way });
        let hold = Hold { seq, stored: time, origin, step };
        self.desk.state().hand_over((frame.into(), attempt), hold, deadline);
        Ok(())
    }

    /// Gives an entry back as it stood before it was claimed.
    pub(super) async fn unclaim(&self, before: &Entry, revision: u64) -> Result<()> {
        // One whose lease ran out under somebody else stands as that left it.
        let before = match &before.standing {
            Standing::Held(hold) => before.clone().delivered_again(before.attempt + 1, hold.until),
            Standing::Waits { .. } => before.clone(),
        };
        let written = self.desk.board.write_entry(OP, &before, revision).await?;
        if let Some(revision) = written {
            self.desk.state().put(revision, before);
        }
        Ok(())
    }

    /// Somebody else changed an entry: learns how it stands.
    async fn read_again(&self, entry: &Entry, known: u64) -> Result<()> {
        let of = self.desk.board.entry(OP, entry.key.as_ref(), entry.seq).await?;
        match of {
            (revision, Some(entry)) => self.desk.state().put(revision, entry),
            // A record that is wholly gone has no revision.
            (revision, None) => self.desk.state().remove(revision.max(known), entry.seq),
        }
        Ok(())
    }
}
