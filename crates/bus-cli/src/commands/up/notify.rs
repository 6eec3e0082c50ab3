//! Tells a service manager how it goes (`sd_notify`).

use std::os::unix::{ffi::OsStrExt, net::UnixDatagram};

/// Sends one message to the socket that `NOTIFY_SOCKET` names, if it names one.
pub(in crate::commands) fn tell(message: &str) {
    if let Some(address) = std::env::var_os(VARIABLE)
        && let Err(error) = send(address.as_bytes(), message)
    {
        tracing::warn!(%error, "{VARIABLE} does not take a message");
    }
}

fn send(address: &[u8], message: &str) -> std::io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    match address.strip_prefix(b"@") {
        Some(name) => socket.send_to_addr(message.as_bytes(), &named(name)?),
        None => socket.send_to(message.as_bytes(), std::ffi::OsStr::from_bytes(address)),
    }
    .map(drop)
}

/// An address that is no file: systemd writes it with an `@` in front.
#[cfg(target_os = "linux")]
fn named(name: &[u8]) -> std::io::Result<std::os::unix::net::SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    std::os::unix::net::SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn named(_name: &[u8]) -> std::io::Result<std::os::unix::net::SocketAddr> {
    Err(std::io::Error::other("this system has no abstract sockets"))
}

const VARIABLE: &str = "NOTIFY_SOCKET";
