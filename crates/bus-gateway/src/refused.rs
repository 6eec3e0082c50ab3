//! What a client is told that is not served: `{"error": "…", "code": "…"}`, and an `outcome` of
//! `unknown` where it may have been done all the same.

use std::{borrow::Cow, time::Duration};

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::gateway::{Keeps, told};

/// A refusal as it goes over the wire.
#[derive(Debug)]
pub(crate) struct Refused {
    status: StatusCode,
    code: &'static str,
    error: Cow<'static, str>,
    retry_after: Option<Duration>,
    /// Whether the connection goes on: not after a request that was not read to its end, nor for
    /// somebody who does not get in.
    keeps: bool,
    /// Whether what was asked may have been done all the same.
    may_be_done: bool,
}

impl Refused {
    /// One that says no to a request that was read and understood.
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        error: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status,
            code,
            error: error.into(),
            retry_after: None,
            keeps: true,
            may_be_done: false,
        }
    }

    /// Ends the connection with it.
    pub(crate) const fn and_ends(mut self) -> Self {
        self.keeps = false;
        self
    }

    /// Says that it may have been done all the same.
    pub(crate) const fn may_be_done(mut self) -> Self {
        self.may_be_done = true;
        self
    }

    /// Says when to come again.
    pub(crate) const fn again_after(mut self, time: Duration) -> Self {
        self.retry_after = Some(time);
        self
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut value = json!({ "error": self.error, "code": self.code });
        if let Some(members) = value.as_object_mut().filter(|_| self.may_be_done) {
            members.insert("outcome".to_owned(), "unknown".into());
        }
        let mut response = told(self.status, &value);
        if let Some(time) = self.retry_after {
            // Whole seconds are what the header knows; never too early.
            let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, seconds.max(1).into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        if self.keeps {
            response.extensions_mut().insert(Keeps);
        }
        response
    }
}
