//! Where another server is: a host and a port, without a scheme and without a user.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use super::ServerError;

/// A host and a port, as `10.0.0.2:6222`, `[::1]:6222` or `hub-1.example.org:7422`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    host: String,
    ip: Option<IpAddr>,
    port: u16,
}

impl HostPort {
    /// Reads an address. `field` is the setting that it stands for.
    ///
    /// # Errors
    /// [`ServerError::Config`] when it is not a host and a port, or holds anything else: a user in
    /// an address would be a secret in the wrong place.
    pub fn parse(field: &'static str, text: &str) -> Result<Self, ServerError> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            let port = wanted(field, address.port())?;
            return Ok(Self { host: address.ip().to_string(), ip: Some(address.ip()), port });
        }
        // The text is not quoted: what stands in the wrong place may be a password.
        let refuse = || ServerError::config(field, "expected a host and a port, as host:4222");
        let (host, port) = text.rsplit_once(':').ok_or_else(refuse)?;
        let is_digits = port.bytes().all(|byte| byte.is_ascii_digit());
        if !is_host(host) || !is_digits {
            return Err(refuse());
        }
        let port = wanted(field, port.parse().map_err(|_| refuse())?)?;
        Ok(Self { host: host.to_owned(), ip: None, port })
    }

    /// The host: a name or an address, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, never 0.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it is on this machine. A name other than `localhost` is not.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.ip.map_or(self.host == "localhost", |ip| ip.is_loopback())
    }
}

impl From<SocketAddr> for HostPort {
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), ip: Some(address.ip()), port: address.port() }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            Some(ip) => SocketAddr::new(ip, self.port).fmt(f),
            None => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

fn wanted(field: &'static str, port: u16) -> Result<u16, ServerError> {
    if port == 0 {
        return Err(ServerError::config(field, "expected a port other than 0"));
    }
    Ok(port)
}

fn is_host(host: &str) -> bool {
    let is_label = |label: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(is_plain)
    };
    host.len() <= 253 && host.split('.').all(is_label)
}
