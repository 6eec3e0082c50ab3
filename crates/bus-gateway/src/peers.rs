//! The routes of the peer bus: agents register, publish and listen over HTTP.

mod refusals;
mod resume;
mod stream;
mod wire;

use std::sync::Arc;

use axum::{
    Extension, Router,
    extract::{Path, Request, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{delete, get, post},
};
use bus_peers::{InstanceSecret, PeerTarget, SharedBus};
use serde::Serialize;

use self::wire::{Instances, Live, Publishing, Registered, Registering};
use crate::{
    api, body,
    door::places::Place,
    gateway::{Keeps, told},
    guard,
    refused::Refused,
};

/// The routes, for whoever is let in to them.
pub(crate) fn routes(bus: SharedBus) -> Router {
    Router::new()
        .route(api::INSTANCES, get(list).post(register))
        .route("/api/v1/bus/instances/{instance_id}", delete(deregister))
        .route("/api/v1/bus/instances/{instance_id}/heartbeat", post(heartbeat))
        .route("/api/v1/bus/publish", post(publish))
        .route("/api/v1/bus/subscribe/{instance_id}", get(subscribe))
        .with_state(bus)
}

async fn list(State(bus): State<SharedBus>) -> Result<Response, Refused> {
    let live = bus.registry().live().await?;
    let instances = live.into_iter().map(Live::from).collect();
    answer(StatusCode::OK, &Instances { instances })
}

async fn register(State(bus): State<SharedBus>, request: Request) -> Result<Response, Refused> {
    let Registering { definition_id, project } = body::json(request).await?;
    let (meta, secret) = bus.registry().register(&definition_id, project.as_deref()).await?;
    let mut response = answer(StatusCode::CREATED, &Registered { meta, secret: secret.expose() })?;
    response.extensions_mut().insert(api::Minted(Arc::new(secret)));
    Ok(response)
}

async fn deregister(
    State(bus): State<SharedBus>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Refused> {
    let (instance, secret) = (named(path)?, secret_in(request.headers())?);
    body::nothing(request).await?;
    let status = match bus.deregister(&instance, &secret).await? {
        true => StatusCode::NO_CONTENT,
        false => StatusCode::NOT_FOUND,
    };
    Ok(kept(status.into_response()))
}

async fn heartbeat(
    State(bus): State<SharedBus>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Refused> {
    let (instance, secret) = (named(path)?, secret_in(request.headers())?);
    body::nothing(request).await?;
    let live = bus.heartbeat(&instance, &secret).await?;
    answer(StatusCode::OK, &Live::from(live))
}

async fn publish(State(bus): State<SharedBus>, request: Request) -> Result<Response, Refused> {
    let secret = secret_in(request.headers())?;
    let Publishing { from, to, payload, in_reply_to } = body::json(request).await?;
    // What the sender lacks is told before what its target does.
    from.validate()?;
    let target = PeerTarget::parse(to)?;
    let posted = bus.publish(&secret, from, &target, payload, in_reply_to).await?;
    let json = [(header::CONTENT_TYPE, JSON)];
    Ok(kept((StatusCode::ACCEPTED, json, posted.json().clone()).into_response()))
}

async fn subscribe(
    State(bus): State<SharedBus>,
    Extension(place): Extension<Arc<Place>>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Refused> {
    if request.method() == Method::HEAD {
        let allow = [(header::ALLOW, "GET")];
        return Ok((StatusCode::METHOD_NOT_ALLOWED, allow).into_response());
    }
    let (instance, secret) = (named(path)?, secret_in(request.headers())?);
    let last = guard::only(request.headers(), &stream::LAST_EVENT_ID)
        .map_err(|_| body::malformed("expected Last-Event-ID once".to_owned()))?
        .map(str::to_owned);
    // First, so that nothing is delivered to one who is turned away.
    let Some(listening) = place.may_listen() else {
        let what = "all places for subscribers are taken";
        let refused = Refused::new(StatusCode::SERVICE_UNAVAILABLE, "full", what);
        return Err(refused.again_after(stream::KEEP_ALIVE));
    };
    let inbox = bus.subscribe(&instance, &secret).await?;
    place.listens(listening);
    Ok(stream::answer(&bus, inbox, last))
}

/// The instance that a path names.
fn named(path: Result<Path<String>, PathRejection>) -> Result<String, Refused> {
    path.map(|Path(name)| name)
        .map_err(|_| body::malformed("the path: expected the id of an instance".to_owned()))
}

/// The secret that the instance shows; an empty one, which is nobody's, when it shows none.
fn secret_in(headers: &HeaderMap) -> Result<InstanceSecret, Refused> {
    let shown = api::instance_secret(headers)?.unwrap_or_default();
    Ok(InstanceSecret::from_text(shown.to_owned()))
}

/// An answer after which the connection goes on.
fn answer(status: StatusCode, value: &impl Serialize) -> Result<Response, Refused> {
    let value = serde_json::to_value(value).map_err(|_| {
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "unavailable", "no JSON came of the answer")
    })?;
    Ok(kept(told(status, &value)))
}

fn kept(mut response: Response) -> Response {
    response.extensions_mut().insert(Keeps);
    response
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

#[cfg(test)]
mod tests {
    use bus_peers::PeerBus;

    use super::*;
    use crate::door::places::Places;

    #[tokio::test]
    async fn who_finds_no_place_to_listen_is_never_attached() {
        let logs = tempfile::tempdir().unwrap();
        let bus = Arc::new(PeerBus::new(logs.path()));
        let (meta, secret) = bus.registry().register("worker", None).await.unwrap();
        let place = Arc::new(Places::new(1, 0).enter().await);
        let request = Request::builder()
            .header(api::INSTANCE_SECRET, secret.expose())
            .body(axum::body::Body::empty())
            .unwrap();
        let path = Ok(Path(meta.instance_id.clone()));
        let refused = subscribe(State(bus.clone()), Extension(place), path, request).await;
        let status = refused.unwrap_err().into_response().status();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        let first = bus.subscribe(&meta.instance_id, &secret).await.unwrap();
        assert_eq!(first.subscription_id(), "1", "there was none before");
    }
}
