//! Who collects the spans of this process: read from the settings and the variables that
//! OpenTelemetry names, and checked before anything is done.

use std::{env, fmt, time::Duration};

use bus_otel::{Batch, Pair, Resource, pairs};
use bus_runner::{OTEL_HEADERS_VAR, OTEL_TRACES_HEADERS_VAR};
use zeroize::Zeroizing;

use crate::{
    config::{Config, Key, Origin},
    error::CliError,
    home::Home,
    http::{Failed, HttpUrl},
    secrets::Secrets,
};

/// A collector that speaks OTLP over HTTP, in protobuf. Shows neither path nor headers.
pub(super) struct Collector {
    url: HttpUrl,
    headers: Headers,
}

/// Names and values; the values are mostly logins.
type Headers = Vec<(String, Zeroizing<String>)>;

impl Collector {
    /// The collector of this process and who this process is to it; none where spans are off.
    ///
    /// # Errors
    /// What is wrong, by the name of the variable or setting and without its value.
    pub(super) fn of(config: &Config) -> Result<Option<(Self, Resource)>, CliError> {
        if !config.otel_export() || is_off() {
            return Ok(None);
        }
        config.check_otel()?;
        let Some((base, origin)) = config.otel_endpoint() else { return Ok(None) };
        check_protocol(config)?;
        let url = match origin {
            // The one variable that names the whole place.
            Origin::Variable(TRACES_ENDPOINT) => base.clone(),
            _ => base.below("v1/traces"),
        };
        let (variable_of_headers, headers) = headers(config)?;
        if !headers.is_empty() && !url.is_private() {
            let what = format!(
                "{}: expected https, for {variable_of_headers} is set: without it everybody on \
                 the way reads the headers",
                named(Key::OtelEndpoint, origin)
            );
            return Err(CliError::usage(what).next("name an https URL, or unset the headers"));
        }
        let attributes = list(RESOURCE, &variable(RESOURCE)?.unwrap_or_default())?;
        // What is said of the service by its own name counts before one of many attributes.
        let among = attributes.iter().find(|pair| pair.name == "service.name");
        let among = among.map(|pair| pair.value.as_str()).filter(|name| !name.is_empty());
        let service = config.otel_service_name().or(among).unwrap_or(SERVICE).to_owned();
        let (version, process) = (env!("CARGO_PKG_VERSION"), std::process::id());
        let resource = Resource { service, version, process, attributes };
        Ok(Some((Self { url, headers }, resource)))
    }

    /// Posts a batch.
    ///
    /// # Errors
    /// As [`HttpUrl::post`].
    pub(super) async fn post(&self, batch: &Batch) -> Result<(), Failed> {
        let headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.url.post("application/x-protobuf", &headers, batch.body.clone(), POST_WITHIN).await
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

/// Whether the environment switches spans off, whatever the settings say.
fn is_off() -> bool {
    let says = |name: &str, word: &str| {
        env::var(name).is_ok_and(|value| value.trim().eq_ignore_ascii_case(word))
    };
    says("OTEL_SDK_DISABLED", "true") || says("OTEL_TRACES_EXPORTER", "none")
}

/// There is one way of posting here. Another one that is asked for is refused and not replaced: the
/// collector's port would be the wrong one.
fn check_protocol(config: &Config) -> Result<(), CliError> {
    match config.otel_protocol() {
        None | Some((PROTOCOL, _)) => Ok(()),
        Some((other, origin)) => {
            let name = named(Key::OtelProtocol, origin);
            let what = format!("{name}: {other} is not spoken here, only {PROTOCOL} is");
            Err(CliError::usage(what).next(
                "set it to http/protobuf and name the collector's port for that (mostly 4318), or \
                 have vakbus export no spans: VAKBUS_OTEL=off",
            ))
        }
    }
}

/// The headers of each request, and the variable that names them. They come from where secrets
/// come from; those for traces alone go first, as the place for traces alone does.
fn headers(config: &Config) -> Result<(&'static str, Headers), CliError> {
    let secrets = Secrets::new(config, &Home::locate(config.data_dir())?);
    for variable in [OTEL_TRACES_HEADERS_VAR, OTEL_HEADERS_VAR] {
        let Some(found) = secrets.bus_secret(variable)? else { continue };
        let mut headers = Headers::new();
        for Pair { name, value } in list(variable, &found.text)? {
            let value = Zeroizing::new(value);
            if !HttpUrl::takes_header(&name, &value) {
                let what = format!("{variable}: a header is none that HTTP allows");
                return Err(CliError::usage(what).next("write it as name=value,name=value"));
            }
            headers.push((name, value));
        }
        return Ok((variable, headers));
    }
    Ok((OTEL_HEADERS_VAR, Headers::new()))
}

fn list(name: &str, text: &str) -> Result<Vec<Pair>, CliError> {
    pairs(text).map_err(|error| {
        CliError::usage(format!("{name}: {error}")).next("write it as name=value,name=value")
    })
}

fn variable(name: &str) -> Result<Option<String>, CliError> {
    match env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => {
            Err(CliError::usage(format!("{name}: expected UTF-8"))
                .next("write other bytes as %XX, or unset it"))
        }
    }
}

/// What to call a setting: as whoever set it did.
fn named(key: Key, origin: &Origin) -> String {
    match origin {
        Origin::Variable(name) | Origin::Flag(name) => (*name).to_owned(),
        Origin::Default => key.name().to_owned(),
        Origin::User(..) | Origin::Project(..) => format!("{origin}: {}", key.name()),
    }
}

/// What a process is called that has no other name.
const SERVICE: &str = "vakbus";

const PROTOCOL: &str = "http/protobuf";

const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";

const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// How long a collector may take over one batch.
const POST_WITHIN: Duration = Duration::from_secs(10);
