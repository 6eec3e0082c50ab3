//! The account's word that a key no longer counts.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use bus_crypto::{NkeyKind, PublicKey, SigningKey};
use bus_envelope::Timestamp;
use bus_subjects::{AgentId, Shown, WorkspaceId};

use crate::{Certificate, Error, ErrorKind, Result};

/// One key of one agent that is taken out of a workspace, signed by the workspace's account.
///
/// The signed text is one line, so that a list of revocations is a file of lines, in any order and
/// from several places. A revocation cannot be taken back: the agent gets a new key instead.
///
/// ```
/// use bus_core::{Identity, Issue, Revocation};
/// use bus_crypto::{NkeyKind, SigningKey, SystemEntropy};
/// use bus_envelope::Timestamp;
/// use bus_subjects::{AgentId, Role, WorkspaceId};
///
/// let entropy = SystemEntropy::new();
/// let account = SigningKey::generate(NkeyKind::Account, &entropy)?;
/// let (shop, now) = (WorkspaceId::parse("shop")?, Timestamp::from_unix_ns(0));
/// let issue = Issue::new(shop, AgentId::parse("alice")?, vec![Role::Worker], now);
/// let alice = Identity::issue(&account, &issue, &entropy)?;
///
/// let revocation = Revocation::of(alice.certificate(), now);
/// let line = revocation.sign(&account)?;
/// assert_eq!(Revocation::parse(&line, account.public())?, revocation);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocation {
    /// The account that says so.
    pub issuer: PublicKey,
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The agent whose key it is.
    pub agent: AgentId,
    /// The key that no longer counts.
    pub nkey: PublicKey,
    /// When it was revoked. It tells people; it excuses nothing, because whoever holds the key can
    /// write any time into what is signed with it.
    pub at: Timestamp,
}

impl Revocation {
    /// The longest line, in bytes.
    pub const LINE_BYTES_MAX: usize = 512;

    /// Revokes the key of `certificate`.
    #[must_use]
    pub fn of(certificate: &Certificate, at: Timestamp) -> Self {
        Self {
            issuer: certificate.issuer,
            workspace: certificate.workspace.clone(),
            agent: certificate.agent.clone(),
            nkey: certificate.nkey,
            at,
        }
    }

    /// The line that says so, without a line feed.
    ///
    /// # Errors
    /// `Denied` when `account` is not the issuer.
    pub fn sign(&self, account: &SigningKey) -> Result<String> {
        if *account.public() != self.issuer {
            let detail = "only the account that certified a key can revoke it";
            return Err(Error::new(ErrorKind::Denied, OP, detail).at(&self.agent));
        }
        let said = self.said();
        let signature = account.sign(said.as_bytes());
        Ok(format!("{said} {}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Reads a line that `account` signed.
    ///
    /// # Errors
    /// `Invalid` when it is not in its one form; `Denied` when `account` did not sign it.
    pub fn parse(line: &str, account: &PublicKey) -> Result<Self> {
        if line.len() > Self::LINE_BYTES_MAX {
            return Err(invalid("a revocation is longer than any can be"));
        }
        let Some((said, signature)) = line.rsplit_once(' ') else {
            return Err(invalid("expected a line that begins with vak-bus/revocation/v1"));
        };
        let parts: Vec<&str> = said.split(' ').collect();
        let [TAG, workspace, agent, nkey, at] = parts[..] else {
            return Err(invalid(format!("expected the tag {TAG} and five parts after it")));
        };
        let nkey = PublicKey::parse(nkey).map_err(Error::from)?;
        if nkey.kind() != NkeyKind::User {
            return Err(invalid("the revoked key is not an agent's"));
        }
        let revocation = Self {
            issuer: *account,
            workspace: WorkspaceId::parse(workspace)?,
            agent: AgentId::parse(agent)?,
            nkey,
            at: Timestamp::parse(at)
                .map_err(|_| invalid(format!("{} is no canonical time", Shown(at))))?,
        };
        let signature = BASE64_URL_SAFE_NO_PAD
            .decode(signature)
            .ok()
            .and_then(|bytes| <[u8; 64]>::try_from(bytes).ok())
            .ok_or_else(|| invalid("the signature is not 64 bytes of base64url"))?;
        account.verify(said.as_bytes(), &signature).map_err(|_| {
            let detail = "the revocation is not signed by this workspace's account";
            Error::new(ErrorKind::Denied, OP, detail).at(&revocation.agent)
        })?;
        Ok(revocation)
    }

    /// What the account signs.
    fn said(&self) -> String {
        let Self { workspace, agent, at, .. } = self;
        format!("{TAG} {workspace} {agent} {} {at}", self.nkey.text())
    }
}

fn invalid(detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Invalid, OP, detail)
}

const OP: &str = "revoke";

/// The first word of a line: the signature says nothing about any other text.
const TAG: &str = "vak-bus/revocation/v1";

#[cfg(test)]
mod tests;
