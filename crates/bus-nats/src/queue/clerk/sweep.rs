//! What nobody needs on the board: left by engines that went between two steps.

use bus_core::Result;
use bus_envelope::Timestamp;
use futures_util::future::try_join_all;

use super::{
    super::{
        board::BoardPlace,
        follow::{Follower, Record, Wanted},
        record::Stands,
    },
    Clerk, Duration, OP,
};

impl Clerk {
    /// Removes frames without an entry, and all records of earlier makings of the consumer; false
    /// when more may be left than is looked at in one go.
    ///
    /// To be called when it is known that the consumer is still of this making.
    pub(super) async fn sweep(&self) -> Result<bool> {
        let (desk, now) = (&self.desk, self.desk.now());
        let filter = desk.board.place.all();
        let all = Follower::all(&desk.api, OP, &Wanted { filter, is_bare: true }).await?;
        let mut left: Vec<_> = {
            let state = desk.state();
            let found = all
                .into_iter()
                .filter_map(|record| Some((left_over(&desk.board.place, &record, now)?, record)));
            let is_known = |left: &Left| matches!(left, Left::FrameOf(seq) if state.view.has(*seq));
            found.filter(|(left, _)| !is_known(left)).take(AT_MOST + 1).collect()
        };
        let is_all = left.len() <= AT_MOST;
        left.truncate(AT_MOST);
        while !left.is_empty() {
            if desk.state().end.is_some() {
                return Ok(true);
            }
            let some = left.drain(..left.len().min(AT_ONCE));
            try_join_all(some.map(|(left, record)| self.sweep_one(left, record))).await?;
        }
        Ok(is_all)
    }

    async fn sweep_one(&self, left: Left, record: Record) -> Result<()> {
        if let Left::FrameOf(seq) = left
            && self.has_entry(seq).await?
        {
            return Ok(());
        }
        self.desk.board.clear(OP, record.subject, Some(record.revision)).await
    }

    /// Whether the board has the entry of a frame that the view does not know.
    async fn has_entry(&self, seq: u64) -> Result<bool> {
        let Some(frame) = self.desk.board.frame(OP, seq).await? else { return Ok(false) };
        let key = frame.placement.as_ref().and_then(|placement| placement.key.as_ref());
        let (_, stands) = self.desk.board.entry(OP, key, seq).await?;
        Ok(matches!(stands, Stands::OnBoard(_)))
    }
}

/// What may be left over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// A frame of this making, unless its entry is there.
    FrameOf(u64),
    /// Something of an earlier making.
    Earlier,
}

/// Whether a record may be one that nobody needs. What is young may be a part of a step that is
/// under way.
fn left_over(place: &BoardPlace, record: &Record, now: Timestamp) -> Option<Left> {
    if record.is_gone || record.stored.plus(YOUNG) > now {
        return None;
    }
    match place.frame_of(&record.subject) {
        Some((made, seq)) if place.is_made(made) => Some(Left::FrameOf(seq)),
        Some(_) => Some(Left::Earlier),
        None => {
            let (_, _, made) = BoardPlace::owner(&record.subject)?;
            (!place.is_made(made)).then_some(Left::Earlier)
        }
    }
}

/// How many records are looked at in one go: members wait meanwhile.
const AT_MOST: usize = 512;
/// How many of them side by side.
const AT_ONCE: usize = 32;
/// No step takes so long.
const YOUNG: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use bus_subjects::{ConsumerName, StreamName};
    use bytes::Bytes;

    use super::*;

    #[test]
    fn only_old_frames_and_what_is_of_an_earlier_making_may_be_left_over() {
        let name = ConsumerName::parse("coder").unwrap();
        let stream = StreamName::parse("WORK").unwrap();
        let place = |made| BoardPlace::new(&stream, &name, made);
        let (own, earlier) = (place("now"), place("before"));
        let stored = Timestamp::from_unix_ns(1_780_000_000_000_000_000);
        let left = |subject: String, is_gone, age| {
            let body = Bytes::new();
            let record = Record { subject, revision: 1, stored, is_gone, body, left: 0 };
            left_over(&own, &record, stored.plus(age))
        };
        assert_eq!(left(own.frame(7), false, YOUNG), Some(Left::FrameOf(7)));
        assert_eq!(left(own.frame(7), false, YOUNG / 2), None);
        assert_eq!(left(own.frame(7), true, YOUNG), None);
        assert_eq!(left(own.state(None, 7), false, YOUNG), None);
        assert_eq!(left(own.pause(), false, YOUNG), None);
        for of_earlier in [earlier.frame(7), earlier.state(None, 7), earlier.fetch()] {
            assert_eq!(left(of_earlier.clone(), false, YOUNG), Some(Left::Earlier), "{of_earlier}");
            assert_eq!(left(of_earlier, false, YOUNG / 2), None);
        }
    }
}
