//! Where things of a machine are: its files, and the addresses that it listens on.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
};

/// A path of a machine, which may hold its name.
pub(in super::super) struct Template(String);

/// An address that a server listens on.
#[derive(Clone, Copy)]
pub(in super::super) struct Listen(IpAddr);

impl Template {
    /// Reads a path with `{name}` in it, or without.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        path(&text.replace(NAME, "name")).map(|_| Self(text.to_owned()))
    }

    pub(super) fn fixed(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The path on the machine `name`.
    pub(in super::super) fn of(&self, name: &str) -> PathBuf {
        PathBuf::from(self.0.replace(NAME, name))
    }
}

impl Listen {
    /// The address said, else that of the host, else all addresses. Says what is wrong with which.
    pub(super) fn of(host: &str, listen: Option<&str>) -> Result<Self, (&'static str, String)> {
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-:".contains(c);
        if host.is_empty() || host.len() > 253 || !host.chars().all(is_host) {
            return Err(("host", "expected a name or an address, without a port".to_owned()));
        }
        let ip = host.parse::<IpAddr>();
        if ip.is_err() && host.contains(':') {
            return Err(("host", "expected a name or an address, without a port".to_owned()));
        }
        match (listen, ip) {
            (Some(listen), _) => match listen.parse() {
                Ok(ip) => Ok(Self(ip)),
                Err(_) => Err(("listen", "expected an address, without a port".to_owned())),
            },
            (None, Ok(ip)) => Ok(Self(ip)),
            (None, Err(_)) if host == "localhost" => Ok(Self(Ipv4Addr::LOCALHOST.into())),
            (None, Err(_)) => Ok(Self(Ipv4Addr::UNSPECIFIED.into())),
        }
    }

    /// With a port.
    pub(in super::super) fn at(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.0, port)
    }

    pub(super) fn is_loopback(self) -> bool {
        self.0.is_loopback()
    }
}

/// An absolute path that means the same in a configuration, a unit and a shell.
pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let goes_up = text.split('/').any(|part| part == "..");
    if !text.starts_with('/') || !text.chars().all(is_plain) || goes_up {
        let why = "expected an absolute path of letters, digits and `/._-`, without `..`";
        return Err(why.to_owned());
    }
    Ok(PathBuf::from(text))
}

const NAME: &str = "{name}";
