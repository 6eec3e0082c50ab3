//! Who signed what is stored: a key that was revoked since counts for what was there before.

use std::sync::Arc;

use bus_crypto::PublicKey;
use bus_envelope::{EventHash, MessageEnvelope, Timestamp};
use bus_subjects::AclPolicy;

use super::{Member, Roster, SignerError, check, finder::BoxError};
use crate::Certificate;

impl Roster {
    /// The same roster, which asks `find` for the certificate of a key whose word does not count
    /// any more, by the public key as nkey text. What it finds counts for records alone, and is
    /// held to the account key like any other.
    #[must_use]
    pub fn keeping<E: Into<BoxError>>(
        mut self,
        find: impl Fn(&str) -> Result<Option<String>, E> + Send + Sync + 'static,
    ) -> Self {
        self.keeper = super::Finder::new(find);
        self
    }

    /// As [`Roster::verify_hashed`] for what was stored at `stored`, by the clock of the bus: a key
    /// that was revoked later counts for it.
    ///
    /// The time that the envelope says is its signer's word, and the time of storing is not; both
    /// have to be before the revocation.
    ///
    /// # Errors
    /// The first [`SignerError`] that holds.
    pub fn verify_record(
        &self,
        envelope: &MessageEnvelope,
        leaf: &EventHash,
        stored: Timestamp,
    ) -> Result<Arc<Certificate>, SignerError> {
        self.verify_stored(envelope, leaf, stored, |policy| policy.can_publish(&envelope.subject))
    }

    /// The certificate of the public key `signer`, given as nkey text, also when it was revoked or
    /// its owner is gone, with the time since when it does not count, if that was said.
    #[must_use]
    pub fn find_kept(&self, signer: &str) -> Option<(Arc<Certificate>, Option<Timestamp>)> {
        let member = match self.look_up(signer) {
            Ok(member) => member,
            Err(_) => self.kept(signer)?,
        };
        Some((Arc::clone(&member.certificate), self.revoked(signer)))
    }

    /// As [`Roster::verify_record`], where `may` says whether the signer's policy gives the right.
    pub(crate) fn verify_stored(
        &self,
        envelope: &MessageEnvelope,
        leaf: &EventHash,
        stored: Timestamp,
        may: impl FnOnce(&AclPolicy) -> bool,
    ) -> Result<Arc<Certificate>, SignerError> {
        let signature = envelope.signature.as_ref().ok_or(SignerError::Unsigned)?;
        let signer = signature.signer.as_str();
        let member = match self.look_up(signer) {
            Ok(member) => member,
            Err(error @ (SignerError::UnknownSigner | SignerError::Revoked)) => {
                self.kept(signer).ok_or(error)?
            }
            Err(error) => return Err(error),
        };
        if self.revoked(signer).is_some_and(|at| stored >= at || envelope.time >= at) {
            return Err(SignerError::Revoked);
        }
        check(&member, envelope, leaf, may)
    }

    /// The certificate of a signer that was seen, live or in a record.
    pub(crate) fn seen(&self, signer: &str) -> Option<Arc<Certificate>> {
        let known = self.known.read().unwrap_or_else(|poison| poison.into_inner());
        let member = known.members.get(signer).or_else(|| known.kept.get(signer));
        member.map(|member| Arc::clone(&member.certificate))
    }

    /// The member with this key, also when it is revoked or gone.
    fn kept(&self, signer: &str) -> Option<Arc<Member>> {
        {
            let known = self.known.read().unwrap_or_else(|poison| poison.into_inner());
            let member = known.members.get(signer).or_else(|| known.kept.get(signer));
            if let Some(member) = member {
                return Some(Arc::clone(member));
            }
        }
        // It names a file where certificates are kept: what is no key is nothing to look for.
        PublicKey::parse(signer).ok()?;
        let token = match self.keeper.find(signer) {
            Ok(token) => token?,
            Err(error) => {
                tracing::warn!(signer, %error, "a certificate that is kept cannot be read");
                return None;
            }
        };
        let certificate = match Certificate::parse(&token) {
            Ok(certificate) => certificate,
            Err(error) => {
                tracing::warn!(signer, %error, "a certificate that is kept is damaged");
                return None;
            }
        };
        if certificate.issuer != self.account || certificate.nkey.text() != signer {
            tracing::warn!(signer, "a certificate that is kept is of another key or account");
            return None;
        }
        let policy = certificate.policy();
        let member = Arc::new(Member { certificate: Arc::new(certificate), policy });
        let mut known = self.known.write().unwrap_or_else(|poison| poison.into_inner());
        known.kept.insert(signer.to_owned(), Arc::clone(&member));
        Some(member)
    }
}
