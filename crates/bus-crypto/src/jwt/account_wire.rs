//! Account claims as NATS writes them, member by member and in its order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::account::{
    AccountClaims, AccountLimits, AccountSigner, Authorization, JetStreamLimits, SigningScope,
};
use super::exchange_wire::{
    WireExport, WireImport, read_exports, read_imports, write_exports, write_imports,
};
use super::permissions::Permissions;
use super::permissions_wire::{WirePermissions, WireRights};
use super::token::{is_default, key_of, non_empty};
use crate::error::CryptoError;
use crate::nkey::{NkeyKind, PublicKey};

/// Members that are kept as they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Kept {
    tiered_limits: Option<String>,
    mappings: Option<String>,
    trace: Option<String>,
    cluster_traffic: Option<String>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Body {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    imports: Vec<WireImport>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    exports: Vec<WireExport>,
    #[serde(default)]
    limits: Limits,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    signing_keys: Vec<Signer>,
    #[serde(default, skip_serializing_if = "is_default")]
    revocations: BTreeMap<String, i64>,
    #[serde(default)]
    default_permissions: WirePermissions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mappings: Option<Box<RawValue>>,
    #[serde(default)]
    authorization: WireAuthorization,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cluster_traffic: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "is_default")]
    description: String,
    #[serde(default, skip_serializing_if = "is_default")]
    info_url: String,
    #[serde(default, skip_serializing_if = "is_default")]
    tags: Vec<String>,
    r#type: String,
    version: u8,
}

impl Body {
    pub(super) fn write(claims: &AccountClaims) -> Result<Self, CryptoError> {
        let kept = &claims.kept;
        Ok(Self {
            imports: write_imports(&claims.imports)?,
            exports: write_exports(&claims.exports)?,
            limits: Limits::write(&claims.limits, raw(kept.tiered_limits.as_ref())?),
            signing_keys: claims.signing_keys.iter().map(Signer::write).collect(),
            revocations: claims.revocations.clone(),
            default_permissions: claims.default_permissions.clone().into(),
            mappings: raw(kept.mappings.as_ref())?,
            authorization: WireAuthorization::write(&claims.authorization),
            trace: raw(kept.trace.as_ref())?,
            cluster_traffic: raw(kept.cluster_traffic.as_ref())?,
            description: claims.description.clone().unwrap_or_default(),
            info_url: claims.info_url.clone().unwrap_or_default(),
            tags: claims.tags.clone(),
            r#type: "account".to_owned(),
            version: 2,
        })
    }

    pub(super) fn read_into(self, claims: &mut AccountClaims) -> Result<(), CryptoError> {
        let text = |raw: Option<Box<RawValue>>| raw.map(|raw| raw.get().to_owned());
        let (limits, tiered_limits) = self.limits.read();
        claims.limits = limits;
        claims.kept = Kept {
            tiered_limits: text(tiered_limits),
            mappings: text(self.mappings),
            trace: text(self.trace),
            cluster_traffic: text(self.cluster_traffic),
        };
        claims.imports = read_imports(self.imports)?;
        claims.exports = read_exports(self.exports)?;
        claims.signing_keys =
            self.signing_keys.into_iter().map(Signer::read).collect::<Result<_, _>>()?;
        claims.revocations = self.revocations;
        claims.default_permissions = Permissions::from(self.default_permissions);
        claims.authorization = self.authorization.read()?;
        claims.description = non_empty(self.description);
        claims.info_url = non_empty(self.info_url);
        claims.tags = self.tags;
        Ok(())
    }
}

fn raw(text: Option<&String>) -> Result<Option<Box<RawValue>>, CryptoError> {
    text.map(|text| RawValue::from_string(text.clone()))
        .transpose()
        .map_err(|_| CryptoError::BadJwt("the claims cannot be written"))
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Limits {
    #[serde(skip_serializing_if = "is_default")]
    subs: i64,
    #[serde(skip_serializing_if = "is_default")]
    data: i64,
    #[serde(skip_serializing_if = "is_default")]
    payload: i64,
    #[serde(skip_serializing_if = "is_default")]
    imports: i64,
    #[serde(skip_serializing_if = "is_default")]
    exports: i64,
    #[serde(skip_serializing_if = "is_default")]
    wildcards: bool,
    #[serde(skip_serializing_if = "is_default")]
    disallow_bearer: bool,
    #[serde(skip_serializing_if = "is_default")]
    conn: i64,
    #[serde(skip_serializing_if = "is_default")]
    leaf: i64,
    #[serde(skip_serializing_if = "is_default")]
    mem_storage: i64,
    #[serde(skip_serializing_if = "is_default")]
    disk_storage: i64,
    #[serde(skip_serializing_if = "is_default")]
    streams: i64,
    #[serde(skip_serializing_if = "is_default")]
    consumer: i64,
    #[serde(skip_serializing_if = "is_default")]
    max_ack_pending: i64,
    #[serde(skip_serializing_if = "is_default")]
    mem_max_stream_bytes: i64,
    #[serde(skip_serializing_if = "is_default")]
    disk_max_stream_bytes: i64,
    #[serde(skip_serializing_if = "is_default")]
    max_bytes_required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tiered_limits: Option<Box<RawValue>>,
}

impl Limits {
    fn write(limits: &AccountLimits, tiered_limits: Option<Box<RawValue>>) -> Self {
        let jetstream = &limits.jetstream;
        Self {
            subs: limits.subscriptions_max,
            data: limits.data_bytes_max,
            payload: limits.payload_bytes_max,
            imports: limits.imports_max,
            exports: limits.exports_max,
            wildcards: limits.has_wildcard_exports,
            disallow_bearer: limits.refuses_bearer,
            conn: limits.connections_max,
            leaf: limits.leaf_connections_max,
            mem_storage: jetstream.memory_bytes_max,
            disk_storage: jetstream.disk_bytes_max,
            streams: jetstream.streams_max,
            consumer: jetstream.consumers_max,
            max_ack_pending: jetstream.acks_pending_max,
            mem_max_stream_bytes: jetstream.memory_stream_bytes_max,
            disk_max_stream_bytes: jetstream.disk_stream_bytes_max,
            max_bytes_required: jetstream.requires_max_bytes,
            tiered_limits,
        }
    }

    fn read(self) -> (AccountLimits, Option<Box<RawValue>>) {
        let limits = AccountLimits {
            subscriptions_max: self.subs,
            data_bytes_max: self.data,
            payload_bytes_max: self.payload,
            imports_max: self.imports,
            exports_max: self.exports,
            has_wildcard_exports: self.wildcards,
            refuses_bearer: self.disallow_bearer,
            connections_max: self.conn,
            leaf_connections_max: self.leaf,
            jetstream: JetStreamLimits {
                memory_bytes_max: self.mem_storage,
                disk_bytes_max: self.disk_storage,
                streams_max: self.streams,
                consumers_max: self.consumer,
                acks_pending_max: self.max_ack_pending,
                memory_stream_bytes_max: self.mem_max_stream_bytes,
                disk_stream_bytes_max: self.disk_max_stream_bytes,
                requires_max_bytes: self.max_bytes_required,
            },
        };
        (limits, self.tiered_limits)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Signer {
    Plain(String),
    Scoped(Box<Scope>),
}

#[derive(Serialize, Deserialize)]
struct Scope {
    kind: String,
    key: String,
    #[serde(default)]
    role: String,
    #[serde(default)]
    template: WireRights,
    #[serde(default, skip_serializing_if = "is_default")]
    description: String,
}

impl Signer {
    fn write(signer: &AccountSigner) -> Self {
        let Some(scope) = &signer.scope else {
            return Self::Plain(signer.key.text());
        };
        let mut template = WireRights::new(scope.permissions.clone(), scope.limits.clone());
        template.allowed_connection_types.clone_from(&scope.connection_types);
        Self::Scoped(Box::new(Scope {
            kind: USER_SCOPE.to_owned(),
            key: signer.key.text(),
            role: scope.role.clone(),
            template,
            description: scope.description.clone().unwrap_or_default(),
        }))
    }

    fn read(self) -> Result<AccountSigner, CryptoError> {
        let scope = match self {
            Self::Plain(key) => {
                return Ok(AccountSigner { key: key_of(&key, NkeyKind::Account)?, scope: None });
            }
            Self::Scoped(scope) => *scope,
        };
        if scope.kind != USER_SCOPE {
            return Err(CryptoError::BadJwt("a signing key has an unknown scope"));
        }
        let connection_types = scope.template.allowed_connection_types.clone();
        let (permissions, limits) = scope.template.into_parts();
        Ok(AccountSigner {
            key: key_of(&scope.key, NkeyKind::Account)?,
            scope: Some(SigningScope {
                role: scope.role,
                description: non_empty(scope.description),
                permissions,
                limits,
                connection_types,
            }),
        })
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct WireAuthorization {
    #[serde(skip_serializing_if = "is_default")]
    auth_users: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    allowed_accounts: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    xkey: String,
}

impl WireAuthorization {
    fn write(authorization: &Authorization) -> Self {
        Self {
            auth_users: authorization.users.iter().map(PublicKey::text).collect(),
            allowed_accounts: authorization.allowed_accounts.clone(),
            xkey: authorization.xkey.map(|key| key.text()).unwrap_or_default(),
        }
    }

    fn read(self) -> Result<Authorization, CryptoError> {
        let users = self.auth_users.iter().map(|user| key_of(user, NkeyKind::User));
        Ok(Authorization {
            users: users.collect::<Result<_, _>>()?,
            allowed_accounts: self.allowed_accounts,
            xkey: non_empty(self.xkey).map(|key| key_of(&key, NkeyKind::Curve)).transpose()?,
        })
    }
}

const USER_SCOPE: &str = "user_scope";
