//! What the routes take and answer, in the form of `OpenAPI`.

use axum::{Router, http::header, response::IntoResponse as _, routing::get};

/// Where it is: it needs no login, and holds nothing of this process.
pub(crate) fn route() -> Router {
    let document =
        async || ([(header::CONTENT_TYPE, "application/json")], DOCUMENT).into_response();
    Router::new().route(PATH, get(document))
}

const PATH: &str = "/api/v1/openapi.json";

const DOCUMENT: &str = include_str!("../openapi.json");
