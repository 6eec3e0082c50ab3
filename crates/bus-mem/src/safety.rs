//! What callers of a bus with a journal are told, and when: nothing before it is safe.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bus_core::{Answer, BoxFuture, Durability, Frame, Result};

use crate::{
    durable::Durable,
    journal::{Journal, Position},
    live::Live,
};

/// The way to the journal; without one everything is safe at once.
#[derive(Clone, Default)]
pub(crate) struct Safety(Option<Arc<Keeping>>);

/// A bus that is kept by a journal.
struct Keeping {
    journal: Arc<dyn Journal>,
    durable: Arc<Durable>,
    live: Arc<Live>,
    outgoing: Mutex<Outgoing>,
}

/// Stored frames on their way to those who listen, in the order in which they were stored.
#[derive(Default)]
struct Outgoing {
    frames: VecDeque<Arc<Frame>>,
    /// Somebody hands them out right now, and takes what is added meanwhile.
    is_going: bool,
}

impl Safety {
    /// Lets `durable` and `live` show what is safe in `journal`, as soon as it is.
    pub(crate) fn of(journal: Arc<dyn Journal>, durable: Arc<Durable>, live: Arc<Live>) -> Self {
        let outgoing = Mutex::default();
        let keeping = Arc::new(Keeping { journal: Arc::clone(&journal), durable, live, outgoing });
        let observed = Arc::downgrade(&keeping);
        journal.observe(Arc::new(move |position| {
            let Some(keeping) = observed.upgrade() else { return };
            // Whoever keeps the journal must go on whatever those do who are called.
            if catch_unwind(AssertUnwindSafe(|| keeping.show(position))).is_err() {
                tracing::error!("who was called for what became safe panicked");
            }
        }));
        Self(Some(keeping))
    }

    /// Whether there is a journal.
    #[inline]
    pub(crate) const fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Asks whether a change of about `bytes` may be made.
    ///
    /// # Errors
    /// `Full`, `Unavailable`, `Closed`: not done.
    #[inline]
    pub(crate) fn admit(&self, op: &'static str, bytes: usize, frees: bool) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |keeping| keeping.journal.admit(op, bytes, frees))
    }

    /// What a stored message survives.
    pub(crate) fn durability(&self) -> Durability {
        self.0.as_ref().map_or(Durability::Memory, |keeping| keeping.journal.durability())
    }

    /// The position of the last change of all planes.
    pub(crate) fn last(&self) -> Position {
        self.0.as_ref().map_or(Position(0), |keeping| keeping.journal.last())
    }

    /// Whether everything up to `position` is safe.
    pub(crate) fn is_safe(&self, position: Position) -> bool {
        self.0.as_ref().is_none_or(|keeping| keeping.journal.is_safe(position))
    }

    /// Waits until everything up to `position` is safe.
    ///
    /// # Errors
    /// `Unavailable`, outcome unknown, when it could not be written.
    pub(crate) fn reached(
        &self,
        position: Position,
    ) -> impl Future<Output = Result<()>> + Send + 'static {
        let keeping = self.0.as_ref().filter(|keeping| !keeping.journal.is_safe(position));
        let safe = keeping.map(|keeping| keeping.journal.safe(position));
        async move {
            match safe {
                Some(safe) => safe.await,
                None => Ok(()),
            }
        }
    }

    /// Gives an answer when what it tells of, which is all up to `position`, is safe.
    ///
    /// # Errors
    /// Those of the answer; else as [`Safety::reached`].
    pub(crate) async fn told<T>(&self, position: Position, answer: Result<T>) -> Result<T> {
        after(self.reached(position).await, answer)
    }

    /// As [`Safety::told_shown`], at once when it is shown already.
    pub(crate) fn answer_shown<T: Send + 'static>(
        &self,
        position: Position,
        answer: Result<T>,
    ) -> Answer<'static, T> {
        match self.shown(position) {
            Some(shown) => Answer::later(async move { after(shown.await, answer) }),
            None => Answer::paced(answer),
        }
    }

    /// As [`Safety::told`], for what lets others see more.
    ///
    /// # Errors
    /// As [`Safety::told`].
    pub(crate) async fn told_shown<T>(&self, position: Position, answer: Result<T>) -> Result<T> {
        match self.shown(position) {
            Some(shown) => after(shown.await, answer),
            None => answer,
        }
    }

    /// Waits until what is safe up to `position` is shown; `None` when it is: who is told that a
    /// message is stored must not find it missing, though the journal has not called yet.
    ///
    /// The journal is asked once. It may become safe at any moment, and whoever asked again could
    /// be told before it is shown; who waits in the journal learns it afterwards.
    fn shown(&self, position: Position) -> Option<BoxFuture<'static, Result<()>>> {
        let keeping = self.0.as_ref()?;
        if !keeping.journal.is_safe(position) {
            return Some(keeping.journal.safe(position));
        }
        keeping.show(position);
        None
    }
}

/// An answer that may be given when it is known whether what it tells of is safe. A refusal is one
/// whatever became of the rest.
fn after<T>(safe: Result<()>, answer: Result<T>) -> Result<T> {
    let answer = answer?;
    safe.map(|()| answer)
}

impl Keeping {
    /// Lets consumers hand out what is safe up to `position`, and hands it to those who listen.
    fn show(&self, position: Position) {
        let mut locked = self.durable.lock();
        // Under the lock, which gives the order in which they go out.
        let mut outgoing = self.outgoing();
        locked.change(|broker, _, touched| {
            let shown = |frame| outgoing.frames.push_back(frame);
            broker.show(position, shown, |key| touched.push(key));
            touched.sort_unstable();
            touched.dedup();
        });
        drop(outgoing);
        // Those who are called and those who hear it may do whatever a stranger wrote. One that
        // panics costs nobody else anything: the first panic goes on when all is done.
        let called = catch_unwind(AssertUnwindSafe(|| locked.finish()));
        let heard = self.hand_out();
        if let Err(panic) = called.and(heard) {
            resume_unwind(panic);
        }
    }

    /// One at a time hands out, without a lock.
    fn hand_out(&self) -> std::thread::Result<()> {
        let mut outgoing = self.outgoing();
        if std::mem::replace(&mut outgoing.is_going, true) {
            return Ok(());
        }
        let mut all = Ok(());
        while let Some(frame) = outgoing.frames.pop_front() {
            drop(outgoing);
            all = all.and(catch_unwind(AssertUnwindSafe(|| self.live.hand_out(frame))));
            outgoing = self.outgoing();
        }
        outgoing.is_going = false;
        all
    }

    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
