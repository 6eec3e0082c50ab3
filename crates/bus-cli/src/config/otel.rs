//! What the settings say about spans and who collects them.

use std::time::Duration;

use super::{Config, Held, Key, Origin, Value};
use crate::http::HttpUrl;

impl Config {
    /// Where spans are posted, and where that is said; no spans without it.
    pub(crate) fn otel_endpoint(&self) -> Option<(&HttpUrl, &Origin)> {
        match self.get(Key::OtelEndpoint)? {
            Held { value: Value::Collector(url), origin } => Some((url, origin)),
            _ => None,
        }
    }

    /// How they are posted, and where that is said.
    pub(crate) fn otel_protocol(&self) -> Option<(&'static str, &Origin)> {
        match self.get(Key::OtelProtocol)? {
            Held { value: Value::Word(word), origin } => Some((word, origin)),
            _ => None,
        }
    }

    /// As what this process tells them.
    pub(crate) fn otel_service_name(&self) -> Option<&str> {
        match &self.get(Key::OtelServiceName)?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// How long a process waits at its end for them to be posted.
    pub(crate) fn otel_exit_wait(&self) -> Duration {
        match self.get(Key::OtelExitWait) {
            Some(Held { value: Value::Duration(time), .. }) => *time,
            _ => Duration::ZERO,
        }
    }
}
