//! The account's word that whoever has this text may come in once, as an agent in certain roles.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use bus_crypto::{Entropy, NkeyKind, PublicKey, SigningKey, Zeroizing};
use bus_envelope::Timestamp;
use bus_subjects::{AclPolicy, AclScope, AgentId, Role, RoleName, SessionId, WorkspaceId};

use crate::{
    Error, ErrorKind, Issue, Result,
    packed::{Unpacker, pack_text},
};

/// What a ticket says. Its text, which [`EntryTicket::sign`] gives, is a secret: whoever has it
/// first comes in, and after that nobody.
///
/// ```
/// use std::time::Duration;
///
/// use bus_core::{EntryTicket, Issue};
/// use bus_crypto::{NkeyKind, SigningKey, SystemEntropy};
/// use bus_envelope::Timestamp;
/// use bus_subjects::{AgentId, Role, WorkspaceId};
///
/// let entropy = SystemEntropy::new();
/// let account = SigningKey::generate(NkeyKind::Account, &entropy)?;
/// let (shop, now) = (WorkspaceId::parse("shop")?, Timestamp::from_unix_ns(0));
/// let issue = Issue {
///     valid_for: Some(Duration::from_secs(600)),
///     ..Issue::new(shop, AgentId::parse("screen")?, vec![Role::Observer], now)
/// };
/// let ticket = EntryTicket::new(&issue, account.public(), &entropy)?;
/// let text = ticket.sign(&account)?;
/// assert_eq!(EntryTicket::parse(&text, |_| Ok(*account.public()))?, ticket);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryTicket {
    /// Tells it from every other ticket.
    pub id: [u8; 16],
    /// The account that says so.
    pub issuer: PublicKey,
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The agent that the bearer is taken for.
    pub agent: AgentId,
    /// What it may do; at least one, in ascending order, none twice.
    pub roles: Vec<Role>,
    /// The one session its rights are bound to; `None`: all.
    pub session: Option<SessionId>,
    /// The one work queue its rights are bound to; `None`: all.
    pub queue: Option<RoleName>,
    /// When it ends, to the second, and with it whatever it gave.
    pub end: Timestamp,
}

impl EntryTicket {
    /// What every ticket's text begins with.
    pub const PREFIX: &str = "vakt1.";

    /// The longest text, in bytes.
    pub const TEXT_BYTES_MAX: usize = 1_024;

    /// The longest time for which a ticket is made.
    pub const LIFE_MAX: Duration = Duration::from_secs(24 * 3_600);

    /// A new ticket by `account` for what `issue` says.
    ///
    /// # Errors
    /// `Invalid` when it has no role or no end, ends at once or after more than
    /// [`EntryTicket::LIFE_MAX`]; `Unavailable` when the random source fails.
    pub fn new(issue: &Issue, account: &PublicKey, entropy: &dyn Entropy) -> Result<Self> {
        let Some(life) = issue.valid_for.filter(|life| *life <= Self::LIFE_MAX) else {
            return Err(invalid("a ticket has to end within 24 hours"));
        };
        let mut roles = issue.roles.clone();
        roles.sort_unstable();
        roles.dedup();
        if roles.is_empty() {
            return Err(invalid("a ticket needs at least one role"));
        }
        let end_unix_s = unix_s(issue.now.plus(life));
        let end = Timestamp::from_unix_ns(i128::from(end_unix_s) * NS);
        if end <= issue.now {
            return Err(invalid("a ticket has to be good for a second at least"));
        }
        let mut id = [0; 16];
        entropy.fill(&mut id).map_err(Error::from)?;
        Ok(Self {
            id,
            issuer: *account,
            workspace: issue.workspace.clone(),
            agent: issue.agent.clone(),
            roles,
            session: issue.session.clone(),
            queue: issue.role_name.clone(),
            end,
        })
    }

    /// The text that lets its bearer in.
    ///
    /// # Errors
    /// `Denied` when `account` is not the issuer.
    pub fn sign(&self, account: &SigningKey) -> Result<Zeroizing<String>> {
        if *account.public() != self.issuer || self.issuer.kind() != NkeyKind::Account {
            let detail = "only the workspace's account makes tickets for it";
            return Err(Error::new(ErrorKind::Denied, OP, detail).at(&self.agent));
        }
        let said = self.said();
        let signature = account.sign(&signed(&said));
        let encoded = [said.as_slice(), &signature].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part));
        Ok(Zeroizing::new(format!("{}{}", Self::PREFIX, encoded.join("."))))
    }

    /// Reads a ticket that the account of its workspace signed, which `account_of` names.
    ///
    /// # Errors
    /// `Invalid` when it is not in its one form; `Denied` when the account did not sign it. What
    /// `account_of` says. The text is never quoted.
    pub fn parse(
        text: &str,
        account_of: impl FnOnce(&WorkspaceId) -> Result<PublicKey>,
    ) -> Result<Self> {
        if text.len() > Self::TEXT_BYTES_MAX {
            return Err(invalid("the ticket is longer than any can be"));
        }
        let parts = text.strip_prefix(Self::PREFIX).and_then(|rest| rest.split_once('.'));
        let Some((said, signature)) = parts else {
            return Err(invalid("expected a ticket: vakt1. and two parts"));
        };
        let decoded = [said, signature].map(|part| BASE64_URL_SAFE_NO_PAD.decode(part).ok());
        let [Some(said), Some(signature)] = decoded else {
            return Err(invalid("a part of the ticket is not base64url"));
        };
        let Ok(signature) = <[u8; 64]>::try_from(signature) else {
            return Err(invalid("the ticket's signature has not 64 bytes"));
        };
        let read = Self::unpack(&said).map_err(|_| invalid("the ticket is damaged"));
        let (workspace, ticket_by) = read?;
        let ticket = ticket_by(account_of(&workspace)?);
        ticket.issuer.verify(&signed(&said), &signature).map_err(|_| {
            let detail = "the ticket is not signed by its workspace's account";
            Error::new(ErrorKind::Denied, OP, detail).at(&ticket.agent)
        })?;
        Ok(ticket)
    }

    /// What its bearer may do.
    #[must_use]
    pub fn policy(&self) -> AclPolicy {
        let scope = AclScope {
            workspace: self.workspace.clone(),
            agent: self.agent.clone(),
            session: self.session.clone(),
            role_name: self.queue.clone(),
        };
        AclPolicy::union(self.roles.iter().map(|role| AclPolicy::for_role(*role, &scope)))
    }

    /// Whether the ticket is good at the time `now`.
    ///
    /// # Errors
    /// `Denied` with the reason.
    pub fn check_at(&self, now: Timestamp) -> Result<()> {
        let refuse = |why| Err(Error::new(ErrorKind::Denied, OP, why).at(&self.agent));
        if self.end <= now {
            return refuse("the ticket has ended");
        }
        if self.end.since(now) > Self::LIFE_MAX + CLOCKS_APART_MAX {
            return refuse("the ticket ends later than any may");
        }
        Ok(())
    }

    /// What it says, in its one form.
    fn said(&self) -> Vec<u8> {
        let mut out = self.id.to_vec();
        out.extend_from_slice(&unix_s(self.end).to_le_bytes());
        pack_text(self.workspace.as_str(), &mut out);
        pack_text(self.agent.as_str(), &mut out);
        pack_text(self.session.as_ref().map_or("", SessionId::as_str), &mut out);
        pack_text(self.queue.as_ref().map_or("", RoleName::as_str), &mut out);
        // There are seven.
        out.push(self.roles.len() as u8);
        for role in &self.roles {
            pack_text(role.as_str(), &mut out);
        }
        out
    }

    /// The ticket's workspace, and the ticket by the account that is found to be that one's.
    fn unpack(said: &[u8]) -> Result<(WorkspaceId, impl FnOnce(PublicKey) -> Self + use<>)> {
        let mut reader = Unpacker::new(said);
        let id = reader.array()?;
        let end_unix_s = i64::from_le_bytes(reader.array()?);
        if !(0..=END_UNIX_S_MAX).contains(&end_unix_s) {
            return Err(invalid("no time"));
        }
        let workspace = WorkspaceId::parse(reader.text(TEXT_MAX)?)?;
        let agent = AgentId::parse(reader.text(TEXT_MAX)?)?;
        let session = some(reader.text(TEXT_MAX)?).map(SessionId::parse).transpose()?;
        let queue = some(reader.text(TEXT_MAX)?).map(RoleName::parse).transpose()?;
        let mut roles = Vec::new();
        for _ in 0..reader.u8()? {
            let role = reader.text(TEXT_MAX)?.parse::<Role>()?;
            if roles.last().is_some_and(|last| *last >= role) {
                return Err(invalid("roles in another order"));
            }
            roles.push(role);
        }
        reader.end()?;
        if roles.is_empty() {
            return Err(invalid("no role"));
        }
        let end = Timestamp::from_unix_ns(i128::from(end_unix_s) * NS);
        let of = workspace.clone();
        let by = move |issuer| Self { id, issuer, workspace, agent, roles, session, queue, end };
        Ok((of, by))
    }
}

/// What the account signs.
fn signed(said: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(TAG.len() + 2 + said.len());
    pack_text(TAG, &mut out);
    out.extend_from_slice(said);
    out
}

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn unix_s(time: Timestamp) -> i64 {
    i64::try_from(time.unix_ns().div_euclid(NS)).unwrap_or(i64::MAX)
}

fn invalid(detail: &'static str) -> Error {
    Error::new(ErrorKind::Invalid, OP, detail)
}

const OP: &str = "ticket";
/// What the signature is about, so that it says nothing about any other text.
const TAG: &str = "vak-bus/ticket/v1";
/// A name is shorter.
const TEXT_MAX: usize = 255;
const NS: i128 = 1_000_000_000;
/// The last second that a time can be written in.
const END_UNIX_S_MAX: i64 = i64::MAX / 1_000_000_000;
/// How far the clock of whoever made a ticket may be ahead.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
