//! Who an endpoint is: a signing key and the certificate that names it.

use std::time::Duration;

use bus_crypto::{
    Entropy, PublicKey, SigningKey,
    jwt::{Permissions, SubjectPermission, UserClaims, decode_user, encode_user},
};
use bus_envelope::Timestamp;
use bus_subjects::{
    AclPolicy, AclScope, AgentId, Filter, Role, RoleName, SessionId, Shown, WorkspaceId,
};

use crate::{Error, ErrorKind, Result};

/// An agent's signing key with its certificate.
///
/// The key is zeroized on drop and never shown; `Debug` prints the certificate's names only.
pub struct Identity {
    key: SigningKey,
    certificate: Certificate,
}

/// A workspace's word that a key belongs to an agent in certain roles: a NATS user JWT.
///
/// `Debug` does not show its text, which a server may take for a credential (D10).
///
/// Workspace, roles and what the rights are bound to stand in its tags, `workspace:<name>`,
/// `role:<name>`, `session:<name>` and `queue:<name>`, compared as written. NATS' own tools write
/// tags in lower case: a certificate made by `nsc` names a workspace in lower case, so it never
/// fits one whose name has capitals. [`certify`] keeps them.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The workspace the agent belongs to.
    pub workspace: WorkspaceId,
    /// The agent's name.
    pub agent: AgentId,
    /// The agent's public key.
    pub nkey: PublicKey,
    /// The account key that signed it.
    pub issuer: PublicKey,
    /// What the agent may do.
    pub roles: Vec<Role>,
    /// The one session its rights are bound to; `None`: all.
    pub session: Option<SessionId>,
    /// The one work queue its rights are bound to; `None`: all.
    pub queue: Option<RoleName>,
    /// When it was issued, to the second; it is not valid before.
    pub issued: Timestamp,
    /// When it begins, to the second, if that is later than `issued`; `None`: when it was issued.
    pub not_before: Option<Timestamp>,
    /// When it ends, to the second; `None`: never.
    pub expires: Option<Timestamp>,
    token: String,
}

/// What a new certificate shall say.
#[derive(Debug, Clone)]
pub struct Issue {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The agent's name.
    pub agent: AgentId,
    /// Its roles; at least one.
    pub roles: Vec<Role>,
    /// The one session its rights are bound to; `None`: all.
    pub session: Option<SessionId>,
    /// The one work queue its rights are bound to; `None`: all.
    pub role_name: Option<RoleName>,
    /// When it is issued.
    pub now: Timestamp,
    /// How long it is valid; `None`: for ever.
    pub valid_for: Option<Duration>,
    /// What a NATS server has to allow, so that the certificate is a login there as well, for
    /// programs and not for browsers; `None`: the policy's own rules, which are no login where
    /// JetStream is used.
    pub permissions: Option<Permissions>,
}

impl Issue {
    /// A certificate for `agent` in `roles`, for all sessions, valid for ever.
    #[must_use]
    pub fn new(workspace: WorkspaceId, agent: AgentId, roles: Vec<Role>, now: Timestamp) -> Self {
        Self {
            workspace,
            agent,
            roles,
            session: None,
            role_name: None,
            now,
            valid_for: None,
            permissions: None,
        }
    }

    /// What an agent with these roles may do.
    #[must_use]
    pub fn policy(&self) -> AclPolicy {
        let scope = AclScope {
            workspace: self.workspace.clone(),
            agent: self.agent.clone(),
            session: self.session.clone(),
            role_name: self.role_name.clone(),
        };
        policy_of(&self.roles, &scope)
    }
}

impl Identity {
    /// Makes a new key and has `account` certify it.
    ///
    /// # Errors
    /// `Invalid` when no role is given or `account` is no account key; `Unavailable` when the
    /// random source fails.
    pub fn issue(account: &SigningKey, issue: &Issue, entropy: &dyn Entropy) -> Result<Self> {
        let key = SigningKey::generate(bus_crypto::NkeyKind::User, entropy).map_err(crypto)?;
        let token = certify(account, key.public(), issue)?;
        Self::from_parts(key, &token)
    }

    /// Joins a stored key with its certificate.
    ///
    /// # Errors
    /// `Invalid` when the certificate is damaged or names another key.
    pub fn from_parts(key: SigningKey, token: &str) -> Result<Self> {
        let certificate = Certificate::parse(token)?;
        if certificate.nkey != *key.public() {
            return Err(invalid("the certificate names another key than the one given"));
        }
        Ok(Self { key, certificate })
    }

    /// The signing key.
    #[must_use]
    pub fn key(&self) -> &SigningKey {
        &self.key
    }

    /// The certificate.
    #[must_use]
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("workspace", &self.certificate.workspace)
            .field("agent", &self.certificate.agent)
            .field("nkey", &self.certificate.nkey.text())
            .finish_non_exhaustive()
    }
}

impl Certificate {
    /// Reads a certificate and checks its form and the signature of the issuer it names.
    ///
    /// Whether that issuer is to be trusted is the [`crate::Roster`]'s question.
    ///
    /// # Errors
    /// `Invalid` with the reason; `Denied` when it was signed for another account than its signer.
    pub fn parse(token: &str) -> Result<Self> {
        let claims = decode_user(token).map_err(crypto)?;
        claims.issued_by(&claims.issuer).map_err(crypto)?;
        if claims.is_bearer {
            return Err(invalid("the certificate would let anybody in who has its text"));
        }
        let Tags { workspace, roles, session, queue } = Tags::read(&claims.tags)?;
        let Some(workspace) = workspace else {
            return Err(invalid("the certificate names no workspace"));
        };
        Ok(Self {
            workspace,
            agent: AgentId::parse(&claims.name)?,
            nkey: claims.subject,
            issuer: claims.issuer,
            roles,
            session,
            queue,
            issued: seconds(claims.issued_at_unix_s),
            not_before: claims
                .not_before_unix_s
                .filter(|begin| *begin > claims.issued_at_unix_s)
                .map(seconds),
            expires: claims.expires_unix_s.map(seconds),
            token: token.to_owned(),
        })
    }

    /// The certificate's text, a JWT.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// What the agent may do: all that its roles give within the session and the work queue that
    /// the certificate is bound to, if it is.
    #[must_use]
    pub fn policy(&self) -> AclPolicy {
        self.policy_for(None, None)
    }

    /// What the agent may do within one session and on one work queue; `None` means all that the
    /// certificate is for. What that is bound to stays as it is, whatever is asked for: this is
    /// never more than [`Certificate::policy`].
    #[must_use]
    pub fn policy_for(&self, session: Option<&SessionId>, queue: Option<&RoleName>) -> AclPolicy {
        let scope = AclScope {
            workspace: self.workspace.clone(),
            agent: self.agent.clone(),
            session: self.session.as_ref().or(session).cloned(),
            role_name: self.queue.as_ref().or(queue).cloned(),
        };
        policy_of(&self.roles, &scope)
    }

    /// Whether `time` lies within the certificate's validity.
    #[must_use]
    pub fn is_valid_at(&self, time: Timestamp) -> bool {
        let begin = self.not_before.unwrap_or(self.issued);
        begin <= time && !self.has_ended_at(time)
    }

    /// Whether the certificate's validity is over at `time`.
    #[must_use]
    pub fn has_ended_at(&self, time: Timestamp) -> bool {
        self.expires.is_some_and(|end| end <= time)
    }
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate")
            .field("workspace", &self.workspace)
            .field("agent", &self.agent)
            .field("nkey", &self.nkey.text())
            .field("issuer", &self.issuer.text())
            .field("roles", &self.roles)
            .field("session", &self.session)
            .field("queue", &self.queue)
            .field("issued", &self.issued)
            .field("not_before", &self.not_before)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// What the tags of a certificate say.
#[derive(Default)]
struct Tags {
    workspace: Option<WorkspaceId>,
    roles: Vec<Role>,
    session: Option<SessionId>,
    queue: Option<RoleName>,
}

impl Tags {
    /// Reads all of them; one that says something else, or again what only one may say, is wrong.
    fn read(tags: &[String]) -> Result<Self> {
        let mut said = Self::default();
        for tag in tags {
            let is_first = match tag.split_once(':') {
                Some(("workspace", name)) => {
                    said.workspace.replace(WorkspaceId::parse(name)?).is_none()
                }
                Some(("session", name)) => said.session.replace(SessionId::parse(name)?).is_none(),
                Some(("queue", name)) => said.queue.replace(RoleName::parse(name)?).is_none(),
                Some(("role", name)) => {
                    said.roles.push(name.parse()?);
                    true
                }
                _ => {
                    let detail = format!("the certificate has an unknown tag: {}", Shown(tag));
                    return Err(invalid(detail));
                }
            };
            if !is_first {
                let detail = format!("the certificate says a second time: {}", Shown(tag));
                return Err(invalid(detail));
            }
        }
        Ok(said)
    }
}

/// Has `account` certify the public key `nkey`, and returns the certificate's text.
///
/// # Errors
/// `Invalid` when no role is given or `account` is no account key.
pub fn certify(account: &SigningKey, nkey: &PublicKey, issue: &Issue) -> Result<String> {
    if issue.roles.is_empty() {
        return Err(invalid("an agent needs at least one role"));
    }
    let issued_at_unix_s = unix_s(issue.now);
    let valid_s = issue.valid_for.map(|d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX));
    let mut tags = vec![format!("workspace:{}", issue.workspace)];
    tags.extend(issue.roles.iter().map(|role| format!("role:{}", role.as_str())));
    tags.extend(issue.session.iter().map(|session| format!("session:{session}")));
    tags.extend(issue.role_name.iter().map(|queue| format!("queue:{queue}")));
    let (subject, issuer) = (*nkey, *account.public());
    let mut claims = UserClaims::new(issue.agent.as_str(), subject, issuer, issued_at_unix_s);
    claims.expires_unix_s = valid_s.map(|s| issued_at_unix_s.saturating_add(s));
    claims.tags = tags;
    match &issue.permissions {
        Some(permissions) => {
            claims.permissions = permissions.clone();
            claims.connection_types = vec![CLIENT.to_owned()];
        }
        None => claims.permissions = permissions_of(&issue.policy()),
    }
    encode_user(&claims, account).map_err(crypto)
}

fn policy_of(roles: &[Role], scope: &AclScope) -> AclPolicy {
    AclPolicy::union(roles.iter().map(|role| AclPolicy::for_role(*role, scope)))
}

/// The policy as a NATS server enforces it.
///
/// There an empty list allows everything, so a policy that allows nothing denies everything; and
/// an allowed subscription to `a.*` also lets `a.*.>` through, so that is denied beside it.
fn permissions_of(policy: &AclPolicy) -> Permissions {
    let texts = |filters: &[Filter]| filters.iter().map(Filter::to_string).collect::<Vec<_>>();
    let direction = |allow: &[Filter], deny: &[Filter]| {
        let (allow, mut deny) = (texts(allow), texts(deny));
        if allow.is_empty() {
            deny = vec![">".to_owned()];
        }
        SubjectPermission { allow, deny }
    };
    let (publish, subscribe) = (&policy.publish, &policy.subscribe);
    let mut permissions = Permissions {
        publish: direction(&publish.allow, &publish.deny),
        subscribe: direction(&subscribe.allow, &subscribe.deny),
        response: None,
    };
    let open_ends = subscribe.allow.iter().filter(|filter| filter.as_str().ends_with(".*"));
    permissions.subscribe.deny.extend(open_ends.map(|filter| format!("{filter}.>")));
    permissions
}

/// A program that connects to a server: no browser, no leaf node.
const CLIENT: &str = "STANDARD";

fn invalid(detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Invalid, "identity", detail)
}

fn crypto(error: bus_crypto::CryptoError) -> Error {
    Error::from(error)
}

fn seconds(unix_s: i64) -> Timestamp {
    Timestamp::from_unix_ns(i128::from(unix_s) * 1_000_000_000)
}

fn unix_s(time: Timestamp) -> i64 {
    i64::try_from(time.unix_ns().div_euclid(1_000_000_000)).unwrap_or(i64::MAX)
}
