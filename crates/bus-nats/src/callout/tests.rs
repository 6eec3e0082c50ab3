//! What is decided about questions, and what servers are told, without any server.

use bus_core::{Certificate, Clock, Door, EntryTicket, Identity, Issue, Proof};
use bus_crypto::{
    Zeroizing,
    jwt::{
        AuthRequest, ConnectOptions, UserClaims, decode_auth_response, decode_user,
        encode_auth_request,
    },
};
use bus_mem::InMemoryBus;
use bus_subjects::Role;
use data_encoding::BASE64URL_NOPAD;
use proptest::prelude::*;

use super::{decide::Decision, *};
use crate::permissions::{Layout, permissions};

mod questions;
mod refusals;
mod tokens;

/// A service, a server that asks it, and a workspace.
struct Site {
    keys: CalloutKeys,
    server: SigningKey,
    server_xkey: XKey,
    account: SigningKey,
    admission: Admission,
    workspaces: Workspaces,
    limits: CalloutLimits,
}

/// A clock that stands still.
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        NOW
    }

    fn coarse(&self) -> Timestamp {
        NOW
    }
}

impl Site {
    fn new() -> Self {
        let (service, account) = (key(NkeyKind::Account), key(NkeyKind::Account));
        let admission = Admission::new(Arc::new(Stopped));
        admission.trust(w1(), *account.public());
        let site = Self {
            keys: CalloutKeys {
                xkey: XKey::generate(&SystemEntropy::new()).unwrap(),
                account: *service.public(),
                responder: service,
            },
            server: key(NkeyKind::Server),
            server_xkey: XKey::generate(&SystemEntropy::new()).unwrap(),
            workspaces: Workspaces::default(),
            account,
            admission,
            limits: CalloutLimits::default(),
        };
        site.workspaces.insert(w1(), site.served(Arc::new(InMemoryBus::new()))).unwrap();
        site
    }

    fn served(&self, tickets: Arc<dyn Buckets>) -> CalloutWorkspace {
        let signer = key(NkeyKind::Account);
        CalloutWorkspace { account: *self.account.public(), signer, tickets }
    }

    /// A member in these roles, whose certificate is found.
    fn member(&mut self, roles: &[Role], valid_for: Option<Duration>) -> Identity {
        let agent = "a1".parse().unwrap();
        self.issued(&Issue { valid_for, ..Issue::new(w1(), agent, roles.to_vec(), NOW) })
    }

    /// Who has a certificate that says this, which is found.
    fn issued(&mut self, issue: &Issue) -> Identity {
        let identity = Identity::issue(&self.account, issue, &SystemEntropy::new()).unwrap();
        let token = identity.certificate().token().to_owned();
        self.admission = self.admission.clone().finding(move |_| Some(token.clone()));
        identity
    }

    fn ticket(&self, valid_s: u64) -> Zeroizing<String> {
        let (agent, roles) = ("screen".parse().unwrap(), vec![Role::Observer]);
        let valid_for = Some(Duration::from_secs(valid_s));
        let issue = Issue { valid_for, ..Issue::new(w1(), agent, roles, NOW) };
        let issuer = self.account.public();
        let ticket = EntryTicket::new(&issue, issuer, &SystemEntropy::new()).unwrap();
        ticket.sign(&self.account).unwrap()
    }

    /// What the server asks about somebody who shows `connect`.
    fn asked(&self, connect: ConnectOptions) -> AuthRequest {
        let now = question::unix_s(NOW);
        AuthRequest {
            server: *self.server.public(),
            server_name: "n1".to_owned(),
            server_xkey: Some(self.server_xkey.public()),
            subject: self.keys.account,
            user: *key(NkeyKind::User).public(),
            issued_at_unix_s: now,
            expires_unix_s: Some(now + 2),
            client_host: "127.0.0.1".to_owned(),
            client_id: 7,
            client_user: String::new(),
            client_name: String::new(),
            client_kind: "Client".to_owned(),
            client_type: "nats".to_owned(),
            nonce: NONCE.to_owned(),
            connect,
            jti: String::new(),
        }
    }

    /// The same, as it comes: the header, and the sealed text.
    fn sealed(&self, request: &AuthRequest) -> (String, Vec<u8>) {
        let token = encode_auth_request(request, &self.server).unwrap();
        (self.server_xkey.public().text(), self.seal(token.as_bytes()))
    }

    fn seal(&self, text: &[u8]) -> Vec<u8> {
        self.server_xkey.seal(&SystemEntropy::new(), &self.keys.xkey.public(), text).unwrap()
    }

    fn open(&self, request: &AuthRequest) -> Result<Question> {
        let (header, body) = self.sealed(request);
        Question::open(&self.keys, Some(&header), &body, NOW)
    }

    async fn decide(&self, request: &AuthRequest) -> Result<Decision> {
        let question = self.open(request)?;
        let limits = (&self.workspaces, self.limits);
        let decision = decide(&question, &self.admission, limits, NOW)?;
        decision.use_up(NOW).await?;
        Ok(decision)
    }

    async fn claims(&self, connect: ConnectOptions) -> UserClaims {
        let decision = self.decide(&self.asked(connect)).await.unwrap();
        decode_user(&decision.token().unwrap()).unwrap()
    }
}

fn by_key(identity: &Identity) -> ConnectOptions {
    let signature = identity.key().sign(NONCE.as_bytes());
    ConnectOptions {
        nkey: Some(identity.key().public().text()),
        signature: Some(BASE64URL_NOPAD.encode(&signature)),
        ..ConnectOptions::default()
    }
}

fn by_ticket(text: &str) -> ConnectOptions {
    ConnectOptions { token: Some(Zeroizing::new(text.to_owned())), ..ConnectOptions::default() }
}

fn key(kind: NkeyKind) -> SigningKey {
    SigningKey::generate(kind, &SystemEntropy::new()).unwrap()
}

fn w1() -> WorkspaceId {
    "w1".parse().unwrap()
}

fn refusal<T>(outcome: Result<T>) -> ErrorKind {
    outcome.err().expect("refused").kind()
}

const NOW: Timestamp = Timestamp::from_unix_ns(1_800_000_000_500_000_000);
const NONCE: &str = "AbCdEf0123456789";
