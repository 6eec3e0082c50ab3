//! Live events on NATS Core.

use std::time::Duration;

use bus_core::{Error, ErrorKind, Frame, Overflow, Result, Subscription};
use bus_subjects::Filter;

use crate::api::Api;

/// Publishes, hears and asks.
pub(crate) struct Live {
    api: Api,
}

impl Live {
    pub(crate) fn new(api: Api) -> Result<Self> {
        Ok(Self { api })
    }

    pub(crate) async fn publish(&self, _frame: Frame) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "publish", "being built"))
    }

    pub(crate) async fn subscribe(&self, _: Filter, _: Overflow) -> Result<Subscription> {
        self.api.connection().check_open("subscribe")?;
        Err(Error::new(ErrorKind::Unsupported, "subscribe", "being built"))
    }

    pub(crate) async fn request(&self, _frame: Frame, _wait: Duration) -> Result<Frame> {
        Err(Error::new(ErrorKind::Unsupported, "request", "being built"))
    }
}
