//! A request's body: JSON, short, and soon.

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{HeaderMap, StatusCode, header},
};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;
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

pub(crate) fn malformed(what: String) -> Refused {
    Refused::new(StatusCode::BAD_REQUEST, "malformed", what)
}

const JSON: &str = "application/json";
