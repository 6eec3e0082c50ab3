//! A way to a server in the same process, which a stopped clock can drive.

use std::sync::{Arc, Mutex};

use bus_core::{BoxFuture, Error, ErrorKind, Result};
use bus_link::{Dial, LinkServer, LinkStream};
use tokio::{
    io::{DuplexStream, copy_bidirectional},
    task::JoinSet,
};

/// Pipes to the server that is there now, if one is.
#[derive(Clone, Default)]
pub(crate) struct Pipes {
    server: Arc<Mutex<Option<LinkServer>>>,
    /// What carries the bytes of each connection, when connections are to be cut.
    carriers: Option<Arc<Mutex<JoinSet<()>>>>,
}

impl Pipes {
    /// Pipes that can be cut.
    pub(crate) fn cuttable() -> Self {
        Self { carriers: Some(Arc::default()), ..Self::default() }
    }

    /// From now on `server` is there; returns the one before.
    pub(crate) fn lead_to(&self, server: Option<LinkServer>) -> Option<LinkServer> {
        std::mem::replace(&mut *self.server.lock().unwrap(), server)
    }

    /// Cuts all connections; the server stays.
    pub(crate) fn cut(&self) {
        self.carriers.as_ref().unwrap().lock().unwrap().abort_all();
    }

    /// How many clients the server has.
    pub(crate) fn connections(&self) -> usize {
        self.server.lock().unwrap().as_ref().unwrap().connections()
    }

    /// A stream to the server that is there now.
    pub(crate) fn pipe(&self) -> Option<DuplexStream> {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        self.server.lock().unwrap().as_ref()?.connect(far);
        let Some(carriers) = &self.carriers else { return Some(near) };
        let (client, mut here) = tokio::io::duplex(PIPE_BYTES);
        let mut there = near;
        carriers.lock().unwrap().spawn(async move {
            let _ended = copy_bidirectional(&mut here, &mut there).await;
        });
        Some(client)
    }
}

impl Dial for Pipes {
    fn dial(&self) -> BoxFuture<'_, Result<Box<dyn LinkStream>>> {
        Box::pin(async move {
            let nobody = || Error::new(ErrorKind::Unavailable, "connect", "nobody is there");
            Ok(Box::new(self.pipe().ok_or_else(nobody)?) as Box<dyn LinkStream>)
        })
    }

    fn address(&self) -> String {
        "a pipe".to_owned()
    }
}

/// What the system gives a socket, roughly.
const PIPE_BYTES: usize = 200 << 10;
