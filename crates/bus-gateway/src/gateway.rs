//! The door itself: one listener on the loopback, a few connections, one question each.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::get,
};
use bus_core::ErrorKind;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Mutex, Semaphore},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Sources, Standing,
    guard::{Guard, Refusal},
    health,
    metrics::{CONTENT_TYPE, Page},
};

/// The loopback HTTP door of one process: `/healthz`, `/readyz` and `/metrics`.
///
/// It has no login, so it listens on the loopback alone and changes nothing.
#[derive(Debug)]
pub struct Gateway {
    listener: TcpListener,
    address: SocketAddr,
}

/// Why a door cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// Others than this machine could ask, and there is no login.
    #[error("{address} is not an address of this machine alone: expected 127.0.0.1 or [::1]")]
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

impl Gateway {
    /// How many connections are open at once; more wait to be accepted.
    pub const CONNECTIONS_MAX: usize = 64;

    /// The longest head of a request, in bytes (8 KiB).
    pub const HEAD_BYTES_MAX: usize = 8 * 1024;

    /// Listens on `address`; port 0 takes a free one. Who connects waits for
    /// [`serve`](Self::serve).
    ///
    /// # Errors
    /// [`GatewayError`]; nothing is left behind then.
    pub async fn bind(address: SocketAddr) -> Result<Self, GatewayError> {
        if !address.ip().is_loopback() {
            return Err(GatewayError::NotLoopback { address });
        }
        let failed = |error| GatewayError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers with what `sources` say until `cancel`; answers under way are cut off then. Dropping
    /// it does the same.
    pub async fn serve(self, sources: Arc<dyn Sources>, cancel: CancellationToken) {
        let Self { listener, address } = self;
        let door = Door { sources, asked: Arc::default() };
        let service = TowerToHyperService::new(routes(door, Guard::new(address)));
        let permits = Arc::new(Semaphore::new(Self::CONNECTIONS_MAX));
        let mut open = JoinSet::new();
        loop {
            let accepted = async {
                // The semaphore is never closed.
                let permit = Arc::clone(&permits).acquire_owned().await.ok();
                (permit, listener.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                () = cancel.cancelled() => return,
                accepted = accepted => accepted,
            };
            while open.try_join_next().is_some() {}
            match accepted {
                Ok((stream, _)) => {
                    let answered = answer(stream, service.clone());
                    open.spawn(async move {
                        answered.await;
                        drop(permit);
                    });
                }
                // No more files, mostly: it comes back.
                Err(error) => {
                    tracing::warn!(%error, "a connection to {address} was not accepted");
                    sleep(ACCEPT_AGAIN_AFTER).await;
                }
            }
        }
    }
}

/// Reads one request and answers it.
async fn answer(stream: TcpStream, service: TowerToHyperService<Router>) {
    let mut connection = http1::Builder::new();
    connection
        .timer(TokioTimer::new())
        .keep_alive(false)
        .max_buf_size(Gateway::HEAD_BYTES_MAX)
        .header_read_timeout(WHOLE_WITHIN);
    let served = connection.serve_connection(TokioIo::new(stream), service);
    match timeout(WHOLE_WITHIN, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a request was not answered"),
        Err(_late) => tracing::debug!("a request took too long"),
    }
}

fn routes(door: Door, guard: Guard) -> Router {
    Router::new()
        .route("/healthz", get(async || told(StatusCode::OK, &health::healthy())))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .fallback(async || (StatusCode::NOT_FOUND, "here are /healthz, /readyz and /metrics\n"))
        .with_state(door)
        // Around everything, so that no handler sees what is refused.
        .layer(middleware::from_fn_with_state(guard, admit))
}

async fn admit(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let checked = guard.check((request.method(), request.uri()), request.headers());
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(Refusal::Foreign) => StatusCode::FORBIDDEN.into_response(),
        Err(Refusal::Method) => {
            (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET, HEAD")]).into_response()
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
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

fn told(status: StatusCode, value: &Value) -> Response {
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

/// How long a connection may last from its first byte to its last.
const WHOLE_WITHIN: Duration = Duration::from_secs(5);

/// How long nothing is accepted after the system refused to.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_secs(1);
