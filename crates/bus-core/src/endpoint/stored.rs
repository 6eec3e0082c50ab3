//! What a stream holds, as it is stored: read by subject, and taken out.

use bus_subjects::{Filter, StreamName, Subject};

use super::Endpoint;
use crate::{Result, Seq, Stored};

impl Endpoint {
    /// The newest message that is stored under `subject`, checked and opened by nobody.
    ///
    /// # Errors
    /// `Denied` when the policy does not allow to hear `subject`, and those of
    /// [`crate::Bus::last`].
    pub async fn last(&self, subject: Subject) -> Result<Option<Stored>> {
        self.may_subscribe("last", &Filter::from(&subject))?;
        self.engine().last(subject).await
    }

    /// Removes the message at `seq` of `stream`, and says whether there was one.
    ///
    /// # Errors
    /// `Denied` when the policy does not allow it (`$JS.API.STREAM.MSG.DELETE.<stream>`, and the
    /// right to read what is removed), and those of [`crate::Bus::discard`].
    pub async fn discard(&self, stream: StreamName, seq: Seq) -> Result<bool> {
        let asked = Subject::parse(&format!("$JS.API.STREAM.MSG.DELETE.{stream}"))?;
        self.may_publish("discard", &asked)?;
        self.engine().discard(stream, seq).await
    }
}
