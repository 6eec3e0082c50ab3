//! Permissions and limits as NATS writes them, member by member and in its order.

use serde::{Deserialize, Serialize};

use super::permissions::{
    Permissions, ResponsePermission, SubjectPermission, TimeRange, UserLimits,
};
use super::token::{is_default, non_empty};

/// Permissions alone, as the `default_permissions` of an account.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct WirePermissions {
    #[serde(default, rename = "pub")]
    publish: WireSubjects,
    #[serde(default, rename = "sub")]
    subscribe: WireSubjects,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resp: Option<WireResponse>,
}

#[derive(Default, Serialize, Deserialize)]
struct WireSubjects {
    #[serde(default, skip_serializing_if = "is_default")]
    allow: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    deny: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct WireResponse {
    max: i64,
    ttl: i64,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct WireTime {
    #[serde(default, skip_serializing_if = "is_default")]
    start: String,
    #[serde(default, skip_serializing_if = "is_default")]
    end: String,
}

impl From<Permissions> for WirePermissions {
    fn from(from: Permissions) -> Self {
        let subjects = |SubjectPermission { allow, deny }| WireSubjects { allow, deny };
        Self {
            publish: subjects(from.publish),
            subscribe: subjects(from.subscribe),
            resp: from.response.map(|ResponsePermission { answers_max, ttl_ns }| WireResponse {
                max: answers_max,
                ttl: ttl_ns,
            }),
        }
    }
}

impl From<WirePermissions> for Permissions {
    fn from(from: WirePermissions) -> Self {
        let subjects = |WireSubjects { allow, deny }| SubjectPermission { allow, deny };
        Self {
            publish: subjects(from.publish),
            subscribe: subjects(from.subscribe),
            response: from.resp.map(|WireResponse { max, ttl }| ResponsePermission {
                answers_max: max,
                ttl_ns: ttl,
            }),
        }
    }
}

/// Permissions and limits together, as users and scopes carry them.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct WireRights {
    #[serde(flatten)]
    permissions: WirePermissions,
    #[serde(default, skip_serializing_if = "is_default")]
    src: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    times: Vec<WireTime>,
    #[serde(default, skip_serializing_if = "is_default")]
    times_location: String,
    #[serde(default, skip_serializing_if = "is_default")]
    subs: i64,
    #[serde(default, skip_serializing_if = "is_default")]
    data: i64,
    #[serde(default, skip_serializing_if = "is_default")]
    payload: i64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) bearer_token: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) allowed_connection_types: Vec<String>,
}

impl WireRights {
    pub(super) fn new(permissions: Permissions, limits: UserLimits) -> Self {
        Self {
            permissions: permissions.into(),
            src: limits.source_networks,
            times: limits
                .times
                .into_iter()
                .map(|TimeRange { start, end }| WireTime { start, end })
                .collect(),
            times_location: limits.times_location.unwrap_or_default(),
            subs: limits.subscriptions_max,
            data: limits.data_bytes_max,
            payload: limits.payload_bytes_max,
            bearer_token: false,
            allowed_connection_types: Vec::new(),
        }
    }

    pub(super) fn into_parts(self) -> (Permissions, UserLimits) {
        let limits = UserLimits {
            subscriptions_max: self.subs,
            data_bytes_max: self.data,
            payload_bytes_max: self.payload,
            source_networks: self.src,
            times: self
                .times
                .into_iter()
                .map(|WireTime { start, end }| TimeRange { start, end })
                .collect(),
            times_location: non_empty(self.times_location),
        };
        (self.permissions.into(), limits)
    }
}
