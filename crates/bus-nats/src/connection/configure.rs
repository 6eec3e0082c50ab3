//! The client as the options want it, and what its errors mean here.

use std::{sync::Arc, time::Duration};

use async_nats::{
    Auth, AuthError, ConnectError, ConnectErrorKind, ConnectOptions, PublishError, PublishErrorKind,
};
use bus_core::{Error, ErrorKind};
use bus_crypto::{Credentials, SigningKey};

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
        .ping_interval(ping_interval(options))
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

/// How often the server is asked whether it lives: soon, where there are others to go to.
fn ping_interval(options: &NatsOptions) -> Duration {
    let others = options.profile.replicas() > 1;
    if others { options.ping_interval.min(PING_BESIDE_OTHERS) } else { options.ping_interval }
}

/// The proof of who we are. A signature over nothing would be good for ever, in anybody's hands.
fn sign(auth: &NatsAuth, nonce: &[u8]) -> Result<Auth, AuthError> {
    let mut answer = Auth::new();
    match auth {
        NatsAuth::None => return Ok(answer),
        NatsAuth::Nkey(key) => {
            answer.nkey = Some(key.public().text());
            answer.signature = Some(signed(key, nonce)?);
        }
        NatsAuth::Jwt(credentials) => show(credentials, nonce, &mut answer)?,
        // Who knows no users asks nobody who it is.
        NatsAuth::Renewed(_) if nonce.is_empty() => {}
        NatsAuth::Renewed(renewal) => {
            let credentials = renewal.credentials().map_err(AuthError::new)?;
            show(&credentials, nonce, &mut answer)?;
        }
    }
    Ok(answer)
}

fn show(credentials: &Credentials, nonce: &[u8], answer: &mut Auth) -> Result<(), AuthError> {
    answer.signature = Some(signed(credentials.key(), nonce)?);
    answer.jwt = Some(credentials.jwt().to_owned());
    Ok(())
}

fn signed(key: &SigningKey, nonce: &[u8]) -> Result<Vec<u8>, AuthError> {
    if nonce.is_empty() {
        return Err(AuthError::new("the server gives nothing to sign"));
    }
    Ok(key.sign(nonce).to_vec())
}

/// Why there is no connection for who logs in with `auth`.
pub(super) fn connect_failed(op: &'static str, auth: &NatsAuth, error: ConnectError) -> Error {
    if let Some(too_long) = line_too_long(op, auth, &error) {
        return too_long.because(error);
    }
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

/// A token travels on one line of the protocol. A server that takes shorter ones alone says so, or
/// is gone before its word arrives.
fn line_too_long(op: &'static str, auth: &NatsAuth, error: &ConnectError) -> Option<Error> {
    let length = match auth {
        NatsAuth::Jwt(credentials) => credentials.jwt().len(),
        NatsAuth::Renewed(renewal) => renewal.credentials().ok()?.jwt().len(),
        NatsAuth::None | NatsAuth::Nkey(_) => return None,
    };
    let source = std::error::Error::source(error);
    let said = source.map(ToString::to_string).unwrap_or_default().to_ascii_lowercase();
    if said.contains("maximum control line") {
        let why = format!(
            "a certificate of {length} bytes is too long for this server: \
             set its max_control_line to 65536"
        );
        return Some(Error::new(ErrorKind::TooLarge, op, why));
    }
    let is_cut_off =
        error.kind() == ConnectErrorKind::Io && CUT_OFF.iter().any(|it| said.contains(it));
    if length + LOGIN_BYTES <= CONTROL_LINE_BYTES || !is_cut_off {
        return None;
    }
    let why = format!(
        "the server ended the connection at the login: where its max_control_line is less than \
         65536, a certificate of {length} bytes may be too long for it"
    );
    Some(Error::new(ErrorKind::Unavailable, op, why))
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

/// A frozen server is left after two of them without an answer, about when the others have elected
/// another one.
const PING_BESIDE_OTHERS: Duration = Duration::from_secs(2);
/// How the system says that the other end is gone, at the beginning of a connection.
const CUT_OFF: [&str; 4] = ["reset by peer", "broken pipe", "unexpected end", "got nothing"];
/// The line that a server takes unless it is told otherwise.
const CONTROL_LINE_BYTES: usize = 4_096;
/// What stands beside a token on that line, about.
const LOGIN_BYTES: usize = 300;
const TOO_LARGE: &str = "body and headers are larger than the server's max_payload";
