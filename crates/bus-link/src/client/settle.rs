//! Verdicts on deliveries, sent to the server that handed them out.

use std::sync::Arc;

use bus_core::{Answer, BoxFuture, Error, ErrorKind, Result, Settle, Verdict};
use bus_subjects::StreamName;

use super::{core::Repeat, link::Shared};
use crate::wire::{Answer as Said, Call, SERVER_ID_BYTES};

/// The server's side of what one member got from it. A token is the delivery's name there, which
/// outlives the connection but not the server.
pub(crate) struct LinkSettle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) server: [u8; SERVER_ID_BYTES],
    pub(crate) stream: StreamName,
}

impl LinkSettle {
    /// The server must be the one that handed the delivery out: another one knows nothing of it.
    async fn same_server(&self, op: &'static str) -> Result<()> {
        let core = &self.shared.core;
        if core.line(op, Some(core.options.patience)).await?.server == self.server {
            return Ok(());
        }
        let why = "the server was started anew since it handed this out";
        Err(Error::new(ErrorKind::LeaseLost, op, why).at(&self.stream))
    }

    async fn try_settle(&self, verdicts: Vec<(u64, Verdict)>) -> Result<Vec<Result<()>>> {
        self.same_server("settle").await?;
        let count = verdicts.len();
        let verdicts = verdicts.into_iter().map(|(token, verdict)| (token, verdict.into()));
        let call = Call::Settle(verdicts.collect());
        match self.shared.core.call("settle", call, Ok, Repeat::Never).await? {
            (Said::Settled(settled), _) if settled.len() == count => {
                let one = |one: std::result::Result<(), crate::wire::Fault>| {
                    one.map_err(|fault| fault.into_error("settle"))
                };
                Ok(settled.into_iter().map(one).collect())
            }
            _ => Err(odd("settle")),
        }
    }
}

impl Settle for LinkSettle {
    fn stream(&self) -> &StreamName {
        &self.stream
    }

    fn settle(&self, token: u64, verdict: Verdict) -> Answer<'_, ()> {
        Answer::later(async move {
            let settled = self.try_settle(vec![(token, verdict)]).await?;
            settled.into_iter().next().unwrap_or_else(|| Err(odd("settle")))
        })
    }

    fn settle_all(&self, verdicts: Vec<(u64, Verdict)>) -> BoxFuture<'_, Vec<Result<()>>> {
        Box::pin(async move {
            let count = verdicts.len();
            match self.try_settle(verdicts).await {
                Ok(settled) => settled,
                // All of them went the same way.
                Err(error) => (0..count).map(|_| Err(again(&error))).collect(),
            }
        })
    }

    fn extend(&self, token: u64) -> Answer<'_, ()> {
        Answer::later(async move {
            self.same_server("extend").await?;
            let call = Call::Extend { delivery: token };
            // Extended twice is extended.
            self.shared.core.call("extend", call, Ok, Repeat::Always).await.map(drop)
        })
    }
}

/// The same error once more.
fn again(error: &Error) -> Error {
    crate::wire::Fault::from(error).into_error(error.op())
}

/// The server answered something else than was asked.
pub(crate) fn odd(op: &'static str) -> Error {
    let why = "the server's answer is another than was asked for";
    Error::new(ErrorKind::Corrupt, op, why).unknown()
}
