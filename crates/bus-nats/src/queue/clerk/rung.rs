//! Bells that ring before what they ring for is stored: it is looked for again in a while.

use bus_core::Result;
use tokio::time::Instant;

use super::{Clerk, Duration};
use crate::api::new_stream_pauses;

/// When to look again after a bell.
pub(super) struct Rung {
    pub(super) next: Instant,
    pauses: Box<dyn Iterator<Item = Duration> + Send + Sync>,
}

impl Rung {
    /// A bell that rings now. At once everything is fetched; the first look comes a little later.
    pub(super) fn now() -> Self {
        let mut pauses = new_stream_pauses().filter(|pause| !pause.is_zero());
        let first = pauses.next().unwrap_or_default();
        Self { next: Instant::now() + first, pauses: Box::new(pauses) }
    }

    /// The look after this one; none when whatever rang is stored by now.
    fn again(mut self, now: Instant) -> Option<Self> {
        let pause = self.pauses.next()?;
        Some(Self { next: now + pause, ..self })
    }
}

impl Clerk {
    /// Looks whether a placed message is there now that rang before it was stored.
    pub(super) async fn note_rung(&mut self, now: Instant) -> Result<()> {
        let Some(rung) = self.rung.take_if(|rung| rung.next <= now) else { return Ok(()) };
        self.rung = rung.again(now);
        if !self.must_fetch {
            self.must_fetch = self.newest_placed().await? > self.fetched_up_to;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_is_followed_by_looks_for_more_than_a_second() {
        let begun = Instant::now();
        let (mut looks, mut last) = (0, begun);
        let mut rung = Some(Rung::now());
        while let Some(now) = rung {
            assert!(now.next > last);
            (looks, last) = (looks + 1, now.next);
            rung = now.again(last);
        }
        assert!(looks > 5);
        assert!(last.duration_since(begun) > Duration::from_secs(1));
    }
}
