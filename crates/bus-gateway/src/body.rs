//! A request's body: JSON, short, and soon.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{HeaderMap, StatusCode, header},
};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Frame, SizeHint};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::{Gateway, guard, refused::Refused};

/// Reads the body as `T`.
///
/// What says that it is longer than [`Gateway::BODY_BYTES_MAX`] is refused before a byte of it is
/// read, and what turns out to be longer where it does.
pub(crate) async fn json<T: DeserializeOwned>(request: Request) -> Result<T, Refused> {
    let (head, body) = request.into_parts();
    check_type(&head.headers)?;
    let bytes = read(body).await?;
    // A list of the members in their order would be read as well.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(malformed("the body: expected a JSON object".to_owned()));
    }
    serde_json::from_slice(&bytes).map_err(|error| malformed(format!("the body: {error}")))
}

/// Reads the body of a request that needs none: there is none, or an empty object.
pub(crate) async fn nothing(request: Request) -> Result<(), Refused> {
    let (head, body) = request.into_parts();
    if body.is_end_stream() {
        return Ok(());
    }
    check_type(&head.headers)?;
    let bytes = read(body).await?;
    match serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&bytes) {
        Ok(object) if object.is_empty() => Ok(()),
        _ => Err(malformed("the body: expected none, or {}".to_owned())),
    }
}

fn check_type(headers: &HeaderMap) -> Result<(), Refused> {
    let named = guard::only(headers, &header::CONTENT_TYPE).ok().flatten();
    let is_json = named.is_some_and(|named| {
        let mut parts = named.split(';').map(str::trim);
        let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case(JSON));
        is_json && parts.all(|part| part.eq_ignore_ascii_case("charset=utf-8"))
    });
    if is_json && !headers.contains_key(header::CONTENT_ENCODING) {
        return Ok(());
    }
    let what = "expected Content-Type: application/json and no Content-Encoding";
    Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", what).and_ends())
}

async fn read(body: Body) -> Result<Bytes, Refused> {
    let most = Gateway::BODY_BYTES_MAX;
    let too_large = || {
        let what = format!("a body has at most {most} bytes");
        Refused::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", what).and_ends()
    };
    // What is told of the length is believed where it is too much.
    if body.size_hint().lower() > u64::try_from(most).unwrap_or(u64::MAX) {
        return Err(too_large());
    }
    match timeout(Gateway::BODY_WITHIN, Limited::new(body, most).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(malformed("the body broke off".to_owned()).and_ends()),
        Err(_late) => {
            let what = format!("a body takes at most {} s", Gateway::BODY_WITHIN.as_secs());
            Err(Refused::new(StatusCode::REQUEST_TIMEOUT, "too-slow", what).and_ends())
        }
    }
}

/// Whether a request was read to its end.
pub(crate) struct Read(Arc<AtomicBool>);

/// A body whose end is noted.
struct Watched {
    body: Body,
    is_read: Arc<AtomicBool>,
}

/// A request, and what notes that it was read.
pub(crate) fn watched(request: Request) -> (Request, Read) {
    let is_read = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let read = Read(Arc::clone(&is_read));
    (request.map(|body| Body::new(Watched { body, is_read })), read)
}

impl Read {
    pub(crate) fn is_whole(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.is_read.store(true, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

pub(crate) fn malformed(what: String) -> Refused {
    Refused::new(StatusCode::BAD_REQUEST, "malformed", what)
}

const JSON: &str = "application/json";
