//! What is new in a stream since the last look: the same way of following on every engine.

use bus_subjects::{Filter, StreamName};

use crate::{Endpoint, Result, Seq, Stored};

/// A place in a stream that moves on with each look.
///
/// A stream tells nobody of what is appended to it; who follows one looks now and then. A look
/// costs one replay from the place where the last one ended, so what was seen is not read again.
///
/// ```
/// # async fn example(endpoint: &bus_core::Endpoint) -> bus_core::Result<()> {
/// use bus_core::{Follow, Seq, planes};
/// use bus_subjects::AddressKind;
///
/// let letters = AddressKind::DeadLetter.filter(Some(endpoint.workspace()));
/// let mut follow =
///     Follow::new(endpoint.clone(), planes::dead_letters_stream()?, letters, Seq(1));
/// let seen = follow.look(|stored| println!("dead letter {}", stored.seq.0)).await?;
/// # let _ = seen; Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Follow {
    endpoint: Endpoint,
    stream: StreamName,
    filter: Filter,
    next: Seq,
}

impl Follow {
    /// Begins at position `from`; the first record of a stream has position 1.
    #[must_use]
    pub const fn new(endpoint: Endpoint, stream: StreamName, filter: Filter, from: Seq) -> Self {
        Self { endpoint, stream, filter, next: from }
    }

    /// Begins behind what is there now, without reading it: some 40 questions at most, whatever the
    /// stream holds.
    ///
    /// # Errors
    /// Those of [`Endpoint::replay_from`].
    pub async fn at_end(endpoint: Endpoint, stream: StreamName, filter: Filter) -> Result<Self> {
        let mut follow = Self::new(endpoint, stream, filter, Seq(1));
        // Something is before `next`, nothing from `empty` on.
        let mut step = 1_u64;
        let mut empty = None;
        loop {
            let (low, from) = (follow.next.0, probe(follow.next.0, step, empty));
            match follow.first_from(Seq(from)).await? {
                Some(found) => {
                    follow.next = Seq(found.0.saturating_add(1));
                    step = step.saturating_mul(2);
                }
                None if from == low => return Ok(follow),
                None => empty = Some(from),
            }
        }
    }

    /// Hands what is new to `seen`, in order, and returns how many records these were.
    ///
    /// Cancel safe: the place moves with each record that was handed over.
    ///
    /// # Errors
    /// Those of [`Endpoint::replay_from`] and of reading; the next look goes on from there.
    pub async fn look(&mut self, seen: impl FnMut(Stored)) -> Result<u64> {
        self.look_some(u64::MAX, seen).await
    }

    /// As [`look`](Self::look), for `max` records at most: for who keeps what it sees. Fewer than
    /// `max` are all that was there.
    ///
    /// # Errors
    /// Those of [`look`](Self::look).
    pub async fn look_some(&mut self, max: u64, mut seen: impl FnMut(Stored)) -> Result<u64> {
        let (stream, filter) = (self.stream.clone(), self.filter.clone());
        let mut records = self.endpoint.replay_from(stream, filter, self.next).await?;
        let mut count = 0_u64;
        while count < max {
            let Some(stored) = records.next().await.transpose()? else { break };
            self.next = Seq(stored.seq.0.saturating_add(1));
            count = count.saturating_add(1);
            seen(stored);
        }
        Ok(count)
    }

    /// Where the next look begins.
    #[must_use]
    pub const fn position(&self) -> Seq {
        self.next
    }

    /// The position of the first record at or behind `from`.
    async fn first_from(&self, from: Seq) -> Result<Option<Seq>> {
        let (stream, filter) = (self.stream.clone(), self.filter.clone());
        let mut records = self.endpoint.replay_from(stream, filter, from).await?;
        Ok(records.next().await.transpose()?.map(|stored| stored.seq))
    }
}

/// Where to look next for the end: further and further away, then halfway.
const fn probe(low: u64, step: u64, empty: Option<u64>) -> u64 {
    match empty {
        Some(empty) => low.saturating_add(empty.saturating_sub(low) / 2),
        None => low.saturating_add(step.saturating_sub(1)),
    }
}
