//! A server in operator mode whose strangers are asked about, a workspace, and its people.

use std::{
    collections::HashMap,
    future::{Future, pending},
    sync::{Arc, Mutex},
    time::Duration,
};

use bus_core::{Admission, Buckets, Clock, EntryTicket, Identity, Issue, SystemClock};
use bus_crypto::{
    Credentials, NkeyKind, PublicKey, SigningKey, SystemEntropy, XKey, Zeroizing,
    jwt::{
        AccountClaims, AccountSigner, JetStreamLimits, OperatorClaims, Permissions,
        SubjectPermission, UserClaims, encode_account, encode_operator, encode_user,
    },
};
use bus_mem::InMemoryBus;
use bus_nats::{
    NatsAuth, NatsBus, NatsOptions,
    callout::{Callout, CalloutKeys, CalloutLimits, CalloutWorkspace},
    claims::ServerClaims,
    permissions::{Layout, store_exports, workspace_imports},
    server::{Authorization, ServerConfig},
};
use bus_subjects::{Role, WorkspaceId};
use bus_testserver::TestServer;

/// The server and all keys.
pub(crate) struct World {
    pub(crate) server: TestServer,
    pub(crate) system: SigningKey,
    /// The account in which the service is asked.
    pub(crate) service: SigningKey,
    pub(crate) store: SigningKey,
    pub(crate) agents: SigningKey,
    pub(crate) signer: SigningKey,
    pub(crate) xkey: XKey,
    /// The user as which the service connects, and its token.
    user: (SigningKey, String),
    pub(crate) admission: Admission,
    known: Arc<Mutex<HashMap<PublicKey, String>>>,
    clock: Arc<SystemClock>,
}

impl World {
    pub(crate) fn start() -> Self {
        Self::start_with(ServerConfig::default())
    }

    pub(crate) fn start_with(config: ServerConfig) -> Self {
        let operator = key(NkeyKind::Operator);
        let [system, service, store, agents, signer] = [(); 5].map(|()| key(NkeyKind::Account));
        let xkey = XKey::generate(&SystemEntropy::new()).unwrap();
        let user = user_of(&service, |claims| claims.permissions = Callout::permissions("callout"));
        let account =
            |key: &SigningKey| AccountClaims::new("a", *key.public(), *operator.public(), 0);
        let mut of_service = account(&service);
        of_service.authorization.users = vec![*user.0.public()];
        of_service.authorization.allowed_accounts = vec![agents.public().text()];
        of_service.authorization.xkey = Some(xkey.public());
        let layout = Layout::of(&w1()).unwrap();
        let (mut of_store, mut of_agents) = (account(&store), account(&agents));
        of_store.limits.jetstream = JetStreamLimits::unlimited();
        of_store.exports = store_exports(&layout);
        of_agents.imports = workspace_imports(&layout, store.public());
        of_agents.signing_keys = vec![AccountSigner { key: *signer.public(), scope: None }];
        let mut claims = OperatorClaims::new("o", *operator.public(), 0);
        claims.system_account = Some(*system.public());
        let (_, sentinel) = user_of(&service, |claims| {
            claims.is_bearer = true;
            let nothing = || SubjectPermission { allow: Vec::new(), deny: vec![">".to_owned()] };
            let (publish, subscribe) = (nothing(), nothing());
            claims.permissions = Permissions { publish, subscribe, response: None };
        });
        let accounts = [account(&system), of_service, of_store, of_agents].into_iter();
        let accounts = accounts
            .map(|claims| (claims.subject, encode_account(&claims, &operator).unwrap()))
            .collect();
        let authorization = Authorization::Jwt {
            operator: encode_operator(&claims, &operator).unwrap(),
            system_account: *system.public(),
            accounts,
        };
        let sentinel = Some(sentinel);
        let server = TestServer::start_with(ServerConfig { authorization, sentinel, ..config });
        let known: Arc<Mutex<HashMap<PublicKey, String>>> = Arc::default();
        let (clock, find) = (Arc::new(SystemClock::new()), Arc::clone(&known));
        let admission = Admission::new(clock.clone())
            .finding(move |nkey| find.lock().unwrap().get(nkey).cloned());
        admission.trust(w1(), *agents.public());
        Self { server, system, service, store, agents, signer, xkey, user, admission, known, clock }
    }

    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    /// A member of the workspace whose certificate the service finds.
    pub(crate) fn member(&self, agent: &str, roles: &[Role]) -> Identity {
        self.member_for(agent, roles, None)
    }

    pub(crate) fn member_for(
        &self,
        agent: &str,
        roles: &[Role],
        valid_for: Option<Duration>,
    ) -> Identity {
        self.issued(&Issue { valid_for, ..self.issue(agent, roles) })
    }

    /// A worker whose certificate is bound to a session and a queue, and is found as well.
    pub(crate) fn bound(&self, agent: &str, session: &str, queue: &str) -> Identity {
        let mut issue = self.issue(agent, &[Role::Worker]);
        issue.session = Some(session.parse().unwrap());
        issue.role_name = Some(queue.parse().unwrap());
        self.issued(&issue)
    }

    fn issued(&self, issue: &Issue) -> Identity {
        let identity = Identity::issue(&self.agents, issue, &SystemEntropy::new()).unwrap();
        let token = identity.certificate().token().to_owned();
        self.known.lock().unwrap().insert(*identity.key().public(), token);
        identity
    }

    pub(crate) fn ticket(&self, roles: &[Role]) -> Zeroizing<String> {
        let valid_for = Some(Duration::from_secs(60));
        let issue = Issue { valid_for, ..self.issue("screen", roles) };
        let issuer = self.agents.public();
        let ticket = EntryTicket::new(&issue, issuer, &SystemEntropy::new()).unwrap();
        ticket.sign(&self.agents).unwrap()
    }

    fn issue(&self, agent: &str, roles: &[Role]) -> Issue {
        Issue::new(w1(), agent.parse().unwrap(), roles.to_vec(), self.clock.now())
    }

    /// Somebody who may do everything in the account of the streams.
    pub(crate) async fn store(&self) -> NatsBus {
        let user = user_of(&self.store, |_| {});
        NatsBus::open(self.options(&user, "_INBOX")).await.unwrap()
    }

    /// An agent that logs in with its key alone.
    pub(crate) async fn agent(&self, identity: &Identity) -> NatsBus {
        let options = NatsOptions {
            auth: NatsAuth::Nkey(Arc::new(copy(identity.key()))),
            inbox_prefix: format!("_INBOX.{}", identity.certificate().agent),
            api_prefix: Layout::API_PREFIX.to_owned(),
            workspace: Some(w1()),
            ..NatsOptions::new(self.url())
        };
        NatsBus::open(options).await.unwrap()
    }

    /// The service's own user.
    pub(crate) fn service_user(&self) -> (SigningKey, String) {
        (copy(&self.user.0), self.user.1.clone())
    }

    pub(crate) fn service_options(&self) -> NatsOptions {
        self.options(&self.user, "_INBOX.callout")
    }

    /// Somebody in the system account.
    pub(crate) async fn servers(&self) -> ServerClaims {
        let user = user_of(&self.system, |_| {});
        ServerClaims::open(self.options(&user, "_INBOX")).await.unwrap()
    }

    fn options(&self, (key, token): &(SigningKey, String), inbox: &str) -> NatsOptions {
        let credentials = Credentials::from_parts(token, &key.seed_text()).unwrap();
        NatsOptions {
            auth: NatsAuth::Jwt(Arc::new(credentials)),
            inbox_prefix: inbox.to_owned(),
            ..NatsOptions::new(self.url())
        }
    }

    /// An instance that notes used tickets in its own memory.
    pub(crate) async fn instance(&self) -> Callout {
        self.instance_with(Arc::new(InMemoryBus::new()), CalloutLimits::default()).await
    }

    pub(crate) async fn instance_with(
        &self,
        tickets: Arc<dyn Buckets>,
        limits: CalloutLimits,
    ) -> Callout {
        let keys = CalloutKeys {
            xkey: XKey::from_seed_text(&self.xkey.seed_text()).unwrap(),
            responder: copy(&self.service),
            account: *self.service.public(),
        };
        let opening = Callout::open(self.service_options(), keys, self.admission.clone(), limits);
        let callout = opening.await.unwrap();
        let (account, signer) = (*self.agents.public(), copy(&self.signer));
        callout.serve(w1(), CalloutWorkspace { account, signer, tickets }).unwrap();
        callout
    }
}

/// Does `body` while `callout` runs.
pub(crate) async fn beside<T>(callout: &Callout, body: impl Future<Output = T>) -> T {
    tokio::select! {
        ended = callout.run(pending()) => panic!("the service ended: {ended:?}"),
        done = body => done,
    }
}

pub(crate) fn user_of(
    account: &SigningKey,
    edit: impl FnOnce(&mut UserClaims),
) -> (SigningKey, String) {
    let user = key(NkeyKind::User);
    let mut claims = UserClaims::new("u", *user.public(), *account.public(), 0);
    edit(&mut claims);
    let token = encode_user(&claims, account).unwrap();
    (user, token)
}

pub(crate) fn key(kind: NkeyKind) -> SigningKey {
    SigningKey::generate(kind, &SystemEntropy::new()).unwrap()
}

fn copy(key: &SigningKey) -> SigningKey {
    SigningKey::from_seed_text(&key.seed_text()).unwrap()
}

pub(crate) fn w1() -> WorkspaceId {
    "w1".parse().unwrap()
}
