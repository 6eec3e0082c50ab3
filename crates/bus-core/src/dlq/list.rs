//! A walk through the dead letters that are meant.

use bus_envelope::Timestamp;
use bus_subjects::AddressKind;

use super::{DeadLetter, DeadLetters, LetterFilter, LetterOrder};
use crate::{Replay, Result, Seq, planes};

/// Dead letters, read and opened one after the other as they are asked for.
#[must_use = "letters are not read until they are asked for"]
pub struct Letters {
    letters: DeadLetters,
    filter: LetterFilter,
    now: Timestamp,
    source: Source,
}

enum Source {
    /// From the oldest on, as they are stored.
    Stored(Replay),
    /// The positions that are left, the next one last.
    Positions(Vec<Seq>),
}

impl DeadLetters {
    /// The letters that `filter` means of those stored now. The newest first takes two walks: the
    /// first one keeps nothing but their positions.
    ///
    /// # Errors
    /// `Denied` when the agent may not read dead letters; `NotFound` when their stream is not
    /// declared; `Closed`, `Unavailable`.
    pub async fn list(&self, filter: LetterFilter, order: LetterOrder) -> Result<Letters> {
        let source = Source::Stored(self.replay().await?);
        let now = self.endpoint.clock().now();
        let mut letters = Letters { letters: self.clone(), filter, now, source };
        if order == LetterOrder::NewestFirst {
            let mut positions = Vec::new();
            while let Some(letter) = letters.next().await {
                positions.push(letter?.seq);
            }
            letters.source = Source::Positions(positions);
        }
        Ok(letters)
    }

    async fn replay(&self) -> Result<Replay> {
        let mine = AddressKind::DeadLetter.filter(Some(self.endpoint.workspace()));
        self.endpoint.replay(planes::dead_letters_stream()?, mine).await
    }
}

impl Letters {
    /// The next letter; `None` after the last one. A letter that went away meanwhile is passed
    /// over. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<DeadLetter>> {
        loop {
            let stored = match &mut self.source {
                Source::Stored(replay) => replay.next().await?,
                Source::Positions(positions) => {
                    let seq = *positions.last()?;
                    let stream = planes::dead_letters_stream();
                    let read = match stream {
                        Ok(stream) => self.letters.endpoint.engine().read(stream, seq).await,
                        Err(error) => Err(error),
                    };
                    // Only now: a call that is dropped half-way passes nothing over.
                    positions.pop();
                    match read {
                        Ok(None) => continue,
                        Ok(Some(stored)) => Ok(stored),
                        Err(error) => Err(error),
                    }
                }
            };
            match stored {
                Err(error) => return Some(Err(error)),
                Ok(stored) => {
                    let letter = self.letters.open(stored);
                    if self.filter.admits(&letter, self.now) {
                        return Some(Ok(letter));
                    }
                }
            }
        }
    }
}

impl std::fmt::Debug for Letters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Letters").field("filter", &self.filter).finish_non_exhaustive()
    }
}
