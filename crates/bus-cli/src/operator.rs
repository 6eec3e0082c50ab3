//! The operator of a data home: whose word servers take for which accounts there are.
//!
//! Its key is the root of everything on its servers and never leaves this machine. The system
//! account sees the servers' own events; the account of the callout is where whoever has no token
//! knocks. Each workspace has two accounts beside them (ADR 0024).

mod accounts;
mod callout;
mod machines;
mod push;
mod users;

use bus_core::{Clock, SystemClock};
use bus_crypto::{
    NkeyKind, PublicKey, SigningKey, SystemEntropy, XKey,
    jwt::{OperatorClaims, UserClaims, decode_operator, encode_operator, encode_user},
};
use bus_subjects::WorkspaceId;

pub(crate) use self::{
    accounts::{AccountToken, all_workspaces},
    machines::MachineUser,
    push::PushedAccount,
    users::{Lifetime, user},
};
use crate::{
    error::{CliError, Exit},
    home::Home,
    workspace::Workspace,
};

/// The operator of a data home. Its keys are in memory only while this lives.
pub(crate) struct Operator {
    home: Home,
    dir: Home,
    key: SigningKey,
    claims: OperatorClaims,
    token: String,
    system: SigningKey,
    auth: SigningKey,
}

impl Operator {
    /// The operator of `home`; none when it has none.
    ///
    /// # Errors
    /// When its files cannot be read or are damaged.
    pub(crate) fn open(home: &Home) -> Result<Option<Self>, CliError> {
        let dir = home.below(DIR);
        if !dir.exists() {
            return Ok(None);
        }
        dir.check()?;
        let key = read_key(&dir, KEY_FILE, NkeyKind::Operator)?;
        let token = dir.read(TOKEN_FILE)?.trim_end().to_owned();
        let claims = decode_operator(&token).map_err(|error| damaged(&dir, TOKEN_FILE, error))?;
        let system = read_key(&dir, SYSTEM_FILE, NkeyKind::Account)?;
        if claims.subject != *key.public() || claims.system_account != Some(*system.public()) {
            return Err(damaged(&dir, TOKEN_FILE, "it is of other keys than those beside it"));
        }
        let auth = read_key(&dir, AUTH_FILE, NkeyKind::Account)?;
        Ok(Some(Self { home: home.clone(), dir, key, claims, token, system, auth }))
    }

    /// The operator of `home`, made with new keys when it has none.
    ///
    /// # Errors
    /// As [`Self::open`]; when it cannot be written.
    pub(crate) fn open_or_new(home: &Home) -> Result<Self, CliError> {
        if let Some(operator) = Self::open(home)? {
            return Ok(operator);
        }
        let made = Self::make(home);
        match (made, Self::open(home)?) {
            // Somebody else made it at the same moment: theirs counts.
            (_, Some(operator)) => Ok(operator),
            (made, None) => {
                made?;
                let what = format!("{} is gone again", home.below(DIR).path().display());
                Err(CliError::new(Exit::Failed, what))
            }
        }
    }

    /// As [`Self::open`], where a command has nothing to do without one.
    ///
    /// # Errors
    /// Also when there is none.
    pub(crate) fn needed(home: &Home) -> Result<Self, CliError> {
        Self::open(home)?.ok_or_else(|| {
            let what = format!("{} has no operator of servers", home.path().display());
            CliError::new(Exit::Failed, what).next(
                "vakbus auth server-config makes it, with the configuration of a server; or name \
                 the data directory that has it: --data-dir",
            )
        })
    }

    /// Makes all files of it, complete or not at all.
    fn make(home: &Home) -> Result<(), CliError> {
        home.create()?;
        let entropy = SystemEntropy::new();
        let draft = home.draft()?;
        let dir = draft.dir();
        dir.create()?;
        let key = SigningKey::generate(NkeyKind::Operator, &entropy)?;
        let system = SigningKey::generate(NkeyKind::Account, &entropy)?;
        let auth = SigningKey::generate(NkeyKind::Account, &entropy)?;
        let callout = SigningKey::generate(NkeyKind::User, &entropy)?;
        for (file, key) in
            [(KEY_FILE, &key), (SYSTEM_FILE, &system), (AUTH_FILE, &auth), (CALLOUT_FILE, &callout)]
        {
            dir.write_new(file, &key.seed_text())?;
        }
        dir.write_new(CALLOUT_XKEY_FILE, &XKey::generate(&entropy)?.seed_text())?;
        let mut claims = OperatorClaims::new("vakbus", *key.public(), now_unix_s());
        claims.system_account = Some(*system.public());
        dir.write_new(TOKEN_FILE, &encode_operator(&claims, &key)?)?;
        dir.write_new(SENTINEL_FILE, &sentinel(&auth, &entropy)?)?;
        dir.below(accounts::DIR).create()?;
        let moved = std::fs::rename(draft.path(), home.below(DIR).path());
        moved.and_then(|()| home.sync()).map_err(|error| {
            let what = format!("cannot create {}: {error}", home.below(DIR).path().display());
            CliError::new(Exit::Failed, what)
        })
    }

    /// The data home that it is of.
    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// A workspace of its data home.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn workspace_named(&self, name: &WorkspaceId) -> Result<Workspace, CliError> {
        Workspace::open(&self.home, name)
    }

    /// Its token, the same for ever.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// What the token says.
    pub(crate) fn claims(&self) -> &OperatorClaims {
        &self.claims
    }

    /// The account that sees the servers' own events.
    pub(crate) fn system(&self) -> &PublicKey {
        self.system.public()
    }

    /// The key of that account, for who signs its users.
    pub(crate) fn system_key(&self) -> &SigningKey {
        &self.system
    }

    /// The token of the user that whoever comes without one is taken for. It may do nothing, and
    /// is no secret: with it a server asks the callout.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub(crate) fn sentinel(&self) -> Result<String, CliError> {
        Ok(self.dir.read(SENTINEL_FILE)?.trim_end().to_owned())
    }
}

fn sentinel(auth: &SigningKey, entropy: &SystemEntropy) -> Result<String, CliError> {
    // Nobody needs its key.
    let nobody = SigningKey::generate(NkeyKind::User, entropy)?;
    let mut claims = UserClaims::new("sentinel", *nobody.public(), *auth.public(), now_unix_s());
    claims.is_bearer = true;
    for direction in [&mut claims.permissions.publish, &mut claims.permissions.subscribe] {
        direction.deny = vec![">".to_owned()];
    }
    Ok(encode_user(&claims, auth)?)
}

/// The private key in `file`.
pub(crate) fn read_key(dir: &Home, file: &str, kind: NkeyKind) -> Result<SigningKey, CliError> {
    let seed = dir.read(file)?;
    let key =
        SigningKey::from_seed_text(seed.trim_end()).map_err(|error| damaged(dir, file, error))?;
    match key.public().kind() == kind {
        true => Ok(key),
        false => Err(damaged(dir, file, "it is a key of another kind")),
    }
}

/// A file of ours that says something else than it should; what it says is not told.
fn damaged(dir: &Home, file: &str, error: impl std::fmt::Display) -> CliError {
    let path = dir.path().join(file);
    CliError::new(Exit::Failed, format!("{} is damaged: {error}", path.display()))
        .next("put back your copy of it")
}

/// The time of this machine, as tokens tell it.
pub(crate) fn now_unix_s() -> i64 {
    let seconds = SystemClock::new().now().unix_ns().div_euclid(1_000_000_000);
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// The directory of a data home that all of this is kept in.
const DIR: &str = "operator";
const KEY_FILE: &str = "operator.nk";
const TOKEN_FILE: &str = "operator.jwt";
const SYSTEM_FILE: &str = "system.nk";
const AUTH_FILE: &str = "auth.nk";
const CALLOUT_FILE: &str = "callout.nk";
const CALLOUT_XKEY_FILE: &str = "callout.xk";
const SENTINEL_FILE: &str = "sentinel.jwt";

#[cfg(test)]
mod tests;
