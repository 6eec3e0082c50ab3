//! What the refusals of the peer bus are in HTTP.

use std::time::Duration;

use axum::http::StatusCode;
use bus_core::Outcome;
use bus_peers::BusError;

use crate::refused::Refused;

impl From<BusError> for Refused {
    fn from(error: BusError) -> Self {
        let status = status(&error);
        let refused = Self::new(status, error.code(), error.to_string());
        let refused = match error.outcome() {
            Outcome::Unknown => refused.may_be_done(),
            Outcome::NotDone => refused,
        };
        match status {
            StatusCode::SERVICE_UNAVAILABLE => refused.again_after(Duration::from_secs(1)),
            _ => refused,
        }
    }
}

fn status(error: &BusError) -> StatusCode {
    match error {
        BusError::InvalidDefinitionId { .. }
        | BusError::InvalidTarget { .. }
        | BusError::InvalidCaller { .. }
        | BusError::CallerKindNotPermitted { .. } => StatusCode::BAD_REQUEST,
        BusError::UnregisteredSender { .. } | BusError::WrongSecret { .. } => StatusCode::FORBIDDEN,
        BusError::NoLiveInstance { .. } => StatusCode::NOT_FOUND,
        BusError::NoSubscriber { .. } | BusError::InstanceIdCollision { .. } => {
            StatusCode::CONFLICT
        }
        BusError::InstanceGone { .. } => StatusCode::GONE,
        BusError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        BusError::Full { .. } | BusError::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use bus_peers::CallerKind;

    use super::*;

    #[test]
    fn bus_error_status_codes_map() {
        let instance_id = || "a~00000000".to_owned();
        let definition_id = || "a".to_owned();
        for (error, expected) in [
            (BusError::InvalidDefinitionId { reason: "" }, 400),
            (BusError::InvalidTarget { reason: "" }, 400),
            (BusError::InvalidCaller { reason: "" }, 400),
            (BusError::CallerKindNotPermitted { kind: CallerKind::User }, 400),
            (BusError::UnregisteredSender { instance_id: instance_id() }, 403),
            (BusError::WrongSecret { instance_id: instance_id() }, 403),
            (BusError::NoLiveInstance { definition_id: definition_id() }, 404),
            (BusError::NoSubscriber { instance_id: instance_id() }, 409),
            (BusError::InstanceIdCollision { definition_id: definition_id(), tries: 8 }, 409),
            (BusError::InstanceGone { instance_id: instance_id() }, 410),
            (BusError::TooLarge { field: "to", bytes: 2, bytes_max: 1 }, 413),
            (BusError::Full { what: "instances", max: 1 }, 503),
        ] {
            assert_eq!(status(&error).as_u16(), expected, "{error}");
        }
    }

    #[test]
    fn a_message_without_a_record_is_a_failure_of_the_server() {
        let (reason, outcome) = (String::new(), Outcome::Unknown);
        let error = BusError::Journal { reason, message_id: None, outcome };
        assert_eq!(status(&error).as_u16(), 500);
    }
}
