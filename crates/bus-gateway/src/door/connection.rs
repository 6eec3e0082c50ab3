//! One connection, from its first byte to its last.

use std::{pin::pin, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

use super::{patient::Patient, places::Place};
use crate::Gateway;

/// Serves a connection that was accepted, through TLS if it has to be.
pub(crate) async fn serve(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    (place, routes): (Place, Router),
) {
    // Answers are small, and wait for nothing that may follow. Without it they are only slower.
    let _slower = stream.set_nodelay(true);
    let place = Arc::new(place);
    let Some(tls) = tls else { return answer(stream, place, routes).await };
    let shaken = tokio::select! {
        shaken = timeout(HEAD_WITHIN, tls.accept(stream)) => shaken,
        () = is_needed_for_a_while(&place) => return,
    };
    match shaken {
        Ok(Ok(stream)) => answer(stream, place, routes).await,
        Ok(Err(error)) => tracing::debug!(%error, "no TLS came of a connection"),
        Err(_late) => tracing::debug!("no TLS came of a connection in time"),
    }
}

/// Reads requests and answers them until the connection ends, or somebody else needs its place.
async fn answer<T>(stream: T, place: Arc<Place>, routes: Router)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = {
        let place = Arc::clone(&place);
        service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Arc::clone(&place));
            let mut routes = routes.clone();
            // A router is always ready.
            let place = Arc::clone(&place);
            async move {
                place.answers(true);
                let answer = routes.call(request.map(Body::new)).await;
                place.answers(false);
                answer
            }
        })
    };
    let mut connection = http1::Builder::new();
    connection
        .timer(TokioTimer::new())
        .max_buf_size(Gateway::HEAD_BYTES_MAX)
        .header_read_timeout(HEAD_WITHIN);
    let stream = TokioIo::new(Patient::new(stream, Arc::clone(&place)));
    let mut served = pin!(connection.serve_connection(stream, service));
    let ended = tokio::select! {
        ended = &mut served => ended,
        () = place.is_needed() => {
            // A client that is told in an answer loses no request that it has just sent.
            place.leave();
            match timeout(LEAVES_WITHIN, &mut served).await {
                Ok(ended) => ended,
                // Nor does one that is in the middle of a head, which nobody has done anything of.
                Err(_silent) if place.owes_nothing() => return,
                Err(_busy) => {
                    served.as_mut().graceful_shutdown();
                    served.await
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}

/// Waits until somebody needs the place, and has for as long as one may be silent.
async fn is_needed_for_a_while(place: &Place) {
    place.is_needed().await;
    sleep(LEAVES_WITHIN).await;
}

/// How long the head of a request may take; as long a connection may be silent between two.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// How long one whose place is needed may be silent before it is closed without an answer.
const LEAVES_WITHIN: Duration = Duration::from_secs(1);
