//! Sends in bulk: many messages stored in one go, all or none.

use std::collections::HashSet;

use super::{Endpoint, Outgoing, Sent, send::Failed};
use crate::{Error, ErrorKind, Frame, Outcome, Result};

impl Endpoint {
    /// Stores many messages in one go, all or none, in their order and with nobody's message
    /// between them: at most [`Frame::BATCH_MAX`], all kept by one stream, on one or several
    /// subjects. None is no work and is answered at once.
    ///
    /// It is to a batch what [`Endpoint::send`] is to a message: the same bytes are repeated when
    /// the answer does not arrive, the next send on any of its subjects repeats it first after
    /// `Unknown`, and it may be given again when each of its drafts has an id of its own. Sends of
    /// others on these subjects wait meanwhile.
    ///
    /// Cancel safe as `send` is.
    ///
    /// # Errors
    /// `Invalid` (an id twice, subjects of several streams, an evidence subject), `TooLarge` (too
    /// many, or one too large), `Denied` and `Exhausted` before anything is stored. `Conflict` when
    /// an id was used before: nothing is stored then. Those of [`crate::Bus::append_all`].
    pub async fn send_all(
        &self,
        outgoing: impl IntoIterator<Item = impl Into<Outgoing>>,
    ) -> Result<Vec<Sent>> {
        let outgoing: Vec<Outgoing> = outgoing.into_iter().map(Into::into).collect();
        if outgoing.is_empty() {
            return Ok(Vec::new());
        }
        self.check_batch(&outgoing)?;
        let results = self.send_batch(&outgoing, self.making()).await?;
        let is_any_stored = results.iter().any(Result::is_ok);
        let mut sent = Vec::with_capacity(results.len());
        for (result, outgoing) in results.into_iter().zip(&outgoing) {
            let draft = &outgoing.draft;
            sent.push(result.map_err(|failed| {
                let is_duplicate = matches!(failed, Failed::Duplicate(_));
                let error = failed.into_error(draft.id.as_deref(), &draft.subject);
                if is_duplicate && is_any_stored { error.unknown() } else { error }
            })?);
        }
        Ok(sent)
    }

    /// Everything that can be refused before the messages of a batch are made.
    fn check_batch(&self, outgoing: &[Outgoing]) -> Result<()> {
        let (count, count_max) = (outgoing.len(), Frame::BATCH_MAX);
        if count > count_max {
            let detail = format!("batch has {count} messages: at most {count_max} are allowed");
            return Err(Error::new(ErrorKind::TooLarge, "send", detail));
        }
        let mut ids = HashSet::new();
        for Outgoing { draft, .. } in outgoing {
            self.check_send(draft)?;
            if let Some(id) = &draft.id
                && !ids.insert(id)
            {
                let detail = "the batch has two messages with one id";
                return Err(Error::new(ErrorKind::Invalid, "send", detail).at(&draft.subject));
            }
        }
        Ok(())
    }
}

impl Error {
    /// The same failure told to somebody else whom it concerns: kind, outcome, text and subject.
    pub(super) fn retold(&self) -> Self {
        let told = Self::new(self.kind(), self.op(), self.detail().to_owned());
        let told = match self.outcome() {
            Outcome::Unknown => told.unknown(),
            Outcome::NotDone => told,
        };
        match self.subject() {
            Some(subject) => told.at(subject),
            None => told,
        }
    }
}
