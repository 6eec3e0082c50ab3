//! What changes something: who is let in to it, and the routes.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};
use bus_peers::{InstanceSecret, SharedBus};
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::{
    DoorSecret, Limits, guard, openapi, peers,
    rate::{Client, Meters},
    refused::Refused,
};

/// What a door lets programs do that have its secret.
pub struct Api {
    secret: DoorSecret,
    peers: SharedBus,
    limits: Limits,
}

impl Api {
    /// The peer bus, for whoever has `secret`.
    #[must_use]
    pub fn new(secret: DoorSecret, peers: SharedBus) -> Self {
        Self { secret, peers, limits: Limits::default() }
    }

    /// With other limits than the usual ones.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The bus behind the routes.
    pub(crate) fn peers(&self) -> SharedBus {
        Arc::clone(&self.peers)
    }

    /// Who is let in, and the routes, which let nobody else in.
    pub(crate) fn into_routes(self) -> (Arc<Admission>, Router) {
        let meters = Mutex::new(Meters::new(self.limits));
        let admission = Arc::new(Admission { secret: self.secret, meters });
        let admit = middleware::from_fn_with_state(Arc::clone(&admission), admit);
        let routes = peers::routes(self.peers).route_layer(admit).merge(openapi::route());
        (admission, routes)
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Who is let in, and how often.
#[derive(Debug)]
pub(crate) struct Admission {
    secret: DoorSecret,
    meters: Mutex<Meters>,
}

impl Admission {
    /// Refuses who has not the secret of the door.
    pub(crate) fn knows(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let sent = guard::only(headers, &header::AUTHORIZATION).ok().flatten();
        let sent = sent.and_then(|sent| sent.split_once(' ')).filter(|(scheme, _)| {
            // Schemes have no case.
            scheme.eq_ignore_ascii_case("bearer")
        });
        if sent.is_some_and(|(_, secret)| self.secret.is(secret.as_bytes())) {
            return Ok(());
        }
        self.counts(Client::Stranger).map_err(Refused::and_ends)?;
        let what = "expected Authorization: Bearer and the secret of this door";
        Err(Refused::new(StatusCode::UNAUTHORIZED, "unauthenticated", what).and_ends())
    }

    /// Lets in who has the secret and has not asked too often.
    fn admit(&self, headers: &HeaderMap, secret: Option<&str>) -> Result<(), Refused> {
        self.knows(headers)?;
        match secret {
            Some(secret) => self.counts(Client::Instance(secret.as_bytes())),
            None => self.counts(Client::Bearer),
        }
    }

    /// Counts by itself from now on what is asked with a secret that was found to be one.
    fn learn(&self, secret: &str) {
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        meters.learn(secret.as_bytes(), Instant::now());
    }

    fn counts(&self, client: Client<'_>) -> Result<(), Refused> {
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        meters.take(client, Instant::now()).map_err(|again_after| {
            let what = "this client asks too often";
            Refused::new(StatusCode::TOO_MANY_REQUESTS, "too-often", what).again_after(again_after)
        })
    }
}

async fn admit(State(admission): State<Arc<Admission>>, request: Request, next: Next) -> Response {
    // Who registers or lists is no instance, whatever else is sent.
    let is_open = request.uri().path() == INSTANCES;
    let secret = match instance_secret(request.headers()) {
        Ok(secret) => secret.filter(|_| !is_open).map(|secret| Zeroizing::new(secret.to_owned())),
        Err(refused) => return refused.into_response(),
    };
    if let Err(refused) = admission.admit(request.headers(), secret.as_deref().map(|s| s.as_str()))
    {
        return refused.into_response();
    }
    let mut response = next.run(request).await;
    if let Some(Minted(secret)) = response.extensions_mut().remove() {
        admission.learn(secret.expose());
    }
    // On each of these routes it is a success alone that says so for certain.
    if let Some(secret) = secret.filter(|_| response.status().is_success()) {
        admission.learn(&secret);
    }
    response
}

/// Goes with an answer that tells a new secret.
#[derive(Clone)]
pub(crate) struct Minted(pub(crate) Arc<InstanceSecret>);

/// Where instances are registered and listed.
pub(crate) const INSTANCES: &str = "/api/v1/bus/instances";

/// The secret of the instance that is spoken for, if it was sent.
pub(crate) fn instance_secret(headers: &HeaderMap) -> Result<Option<&str>, Refused> {
    guard::only(headers, &INSTANCE_SECRET).map_err(|_| {
        let what = "expected Vakbus-Instance-Secret once, and readable";
        Refused::new(StatusCode::BAD_REQUEST, "malformed", what)
    })
}

/// What an instance shows that it is itself.
pub(crate) const INSTANCE_SECRET: HeaderName = HeaderName::from_static("vakbus-instance-secret");
