//! How a client reaches its server.

use std::path::PathBuf;

use bus_core::{BoxFuture, Error, ErrorKind, Result};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::UnixStream,
};

use crate::server::{check_directory, is_same_user};

/// A way to a server, which may be asked again and again.
pub trait Dial: Send + Sync + 'static {
    /// Opens a new stream to the server.
    ///
    /// # Errors
    /// `Unavailable` when nobody is there; `Denied` when somebody else is.
    fn dial(&self) -> BoxFuture<'_, Result<Box<dyn LinkStream>>>;

    /// The server's address, for people.
    fn address(&self) -> String;
}

/// Bytes in both directions.
pub trait LinkStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> LinkStream for S {}

/// The way to the socket at a path.
#[derive(Debug, Clone)]
pub(crate) struct Socket(pub(crate) PathBuf);

impl Dial for Socket {
    fn dial(&self) -> BoxFuture<'_, Result<Box<dyn LinkStream>>> {
        Box::pin(async move {
            let failed = |error: std::io::Error| {
                let why = "no server answers: start one with `vakbus up`";
                Error::new(ErrorKind::Unavailable, "connect", why).because(error)
            };
            // Where others can put a socket, they can put one of theirs.
            check_directory(&self.0)?;
            let stream = UnixStream::connect(&self.0).await.map_err(failed)?;
            let peer = stream.peer_cred().map_err(failed)?.uid();
            if !is_same_user(peer, rustix::process::geteuid().as_raw()) {
                let why = "the server belongs to another user";
                return Err(Error::new(ErrorKind::Denied, "connect", why));
            }
            Ok(Box::new(stream) as Box<dyn LinkStream>)
        })
    }

    fn address(&self) -> String {
        self.0.display().to_string()
    }
}
