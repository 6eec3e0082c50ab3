//! Verifies a proof file: the checkpoint and its signer, the entry and its signer, and the path.

use std::collections::BTreeMap;

use bus_envelope::{
    EventHash, MessageEnvelope,
    tree::{leaf_hash, verify_consistency, verify_inclusion},
};
use serde::Serialize;

use crate::{
    Checkpoint, ConsistencyProof, InclusionProof, Proof, certificate,
    entry::envelope_of,
    log::{CERTIFICATES, Log, Place, entries_file},
    verify::{
        Finding, FindingKind, KeptMatch, Options, Trust, certificates::Authority, files::Files,
        logs, receipts, receipts::Said,
    },
};

/// What a proof shows in which nothing is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProofReport {
    /// The workspace.
    pub workspace: String,
    /// The session.
    pub session: String,
    /// The name of the log.
    pub log: String,
    /// On whose word the identities rest.
    pub trust: Trust,
    /// The agent that signed the checkpoint.
    pub recorder: String,
    /// How many entries the checkpoint covers.
    pub entries: u64,
    /// What is shown of them.
    #[serde(flatten)]
    pub shown: ProofShown,
    /// The kept checkpoints that the proof agrees with.
    pub kept: Vec<KeptMatch>,
}

/// What a proof shows of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "proof", rename_all = "kebab-case")]
pub enum ProofShown {
    /// An entry is in it.
    Inclusion {
        /// Its number, from 1.
        entry: u64,
        /// The leaf hash of its envelope.
        leaf: String,
        /// The type of its event.
        event_type: String,
        /// Who signed it.
        signer: String,
        /// When it was made, by its signer's word.
        time: String,
        /// The leaf hash of what it answers, such as of the task of a receipt.
        cause: Option<String>,
        /// The id of the task that it is a receipt for, unless it is sealed or none.
        task: Option<String>,
    },
    /// It goes on from the kept checkpoint.
    Consistency {
        /// How many entries the kept checkpoint covers.
        from: u64,
    },
}

/// Verifies the text of a proof file.
///
/// # Errors
/// The first thing that is wrong. A proof of consistency needs the kept checkpoint that it goes on
/// from; a kept checkpoint of another number of entries than the proof speaks of is a finding, for
/// nothing can be said about it.
pub fn verify_proof(text: &str, options: &Options) -> Result<ProofReport, Finding> {
    let proof = Proof::parse(text)
        .map_err(|error| Finding::new(FILE, FindingKind::ProofForm, error.to_string()))?;
    let checkpoint = proof.checkpoint();
    let (place, log) = place_of(checkpoint)?;
    let tokens = match &proof {
        Proof::Inclusion(proof) => &proof.certificates,
        Proof::Consistency(proof) => &proof.certificates,
    };
    let mut authority = authority(tokens, &place, options)?;
    let shown = match &proof {
        Proof::Inclusion(proof) => inclusion(proof, (&place, log), &mut authority)?,
        Proof::Consistency(proof) => {
            authority.vouches(FILE, checkpoint)?;
            ProofShown::Consistency { from: proof.old }
        }
    };
    let kept = kept(&proof, options, &authority)?;
    let recorder = authority.vouches(FILE, checkpoint)?.agent.to_string();
    let (trust, _) = authority.into_parts();
    Ok(ProofReport {
        workspace: place.workspace.to_string(),
        session: place.session.to_string(),
        log: log.name().to_owned(),
        trust,
        recorder,
        entries: checkpoint.size(),
        shown,
        kept,
    })
}

/// The log that a checkpoint is of.
fn place_of(checkpoint: &Checkpoint) -> Result<(Place, Log), Finding> {
    let origin = checkpoint.origin();
    let named = Place::parse(origin);
    let log = |name: &str| Log::ALL.into_iter().find(|log| log.name() == name);
    named.and_then(|(place, name)| Some((place, log(name)?))).ok_or_else(|| {
        let detail = format!("{origin:?} names no log of envelopes");
        Finding::new(FILE, FindingKind::CheckpointOrigin, detail)
    })
}

/// The agents whose certificates the proof brings along.
fn authority(tokens: &[String], place: &Place, options: &Options) -> Result<Authority, Finding> {
    let mut lines = Vec::new();
    for token in tokens {
        lines.extend(certificate::encode(token));
        lines.push(b'\n');
    }
    let files = BTreeMap::from([(entries_file(CERTIFICATES), lines)]);
    let read = Authority::read(&Files::Memory(&files), place, options);
    read.map(|(authority, _)| authority).map_err(|finding| {
        let detail = format!("certificate {}: {}", finding.entry.unwrap_or(0), finding.detail);
        Finding::new(FILE, finding.kind, detail)
    })
}

fn inclusion(
    proof: &InclusionProof,
    (place, log): (&Place, Log),
    authority: &mut Authority,
) -> Result<ProofShown, Finding> {
    let fault = |kind, detail: String| Finding::new(FILE, kind, detail);
    let envelope = envelope_of(&proof.entry)
        .map_err(|error| fault(logs::kind_of(&error), error.to_string()))?;
    if let Some(detail) = log.misplaced(place, &envelope) {
        return Err(fault(FindingKind::WrongPlace, detail));
    }
    let leaf = envelope.compute_hash();
    authority.check(&envelope, &leaf).map_err(|(kind, detail)| fault(kind, detail))?;
    let said = match log {
        Log::Receipts => receipts::read(&envelope).map_err(|(kind, detail)| fault(kind, detail))?,
        Log::Tasks | Log::DeadLetters => Said::Nothing,
    };
    authority.vouches_at(FILE, &proof.checkpoint, Some(envelope.time))?;
    let InclusionProof { index, hashes, checkpoint, .. } = proof;
    let number = index.saturating_add(1);
    let (size, root) = (checkpoint.size(), EventHash::from_bytes(*checkpoint.root()));
    if !verify_inclusion(&leaf_hash(&proof.entry), *index, size, hashes, &root) {
        let detail = format!("its hashes do not lead from entry {number} to the root");
        return Err(fault(FindingKind::ProofMismatch, detail));
    }
    Ok(shown(&envelope, leaf, number, said))
}

fn shown(envelope: &MessageEnvelope, leaf: EventHash, entry: u64, said: Said) -> ProofShown {
    ProofShown::Inclusion {
        entry,
        leaf: leaf.to_string(),
        event_type: envelope.event_type.clone(),
        signer: envelope.lineage.agent.to_string(),
        time: envelope.time.to_string(),
        cause: envelope.lineage.cause.map(|cause| cause.to_string()),
        task: match said {
            Said::Task(task) => Some(task),
            Said::Nothing | Said::Sealed => None,
        },
    }
}

/// Holds the proof against the kept checkpoints.
fn kept(
    proof: &Proof,
    options: &Options,
    authority: &Authority,
) -> Result<Vec<KeptMatch>, Finding> {
    if options.kept.is_empty()
        && let Proof::Consistency(ConsistencyProof { old, .. }) = proof
    {
        let detail = format!("it goes on from a checkpoint over {old} entries, which is not given");
        return Err(Finding::new(FILE, FindingKind::KeptMissing, detail));
    }
    let one = |(text, number)| {
        let given = format!("kept checkpoint {number}");
        kept_one(text, &given, proof, authority)
    };
    options.kept.iter().map(String::as_str).zip(1..).map(one).collect()
}

fn kept_one(
    text: &str,
    given: &str,
    proof: &Proof,
    authority: &Authority,
) -> Result<KeptMatch, Finding> {
    let fault = |kind, detail: String| Err(Finding::new(given, kind, detail));
    let earlier = match Checkpoint::parse(text) {
        Ok(earlier) => earlier,
        Err(error) => return fault(FindingKind::CheckpointForm, error.to_string()),
    };
    let now = proof.checkpoint();
    if earlier.origin() != now.origin() {
        let detail = format!("it is of {:?}, the proof of {:?}", earlier.origin(), now.origin());
        return fault(FindingKind::KeptForeign, detail);
    }
    let want = match proof {
        Proof::Inclusion(_) => now.size(),
        Proof::Consistency(proof) => proof.old,
    };
    if earlier.size() != want {
        let have = earlier.size();
        let detail = format!("it covers {have} entries, and the proof speaks of {want}");
        return fault(FindingKind::KeptForeign, detail);
    }
    authority.vouches(given, &earlier)?;
    let roots = [&earlier, now].map(|head| EventHash::from_bytes(*head.root()));
    let [old_root, new_root] = &roots;
    let (is_good, kind) = match proof {
        Proof::Inclusion(_) => (old_root.ct_eq(new_root), FindingKind::Rewritten),
        Proof::Consistency(proof) => {
            let (old, new) = (proof.old, now.size());
            let is_good = verify_consistency(old, new, old_root, new_root, &proof.hashes);
            (is_good, FindingKind::ProofMismatch)
        }
    };
    if !is_good {
        let detail = format!("the proof does not lead from {given} to its own checkpoint");
        return Err(Finding::new(FILE, kind, detail));
    }
    let origin = earlier.origin().to_owned();
    Ok(KeptMatch { origin, entries: earlier.size(), entries_now: now.size() })
}

impl ProofReport {
    /// The verdict in words, as a bundle's.
    #[must_use]
    pub const fn verdict(&self) -> &'static str {
        match self.trust {
            Trust::Given(_) => "verified",
            Trust::Claimed(_) => "consistent, signer unknown",
        }
    }
}

impl std::fmt::Display for ProofReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { workspace, session, log, entries, .. } = self;
        match &self.shown {
            ProofShown::Inclusion { entry, .. } => {
                writeln!(f, "{}; entry {entry} of {entries} is in the log", self.verdict())?;
            }
            ProofShown::Consistency { from } => {
                let verdict = self.verdict();
                writeln!(f, "{verdict}; the log of {entries} begins with the {from} kept entries")?;
            }
        }
        writeln!(f, "workspace {workspace}, session {session}, log {log}")?;
        match &self.trust {
            Trust::Given(account) => writeln!(f, "account {account} (given)")?,
            Trust::Claimed(account) => writeln!(f, "account {account} (claimed by the proof)")?,
        }
        if let ProofShown::Inclusion { event_type, signer, time, leaf, .. } = &self.shown {
            writeln!(f, "{event_type} {leaf}, signed by {signer}, {time}")?;
        }
        match &self.shown {
            ProofShown::Inclusion { task: Some(task), .. } => {
                writeln!(f, "receipt of task {task}")?;
            }
            ProofShown::Inclusion { task: None, cause: Some(cause), .. } => {
                writeln!(f, "answers what has the leaf {cause}; its own text is sealed")?;
            }
            ProofShown::Inclusion { .. } | ProofShown::Consistency { .. } => {}
        }
        writeln!(f, "recorded by {}", self.recorder)
    }
}

/// How findings call the proof.
const FILE: &str = "proof";
