//! The client as the options want it, and what its errors mean here.

use std::{sync::Arc, time::Duration};

use async_nats::{
    Auth, AuthError, ConnectError, ConnectErrorKind, ConnectOptions, PublishError,
    PublishErrorKind, RequestError, RequestErrorKind,
};
use bus_core::{Error, ErrorKind};

use super::watcher::Watcher;
use crate::options::{NatsAuth, NatsOptions};

/// How the client connects. The key signs here and nowhere else: the client never holds a seed.
pub(super) fn configure(
    options: &NatsOptions,
    inbox: &str,
    watcher: &Arc<Watcher>,
) -> ConnectOptions {
    let auth = options.auth.clone();
    let (events, pauses) = (Arc::clone(watcher), Arc::clone(watcher));
    let mut connect = ConnectOptions::with_auth_callback(move |nonce| {
        let answer = sign(&auth, &nonce);
        async move { answer }
    });
    connect = connect
        .name(&options.name)
        .custom_inbox_prefix(inbox)
        .connection_timeout(options.connect_wait)
        .request_timeout(None)
        .ping_interval(options.ping_interval)
        .client_capacity(options.waiting_max)
        .require_tls(options.tls.required)
        .reconnect_delay_callback(move |attempt| pauses.pause_before(attempt))
        .event_callback(move |event| Arc::clone(&events).note(event));
    if options.tls.first {
        connect = connect.tls_first();
    }
    for roots in &options.tls.roots {
        connect = connect.add_root_certificates(roots.clone());
    }
    if let Some((certificate, key)) = &options.tls.client {
        connect = connect.add_client_certificate(certificate.clone(), key.clone());
    }
    connect
}

/// The proof of who we are. A signature over nothing would be good for ever, in anybody's hands.
fn sign(auth: &NatsAuth, nonce: &[u8]) -> Result<Auth, AuthError> {
    let mut answer = Auth::new();
    let key = match auth {
        NatsAuth::None => return Ok(answer),
        NatsAuth::Nkey(key) => {
            answer.nkey = Some(key.public().text());
            &**key
        }
        NatsAuth::Jwt(credentials) => {
            answer.jwt = Some(credentials.jwt().to_owned());
            credentials.key()
        }
    };
    if nonce.is_empty() {
        return Err(AuthError::new("the server gives nothing to sign"));
    }
    answer.signature = Some(key.sign(nonce).to_vec());
    Ok(answer)
}

pub(super) fn connect_failed(op: &'static str, error: ConnectError) -> Error {
    let (kind, why) = match error.kind() {
        ConnectErrorKind::AuthorizationViolation => {
            (ErrorKind::Denied, "the server knows no such user")
        }
        ConnectErrorKind::Authentication => {
            (ErrorKind::Denied, "the server knows no users by keys: it gives nothing to sign")
        }
        ConnectErrorKind::Tls => (ErrorKind::Unavailable, "no encrypted connection"),
        _ => (ErrorKind::Unavailable, "no server can be reached"),
    };
    Error::new(kind, op, why).because(error)
}

pub(super) fn request_failed(op: &'static str, error: RequestError) -> Error {
    let (kind, why) = match error.kind() {
        RequestErrorKind::NoResponders => {
            return Error::new(ErrorKind::NoRecipient, op, "nobody listens");
        }
        RequestErrorKind::MaxPayloadExceeded => {
            return Error::new(ErrorKind::TooLarge, op, TOO_LARGE).because(error);
        }
        RequestErrorKind::InvalidSubject => {
            return Error::new(ErrorKind::Invalid, op, "the subject is none").because(error);
        }
        RequestErrorKind::TimedOut => (ErrorKind::Timeout, "no answer came in time"),
        RequestErrorKind::Other => (ErrorKind::Unavailable, "the connection ended"),
    };
    Error::new(kind, op, why).because(error).unknown()
}

pub(super) fn publish_failed(op: &'static str, error: PublishError) -> Error {
    let (kind, why) = match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => (ErrorKind::TooLarge, TOO_LARGE),
        PublishErrorKind::InvalidSubject => (ErrorKind::Invalid, "the subject is none"),
        PublishErrorKind::Send => (ErrorKind::Unavailable, "the connection ended"),
    };
    Error::new(kind, op, why).because(error)
}

pub(super) fn no_answer(op: &'static str, wait: Duration) -> Error {
    Error::new(ErrorKind::Timeout, op, format!("no answer came within {wait:?}")).unknown()
}

pub(super) fn not_connected(op: &'static str) -> Error {
    Error::new(ErrorKind::Unavailable, op, "there is no connection to a server now")
}

pub(super) fn closed(op: &'static str) -> Error {
    Error::new(ErrorKind::Closed, op, "the bus is closed")
}

const TOO_LARGE: &str = "body and headers are larger than the server's max_payload";
