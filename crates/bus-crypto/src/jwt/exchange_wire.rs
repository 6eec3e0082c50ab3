//! Exports and imports as NATS writes them, member by member and in its order, and their rules.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::exchange::{Answers, Export, ExportKind, Import, ImportKind};
use super::subject_rules::{check_account_level, check_apart, check_renaming, check_subject};
use super::token::{is_default, key_of, non_empty};
use crate::error::CryptoError;
use crate::nkey::NkeyKind;

/// Members of an export that are kept as they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KeptExport {
    latency: Option<String>,
}

// An unknown member may be a limit: whoever signs again without it would offer more.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WireExport {
    #[serde(default, skip_serializing_if = "is_default")]
    name: String,
    subject: String,
    r#type: WireKind,
    #[serde(default, skip_serializing_if = "is_default")]
    token_req: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    revocations: BTreeMap<String, i64>,
    #[serde(default, skip_serializing_if = "is_default")]
    response_type: WireAnswers,
    #[serde(default, skip_serializing_if = "is_default")]
    response_threshold: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service_latency: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "is_default")]
    account_token_position: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    advertise: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    allow_trace: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    description: String,
    #[serde(default, skip_serializing_if = "is_default")]
    info_url: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WireImport {
    #[serde(default, skip_serializing_if = "is_default")]
    name: String,
    subject: String,
    account: String,
    #[serde(default, skip_serializing_if = "is_default")]
    token: String,
    #[serde(default, skip_serializing_if = "is_default")]
    to: String,
    #[serde(default, skip_serializing_if = "is_default")]
    local_subject: String,
    r#type: WireKind,
    #[serde(default, skip_serializing_if = "is_default")]
    share: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    allow_trace: bool,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WireKind {
    Stream,
    Service,
}

#[derive(Default, PartialEq, Serialize, Deserialize)]
enum WireAnswers {
    /// Of a stream; of a service it means one answer.
    #[default]
    #[serde(rename = "")]
    Unsaid,
    Singleton,
    Stream,
    Chunked,
}

/// The exports of an account, checked alone and against each other.
pub(super) fn write_exports(exports: &[Export]) -> Result<Vec<WireExport>, CryptoError> {
    check_exports(exports)?;
    exports.iter().map(WireExport::write).collect()
}

/// As [`write_exports`], the other way.
pub(super) fn read_exports(wire: Vec<WireExport>) -> Result<Vec<Export>, CryptoError> {
    let exports = wire.into_iter().map(WireExport::read).collect::<Result<Vec<_>, _>>()?;
    check_exports(&exports)?;
    Ok(exports)
}

/// The imports of an account, checked.
pub(super) fn write_imports(imports: &[Import]) -> Result<Vec<WireImport>, CryptoError> {
    check_imports(imports)?;
    Ok(imports.iter().map(WireImport::write).collect())
}

/// As [`write_imports`], the other way.
pub(super) fn read_imports(wire: Vec<WireImport>) -> Result<Vec<Import>, CryptoError> {
    let imports = wire.into_iter().map(WireImport::read).collect::<Result<Vec<_>, _>>()?;
    check_imports(&imports)?;
    Ok(imports)
}

impl WireExport {
    fn write(export: &Export) -> Result<Self, CryptoError> {
        let too_long = CryptoError::BadJwt("an answer's threshold is too long");
        let (kind, response_type, threshold) = match export.kind {
            ExportKind::Stream => (WireKind::Stream, WireAnswers::Unsaid, None),
            ExportKind::Service { answers, threshold } => {
                (WireKind::Service, WireAnswers::write(answers), threshold)
            }
        };
        let threshold = i64::try_from(threshold.unwrap_or_default().as_nanos());
        let latency = export.kept.latency.clone().map(RawValue::from_string).transpose();
        Ok(Self {
            name: export.name.clone(),
            subject: export.subject.clone(),
            r#type: kind,
            token_req: export.requires_activation,
            revocations: export.revocations.clone(),
            response_type,
            response_threshold: threshold.map_err(|_| too_long)?,
            service_latency: latency
                .map_err(|_| CryptoError::BadJwt("the claims cannot be written"))?,
            account_token_position: export.account_level.unwrap_or_default(),
            advertise: export.is_advertised,
            allow_trace: export.allows_trace,
            description: export.description.clone().unwrap_or_default(),
            info_url: export.info_url.clone().unwrap_or_default(),
        })
    }

    fn read(self) -> Result<Export, CryptoError> {
        let kind = match self.r#type {
            WireKind::Service => {
                let threshold = u64::try_from(self.response_threshold)
                    .map_err(|_| CryptoError::BadJwt("an answer's threshold is negative"))?;
                let threshold = (threshold != 0).then(|| Duration::from_nanos(threshold));
                ExportKind::Service { answers: self.response_type.read(), threshold }
            }
            WireKind::Stream
                if self.response_type != WireAnswers::Unsaid
                    || self.response_threshold != 0
                    || self.service_latency.is_some() =>
            {
                return Err(CryptoError::BadJwt("a stream has no answers"));
            }
            WireKind::Stream => ExportKind::Stream,
        };
        Ok(Export {
            name: self.name,
            subject: self.subject,
            kind,
            requires_activation: self.token_req,
            revocations: self.revocations,
            account_level: (self.account_token_position != 0)
                .then_some(self.account_token_position),
            is_advertised: self.advertise,
            allows_trace: self.allow_trace,
            description: non_empty(self.description),
            info_url: non_empty(self.info_url),
            kept: KeptExport { latency: self.service_latency.map(|raw| raw.get().to_owned()) },
        })
    }
}

impl WireImport {
    fn write(import: &Import) -> Self {
        Self {
            name: import.name.clone(),
            subject: import.subject.clone(),
            account: import.account.text(),
            token: import.activation.clone().unwrap_or_default(),
            to: import.to.clone().unwrap_or_default(),
            local_subject: import.local_subject.clone().unwrap_or_default(),
            r#type: match import.kind {
                ImportKind::Stream => WireKind::Stream,
                ImportKind::Service => WireKind::Service,
            },
            share: import.shares_who_asks,
            allow_trace: import.allows_trace,
        }
    }

    fn read(self) -> Result<Import, CryptoError> {
        Ok(Import {
            name: self.name,
            subject: self.subject,
            account: key_of(&self.account, NkeyKind::Account)?,
            activation: non_empty(self.token),
            local_subject: non_empty(self.local_subject),
            kind: match self.r#type {
                WireKind::Stream => ImportKind::Stream,
                WireKind::Service => ImportKind::Service,
            },
            shares_who_asks: self.share,
            allows_trace: self.allow_trace,
            to: non_empty(self.to),
        })
    }
}

impl WireAnswers {
    fn write(answers: Answers) -> Self {
        match answers {
            Answers::One => Self::Singleton,
            Answers::Stream => Self::Stream,
            Answers::Chunked => Self::Chunked,
        }
    }

    fn read(self) -> Answers {
        match self {
            Self::Unsaid | Self::Singleton => Answers::One,
            Self::Stream => Answers::Stream,
            Self::Chunked => Answers::Chunked,
        }
    }
}

fn check_exports(exports: &[Export]) -> Result<(), CryptoError> {
    for export in exports {
        check_subject(&export.subject)?;
        if let Some(level) = export.account_level {
            check_account_level(&export.subject, level)?;
        }
        if export.allows_trace && export.kind == ExportKind::Stream {
            return Err(CryptoError::BadJwt("only into a service can messages be followed"));
        }
    }
    let of_kind = |is_stream: bool| {
        exports
            .iter()
            .filter(move |export| (export.kind == ExportKind::Stream) == is_stream)
            .map(|export| export.subject.as_str())
    };
    check_apart(of_kind(true)).and_then(|()| check_apart(of_kind(false)))
}

/// Services of one account must not have names that are parts of each other: a server lets nobody
/// into an account that is written so.
fn check_imports(imports: &[Import]) -> Result<(), CryptoError> {
    imports.iter().try_for_each(check_import)?;
    let services = || imports.iter().filter(|import| import.kind == ImportKind::Service);
    let accounts: BTreeSet<_> = services().map(|import| import.account.text()).collect();
    accounts.iter().try_for_each(|account| {
        let of_account = services().filter(|import| import.account.text() == *account);
        check_apart(of_account.map(Import::name_here))
    })
}

fn check_import(import: &Import) -> Result<(), CryptoError> {
    if import.account.kind() != NkeyKind::Account {
        return Err(CryptoError::BadJwt("an import is from no account"));
    }
    check_subject(&import.subject)?;
    if let Some(local) = &import.local_subject {
        if import.to.is_some() {
            return Err(CryptoError::BadJwt("an import has two names"));
        }
        check_renaming(&import.subject, local)?;
    }
    match import.kind {
        ImportKind::Stream if import.shares_who_asks => {
            Err(CryptoError::BadJwt("nobody asks for a stream"))
        }
        ImportKind::Service if import.allows_trace => {
            Err(CryptoError::BadJwt("only out of a stream can messages be followed"))
        }
        _ => Ok(()),
    }
}
