//! The server of one socket.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use bus_core::{Engine, Entrant, Error, ErrorKind, Guarded, Result};
use tokio::{
    io::{AsyncRead, AsyncWrite, split},
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};

use super::{
    door::Door,
    handshake::{Admitted, Host, admit, turn_away},
    held::Held,
    place::Place,
    session::Session,
};
use crate::{Admission, Control, LinkLimits, outgoing::Outgoing, task::start};

/// Serves one engine on a Unix socket.
///
/// Each client proves with its identity who it is, and gets what its policy allows. Dropping the
/// server ends its connections and removes the socket; [`LinkServer::close`] lets what was
/// accepted come to its end first.
pub struct LinkServer {
    host: Arc<ServerHost>,
    socket: Option<(Place, UnixListener)>,
}

/// What all connections of a server share.
struct ServerHost {
    engine: Arc<dyn Engine>,
    control: OnceLock<Arc<dyn Control>>,
    admission: Admission,
    limits: LinkLimits,
    say: Host,
    held: Arc<Held>,
    strangers: Arc<Semaphore>,
    connections: AtomicUsize,
    /// Set when the server ends.
    closing: watch::Sender<Stage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    Closing,
    Gone,
}

impl LinkServer {
    /// Binds the socket at `path`, which is made with mode 0600 in a directory of mode 0700 that
    /// belongs to this user. A socket that a dead server left behind is replaced.
    ///
    /// # Errors
    /// `Conflict`: another server serves it; `Invalid`: the path or its directory is refused;
    /// `Unavailable`: the system refuses.
    pub async fn bind(
        path: &Path,
        engine: Arc<dyn Engine>,
        admission: Admission,
        limits: LinkLimits,
    ) -> Result<Self> {
        let socket = Place::bind(path).await?;
        let mut server = Self::unbound(engine, admission, limits)?;
        server.socket = Some(socket);
        Ok(server)
    }

    /// A server without a socket: its connections are given to [`LinkServer::connect`].
    ///
    /// # Errors
    /// `Unavailable` when the random source fails.
    pub fn unbound(
        engine: Arc<dyn Engine>,
        admission: Admission,
        limits: LinkLimits,
    ) -> Result<Self> {
        let mut server = [0; 16];
        admission.randomness().fill(&mut server).map_err(Error::from)?;
        let durability = engine.promises().durability;
        let host = ServerHost {
            engine,
            control: OnceLock::new(),
            admission,
            limits,
            say: Host { server, durability, calls_max: limits.calls_max },
            held: Arc::default(),
            strangers: Arc::new(Semaphore::new(limits.strangers_max)),
            connections: AtomicUsize::new(0),
            closing: watch::Sender::new(Stage::Open),
        };
        Ok(Self { host: Arc::new(host), socket: None })
    }

    /// Has `control` do what operators ask of the host; without it that is `Unsupported`. The
    /// first one stays.
    #[must_use]
    pub fn control(self, control: Arc<dyn Control>) -> Self {
        // A server has one host: there is no second one to give.
        let _ignored = self.host.control.set(control);
        self
    }

    /// Where the socket is.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        self.socket.as_ref().map(|(place, _)| place.path().to_owned())
    }

    /// How many clients are let in now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.host.connections.load(Ordering::Relaxed)
    }

    /// Accepts clients until `until` is over; the connections go on afterwards.
    ///
    /// Cancel safe.
    pub async fn serve(&self, until: impl Future<Output = ()>) {
        tokio::pin!(until);
        let Some((_, listener)) = &self.socket else { return until.await };
        loop {
            let accepted = async {
                let stranger = Arc::clone(&self.host.strangers).acquire_owned().await;
                (stranger, listener.accept().await)
            };
            let (stranger, accepted) = tokio::select! {
                () = &mut until => return,
                accepted = accepted => accepted,
            };
            // The semaphore is never closed.
            let Ok(stranger) = stranger else { return };
            match accepted {
                Ok((stream, _)) => self.greet(stream, stranger),
                Err(error) => {
                    // Out of descriptors, mostly: others may go away meanwhile.
                    tracing::warn!(%error, "a client could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Takes on a client at the other end of `stream`, which the caller vouches to be one of this
    /// machine's user; who the client is, it must prove all the same.
    pub fn connect(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        self.attend(stream, None);
    }

    /// Ends the server: no client is accepted any more, what was accepted is answered,
    /// subscriptions end after what they hold, and then the socket is removed.
    pub async fn close(mut self) {
        let place = self.socket.take().map(|(place, _)| place);
        self.host.closing.send_replace(Stage::Closing);
        // Each connection holds a receiver.
        self.host.closing.closed().await;
        drop(place);
    }

    fn greet(&self, stream: UnixStream, stranger: OwnedSemaphorePermit) {
        let us = rustix::process::geteuid().as_raw();
        match stream.peer_cred() {
            Ok(peer) if is_same_user(peer.uid(), us) => self.attend(stream, Some(stranger)),
            Ok(peer) => tracing::warn!(uid = peer.uid(), "a client of another user was refused"),
            Err(error) => tracing::warn!(%error, "a client's user is unknown: refused"),
        }
    }

    fn attend(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        stranger: Option<OwnedSemaphorePermit>,
    ) {
        let (host, stage) = (Arc::clone(&self.host), self.host.closing.subscribe());
        start(async move { host.attend(stream, stranger, stage).await });
    }
}

impl Drop for LinkServer {
    fn drop(&mut self) {
        self.host.closing.send_if_modified(|stage| {
            let was_open = *stage == Stage::Open;
            if was_open {
                *stage = Stage::Gone;
            }
            was_open
        });
    }
}

impl ServerHost {
    async fn attend(
        self: Arc<Self>,
        mut stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        stranger: Option<OwnedSemaphorePermit>,
        mut stage: watch::Receiver<Stage>,
    ) {
        let Some(_place) = Counted::new(&self.connections, self.limits.connections_max) else {
            let why = "this server has as many clients as it takes";
            let full = Error::new(ErrorKind::Full, "connect", why);
            let turning = turn_away(&mut stream, self.say, &full);
            let _gone = timeout(self.limits.handshake_max, turning).await;
            return;
        };
        let admitted = tokio::select! {
            admitted = timeout(
                self.limits.handshake_max,
                admit(&mut stream, &self.admission, self.say),
            ) => admitted,
            _ended = stage.wait_for(|stage| *stage != Stage::Open) => return,
        };
        drop(stranger);
        match admitted {
            Ok(Ok(admitted)) => self.host(stream, admitted, stage).await,
            Ok(Err(error)) => tracing::info!(%error, "a client was not let in"),
            Err(_late) => tracing::info!("a client did not say in time who it is"),
        }
    }

    /// Serves a client until it goes, its right ends, or the server does.
    async fn host(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        admitted: Admitted,
        mut stage: watch::Receiver<Stage>,
    ) {
        let Admitted { certificate, policy } = admitted;
        let entrant = Entrant::Member(certificate.clone());
        let limits = self.limits;
        let (reader, mut writer) = split(stream);
        let out = Outgoing::new(limits.outgoing_bytes_soft, limits.outgoing_bytes_hard);
        let out = Arc::new(out);
        let writing = Arc::clone(&out);
        let written = start(async move { writing.write_to(&mut writer, limits.stall_max).await });
        let engine = Arc::new(Guarded::new(Arc::clone(&self.engine), policy.clone()));
        let (workspace, control) = (certificate.workspace.clone(), self.control.get().cloned());
        let asking = (engine as Arc<dyn Engine>, Door { control, policy, workspace });
        let held = Arc::clone(&self.held);
        let session =
            Arc::new(Session::new(asking, Arc::clone(&out), held, certificate.nkey, limits));
        let ended = tokio::select! {
            listened = session.listen(reader) => listened.map(|()| None),
            () = out.broken() => Ok(None),
            error = self.admission.ends(&entrant) => {
                session.revoke();
                Ok(Some(error))
            }
            stage = stage.wait_for(|stage| *stage != Stage::Open) => match stage.as_deref() {
                Ok(Stage::Closing) => Ok(None),
                _ => Err(Error::new(ErrorKind::Unavailable, "serve", "the server ends")),
            },
        };
        match ended {
            Ok(why) => {
                session.farewell(why.as_ref()).await;
                // Bounded by the time that each write may take.
                let _ended = written.await;
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => {}
            Err(error) => tracing::warn!(%error, agent = %certificate.agent, "a client is refused"),
        }
        session.bury().await;
    }
}

/// One of at most so many.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize, max: usize) -> Option<Self> {
        if count.fetch_add(1, Ordering::Relaxed) >= max {
            count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Self(count))
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a client of the user `uid` may speak to a server of the user `us`: nobody else may, not
/// even the one who may do everything on this machine.
pub(crate) fn is_same_user(uid: u32, us: u32) -> bool {
    uid == us
}

impl std::fmt::Debug for LinkServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkServer").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// How long no client is accepted after one could not be.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
