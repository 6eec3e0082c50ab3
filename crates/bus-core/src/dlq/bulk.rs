//! Redriving many letters: counted first, then one by one with a report of each.

use super::{DeadLetters, LetterContent, LetterFilter, LetterOrder, Redrive, Redriven};
use crate::{ErrorKind, Result, Seq};

/// What redriving by a filter would come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LetterCount {
    /// Letters whose task would be sent again.
    pub ready: u64,
    /// Letters whose task was sent again as often as is allowed.
    pub spent: u64,
    /// Letters that cannot be opened, or whose task cannot.
    pub unreadable: u64,
    /// Letters whose task this agent may not send.
    pub denied: u64,
}

/// What redriving by a filter came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BulkReport {
    /// Tasks that are in their queue again.
    pub redriven: u64,
    /// Letters that stayed, each for the reason that was reported.
    pub kept: u64,
}

impl DeadLetters {
    /// What [`DeadLetters::redrive_all`] would come to now; nothing is sent.
    ///
    /// # Errors
    /// `Denied` when the agent may not read dead letters; `NotFound`, `Closed`, `Unavailable`.
    pub async fn count(&self, filter: LetterFilter, how: &Redrive) -> Result<LetterCount> {
        let mut letters = self.list(filter, LetterOrder::OldestFirst).await?;
        let mut count = LetterCount::default();
        while let Some(letter) = letters.next().await {
            let Ok(content) = &letter?.content else {
                count.unreadable += 1;
                continue;
            };
            let place = match self.again(content, how).map_err(|error| error.kind()) {
                Ok(_) => &mut count.ready,
                Err(ErrorKind::Conflict) => &mut count.spent,
                Err(ErrorKind::Denied) if !self.may_send(content) => &mut count.denied,
                Err(_) => &mut count.unreadable,
            };
            *place += 1;
        }
        Ok(count)
    }

    /// Redrives every letter that `filter` means of those stored now, the oldest first, and
    /// reports each. A letter that cannot be redriven stays, and the next one is tried. What comes
    /// back meanwhile is not redriven again.
    ///
    /// # Errors
    /// `Denied` when the agent may not read or discard dead letters; `NotFound`; `Closed` and
    /// `Unavailable`, also in between: what was reported is done.
    pub async fn redrive_all(
        &self,
        filter: LetterFilter,
        how: &Redrive,
        mut report: impl FnMut(Seq, &Result<Redriven>) + Send,
    ) -> Result<BulkReport> {
        self.may_discard("redrive")?;
        let mut letters = self.list(filter, LetterOrder::OldestFirst).await?;
        let mut positions = Vec::new();
        while let Some(letter) = letters.next().await {
            positions.push(letter?.seq);
        }
        let mut done = BulkReport::default();
        for seq in positions {
            let result = self.redrive(seq, how).await;
            report(seq, &result);
            match result {
                Ok(_) => done.redriven += 1,
                Err(error) if ends_all(error.kind()) => return Err(error),
                Err(_) => done.kept += 1,
            }
        }
        Ok(done)
    }

    /// A task may also be refused because its own sender was nobody who may send it.
    fn may_send(&self, content: &LetterContent) -> bool {
        content.subject().is_ok_and(|to| self.endpoint.may_publish("count", &to).is_ok())
    }
}

/// Whether the next letter would meet the same error.
const fn ends_all(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Closed | ErrorKind::Unavailable | ErrorKind::Timeout)
}
