//! The door itself: one listener, places for those who come, and who is let in.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use bus_core::ErrorKind;
use bus_peers::SharedBus;
use serde_json::Value;
use tokio::{
    net::TcpListener,
    sync::Mutex,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Api, Sources, Standing, Tls,
    api::Admission,
    body::watched,
    door::{
        connection,
        places::{Place, Places},
    },
    guard::{Guard, Refusal},
    health,
    metrics::{CONTENT_TYPE, Page},
};

/// The HTTP door of one process: `/healthz`, `/readyz`, `/metrics`, and what an [`Api`] adds.
///
/// It is on the loopback alone, or others come to it through TLS. What needs no login changes
/// nothing.
#[derive(Debug)]
pub struct Gateway {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
    api: Option<Api>,
}

/// Why a door cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// Others than this machine could ask, and could listen to what is said.
    #[error(
        "{address} is not an address of this machine alone: expected 127.0.0.1 or [::1], or a \
         certificate for TLS"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// The certificate or its key is none.
    #[error("TLS of the door: {why}")]
    Tls {
        /// What was expected.
        why: String,
    },
    /// A text is no secret of a door.
    #[error("expected the secret of a door: 43 letters, digits, - and _")]
    BadSecret,
    /// There is no randomness for a secret.
    #[error("the system gives no randomness for a secret")]
    Entropy,
}

/// What requests share.
#[derive(Clone)]
struct Door {
    sources: Arc<dyn Sources>,
    asked: Arc<Mutex<Option<Asked>>>,
}

/// What the engine said, and when it was asked.
struct Asked {
    at: Instant,
    standing: Result<Standing, ErrorKind>,
}

/// Marks an answer after which its connection goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keeps;

impl Gateway {
    /// How many connections that ask are open at once. When another one comes, the one that has
    /// been open longest is closed after its next answer.
    pub const CONNECTIONS_MAX: usize = 256;

    /// How many connections that listen to a subscription are open besides.
    pub const LISTENERS_MAX: usize = 2_048;

    /// The longest head of a request, in bytes (8 KiB).
    pub const HEAD_BYTES_MAX: usize = 8 * 1024;

    /// The longest body of a request, in bytes (256 KiB).
    pub const BODY_BYTES_MAX: usize = 256 * 1024;

    /// How long the body of a request may take to come.
    pub const BODY_WITHIN: Duration = Duration::from_secs(10);

    /// Listens on `address`, one of the loopback; port 0 takes a free one. Who connects waits for
    /// [`serve`](Self::serve).
    ///
    /// # Errors
    /// [`GatewayError`]; nothing is left behind then.
    pub async fn bind(address: SocketAddr) -> Result<Self, GatewayError> {
        if !address.ip().is_loopback() {
            return Err(GatewayError::NotLoopback { address });
        }
        Self::listen(address, None).await
    }

    /// As [`bind`](Self::bind), on any address: clients come through TLS and ask for one of its
    /// names. All but `/healthz` needs the secret of the [`Api`]; without an [`Api`] nobody has it.
    ///
    /// # Errors
    /// [`GatewayError`]; nothing is left behind then.
    pub async fn bind_tls(address: SocketAddr, tls: Tls) -> Result<Self, GatewayError> {
        Self::listen(address, Some(tls)).await
    }

    async fn listen(address: SocketAddr, tls: Option<Tls>) -> Result<Self, GatewayError> {
        let failed = |error| GatewayError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, tls, api: None })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// How clients ask for it: by its address, or beyond the loopback by the first of its names.
    #[must_use]
    pub fn url(&self) -> String {
        match self.tls.as_ref().and_then(|tls| tls.names().first()) {
            Some(name) => format!("https://{name}:{}", self.address.port()),
            None => format!("http://{}", self.address),
        }
    }

    /// Answers for `api` as well.
    #[must_use]
    pub fn with_api(self, api: Api) -> Self {
        Self { api: Some(api), ..self }
    }

    /// Answers with what `sources` say until `cancel`; answers under way are cut off then. Dropping
    /// it does the same.
    pub async fn serve(self, sources: Arc<dyn Sources>, cancel: CancellationToken) {
        let Self { listener, address, tls, api } = self;
        let door = Door { sources, asked: Arc::default() };
        let guard = match &tls {
            Some(tls) => Guard::beyond(address, tls.names()),
            None => Guard::new(address),
        };
        let peers = api.as_ref().map(Api::peers);
        let (admission, api) = api.map(Api::into_routes).unzip();
        let entry = Entry { guard, admission, is_public: tls.is_some() };
        let routes = routes(door, entry, api.unwrap_or_default());
        let places = Places::new(Self::CONNECTIONS_MAX, Self::LISTENERS_MAX);
        let acceptor = tls.as_ref().map(Tls::acceptor);
        let mut open = JoinSet::new();
        loop {
            let entered = async {
                let (stream, _) = listener.accept().await?;
                Ok::<_, io::Error>((stream, places.enter().await))
            };
            let entered = tokio::select! {
                () = cancel.cancelled() => break,
                entered = entered => entered,
            };
            while open.try_join_next().is_some() {}
            match entered {
                Ok((stream, place)) => {
                    let inside = (place, routes.clone());
                    open.spawn(connection::serve(stream, acceptor.clone(), inside));
                }
                // No more files, mostly: it comes back.
                Err(error) => {
                    tracing::warn!(%error, "a connection to {address} was not accepted");
                    sleep(ACCEPT_AGAIN_AFTER).await;
                }
            }
        }
        // What they have under way ends before the journal does.
        open.shutdown().await;
        if let Some(peers) = peers {
            close(&peers).await;
        }
    }
}

/// Writes what is under way to the journal, and tells what was found wrong in it.
async fn close(peers: &SharedBus) {
    for (file, tail) in peers.take_mended() {
        tracing::warn!(file = %file.display(), ?tail, "the end of a journal was mended");
    }
    if let Err(error) = peers.close().await {
        tracing::warn!(%error, "the journal of the peers was not closed");
    }
}

fn routes(door: Door, entry: Entry, api: Router) -> Router {
    Router::new()
        .route("/healthz", get(async || told(StatusCode::OK, &health::healthy())))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(door)
        .merge(api)
        .fallback(async || (StatusCode::NOT_FOUND, "here are /healthz, /readyz and /metrics\n"))
        // Around everything, so that no handler sees what is refused.
        .layer(middleware::from_fn_with_state(Arc::new(entry), enter))
}

/// What everybody passes.
#[derive(Debug)]
struct Entry {
    guard: Guard,
    admission: Option<Arc<Admission>>,
    /// Whether others than this machine may come.
    is_public: bool,
}

impl Entry {
    /// The answer to a request that is not let in.
    fn refuses(&self, request: &Request) -> Option<Response> {
        match self.guard.check(request.uri(), request.headers()) {
            Ok(()) => {}
            Err(Refusal::Foreign) => return Some(StatusCode::FORBIDDEN.into_response()),
            Err(Refusal::Ambiguous) => return Some(StatusCode::BAD_REQUEST.into_response()),
        }
        if !self.is_public || request.uri().path() == "/healthz" {
            return None;
        }
        match &self.admission {
            Some(admission) => {
                admission.knows(request.headers()).err().map(IntoResponse::into_response)
            }
            None => Some(StatusCode::FORBIDDEN.into_response()),
        }
    }
}

async fn enter(State(entry): State<Arc<Entry>>, request: Request, next: Next) -> Response {
    let place = request.extensions().get::<Arc<Place>>().cloned();
    let (request, read) = watched(request);
    let mut response = match entry.refuses(&request) {
        None => next.run(request).await,
        Some(refused) => refused,
    };
    let is_read = read.is_whole();
    // What nobody has read of a request would be taken for the next one.
    let keeps = response.extensions_mut().remove::<Keeps>().is_some() && is_read;
    if let Some(place) = place.as_ref().filter(|_| !is_read) {
        place.leave_unread();
    }
    let headers = response.headers_mut();
    if !keeps || place.is_some_and(|place| place.is_leaving()) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn readyz(State(door): State<Door>) -> Response {
    let standing = door.standing().await;
    let status = match standing {
        Ok(_) => StatusCode::OK,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    told(status, &health::ready(door.sources.build(), &standing))
}

async fn metrics(State(door): State<Door>) -> Response {
    let standing = door.standing().await;
    let page = Page { build: door.sources.build(), counts: door.sources.counts(), standing };
    match page.into_text() {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

pub(crate) fn told(status: StatusCode, value: &Value) -> Response {
    let body = Body::from(format!("{value}\n"));
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

impl Door {
    /// How the engine stands: what it said within the last second, else what it says now.
    ///
    /// The lock is held while it is asked, so that however many ask here, it is asked once.
    async fn standing(&self) -> Result<Standing, ErrorKind> {
        let mut asked = self.asked.lock().await;
        if let Some(last) = &*asked
            && last.at.elapsed() < ASKED_EVERY
        {
            return last.standing.clone();
        }
        let standing = match timeout(ANSWERS_WITHIN, self.sources.ask()).await {
            Ok(answer) => answer.map_err(|error| error.kind()),
            Err(_late) => Err(ErrorKind::Timeout),
        };
        *asked = Some(Asked { at: Instant::now(), standing: standing.clone() });
        standing
    }
}

/// How often the engine is asked at most.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// How long its answer is waited for.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// How long nothing is accepted after the system refused to.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_secs(1);
