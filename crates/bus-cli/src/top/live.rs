//! Joining the bus for `vakbus top`: what is heard live, and what is looked at again and again.

use std::num::NonZeroUsize;

use bus_core::{EventFeed, Incoming, Overflow};
use bus_subjects::Filter;

use super::look::Looker;
use crate::{
    engine::{Agent, Scope, Session},
    error::CliError,
    workspace::Part,
};

/// A bus that was joined.
pub(super) struct Joined {
    /// Who acts.
    pub(super) agent: Agent,
    /// The samples of commands. It is kept for as long as the bus keeps it open: whoever is slow to
    /// answer has not taken it away.
    pub(super) live: EventFeed,
    pub(super) looker: Looker,
}

impl Joined {
    /// Joins the bus as an operator and begins to follow: what is stored is read where it is shown,
    /// receipts are only counted from now on.
    ///
    /// # Errors
    /// When the bus is not reached or does not let this agent read.
    pub(super) async fn join(session: &Session) -> Result<Self, CliError> {
        let agent = session.agent(Part::Operator, Scope::default()).await?;
        let workspace = agent.endpoint.workspace();
        let telemetry = Filter::parse(&format!("vak.events.{workspace}.*.telemetry"))?;
        let overflow = Overflow::DropOldest { capacity: WAITING_MAX };
        let live = agent.endpoint.subscribe(telemetry, overflow).await?;
        let looker = Looker::new(agent.clone()).await?;
        Ok(Self { agent, live, looker })
    }
}

/// The next of a feed; never, without one. Cancel safe.
pub(super) async fn next(live: Option<&mut EventFeed>) -> Option<Incoming> {
    match live {
        Some(live) => live.next().await,
        None => std::future::pending().await,
    }
}

/// How many live samples may wait.
const WAITING_MAX: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
