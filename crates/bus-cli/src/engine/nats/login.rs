//! Who logs in at a NATS server: a file of credentials, a token and its key, a key, or whoever this
//! data home's own operator makes; never a text on the command line or in a settings file (D10).

use std::{path::Path, sync::Arc};

use bus_core::{Certificate, Error, ErrorKind};
use bus_crypto::{Credentials, NkeyKind, SigningKey, creds};
use bus_nats::{NatsAuth, Renewal};
use bus_runner::{BUS_NATS_JWT_VAR, BUS_NATS_NKEY_SEED_VAR};
use bus_subjects::{AgentId, WorkspaceId};
use zeroize::Zeroizing;

use super::super::Scope;
use crate::{
    args::Global,
    error::{CliError, Exit},
    home::Home,
    operator::{Lifetime, Operator},
    secrets::{Secrets, private_file},
    workspace::Workspace,
};

/// Who logs in, and who says so. May hold the key itself; it has no `Debug`.
#[derive(Clone)]
pub(crate) enum Login {
    /// Nobody in particular.
    Nobody,
    /// The secrets of this process, or a file that was named.
    Given(NatsAuth),
    /// Users of each workspace's accounts, which the operator of this data home vouches for.
    Own(Home),
}

impl Login {
    /// The credentials in the file that is named, the token and key of the secrets, or their key
    /// alone; else users of this data home's own accounts, when it has an operator.
    ///
    /// # Errors
    /// A token without its key, and texts that are neither; they are not quoted. A file that others
    /// can read.
    pub(crate) fn find(global: &Global, secrets: &Secrets, home: &Home) -> Result<Self, CliError> {
        match given(global, secrets)? {
            Some(auth) => Ok(Self::Given(auth)),
            None => Self::of_home(home, &global.workspace),
        }
    }

    /// Users of this data home's own accounts: where it has an operator, or a copy of a workspace
    /// that some operator's servers know. Else nobody.
    ///
    /// # Errors
    /// When the operator cannot be read.
    pub(crate) fn of_home(home: &Home, workspace: &WorkspaceId) -> Result<Self, CliError> {
        let is_known = || Workspace::has_store(home, workspace);
        Ok(match Operator::open(home)?.is_some() || is_known() {
            true => Self::Own(home.clone()),
            false => Self::Nobody,
        })
    }

    /// Whose word makes the logins, when that is this data home.
    ///
    /// # Errors
    /// When the operator cannot be read.
    pub(crate) fn operator(&self) -> Result<Option<Operator>, CliError> {
        match self {
            Self::Own(home) => Operator::open(home),
            Self::Nobody | Self::Given(_) => Ok(None),
        }
    }

    /// As whom `who` acts on everything that `workspace` keeps: a user that is made for an hour,
    /// and made again at the next login.
    pub(super) fn house(&self, workspace: &WorkspaceId, who: &str) -> NatsAuth {
        let home = match self {
            Self::Nobody => return NatsAuth::None,
            Self::Given(auth) => return auth.clone(),
            Self::Own(home) => home.clone(),
        };
        let (name, who) = (workspace.clone(), who.to_owned());
        NatsAuth::Renewed(Renewal::new(move || {
            let user = Workspace::open(&home, &name)
                .and_then(|workspace| workspace.store_user(&who, Lifetime::OWN));
            user.map_err(|error| Error::new(ErrorKind::Denied, "log in", error.what().to_owned()))
        }))
    }

    /// As whom an agent of `workspace` acts with the rights of its roles and no more; none where it
    /// is somebody else who logs in, with whatever rights that has.
    ///
    /// # Errors
    /// When what was given is the login of another agent.
    pub(super) fn agent(
        &self,
        workspace: &Workspace,
        agent: &AgentId,
        scope: &Scope,
    ) -> Result<Option<NatsAuth>, CliError> {
        let home = match self {
            Self::Nobody => return Ok(None),
            Self::Given(auth) => return own(auth, workspace, agent),
            Self::Own(home) => home.clone(),
        };
        let (name, agent, scope) = (workspace.name().clone(), agent.clone(), scope.clone());
        Ok(Some(NatsAuth::Renewed(Renewal::new(move || {
            let made =
                Workspace::open(&home, &name).and_then(|workspace| workspace.login(&agent, &scope));
            made.map_err(|error| Error::new(ErrorKind::Denied, "log in", error.what().to_owned()))
        }))))
    }

    /// Whether whoever logs in may do everything with what a workspace keeps, so that there is a
    /// second one to set it up.
    pub(super) fn is_own(&self) -> bool {
        matches!(self, Self::Own(_))
    }

    /// What to do when the server refuses it.
    pub(super) fn advice(&self) -> String {
        match self {
            Self::Nobody => format!(
                "name the file of credentials that its operator gave you with --creds, or put \
                 them into {BUS_NATS_NKEY_SEED_VAR} and {BUS_NATS_JWT_VAR} or the secrets file"
            ),
            Self::Given(_) => format!(
                "see that the credentials (--creds, {BUS_NATS_NKEY_SEED_VAR}, {BUS_NATS_JWT_VAR}) \
                 are of this server, and that its operator has not taken them back"
            ),
            Self::Own(_) => "the server has another operator than this data directory; name the \
                             file of credentials that its operator gave you: --creds"
                .to_owned(),
        }
    }
}

/// What was given, when that is the login of an agent of the workspace.
fn own(
    auth: &NatsAuth,
    workspace: &Workspace,
    agent: &AgentId,
) -> Result<Option<NatsAuth>, CliError> {
    if let NatsAuth::Nkey(key) = auth {
        // Where it is let in by its key alone, it has the rights of its certificate.
        let known = workspace.identity(agent);
        let is_its = known.is_ok_and(|known| known.certificate().nkey == *key.public());
        return Ok(is_its.then(|| auth.clone()));
    }
    let NatsAuth::Jwt(credentials) = auth else { return Ok(None) };
    let Ok(certificate) = Certificate::parse(credentials.jwt()) else { return Ok(None) };
    if certificate.issuer != *workspace.account() {
        return Ok(None);
    }
    if certificate.agent != *agent {
        let what = format!("the credentials are those of {}, not of {agent}", certificate.agent);
        return Err(CliError::new(Exit::Refused, what)
            .next(format!("act as that one: --as {}", certificate.agent)));
    }
    Ok(Some(auth.clone()))
}

/// What was given to this process to log in with.
pub(crate) fn given(global: &Global, secrets: &Secrets) -> Result<Option<NatsAuth>, CliError> {
    if let Some(file) = global.config.nats_creds() {
        return credentials(file).map(Some);
    }
    let token = secrets.bus_secret(BUS_NATS_JWT_VAR)?;
    let seed = secrets.bus_secret(BUS_NATS_NKEY_SEED_VAR)?;
    // One line feed at the end comes from a file (D10).
    let line = |text: &str| text.strip_suffix('\n').unwrap_or(text).to_owned();
    let wrong = |name: &str, error: &dyn std::fmt::Display| {
        CliError::usage(format!("{name}: {error}"))
            .next("take it from the credentials that the server's operator gave you")
    };
    match (token, seed) {
        (Some(token), Some(seed)) => {
            let token = Zeroizing::new(line(&token.text));
            let seed = Zeroizing::new(line(&seed.text));
            let credentials = Credentials::from_parts(&token, &seed)
                .map_err(|error| wrong(BUS_NATS_JWT_VAR, &error))?;
            Ok(Some(NatsAuth::Jwt(Arc::new(credentials))))
        }
        (None, Some(seed)) => {
            let seed = Zeroizing::new(line(&seed.text));
            let key = user_key(&seed).map_err(|error| wrong(BUS_NATS_NKEY_SEED_VAR, &error))?;
            Ok(Some(NatsAuth::Nkey(Arc::new(key))))
        }
        (Some(_), None) => {
            let what = format!("{BUS_NATS_JWT_VAR} is set, and {BUS_NATS_NKEY_SEED_VAR} is not");
            Err(CliError::usage(what).next("set both: a token is of no use without its seed"))
        }
        (None, None) => Ok(None),
    }
}

/// The credentials in a file that only its owner can read.
///
/// # Errors
/// When it is not private, lies in a repository, or holds none; nothing of it is quoted.
pub(crate) fn credentials(file: &Path) -> Result<NatsAuth, CliError> {
    let text = private_file(file)?;
    let credentials = creds::parse(&text).map_err(|error| {
        CliError::usage(format!("{} holds no credentials: {error}", file.display()))
            .next("take the file that the server's operator gave you")
    })?;
    Ok(NatsAuth::Jwt(Arc::new(credentials)))
}

fn user_key(seed: &str) -> Result<SigningKey, String> {
    let key = SigningKey::from_seed_text(seed).map_err(|error| error.to_string())?;
    match key.public().kind() {
        NkeyKind::User => Ok(key),
        _ => Err("expected the seed of a user (SU…)".to_owned()),
    }
}
