//! The tokens of accounts: what each account may, made anew only when that has changed, and always
//! younger than the last one.

use bus_crypto::{
    NkeyKind, PublicKey, XKey,
    jwt::{AccountClaims, AccountSigner, JetStreamLimits, decode_account, encode_account},
};
use bus_nats::{
    claims::Held,
    permissions::{Layout, store_exports, workspace_imports},
};

use super::{CALLOUT_FILE, CALLOUT_XKEY_FILE, Operator, damaged, now_unix_s, read_key};
use crate::{error::CliError, home::Home, print, workspace::Workspace};

/// What an account may, before it is signed.
pub(crate) struct Draft {
    claims: AccountClaims,
    /// What people call it.
    name: String,
}

/// An account with its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccountToken {
    /// What people call it: `system`, `callout`, a workspace, or a workspace's store.
    pub(crate) name: String,
    /// The account.
    pub(crate) account: PublicKey,
    /// Its token.
    pub(crate) token: String,
}

impl Draft {
    /// Which account it is.
    pub(super) fn account(&self) -> &PublicKey {
        &self.claims.subject
    }
}

impl Operator {
    /// The tokens of the system account, of the callout's and of both accounts of each workspace,
    /// for a server to begin with. None takes the place of one that was pushed since by a machine
    /// that knows of more revocations.
    ///
    /// # Errors
    /// When files cannot be read or written.
    pub(crate) fn accounts(&self, workspaces: &[Workspace]) -> Result<Vec<AccountToken>, CliError> {
        let drafts = self.drafts(workspaces)?;
        drafts.iter().map(|draft| self.begin_with(draft)).collect()
    }

    /// A token that is as old as the last one, whatever has changed: only a push, which looks at
    /// what the servers hold, makes a younger one.
    fn begin_with(&self, draft: &Draft) -> Result<AccountToken, CliError> {
        let dir = self.dir.below(DIR);
        let (name, account) = (draft.name.clone(), *draft.account());
        let Some(last) = self.last(&dir, &format!("{}.jwt", account.text()))? else {
            return self.token_of(draft, &[]);
        };
        let mut claims = draft.claims.clone();
        take_revoked(&mut claims, &last.claims);
        claims.issued_at_unix_s = last.claims.issued_at_unix_s;
        Ok(AccountToken { name, account, token: encode_account(&claims, &self.key)? })
    }

    /// What all accounts may.
    pub(super) fn drafts(&self, workspaces: &[Workspace]) -> Result<Vec<Draft>, CliError> {
        let mut drafts =
            vec![self.draft(SYSTEM, *self.system.public())?, self.callout(workspaces)?];
        for workspace in workspaces {
            drafts.extend(self.workspace(workspace)?);
        }
        Ok(drafts)
    }

    /// What the two accounts of a workspace may: the store has JetStream, and agents use of it what
    /// some role may need.
    pub(super) fn workspace(&self, workspace: &Workspace) -> Result<[Draft; 2], CliError> {
        let layout = Layout::of(workspace.name())?;
        let store = *workspace.store()?.public();
        let name = workspace.name();
        let mut keeps = self.draft(&format!("{name} (store)"), store)?;
        keeps.claims.limits.jetstream = JetStreamLimits::unlimited();
        keeps.claims.exports = store_exports(&layout);
        let mut acts = self.draft(name.as_str(), *workspace.account())?;
        acts.claims.imports = workspace_imports(&layout, &store);
        let key = *workspace.signer()?.public();
        acts.claims.signing_keys = vec![AccountSigner { key, scope: None }];
        for revocation in workspace.revoked()? {
            acts.claims.revoke(&revocation.nkey);
        }
        Ok([keeps, acts])
    }

    /// What the account of the callout may: place whom it admits into these workspaces, and into no
    /// other account.
    pub(super) fn callout(&self, workspaces: &[Workspace]) -> Result<Draft, CliError> {
        let mut draft = self.draft(CALLOUT, *self.auth.public())?;
        let authorization = &mut draft.claims.authorization;
        authorization.users = vec![*read_key(&self.dir, CALLOUT_FILE, NkeyKind::User)?.public()];
        let seed = self.dir.read(CALLOUT_XKEY_FILE)?;
        let xkey = XKey::from_seed_text(seed.trim_end())
            .map_err(|error| damaged(&self.dir, CALLOUT_XKEY_FILE, error))?;
        authorization.xkey = Some(xkey.public());
        let accounts = workspaces.iter().map(|workspace| workspace.account().text());
        authorization.allowed_accounts = accounts.collect();
        Ok(draft)
    }

    fn draft(&self, name: &str, account: PublicKey) -> Result<Draft, CliError> {
        let mut claims = AccountClaims::new(name, account, *self.key.public(), 0);
        for user in self.taken_back(&account)? {
            claims.revoke(&user);
        }
        Ok(Draft { claims, name: name.to_owned() })
    }

    /// The token of an account: the last one as long as it says the same and nobody `held` a
    /// younger one, else one that is younger than all of them. What any of them revokes, it does.
    ///
    /// # Errors
    /// When files cannot be read or written.
    pub(super) fn token_of(&self, draft: &Draft, held: &[Held]) -> Result<AccountToken, CliError> {
        let (name, account) = (draft.name.clone(), *draft.account());
        let dir = self.dir.below(DIR);
        dir.create()?;
        // Of two processes that make one at once, the later must know of the earlier.
        let _turn = dir.turn()?;
        let file = format!("{}.jwt", account.text());
        let last = self.last(&dir, &file)?;
        let mut claims = draft.claims.clone();
        let others = last.iter().chain(held);
        let mut youngest = None;
        for Held { claims: other, .. } in others {
            take_revoked(&mut claims, other);
            youngest = youngest.max(Some(other.issued_at_unix_s));
        }
        if let Some(last) = last.filter(|last| Some(last.claims.issued_at_unix_s) == youngest) {
            claims.issued_at_unix_s = last.claims.issued_at_unix_s;
            let is_held = |one: &Held| {
                one.token == last.token || one.claims.issued_at_unix_s < claims.issued_at_unix_s
            };
            // The signature of the same text is the same.
            if held.iter().all(is_held) && encode_account(&claims, &self.key)? == last.token {
                return Ok(AccountToken { name, account, token: last.token });
            }
        }
        let next = youngest.map_or(0, |youngest| youngest.saturating_add(1));
        claims.issued_at_unix_s = now_unix_s().max(next);
        let token = encode_account(&claims, &self.key)?;
        dir.replace(&file, &token)?;
        Ok(AccountToken { name, account, token })
    }

    /// Whether one of those who `held` a token of the account lets somebody in whom another one of
    /// them keeps out, or who was revoked here.
    ///
    /// # Errors
    /// When the token that was made last cannot be read.
    pub(super) fn is_missed(&self, draft: &Draft, held: &[Held]) -> Result<bool, CliError> {
        let last = self.last(&self.dir.below(DIR), &format!("{}.jwt", draft.account().text()))?;
        let told = last.iter().chain(held).map(|held| &held.claims.revocations);
        let revoked = || told.clone().chain([&draft.claims.revocations]).flatten();
        let misses = |held: &Held| {
            let own = &held.claims.revocations;
            revoked().any(|(key, until)| own.get(key).is_none_or(|own| own < until))
        };
        Ok(held.iter().any(misses))
    }

    /// The token of the account that was made last.
    fn last(&self, dir: &Home, file: &str) -> Result<Option<Held>, CliError> {
        if !dir.below(file).exists() {
            return Ok(None);
        }
        let token = dir.read(file)?.trim_end().to_owned();
        let claims = decode_account(&token).map_err(|error| damaged(dir, file, error))?;
        self.claims.check_account(&claims).map_err(|error| damaged(dir, file, error))?;
        Ok(Some(Held { token, claims }))
    }
}

/// What another token revokes, these claims do.
fn take_revoked(claims: &mut AccountClaims, other: &AccountClaims) {
    for (key, until) in &other.revocations {
        let ours = claims.revocations.entry(key.clone()).or_insert(*until);
        *ours = (*ours).max(*until);
    }
}

/// All workspaces of a data home. One that is damaged keeps the others from nothing, and stderr
/// says so.
///
/// # Errors
/// When the directory cannot be read.
pub(crate) fn all_workspaces(home: &Home) -> Result<Vec<Workspace>, CliError> {
    let mut all = Vec::new();
    for name in Workspace::list(home)? {
        match Workspace::open(home, &name) {
            Ok(workspace) => all.push(workspace),
            Err(error) => print::remark(&error.as_warning()),
        }
    }
    Ok(all)
}

/// The directory of the tokens that were made last.
pub(super) const DIR: &str = "accounts";
const SYSTEM: &str = "system";
const CALLOUT: &str = "callout";
