//! What the settings say about spans and who collects them.

use std::time::Duration;

use super::{Config, Held, Key, Origin, Value};
use crate::{error::CliError, http::HttpUrl};

impl Config {
    /// Whether spans are exported where a collector is named.
    pub(crate) fn otel_export(&self) -> bool {
        self.word(Key::OtelExport) != Some("off")
    }

    /// Refuses what the variables of OpenTelemetry hold and spans cannot be exported with. Nobody
    /// else is told: other programs may read them in their own ways.
    ///
    /// # Errors
    /// What was expected, by the name of the variable and without its value.
    pub(crate) fn check_otel(&self) -> Result<(), CliError> {
        let Some(endpoint) = self.get(Key::OtelEndpoint) else { return Ok(()) };
        let others = [Key::OtelProtocol, Key::OtelServiceName];
        let held = others.into_iter().filter_map(|key| self.get(key));
        for held in std::iter::once(endpoint).chain(held) {
            if let Held { value: Value::Refused(expected), origin } = held {
                let what = format!("{origin}: {expected}");
                return Err(CliError::usage(what).next(
                    "set it to another one, or have vakbus alone export no spans: VAKBUS_OTEL=off",
                ));
            }
        }
        Ok(())
    }

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

    /// As what this process tells them, where somebody says so.
    pub(crate) fn otel_service_name(&self) -> Option<&str> {
        match self.get(Key::OtelServiceName)? {
            Held { origin: Origin::Default, .. } => None,
            Held { value: Value::Text(text), .. } => Some(text),
            Held { .. } => None,
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
