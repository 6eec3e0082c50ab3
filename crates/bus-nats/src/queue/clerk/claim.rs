//! Serving those that wait: from the board and from the server's consumer, by rank.

use async_nats::Message;
use bus_core::{ErrorKind, Frame, Result, SharedFrame};
use bus_envelope::Timestamp;
use tokio::time::Instant;

use super::{
    super::{consumer::nonce, settle::board_lease},
    AFTER_FAULT, Claim, Clerk, Entry, FETCH_EVERY, Hold, OP, PLACED, Pick, Place, Priority, Pulled,
    Rank, Step, Way, decode_stored, lease_from,
};

/// A plain message on its way to a member.
struct Plain {
    rank: Rank,
    frame: SharedFrame,
    hold: Hold,
    deadline: Instant,
}

/// An entry that was claimed: as it stands now, as it stood before, and since which revision.
struct Claimed {
    entry: Entry,
    before: Entry,
    revision: u64,
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
        self.note_rung(now).await?;
        if self.must_fetch || self.next_fetch <= now {
            self.next_fetch = now + FETCH_EVERY;
            self.fetch_placed().await?;
        }
        self.finish_done().await;
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

    /// Whether the consumer of this desk is no more.
    pub(super) async fn is_another(&self) -> Result<bool> {
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
            let some_came = self.take_batch(wanted).await?;
            if some_came {
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
    async fn take_batch(&mut self, wanted: usize) -> Result<bool> {
        let pull = self.plain.begin_take(wanted).await?;
        let (mut batch, mut some_came, mut failed) = (Vec::new(), false, Ok(()));
        let taken = loop {
            // Each is read while the next is under way.
            let message = match self.plain.next_of(pull).await {
                Ok(Some(message)) => message,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            some_came = true;
            match self.sort(message).await {
                Ok(plain) => batch.extend(plain),
                Err(error) => failed = Err(error),
            }
        };
        let is_wanted = !self.desk.state().waiters.is_empty();
        self.hand_out(batch, is_wanted).await?;
        failed.and(taken)?;
        Ok(some_came)
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
                    rest.push((plain.hold, plain.frame));
                }
            }
        }
        for (hold, frame) in rest {
            let entry = Entry::fresh((hold.seq, hold.stored), hold.origin, None);
            self.to_board((entry, &frame)).await?;
        }
        Ok(())
    }

    /// What the server's consumer delivered for the first time and may be handed out; everything
    /// else goes where it belongs.
    async fn sort(&mut self, message: Message) -> Result<Option<Plain>> {
        // The server counts from when it gave it out, however long it has lain here since.
        let deadline = lease_from(self.plain.came_after(), self.desk.spec.lease);
        if deadline <= Instant::now() {
            // It is given out again.
            return Ok(None);
        }
        let Some(origin) = message.reply.as_ref().map(|reply| reply.as_str().to_owned()) else {
            return Ok(None);
        };
        let Some(place) = Place::read(&origin) else { return Ok(None) };
        let Place { seq, stored, delivered, .. } = place;
        // A server that was killed may have forgotten that it gave out what a member has.
        let (is_held, is_on_board, is_done) = {
            let state = self.desk.state();
            (state.held.contains(&seq), state.view.has(seq), state.view.is_done(seq))
        };
        if is_done {
            // It is acknowledged by whoever did it, or as one that was left unfinished.
            return Ok(None);
        }
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
            return self.to_board((entry, &frame)).await.map(|()| None);
        }
        if delivered > 1 {
            let entry = Entry::fresh((seq, stored), origin, None);
            let entry = entry.delivered_again(delivered, self.desk.now());
            return self.to_board((entry, &frame)).await.map(|()| None);
        }
        let rank = Rank::new(seq, Priority::NORMAL, stored);
        self.seen_up_to = self.seen_up_to.max(Some(rank));
        let frame = SharedFrame::from(frame);
        let way = Way::Plain(frame.clone());
        let step = tokio::sync::Mutex::new(Step { deadline, way });
        let hold = Hold { seq, stored, origin, step };
        Ok(Some(Plain { rank, frame, hold, deadline }))
    }

    /// Claims an entry of the board, unless somebody is quicker.
    async fn claim(&mut self, pick: Pick) -> Result<()> {
        let Pick { entry: before, revision, .. } = pick;
        if !self.take_turn(&before).await? {
            // The one before it may not be on the board yet.
            self.must_fetch = true;
            return Ok(());
        }
        let (start, now) = (Instant::now(), self.desk.now());
        let nonce = nonce(self.desk.api.connection());
        let Some(entry) = before.claimed(nonce, board_lease(self.desk.spec.lease), now) else {
            return Ok(());
        };
        let (written, frame, pause) = tokio::join!(
            self.desk.board.write_entry(OP, &entry, revision),
            self.desk.board.frame(OP, entry.seq),
            self.desk.board.pause(OP),
        );
        let Some(revision) = written? else { return self.read_again(&before, revision).await };
        self.desk.state().put(revision, entry.clone());
        let claimed = Claimed { entry, before, revision };
        match self.finish_claim(&claimed, (frame, pause), now).await {
            Ok(Some(frame)) => {
                let deadline = lease_from(start, self.desk.spec.lease);
                self.hand_entry(frame, claimed, deadline);
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => {
                // Nobody has it: it does not wait for the end of a lease.
                self.unclaim(&claimed.before, claimed.revision).await?;
                Err(error)
            }
        }
    }

    /// The frame of what was claimed, when it may be handed out; else it is back on the board or
    /// gone from there.
    async fn finish_claim(
        &mut self,
        Claimed { entry, before, revision, .. }: &Claimed,
        (frame, pause): (Result<Option<Frame>>, Result<Option<Timestamp>>),
        now: Timestamp,
    ) -> Result<Option<Frame>> {
        if self.is_settled(entry).await? {
            self.desk.board.forget(entry, *revision).await;
            self.desk.state().remove(*revision, entry.seq);
            return Ok(None);
        }
        if let Some(until) = pause?.filter(|&until| until > now) {
            self.desk.state().paused_until = Some(until);
            return self.unclaim(before, *revision).await.map(|()| None);
        }
        let is_first =
            entry.key.is_none() || (self.hear_up_to(*revision).await? && self.has_turn(entry));
        if !is_first {
            return self.unclaim(before, *revision).await.map(|()| None);
        }
        let is_own = |frame: &Frame| self.desk.spec.filter.matches(&frame.subject);
        match frame?.filter(is_own) {
            Some(frame) => {
                self.frameless.remove(&entry.seq);
                Ok(Some(frame))
            }
            None => self.do_without((entry, before), *revision).await.map(|()| None),
        }
    }

    /// Whether a task that the server gave out again was settled by the one who had it before.
    async fn is_settled(&self, entry: &Entry) -> Result<bool> {
        let place = Place::read(&entry.origin);
        let Some((_, consumer)) = Place::of(&entry.origin) else { return Ok(false) };
        if place.is_none_or(|place| place.delivered < 2) {
            return Ok(false);
        }
        let floor = self.desk.consumers.settled_up_to(OP, &self.desk.spec.stream, consumer).await?;
        Ok(floor >= entry.seq)
    }

    fn hand_entry(&self, frame: Frame, claimed: Claimed, deadline: Instant) {
        let Claimed { entry, before, revision } = claimed;
        let (seq, attempt, origin) = (entry.seq, entry.attempt, entry.origin.clone());
        let stored = Place::read(&origin).map_or_else(|| self.desk.now(), |place| place.stored);
        let way = Way::Board(Box::new(Claim { entry, before, revision }));
        let step = tokio::sync::Mutex::new(Step { deadline, way });
        let hold = Hold { seq, stored, origin, step };
        self.desk.state().hand_over((frame.into(), attempt), hold, deadline);
    }
}
