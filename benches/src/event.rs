//! The event that the codec and the seal are measured with, made as an endpoint makes it.

use anyhow::{Context, Result};
use bus_crypto::{
    FreshNonce, Keyring, NkeyKind, SealKey, SigningKey, SystemEntropy, WorkspaceSecret,
};
use bus_envelope::{
    ChainHead, ChainScope, Draft, EventHash, MessageEnvelope, Seal, SealRef, Signature, Stamp,
    Timestamp, TraceContext, wire,
};
use bus_subjects::{AgentId, SessionId, Subject, WorkspaceId};
use bytes::Bytes;
use uuid::Uuid;

/// An agent with its keys, and the chain it writes.
pub(crate) struct Sender {
    pub(crate) keyring: Keyring,
    pub(crate) seal_key: std::sync::Arc<SealKey>,
    pub(crate) signing: SigningKey,
    pub(crate) head: ChainHead,
    workspace: WorkspaceId,
    agent: AgentId,
    subject: Subject,
    session: SessionId,
    /// What the agent works on.
    trace: TraceContext,
    incarnation: Uuid,
}

impl Sender {
    pub(crate) fn new() -> Result<Self> {
        let (workspace, agent) = (WorkspaceId::parse("acme")?, AgentId::parse("coder-1")?);
        let subject = Subject::parse("vak.receipts.acme.session-7.completed")?;
        let incarnation = Uuid::from_u128(0x019b_7f1e_0000_7000_8000_0000_0000_0001);
        let keyring = Keyring::new();
        let secret = WorkspaceSecret::generate(&SystemEntropy::new())?;
        keyring.add_secret("acme", "main", secret)?;
        let seal_key = keyring.sealing_key("acme", &incarnation.to_string())?;
        let signing = SigningKey::generate(NkeyKind::User, &SystemEntropy::new())?;
        let head = ChainHead::genesis(&ChainScope::Incarnation {
            workspace: workspace.clone(),
            agent: agent.clone(),
            incarnation,
            subject: subject.clone(),
        });
        let session = SessionId::parse("session-7")?;
        let trace = TraceContext::new([3; 16], [4; 8], TraceContext::SAMPLED)?;
        Ok(Self {
            keyring,
            seal_key,
            signing,
            head,
            workspace,
            agent,
            subject,
            session,
            trace,
            incarnation,
        })
    }

    /// A draft with JSON of `bytes` bytes.
    pub(crate) fn draft(&self, bytes: usize) -> Result<Draft> {
        let draft = Draft::new(self.subject.clone(), "vak.receipt.completed", json(bytes))
            .content_type("application/json")
            .session(self.session.clone())
            .extension("priority", "high")?;
        Ok(draft)
    }

    /// Gives a draft its place, from randomness that was drawn before.
    pub(crate) fn stamp(&self, draft: &Draft, random: &[u8; 18]) -> Result<MessageEnvelope> {
        let short = "18 bytes are 8 and 10";
        let (span_id, id) = random.split_first_chunk::<8>().context(short)?;
        let id: &[u8; 10] = id.first_chunk().context(short)?;
        let id = uuid::Builder::from_unix_timestamp_millis(1_767_323_045_000, id).into_uuid();
        Ok(draft.clone().stamp(Stamp {
            id: id.to_string(),
            time: Timestamp::from_unix_ns(1_767_323_045_123_456_789),
            trace: self.trace.child_span(*span_id),
            workspace: self.workspace.clone(),
            agent: self.agent.clone(),
            incarnation: self.incarnation,
            head: self.head,
        })?)
    }

    /// Seals the payload under the cached key of the incarnation.
    pub(crate) fn seal(&self, envelope: &mut MessageEnvelope, nonce: FreshNonce) -> Result<()> {
        envelope.seal = Some(Seal {
            key_id: self.seal_key.key_id().to_owned(),
            algorithm: self.seal_key.algorithm().name().to_owned(),
            nonce: [0; 12],
        });
        let aad = envelope.aad();
        let mut data = Vec::with_capacity(envelope.payload.len() + 16);
        data.extend_from_slice(&envelope.payload);
        let nonce = self.seal_key.seal_fresh(nonce, &aad, &mut data)?;
        if let Some(seal) = &mut envelope.seal {
            seal.nonce = nonce;
        }
        envelope.payload = Bytes::from(data);
        Ok(())
    }

    /// Seals into the compact form and gives the leaf.
    pub(crate) fn seal_into(
        &self,
        envelope: &MessageEnvelope,
        nonce: FreshNonce,
        bytes: &mut Vec<u8>,
    ) -> Result<EventHash> {
        let seal = SealRef {
            key_id: self.seal_key.key_id(),
            algorithm: self.seal_key.algorithm().name(),
            nonce: *nonce.as_bytes(),
        };
        let leaf = wire::compact::seal_into(envelope, seal, bytes, |aad, data| {
            self.seal_key.seal_detached(nonce, aad, data)
        })?;
        Ok(leaf)
    }

    pub(crate) fn sign(&self, envelope: &mut MessageEnvelope) {
        let leaf = envelope.compute_hash();
        let signer = self.signing.public().text();
        let bytes = self.signing.sign(&envelope.signature_input_as(&leaf, &signer));
        envelope.signature = Some(Signature { signer, bytes });
    }

    /// A plain event, signed: its JSON form carries the payload as it is.
    pub(crate) fn signed(&self, bytes: usize) -> Result<MessageEnvelope> {
        let mut envelope = self.stamp(&self.draft(bytes)?, &[7; 18])?;
        self.sign(&mut envelope);
        Ok(envelope)
    }

    /// A sealed and signed event.
    pub(crate) fn sealed(&self, bytes: usize) -> Result<MessageEnvelope> {
        let mut envelope = self.stamp(&self.draft(bytes)?, &[7; 18])?;
        self.seal(&mut envelope, FreshNonce::draw(&SystemEntropy, &mut [])?)?;
        self.sign(&mut envelope);
        Ok(envelope)
    }
}

/// A JSON object of exactly `bytes` bytes, of numbers, words and short texts as events have them.
fn json(bytes: usize) -> String {
    let mut json = String::from("{\"items\":[");
    let mut number = 0;
    loop {
        let item = format!(
            "{{\"task\":{number},\"state\":\"completed\",\"ok\":true,\"seconds\":{number}.25,\
             \"text\":\"compiled 12 crates, no warnings\"}},"
        );
        if json.len() + item.len() + TAIL.len() > bytes {
            break;
        }
        json.push_str(&item);
        number += 1;
    }
    let fill = bytes.saturating_sub(json.len() + TAIL.len());
    json.push_str(&TAIL.replace('~', &format!("~{}", "x".repeat(fill))));
    json
}

const TAIL: &str = "{\"~\":null}]}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_json_of_the_size_asked_for() {
        for bytes in [256, 1024, 65_536] {
            let text = json(bytes);
            assert_eq!(text.len(), bytes);
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
    }
}
