//! The agents a workspace's account key vouches for, and the check of who signed a message.

mod finder;
mod records;

use std::{
    collections::HashMap,
    sync::{Arc, RwLock},
};

use bus_crypto::PublicKey;
use bus_envelope::{EventHash, MessageEnvelope, Timestamp};
use bus_subjects::AclPolicy;

use self::finder::Finder;
use crate::{Certificate, Error, ErrorKind, Result, Revocation};

/// The certificates admitted under one account key. Safe to share; admitting takes `&self`.
#[derive(Debug)]
pub struct Roster {
    account: PublicKey,
    known: RwLock<Known>,
    finder: Finder,
    /// Where certificates of keys are whose word does not count any more.
    keeper: Finder,
}

/// Who was admitted, and which keys no longer count, by their nkey texts.
#[derive(Debug, Default)]
struct Known {
    members: HashMap<String, Arc<Member>>,
    /// Those that count for records alone.
    kept: HashMap<String, Arc<Member>>,
    revoked: HashMap<String, Timestamp>,
}

#[derive(Debug)]
struct Member {
    certificate: Arc<Certificate>,
    policy: AclPolicy,
}

/// Why a message is not accepted as its alleged sender's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum SignerError {
    /// It carries no signature.
    #[error("the message is not signed")]
    Unsigned,
    /// No admitted certificate names the signing key.
    #[error("no certificate of this workspace names the signing key")]
    UnknownSigner,
    /// Whether a certificate names the signing key could not be looked up now.
    #[error("the certificate of the signing key could not be looked up")]
    NotLookedUp,
    /// The account revoked the signing key. What it signed before counts no more either, unless
    /// somebody else says when it was stored: only the key's holder wrote the time into it.
    #[error("the signing key is revoked")]
    Revoked,
    /// The signature does not fit the message.
    #[error("the signature does not fit the message")]
    BadSignature,
    /// The signing key belongs to another agent.
    #[error("the signing key belongs to another agent than the one named")]
    WrongAgent,
    /// The CloudEvents source is not the agent that is named.
    #[error("the source is not the agent that is named")]
    WrongSource,
    /// The signing key belongs to another workspace.
    #[error("the signing key belongs to another workspace than the one named")]
    WrongWorkspace,
    /// The certificate was not valid when the message was made.
    #[error("the signer's certificate was not valid at the message's time")]
    Expired,
    /// None of the signer's roles may publish to the message's subject.
    #[error("no role of the signer may publish to this subject")]
    NotPermitted,
}

impl Roster {
    /// A roster of nobody, under the account key `account`.
    #[must_use]
    pub fn new(account: PublicKey) -> Self {
        let (finder, keeper) = (Finder::default(), Finder::default());
        Self { account, known: RwLock::default(), finder, keeper }
    }

    /// The same roster, which asks `find` for the certificate of a signer that nobody admitted
    /// yet, by the public key as nkey text. What it finds is held to the account key like any
    /// other.
    ///
    /// It is asked while a message is checked, for each message of a signer it does not find: let
    /// it answer quickly. What it cannot look up it says, so that nobody is taken for unknown who
    /// is not.
    #[must_use]
    pub fn finding<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        mut self,
        find: impl Fn(&str) -> Result<Option<String>, E> + Send + Sync + 'static,
    ) -> Self {
        self.finder = Finder::new(find);
        self
    }

    /// The account key whose word counts here.
    #[must_use]
    pub fn account(&self) -> &PublicKey {
        &self.account
    }

    /// Takes a certificate in.
    ///
    /// # Errors
    /// `Invalid` when it is damaged; `Denied` when another account signed it; `Conflict` when the
    /// key has another certificate already.
    pub fn admit(&self, token: &str) -> Result<()> {
        let certificate = Certificate::parse(token)?;
        if certificate.issuer != self.account {
            let detail = "the certificate is signed by another account than this workspace's";
            return Err(Error::new(ErrorKind::Denied, "admit", detail).at(&certificate.agent));
        }
        let mut known = self.known.write().unwrap_or_else(|poison| poison.into_inner());
        let nkey = certificate.nkey.text();
        if let Some(member) = known.members.get(&nkey) {
            if *member.certificate == certificate {
                return Ok(());
            }
            let detail = "this key has another certificate already";
            return Err(Error::new(ErrorKind::Conflict, "admit", detail).at(&certificate.agent));
        }
        let policy = certificate.policy();
        known.members.insert(nkey, Arc::new(Member { certificate: Arc::new(certificate), policy }));
        Ok(())
    }

    /// Takes a key out: from now on nothing that it signed is accepted. Of several revocations of
    /// one key the earliest time is kept.
    ///
    /// # Errors
    /// `Denied` when another account revoked it.
    pub fn revoke(&self, revocation: &Revocation) -> Result<()> {
        if revocation.issuer != self.account {
            let detail = "the revocation is by another account than this workspace's";
            return Err(Error::new(ErrorKind::Denied, "revoke", detail).at(&revocation.agent));
        }
        let mut known = self.known.write().unwrap_or_else(|poison| poison.into_inner());
        let at = known.revoked.entry(revocation.nkey.text()).or_insert(revocation.at);
        *at = revocation.at.min(*at);
        Ok(())
    }

    /// When the public key `signer`, given as nkey text, was revoked, if it was.
    #[must_use]
    pub fn revoked(&self, signer: &str) -> Option<Timestamp> {
        let known = self.known.read().unwrap_or_else(|poison| poison.into_inner());
        known.revoked.get(signer).copied()
    }

    /// The certificate of the public key `signer`, given as nkey text.
    #[must_use]
    pub fn get(&self, signer: &str) -> Option<Arc<Certificate>> {
        self.member(signer).map(|member| Arc::clone(&member.certificate))
    }

    /// The certificate of the public key `signer`, given as nkey text, also when it has to be found
    /// first; none when the key was revoked.
    #[must_use]
    pub fn find(&self, signer: &str) -> Option<Arc<Certificate>> {
        self.look_up(signer).ok().map(|member| Arc::clone(&member.certificate))
    }

    /// The public keys that were revoked, as nkey texts, in no order.
    #[must_use]
    pub fn all_revoked(&self) -> Vec<String> {
        let known = self.known.read().unwrap_or_else(|poison| poison.into_inner());
        known.revoked.keys().cloned().collect()
    }

    /// Checks that `envelope` is signed by the agent it names and that this agent may publish to
    /// its subject.
    ///
    /// # Errors
    /// The first [`SignerError`] that holds.
    pub fn verify(&self, envelope: &MessageEnvelope) -> Result<Arc<Certificate>, SignerError> {
        self.verify_hashed(envelope, &envelope.compute_hash())
    }

    /// As [`Roster::verify`], with the leaf hash the caller has computed from this envelope.
    ///
    /// # Errors
    /// The first [`SignerError`] that holds.
    pub fn verify_hashed(
        &self,
        envelope: &MessageEnvelope,
        leaf: &EventHash,
    ) -> Result<Arc<Certificate>, SignerError> {
        self.verify_right(envelope, leaf, |policy| policy.can_publish(&envelope.subject))
    }

    /// As [`Roster::verify_hashed`], where `may` says whether the signer's policy gives the right.
    pub(crate) fn verify_right(
        &self,
        envelope: &MessageEnvelope,
        leaf: &EventHash,
        may: impl FnOnce(&AclPolicy) -> bool,
    ) -> Result<Arc<Certificate>, SignerError> {
        let signature = envelope.signature.as_ref().ok_or(SignerError::Unsigned)?;
        let member = self.look_up(&signature.signer)?;
        check(&member, envelope, leaf, may)
    }

    fn member(&self, signer: &str) -> Option<Arc<Member>> {
        let known = self.known.read().unwrap_or_else(|poison| poison.into_inner());
        known.members.get(signer).cloned()
    }

    /// The member whose word counts, also when it has to be found first.
    fn look_up(&self, signer: &str) -> Result<Arc<Member>, SignerError> {
        match self.standing(signer) {
            Err(SignerError::UnknownSigner) => {
                self.look_for(signer)?;
                self.standing(signer)
            }
            known => known,
        }
    }

    /// Admits a signer that is not known, if it can be found.
    fn look_for(&self, signer: &str) -> Result<(), SignerError> {
        let found = self.finder.find(signer).map_err(|error| {
            tracing::warn!(signer, %error, "a certificate could not be looked up");
            SignerError::NotLookedUp
        })?;
        if let Some(token) = found
            && let Err(error) = self.admit(&token)
        {
            tracing::warn!(signer, %error, "a certificate that was found is not taken");
        }
        Ok(())
    }

    /// The member whose word counts.
    fn standing(&self, signer: &str) -> Result<Arc<Member>, SignerError> {
        let known = self.known.read().unwrap_or_else(|poison| poison.into_inner());
        let member = known.members.get(signer).ok_or(SignerError::UnknownSigner)?;
        if known.revoked.contains_key(signer) {
            return Err(SignerError::Revoked);
        }
        Ok(Arc::clone(member))
    }
}

/// Checks that `envelope` is signed by `member`, the owner of the key that it names.
fn check(
    member: &Member,
    envelope: &MessageEnvelope,
    leaf: &EventHash,
    may: impl FnOnce(&AclPolicy) -> bool,
) -> Result<Arc<Certificate>, SignerError> {
    let signature = envelope.signature.as_ref().ok_or(SignerError::Unsigned)?;
    let certificate = &member.certificate;
    if certificate.workspace != envelope.lineage.workspace {
        return Err(SignerError::WrongWorkspace);
    }
    if certificate.agent != envelope.lineage.agent {
        return Err(SignerError::WrongAgent);
    }
    if !is_source_of(&envelope.source, certificate.workspace.as_str(), certificate.agent.as_str()) {
        return Err(SignerError::WrongSource);
    }
    certificate
        .nkey
        .verify(&envelope.signature_input(leaf), &signature.bytes)
        .map_err(|_| SignerError::BadSignature)?;
    if !certificate.is_valid_at(envelope.time) {
        return Err(SignerError::Expired);
    }
    if !may(&member.policy) {
        return Err(SignerError::NotPermitted);
    }
    Ok(Arc::clone(certificate))
}

/// Whether `source` is the one of this agent: `vak://<workspace>/<agent>`.
pub(crate) fn is_source_of(source: &str, workspace: &str, agent: &str) -> bool {
    let rest = source.strip_prefix("vak://").and_then(|rest| rest.strip_prefix(workspace));
    rest.and_then(|rest| rest.strip_prefix('/')) == Some(agent)
}
