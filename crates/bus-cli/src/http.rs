//! A small HTTP client: one POST on a connection of its own, within a limit.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request,
    client::conn::http1,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::OnceCell,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName},
};

/// Where to post: an `https` URL, or a plain `http` one on this machine alone. Holds no user and no
/// password; its path and its query may be secrets all the same, and neither is shown.
#[derive(Clone)]
pub(crate) struct HttpUrl {
    is_tls: bool,
    /// As the URL has it; an IPv6 address stands in brackets.
    host: String,
    port: u16,
    /// Path and query, as they go into the request.
    target: String,
    /// What the machine trusts: read at the first POST, for all that follow.
    tls: Arc<OnceCell<TlsConnector>>,
}

/// What became of a POST.
#[derive(Debug)]
pub(crate) enum Failed {
    /// No answer within the limit; it may have been taken.
    TooLate(Duration),
    /// The server answered with this status, which is none of success.
    Status(u16),
    /// It was not reached, or broke off.
    Broken(String),
}

impl HttpUrl {
    /// Whether `text` is meant as a URL, of whatever kind: `word://…`.
    pub(crate) fn is_meant(text: &str) -> bool {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        text.trim().split_once("://").is_some_and(|(scheme, _)| {
            scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                && scheme.bytes().all(is_fine)
        })
    }

    /// Reads a URL.
    ///
    /// # Errors
    /// What was expected; the URL itself is not told, because it may hold a secret.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let url = Self::parse_any(text)?;
        if !url.is_private() {
            let what = "expected https: without it everybody on the way reads what is posted \
                        (http is for this machine: localhost, 127.0.0.1 or [::1])";
            return Err(what.to_owned());
        }
        Ok(url)
    }

    /// As [`Self::parse`], and takes plain `http` to other machines as well: for what others on the
    /// way may read.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub(crate) fn parse_any(text: &str) -> Result<Self, String> {
        let expected = || EXPECTED.to_owned();
        let (is_tls, rest) = scheme(text).ok_or_else(expected)?;
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains('#') {
            return Err(expected());
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at_checked(end).ok_or_else(expected)?;
        if authority.contains('@') {
            return Err("expected a URL without user and password, which are secrets".to_owned());
        }
        let (host, port) = split_port(authority).ok_or_else(expected)?;
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(expected)?,
            None if is_tls => 443,
            None => 80,
        };
        if !is_host(host) {
            return Err(expected());
        }
        let target = match target {
            "" => "/".to_owned(),
            query if query.starts_with('?') => format!("/{query}"),
            path => path.to_owned(),
        };
        Ok(Self { is_tls, host: host.to_owned(), port, target, tls: Arc::default() })
    }

    /// Whether nobody on the way reads what is posted.
    pub(crate) fn is_private(&self) -> bool {
        self.is_tls || is_loopback(&self.host)
    }

    /// The place `path` below this one; a query stays with its own place and is left out.
    pub(crate) fn below(&self, path: &str) -> Self {
        let base = self.target.split('?').next().unwrap_or_default().trim_end_matches('/');
        Self { target: format!("{base}/{path}"), ..self.clone() }
    }

    /// Whether HTTP allows such a header.
    pub(crate) fn takes_header(name: &str, value: &str) -> bool {
        HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(value).is_ok()
    }

    /// All of it, for the settings file alone: it may hold a secret.
    pub(crate) fn whole(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}:{}{}", self.host, self.port, self.target)
    }

    /// Posts `body`, and is done when the server has answered with a status of success. Follows no
    /// redirect: that is another place than the one that was named.
    ///
    /// # Errors
    /// [`Failed`]; after [`Failed::TooLate`] and [`Failed::Broken`] the server may have taken it.
    pub(crate) async fn post(
        &self,
        content_type: &str,
        headers: &[(&str, &str)],
        body: Bytes,
        limit: Duration,
    ) -> Result<(), Failed> {
        match timeout(limit, self.try_post(content_type, headers, body)).await {
            Ok(Ok(status)) if (200..300).contains(&status) => Ok(()),
            Ok(Ok(status)) => Err(Failed::Status(status)),
            Ok(Err(broken)) => Err(Failed::Broken(broken)),
            Err(_elapsed) => Err(Failed::TooLate(limit)),
        }
    }

    async fn try_post(
        &self,
        content_type: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<u16, String> {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((bare, self.port)).await.map_err(|e| e.to_string())?;
        let mut request = Request::post(&self.target)
            .header(HOST, format!("{}:{}", self.host, self.port))
            .header(USER_AGENT, concat!("vakbus/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, content_type)
            .header(CONTENT_LENGTH, body.len());
        for (name, value) in headers {
            // Neither logs nor `Debug` show what may be a login.
            let mut value = HeaderValue::from_str(value).map_err(|_| "a header is not valid")?;
            value.set_sensitive(true);
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        if self.is_tls {
            let name = ServerName::try_from(bare.to_owned()).map_err(|error| error.to_string())?;
            let connector = self.tls.get_or_try_init(trusting_the_system).await?;
            let stream = connector.connect(name, stream).await.map_err(|e| e.to_string())?;
            exchange(stream, request).await
        } else {
            exchange(stream, request).await
        }
    }
}

/// Without path and query, which may hold a token.
impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, usual) = if self.is_tls { ("https", 443) } else { ("http", 80) };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port != usual {
            write!(f, ":{}", self.port)?;
        }
        f.write_str(if self.target == "/" { "/" } else { "/…" })
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpUrl({self})")
    }
}

impl PartialEq for HttpUrl {
    fn eq(&self, other: &Self) -> bool {
        let parts = |url: &Self| (url.is_tls, url.port);
        parts(self) == parts(other) && self.host == other.host && self.target == other.target
    }
}

impl Eq for HttpUrl {}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLate(limit) => {
                write!(f, "no answer within {}", humantime::format_duration(*limit))
            }
            Self::Status(status) => write!(f, "the server answered {status}"),
            Self::Broken(why) => f.write_str(why),
        }
    }
}

/// One request and the status of its answer.
async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<u16, String>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let told = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(told)?;
    let answer = sender.send_request(request);
    tokio::pin!(answer, connection);
    tokio::select! {
        biased;
        answer = &mut answer => Ok(answer.map_err(told)?.status().as_u16()),
        // It may end with the answer, which is there then.
        ended = &mut connection => match (ended, answer.await) {
            (_, Ok(answer)) => Ok(answer.status().as_u16()),
            (Err(error), Err(_)) | (Ok(()), Err(error)) => Err(told(error)),
        },
    }
}

/// What the machine's administrator has it trust. Many files: read where nothing waits for it.
#[expect(clippy::disallowed_methods, reason = "the command line is one of the places that spawn")]
async fn trusting_the_system() -> Result<TlsConnector, String> {
    let read = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
    let found = read.map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    let (added, _ignored) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err("this machine trusts no certificate authority".to_owned());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Whether a URL is one of `https`, and what follows; none of another kind.
fn scheme(text: &str) -> Option<(bool, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let is_tls = scheme.eq_ignore_ascii_case("https");
    (is_tls || scheme.eq_ignore_ascii_case("http")).then_some((is_tls, rest))
}

/// Host and port of `host:port`, `[v6]:port` or either alone.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    if authority.starts_with('[') {
        let end = authority.find(']')?.checked_add(1)?;
        let (host, rest) = authority.split_at_checked(end)?;
        return match rest {
            "" => Some((host, None)),
            _ => rest.strip_prefix(':').map(|port| (host, Some(port))),
        };
    }
    Some(match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    })
}

fn is_host(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(v6) => v6.parse::<Ipv6Addr>().is_ok(),
        None => {
            // No name of the internet has a `_`, but those of containers often do.
            let is_fine =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            !host.is_empty() && host.bytes().all(is_fine)
        }
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

const EXPECTED: &str = "expected a URL such as \"https://host/path\"";

#[cfg(test)]
mod tests;
