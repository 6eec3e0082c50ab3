//! Treating many letters: counted first, then one by one with a report of each.

use super::{DeadLetter, DeadLetters, LetterContent, LetterFilter, LetterOrder, Redrive, Redriven};
use crate::{Error, ErrorKind, Result, Seq};

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

/// The letters that a filter means, and what redriving them would come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RedriveSurvey {
    /// How many of each sort there are.
    pub count: LetterCount,
    /// Where they are, the oldest first.
    pub letters: Vec<Seq>,
}

/// The letters that would be thrown away by a filter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiscardSurvey {
    /// Where they are, the oldest first.
    pub letters: Vec<Seq>,
    /// Letters that would stay because they cannot be opened: whether the filter means them is not
    /// known.
    pub unknown: u64,
}

/// What redriving many letters came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BulkReport {
    /// Tasks that are in their queue again.
    pub redriven: u64,
    /// Letters that stayed, each for the reason that was reported.
    pub kept: u64,
}

/// What throwing many letters away came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiscardReport {
    /// Letters that are gone.
    pub discarded: u64,
    /// Letters that stayed, each for the reason that was reported.
    pub kept: u64,
}

impl DeadLetters {
    /// What [`DeadLetters::redrive_all`] would come to now; nothing is sent.
    ///
    /// # Errors
    /// `Denied` when the agent may not read dead letters; `NotFound`, `Closed`, `Unavailable`.
    pub async fn count(&self, filter: LetterFilter, how: &Redrive) -> Result<LetterCount> {
        self.survey(filter, how).await.map(|survey| survey.count)
    }

    /// Looks which letters `filter` means now and what redriving them would come to; nothing is
    /// sent. With [`DeadLetters::redrive_these`] exactly those are treated that were counted.
    ///
    /// # Errors
    /// As [`DeadLetters::count`].
    pub async fn survey(&self, filter: LetterFilter, how: &Redrive) -> Result<RedriveSurvey> {
        let mut letters = self.list(filter, LetterOrder::OldestFirst).await?;
        let mut survey = RedriveSurvey::default();
        while let Some(letter) = letters.next().await {
            let letter = letter?;
            survey.letters.push(letter.seq);
            *self.sort_of(&letter, how, &mut survey.count) += 1;
        }
        Ok(survey)
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
        report: impl FnMut(Seq, &Result<Redriven>) + Send,
    ) -> Result<BulkReport> {
        self.may_discard("redrive")?;
        let mut letters = self.list(filter, LetterOrder::OldestFirst).await?;
        let mut positions = Vec::new();
        while let Some(letter) = letters.next().await {
            positions.push(letter?.seq);
        }
        self.redrive_these(positions, how, report).await
    }

    /// Redrives these letters one after the other and reports each, as
    /// [`DeadLetters::redrive_all`] does.
    ///
    /// # Errors
    /// As [`DeadLetters::redrive_all`].
    pub async fn redrive_these(
        &self,
        letters: impl IntoIterator<Item = Seq>,
        how: &Redrive,
        mut report: impl FnMut(Seq, &Result<Redriven>) + Send,
    ) -> Result<BulkReport> {
        self.may_discard("redrive")?;
        let mut done = BulkReport::default();
        for seq in letters {
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

    /// Looks which letters [`DeadLetters::discard_all`] would throw away now; nothing is.
    ///
    /// # Errors
    /// As [`DeadLetters::count`].
    pub async fn survey_discard(&self, filter: LetterFilter) -> Result<DiscardSurvey> {
        let is_guess = filter.needs_content();
        let mut letters = self.list(filter, LetterOrder::OldestFirst).await?;
        let mut survey = DiscardSurvey::default();
        while let Some(letter) = letters.next().await {
            let letter = letter?;
            match letter.content {
                Err(_) if is_guess => survey.unknown += 1,
                _ => survey.letters.push(letter.seq),
            }
        }
        Ok(survey)
    }

    /// Throws away every letter that `filter` means of those stored now, the oldest first, and
    /// reports each. A letter that cannot be opened stays when the filter asks for what only its
    /// content tells; by age and agent it goes like the others.
    ///
    /// # Errors
    /// `Invalid` when the reason is empty or too long; `Denied` when the agent may not read or
    /// discard dead letters; `NotFound`; `Closed` and `Unavailable`, also in between: what was
    /// reported is done.
    pub async fn discard_all(
        &self,
        filter: LetterFilter,
        reason: &str,
        report: impl FnMut(Seq, &Result<DeadLetter>) + Send,
    ) -> Result<DiscardReport> {
        Self::check_reason(reason)?;
        self.may_discard("discard dead letter")?;
        let DiscardSurvey { letters, unknown } = self.survey_discard(filter).await?;
        let done = self.discard_these(letters, reason, report).await?;
        Ok(DiscardReport { kept: done.kept.saturating_add(unknown), ..done })
    }

    /// Throws these letters away one after the other and reports each.
    ///
    /// # Errors
    /// As [`DeadLetters::discard_all`].
    pub async fn discard_these(
        &self,
        letters: impl IntoIterator<Item = Seq>,
        reason: &str,
        mut report: impl FnMut(Seq, &Result<DeadLetter>) + Send,
    ) -> Result<DiscardReport> {
        Self::check_reason(reason)?;
        self.may_discard("discard dead letter")?;
        let mut done = DiscardReport::default();
        for seq in letters {
            let result = self.discard(seq, reason).await;
            report(seq, &result);
            match result {
                Ok(_) => done.discarded += 1,
                Err(error) if ends_all(error.kind()) => return Err(error),
                Err(_) => done.kept += 1,
            }
        }
        Ok(done)
    }

    /// Where a letter is counted.
    fn sort_of<'a>(
        &self,
        letter: &DeadLetter,
        how: &Redrive,
        count: &'a mut LetterCount,
    ) -> &'a mut u64 {
        let Ok(content) = &letter.content else { return &mut count.unreadable };
        match self.again(content, how).map_err(|error: Error| error.kind()) {
            Ok(_) => &mut count.ready,
            Err(ErrorKind::Conflict) => &mut count.spent,
            Err(ErrorKind::Denied) if !self.may_send(content) => &mut count.denied,
            Err(_) => &mut count.unreadable,
        }
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
