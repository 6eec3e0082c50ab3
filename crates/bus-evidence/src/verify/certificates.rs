//! The identities of a bundle: read, held against the account, and asked who signed what.

use std::collections::BTreeMap;

use bus_core::{Certificate, ErrorKind, Roster};
use bus_envelope::{EventHash, MessageEnvelope, Timestamp, tree::MerkleTree};
use bus_subjects::AgentId;

use crate::{
    Checkpoint, CheckpointError, certificate,
    log::{CERTIFICATES, Place, entries_file},
    verify::{Finding, FindingKind, Options, Signer, Trust, files::Files, logs::Lines},
};

/// The agents of a bundle, all under one account.
pub(super) struct Authority {
    roster: Option<Roster>,
    trust: Option<Trust>,
    agents: BTreeMap<AgentId, Vec<Certificate>>,
    signed: BTreeMap<(String, String), Signer>,
    trust_recorder: bool,
}

impl Authority {
    /// Reads `certificates.jsonl`. Without a trusted account, the first certificate names it.
    pub(super) fn read(
        files: &Files<'_>,
        place: &Place,
        options: &Options,
    ) -> Result<(Self, MerkleTree), Finding> {
        let file = entries_file(CERTIFICATES);
        let trust = options.trust;
        let mut authority = Self {
            roster: trust.map(Roster::new),
            trust: trust.map(|account| Trust::Given(account.text())),
            agents: BTreeMap::new(),
            signed: BTreeMap::new(),
            trust_recorder: options.trust_recorder,
        };
        let mut tree = MerkleTree::new();
        let mut lines = Lines::open(files, &file)?;
        while let Some((number, line)) = lines.next_line()? {
            let fault = |kind, detail: String| Finding::new(&file, kind, detail).at(number);
            let token = certificate::decode(&line)
                .map_err(|detail| fault(FindingKind::UnreadableLine, detail))?;
            if certificate::encode(&token) != line {
                let detail = "the same certificate is written otherwise by the exporter".into();
                return Err(fault(FindingKind::NotCanonical, detail));
            }
            authority.admit(&token, place).map_err(|(kind, detail)| fault(kind, detail))?;
            tree.append(&line);
        }
        if let Some(roster) = &authority.roster {
            for revocation in &options.revoked {
                roster.revoke(revocation).map_err(|error| {
                    Finding::new(
                        "revocations",
                        FindingKind::CertificateUntrusted,
                        error.to_string(),
                    )
                })?;
            }
        }
        Ok((authority, tree))
    }

    /// Checks that `envelope` is signed by the agent it names, which may send it.
    pub(super) fn check(
        &mut self,
        envelope: &MessageEnvelope,
        leaf: &EventHash,
    ) -> Result<(), (FindingKind, String)> {
        let Some(roster) = &self.roster else {
            return Err((FindingKind::UnknownSigner, "the bundle has no certificates".into()));
        };
        // The time is its signer's word. Only the recorder saw when it was stored, and only who
        // trusts that it was told of the revocation can go by it.
        let checked = match self.trust_recorder {
            true => roster.verify_record(envelope, leaf, envelope.time),
            false => roster.verify_hashed(envelope, leaf),
        };
        let certificate = checked.map_err(|error| (FindingKind::from(error), error.to_string()))?;
        let key = (certificate.agent.to_string(), certificate.nkey.text());
        let signer = self.signed.entry(key).or_insert_with(|| Signer {
            agent: certificate.agent.to_string(),
            nkey: certificate.nkey.text(),
            roles: certificate.roles.iter().map(ToString::to_string).collect(),
            envelopes: 0,
            revoked: roster.revoked(&certificate.nkey.text()).map(|at| at.to_string()),
        });
        signer.envelopes += 1;
        Ok(())
    }

    /// Checks that `checkpoint` is signed by an agent that may vouch for a log; says which.
    pub(super) fn vouches(
        &self,
        file: &str,
        checkpoint: &Checkpoint,
    ) -> Result<&Certificate, Finding> {
        let names = checkpoint.signatures().iter().filter_map(|s| AgentId::parse(s.name()).ok());
        for certificate in names.filter_map(|name| self.agents.get(&name)).flatten() {
            match checkpoint.verify(&certificate.nkey) {
                Ok(()) if self.is_revoked(certificate) => {
                    let detail = format!("the key of {} is revoked", certificate.agent);
                    return Err(Finding::new(file, FindingKind::Revoked, detail));
                }
                Ok(()) if certificate::may_record(certificate) => return Ok(certificate),
                Ok(()) => {
                    let recorders = certificate::RECORDERS;
                    let detail = format!("{} is no {recorders}", certificate.agent);
                    return Err(Finding::new(file, FindingKind::CheckpointRole, detail));
                }
                Err(CheckpointError::NotSigned { .. }) => {}
                Err(error) => {
                    let detail = error.to_string();
                    return Err(Finding::new(file, FindingKind::CheckpointSignature, detail));
                }
            }
        }
        let name = checkpoint.signatures().first().map_or("nobody", |signature| signature.name());
        let detail = format!("no certificate of the bundle is of {name} and the key that signed");
        Err(Finding::new(file, FindingKind::CheckpointSigner, detail))
    }

    /// Checks that the certificate of the signer of `checkpoint` had not ended when the newest
    /// envelope it covers was made. A checkpoint carries no time of its own: it was signed at that
    /// time or later, so a certificate that began later may be good, one that had ended is not.
    pub(super) fn vouches_at(
        &self,
        file: &str,
        checkpoint: &Checkpoint,
        newest: Option<Timestamp>,
    ) -> Result<(), Finding> {
        let certificate = self.vouches(file, checkpoint)?;
        match newest {
            Some(newest) if certificate.has_ended_at(newest) => {
                let detail = certificate::had_ended(certificate, newest);
                Err(Finding::new(file, FindingKind::CheckpointExpired, detail))
            }
            _ => Ok(()),
        }
    }

    /// On whose word the identities rest, and who signed how many envelopes.
    pub(super) fn into_parts(self) -> (Trust, Vec<Signer>) {
        let trust = self.trust.unwrap_or_else(|| Trust::Claimed(String::new()));
        (trust, self.signed.into_values().collect())
    }

    fn is_revoked(&self, certificate: &Certificate) -> bool {
        let roster = self.roster.as_ref();
        roster.is_some_and(|roster| roster.revoked(&certificate.nkey.text()).is_some())
    }

    fn admit(&mut self, token: &str, place: &Place) -> Result<(), (FindingKind, String)> {
        let invalid = |error: String| (FindingKind::CertificateInvalid, error);
        let certificate = Certificate::parse(token).map_err(|error| invalid(error.to_string()))?;
        if certificate.workspace != place.workspace {
            return Err(invalid(format!("it is of the workspace {}", certificate.workspace)));
        }
        let issuer = certificate.issuer;
        self.trust.get_or_insert_with(|| Trust::Claimed(issuer.text()));
        let roster = self.roster.get_or_insert_with(|| Roster::new(issuer));
        roster.admit(token).map_err(|error| match error.kind() {
            ErrorKind::Denied => (FindingKind::CertificateUntrusted, error.to_string()),
            _ => invalid(error.to_string()),
        })?;
        let known = self.agents.entry(certificate.agent.clone()).or_default();
        if known.contains(&certificate) {
            return Err(invalid("the same certificate stands here twice".into()));
        }
        known.push(certificate);
        Ok(())
    }
}
