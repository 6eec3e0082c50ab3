//! What is asked, answered, and done with an answer, as it is written.

mod authorization;
mod end;
mod request;
mod verdict;

use bus_envelope::{EventHash, Timestamp};
use serde::{Deserialize, Serialize};

pub use self::{
    authorization::Authorization,
    end::{ApprovalEnd, EndKind},
    request::ApprovalRequest,
    verdict::ApprovalVerdict,
};
use crate::{Error, ErrorKind, Result};

/// The longest id of an envelope.
const ID_BYTES_MAX: usize = 128;

/// More than any payload here needs, escapes included.
const JSON_BYTES_MAX: usize = 32 * 1024;

/// Refuses a text of another length than is allowed, or one with control characters.
fn text(field: &str, text: &str, bytes_min: usize, bytes_max: usize) -> Result<()> {
    let bytes = text.len();
    if !(bytes_min..=bytes_max).contains(&bytes) {
        let detail = format!("{field} has {bytes} bytes: expected {bytes_min} to {bytes_max}");
        return Err(invalid(detail));
    }
    if text.chars().any(char::is_control) {
        return Err(invalid(format!("{field} holds a control character")));
    }
    Ok(())
}

fn time(field: &str, text: &str) -> Result<Timestamp> {
    Timestamp::parse(text).map_err(|error| invalid(format!("{field}: {error}")).because(error))
}

fn leaf(field: &str, text: &str) -> Result<EventHash> {
    EventHash::parse(text).map_err(|error| invalid(format!("{field}: {error}")).because(error))
}

fn read<'a, T: Deserialize<'a>>(json: &'a [u8], what: &'static str) -> Result<T> {
    if json.len() > JSON_BYTES_MAX {
        let detail = format!("has {} bytes: at most {JSON_BYTES_MAX} are read", json.len());
        return Err(Error::new(ErrorKind::Corrupt, "approval", detail));
    }
    serde_json::from_slice(json)
        .map_err(|error| Error::new(ErrorKind::Corrupt, "approval", what).because(error))
}

fn write(form: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(form).map_err(|error| invalid("cannot be written as JSON").because(error))
}

fn invalid(detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Invalid, "approval", detail)
}

/// The same limit broken by what was received.
fn corrupt(error: Error) -> Error {
    Error::new(ErrorKind::Corrupt, "approval", error.to_string()).because(error)
}

#[cfg(test)]
mod tests;
