//! What a configuration must keep to: what the server would refuse, read otherwise, or open wide.

use std::{net::SocketAddr, ops::RangeInclusive, time::Duration};

use bus_crypto::{NkeyKind, PublicKey};

use super::{
    Authorization, Cluster, HostPort, LeafNodes, LeafRemote, Resolver, ServerConfig, ServerError,
    ServerTls, WebSocketDoor,
};

impl ServerConfig {
    pub(super) fn check(&self) -> Result<(), ServerError> {
        if self.name.contains(char::is_whitespace) {
            return refuse("name", "expected no white space");
        }
        let is_open = matches!(self.authorization, Authorization::Open);
        if is_open && !self.listen.ip().is_loopback() {
            return refuse("listen", format!("{} without authorization", self.listen.ip()));
        }
        if let Some(monitor) = self.monitor.filter(|monitor| !monitor.ip().is_loopback()) {
            let reason =
                format!("expected a loopback address, not {}: it asks nobody", monitor.ip());
            return refuse("monitor", reason);
        }
        within("payload_bytes_max", self.payload_bytes_max, PAYLOAD_BYTES)?;
        within("control_line_bytes_max", self.control_line_bytes_max, CONTROL_LINE_BYTES)?;
        if !LOGIN_WITHIN.contains(&self.login_within) {
            return refuse("login_within", "expected 0.1 s to 60 s");
        }
        if self.lame_duck_duration < LAME_DUCK_LEAST {
            return refuse("lame_duck_duration", format!("expected at least {LAME_DUCK_LEAST:?}"));
        }
        if self.lame_duck_grace >= self.lame_duck_duration {
            let reason = format!("expected less than the {:?} of all", self.lame_duck_duration);
            return refuse("lame_duck_grace", reason);
        }
        certificates("tls.ca", self.tls.as_ref())?;
        self.authorization.check()?;
        self.check_tokens()?;
        if self.domain.as_ref().is_some_and(|domain| !is_word(domain)) {
            return refuse("domain", "expected 1 to 64 letters, digits, `-` and `_`");
        }
        if let Some(cluster) = &self.cluster {
            cluster.check()?;
        }
        self.check_leafnodes()?;
        let Some(websocket) = &self.websocket else { return Ok(()) };
        if is_open && !websocket.listen.ip().is_loopback() {
            let reason = format!("{} without authorization", websocket.listen.ip());
            return refuse("websocket.listen", reason);
        }
        websocket.check()
    }

    /// What only tokens of accounts give a meaning to.
    fn check_tokens(&self) -> Result<(), ServerError> {
        if self.authorization.is_by_tokens() {
            return Ok(());
        }
        if self.resolver != Resolver::Memory {
            return refuse("resolver", NO_TOKENS);
        }
        if self.sentinel.is_some() {
            return refuse("sentinel", NO_TOKENS);
        }
        if !self.leafnodes.remotes.is_empty() {
            return refuse("leafnodes.remotes", NO_TOKENS);
        }
        Ok(())
    }

    fn check_leafnodes(&self) -> Result<(), ServerError> {
        let LeafNodes { listen, remotes, .. } = &self.leafnodes;
        if self.leafnodes.is_used() && self.domain.is_none() {
            // Both sides would answer for each other's JetStream.
            return refuse("domain", "expected a domain of its own beside leaf nodes");
        }
        if let Some(leaf) = listen {
            door("leafnodes.listen", leaf.listen, leaf.tls.as_ref())?;
            certificates("leafnodes.tls.ca", leaf.tls.as_ref())?;
            let is_open = matches!(self.authorization, Authorization::Open);
            if is_open && !leaf.listen.ip().is_loopback() {
                let reason = format!("{} without authorization", leaf.listen.ip());
                return refuse("leafnodes.listen", reason);
            }
        }
        for (index, remote) in remotes.iter().enumerate() {
            remote.check()?;
            let is_same = |other: &&LeafRemote| other.account == remote.account;
            if remotes.iter().take(index).any(|other| is_same(&other)) {
                return refuse("leafnodes.remotes", "expected every account once");
            }
            if self.resolver == Resolver::Memory && !self.authorization.knows(&remote.account) {
                return refuse("leafnodes.remotes", "expected an account of the authorization");
            }
        }
        Ok(())
    }
}

impl Cluster {
    fn check(&self) -> Result<(), ServerError> {
        if !is_word(&self.name) {
            return refuse("cluster.name", "expected 1 to 64 letters, digits, `-` and `_`");
        }
        door("cluster.listen", self.listen, self.tls.as_ref())?;
        if self.tls.as_ref().is_some_and(|tls| tls.ca.is_none()) {
            return refuse("cluster.tls.ca", "expected the signers of the other servers");
        }
        addresses("cluster.routes", &self.routes, self.tls.is_some())
    }
}

impl LeafRemote {
    fn check(&self) -> Result<(), ServerError> {
        addresses("leafnodes.remotes.urls", &self.urls, self.tls.is_some())?;
        if self.account.kind() != NkeyKind::Account {
            return refuse("leafnodes.remotes.account", not_an_account(&self.account));
        }
        Ok(())
    }
}

impl WebSocketDoor {
    fn check(&self) -> Result<(), ServerError> {
        door("websocket.listen", self.listen, self.tls.as_ref())?;
        certificates("websocket.tls.ca", self.tls.as_ref())?;
        let is_origin = |origin: &String| {
            let rest = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['/', '@', ' ', ',']))
        };
        if !self.origins.iter().all(is_origin) {
            return refuse("websocket.origins", "expected `https://host` or `https://host:port`");
        }
        Ok(())
    }
}

/// A door that others are told of: its port is fixed, and it is encrypted where others reach it.
fn door(
    field: &'static str,
    listen: SocketAddr,
    tls: Option<&ServerTls>,
) -> Result<(), ServerError> {
    if listen.port() == 0 {
        return refuse(field, "expected a port that others can be told");
    }
    if tls.is_none() && !listen.ip().is_loopback() {
        return refuse(field, format!("{} without TLS", listen.ip()));
    }
    Ok(())
}

fn addresses(
    field: &'static str,
    list: &[HostPort],
    is_encrypted: bool,
) -> Result<(), ServerError> {
    if list.is_empty() {
        return refuse(field, "expected at least one address");
    }
    match list.iter().find(|address| !is_encrypted && !address.is_loopback()) {
        Some(address) => refuse(field, format!("{address} without TLS")),
        None => Ok(()),
    }
}

fn certificates(field: &'static str, tls: Option<&ServerTls>) -> Result<(), ServerError> {
    if tls.is_some_and(|tls| tls.verify && tls.ca.is_none()) {
        return refuse(field, "expected the signers of clients to verify");
    }
    Ok(())
}

fn within(field: &'static str, number: u32, range: RangeInclusive<u32>) -> Result<(), ServerError> {
    if range.contains(&number) {
        return Ok(());
    }
    refuse(field, format!("expected {} to {} bytes", range.start(), range.end()))
}

/// A name that is one level of a subject.
fn is_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=64).contains(&text.len()) && text.bytes().all(is_plain)
}

fn not_an_account(key: &PublicKey) -> String {
    format!("expected the public key of an account (`A…`), not {}", key.text())
}

fn refuse<T>(field: &'static str, reason: impl Into<String>) -> Result<T, ServerError> {
    Err(ServerError::config(field, reason))
}

const NO_TOKENS: &str =
    "expected `Authorization::Jwt`: it means nothing without tokens of accounts";
/// From what a credential and a small answer need, less would break the server's own requests, to
/// what the server queues for one client before it cuts it off.
const PAYLOAD_BYTES: RangeInclusive<u32> = 64 * 1024..=64 * 1024 * 1024;
/// From the server's own default to what one unknown client may make it keep.
const CONTROL_LINE_BYTES: RangeInclusive<u32> = 4 * 1024..=1024 * 1024;
const LOGIN_WITHIN: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);
/// The server refuses less.
const LAME_DUCK_LEAST: Duration = Duration::from_secs(30);
